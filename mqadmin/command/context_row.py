"""The rows of the context commands as programs read them."""

from collections.abc import Mapping

import msgspec


class ContextRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One context; ``settings`` are all but ``namesrv``."""

    current: bool
    name: str
    namesrv: str | None
    settings: Mapping[str, str | bool]


class SettingRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One setting and where its value comes from."""

    setting: str
    value: str | bool | None
    origin: str
