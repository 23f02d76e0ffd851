"""Rows built by commands themselves, for JSON, YAML and CSV."""

from collections.abc import Mapping
from typing import Any

import msgspec


class ChangeRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One target of a change.

    ``status``: ``planned`` (a dry run), ``done`` (read back as planned), ``unchanged``,
    ``failed``, ``skipped``, ``moved`` (no longer as planned, nothing sent), ``differs``.
    """

    target: str
    address: str
    action: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    read_back: Mapping[str, Any] | None
    status: str
    note: str | None


class ContextRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One context; ``settings`` are all settings except ``namesrv``."""

    current: bool
    name: str
    namesrv: str | None
    settings: Mapping[str, str | bool]


class JavaNameRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One sub-command of the Java tool; ``equivalent`` None: none with noun and verb."""

    name: str
    equivalent: str | None


class SettingRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One setting and the origin of its value."""

    setting: str
    value: str | bool | None
    origin: str


class FieldRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One field: ``offset`` and ``width`` in bytes, None where they vary."""

    field: str
    offset: int | None
    width: int | None
    type: str
    since: str | None
    meaning: str


class LayoutRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One layout: its fields in order, all integers big-endian; ``size`` None where it varies."""

    name: str
    title: str
    path: str
    size: int | None
    fields: list[FieldRow]
    notes: list[str]
