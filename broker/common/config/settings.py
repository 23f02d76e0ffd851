"""Settings: map configuration values to the keys of a Java properties file.

Each role declares its values as a Struct (types and defaults) and one :class:`Setting` per field;
parsing, writing, printing and documentation use these two.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from broker.errors import ConfigError

Config = TypeVar("Config", bound=msgspec.Struct)


HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1


class Setting(msgspec.Struct, frozen=True):
    """The description of a field: ``key``, ``unit``, ``meaning``; ``live``: may change at run time.

    ``bounds`` (lowest, highest) are declared for every number, so that an invalid value is
    rejected when it is read.
    """

    key: str
    unit: str
    meaning: str
    live: bool = False
    bounds: tuple[int, int] | None = None


def parse_value(key: str, default: object, text: str) -> object:
    """Convert ``text`` to the type of ``default``; ConfigError names key and invalid value."""
    text = text.strip()
    if isinstance(default, bool):
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise ConfigError(f"{key}={text}: not a boolean", "write true or false")
    if isinstance(default, int):
        try:
            if "_" in text or not text.isascii():
                raise ValueError  # int() takes "1_0" and "\u0661"
            return int(text)  # of any size: the bounds of the setting are checked later
        except ValueError:
            raise ConfigError(
                f"{key}={text}: not a whole number", f"default: {key}={default}"
            ) from None
    return text


def format_value(value: object) -> str:
    """Format a setting's value for a file: ``true``, ``10911``, text unchanged."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def read_settings(
    settings: Mapping[str, Setting], properties: Mapping[str, str], base: Config
) -> Config:
    """Return ``base`` with the known keys of ``properties``; other keys are ignored.

    Raises ConfigError naming key and value of an invalid one.
    """
    field_of_key = {setting.key: field for field, setting in settings.items()}
    changes = {
        field: parse_value(key, getattr(base, field), text)
        for key, text in properties.items()
        if (field := field_of_key.get(key)) is not None
    }
    return msgspec.structs.replace(base, **changes) if changes else base


def check_bounds(settings: Mapping[str, Setting], config: Config) -> Config:
    """Return ``config``; ConfigError names key, value and bounds of the first one out of bounds."""
    for field, setting in settings.items():
        if setting.bounds is None:
            continue
        low, high = setting.bounds
        value = getattr(config, field)
        if not low <= value <= high:
            unit = f" {setting.unit}" if setting.unit else ""
            raise ConfigError(
                f"{setting.key}={value}: must be between {low} and {high}{unit}",
                f"default: {setting.key}={format_value(getattr(type(config)(), field))}",
            )
    return config


def write_settings(settings: Mapping[str, Setting], config: msgspec.Struct) -> dict[str, str]:
    """Return every setting as key → text, in the order of the table."""
    return {setting.key: format_value(getattr(config, name)) for name, setting in settings.items()}


class UnservedKey(msgspec.Struct, frozen=True):
    """A key of Java RocketMQ that is not implemented here except for some values.

    ``accepts`` decides which values are allowed; ``default`` is one of them; ``reason`` describes
    the missing guarantee.
    """

    key: str
    default: str
    accepts: Callable[[str], bool]
    reason: str


def unserved(key: str, accepted: Iterable[str], reason: str) -> UnservedKey:
    """Create an UnservedKey with accepted values, in lower case; the first one is the default."""
    values = tuple(accepted)
    return UnservedKey(key, values[0], values.__contains__, reason)


def refuse_unserved(keys: Iterable[UnservedKey], properties: Mapping[str, str]) -> None:
    """Raise ConfigError naming every configured value that is not accepted; ignores empty ones.

    A daemon that ignored such a value would be less durable or less secure than configured.
    """
    refused = [
        key
        for key in keys
        if (value := properties.get(key.key, "").strip()) and not key.accepts(value.lower())
    ]
    if refused:
        raise ConfigError(
            "; ".join(f"{key.key}={properties[key.key].strip()}: {key.reason}" for key in refused),
            "set "
            + ", ".join(f"{key.key}={key.default}" for key in refused)
            + ", or run Java RocketMQ",
        )
