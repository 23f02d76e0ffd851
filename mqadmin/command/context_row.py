"""The rows of the context commands in JSON, YAML and CSV."""

from collections.abc import Mapping

import msgspec


class ContextRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One context; ``settings`` are all settings except ``namesrv``."""

    current: bool
    name: str
    namesrv: str | None
    settings: Mapping[str, str | bool]


class SettingRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One setting and the origin of its value."""

    setting: str
    value: str | bool | None
    origin: str
