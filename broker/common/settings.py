"""Settings: how a room's configuration values meet the keys of a Java properties file.

Each room declares its values as a Struct (types and defaults) and one :class:`Setting` per field;
what is read from text, written back, printed and documented comes from these two.
"""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from broker.errors import ConfigError

Config = TypeVar("Config", bound=msgspec.Struct)


class Setting(msgspec.Struct, frozen=True):
    """What a field means: file ``key``, ``unit``, ``meaning``; ``live``: may change at run time."""

    key: str
    unit: str
    meaning: str
    live: bool = False


def parse_value(key: str, default: object, text: str) -> object:
    """``text`` as the type of ``default``; ConfigError names key and value when it does not fit."""
    text = text.strip()
    if isinstance(default, bool):
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise ConfigError(f"{key}={text}: not a boolean", "write true or false")
    if isinstance(default, int):
        try:
            return int(text)
        except ValueError:
            raise ConfigError(f"{key}={text}: not a whole number") from None
    return text


def format_value(value: object) -> str:
    """A setting's value as the file writes it: ``true``, ``10911``, text as it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def read_settings(
    settings: Mapping[str, Setting], properties: Mapping[str, str], base: Config
) -> Config:
    """``base`` with every key of ``properties`` that ``settings`` knows; others are not looked at.

    ConfigError names key and value where one does not fit.
    """
    field_of_key = {setting.key: field for field, setting in settings.items()}
    changes = {
        field: parse_value(key, getattr(base, field), text)
        for key, text in properties.items()
        if (field := field_of_key.get(key)) is not None
    }
    return msgspec.structs.replace(base, **changes) if changes else base


def write_settings(settings: Mapping[str, Setting], config: msgspec.Struct) -> dict[str, str]:
    """Every setting as key → text, in the order of the table."""
    return {setting.key: format_value(getattr(config, name)) for name, setting in settings.items()}
