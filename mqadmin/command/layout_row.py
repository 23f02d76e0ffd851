"""The rows of ``store layout`` in JSON, YAML and CSV."""

import msgspec


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
