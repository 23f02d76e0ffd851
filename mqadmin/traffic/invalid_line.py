"""Why a line of the input is not a message: the field, its value and the values that it may have.

The decoder of a line reports types of this program; this module checks the line again, field by
field, and is used only after the decoder has refused one.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from broker.errors import ConfigError

INT_BITS: Final = 31
LONG_BITS: Final = 63
MAX_SHOWN: Final = 40
"""Characters of a value in an error message."""

LINES_HINT: Final = "--input-format lines sends each line as a body"
TEXT_VALUES_HINT: Final = 'write numbers as text: {"amount": "5"}'


class FieldRule(msgspec.Struct, frozen=True):
    """``allowed`` completes the sentence "VALUE is not …"; ``accepts`` checks a decoded value."""

    allowed: str
    accepts: Callable[[object], bool]


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_keys(value: object) -> bool:
    return _is_text(value) or (
        isinstance(value, list) and all(isinstance(one, str) for one in value)
    )


def _is_properties(value: object) -> bool:
    return value is None or (
        isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
    )


def _integer(bits: int, low: int | None = None) -> Callable[[object], bool]:
    lowest = -(1 << bits) if low is None else low

    def accepts(value: object) -> bool:
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        return is_integer and lowest <= value < 1 << bits  # type: ignore[operator]

    return accepts


def _or_null(rule: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or rule(value)


_TEXT: Final = FieldRule("a text", _is_text)
_NUMBER: Final = FieldRule("an integer of 32 bits", _integer(INT_BITS))
_POSITIVE: Final = _or_null(_integer(LONG_BITS, 0))

RULES: Final[dict[str, FieldRule]] = {
    "body": _TEXT,
    "bodyEncoding": FieldRule(
        "utf-8, hex or base64", lambda value: value in (None, "utf-8", "text", "hex", "base64")
    ),
    "topic": _TEXT,
    "tags": _TEXT,
    "keys": FieldRule("a text or a list of texts", _is_keys),
    "properties": FieldRule("an object whose values are texts", _is_properties),
    "flag": _NUMBER,
    "sysFlag": _NUMBER,
    "bodySize": _NUMBER,
    "brokerName": _TEXT,
    "queueId": FieldRule("an integer of at least 0", _or_null(_integer(INT_BITS, 0))),
    "delayLevel": FieldRule("a delay level (an integer of at least 0)", _POSITIVE),
    "delayMs": FieldRule("a number of milliseconds (an integer of at least 0)", _POSITIVE),
    "deliverTimestamp": FieldRule("a time in epoch milliseconds", _POSITIVE),
}
"""The fields that are used, by their names in the input; others are ignored."""


def refuse_field(name: str, value: object) -> None:
    """Raise ConfigError if a field may not have this value."""
    rule = RULES.get(name)
    if rule is not None and not rule.accepts(value):
        raise ConfigError(_sentence(name, value, rule), _hint(name))


def explain(raw: bytes) -> ConfigError:
    """Return the error for a line that the decoder has refused."""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return ConfigError(f"the line is not valid UTF-8 (byte {error.start + 1})", LINES_HINT)
    try:
        value = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return ConfigError(f"the line is not JSON: {_shown(raw.decode())}", LINES_HINT)
    if not isinstance(value, dict):
        return ConfigError(
            f"the line is not a JSON object: {_shown(raw.decode())}",
            'an object has at least a body: {"body": "hello"}',
        )
    for name, one in value.items():
        try:
            refuse_field(name, one)
        except ConfigError as error:
            return error
    return ConfigError("the line is not a message", "mqadmin msg produce --help lists the fields")


def _sentence(name: str, value: object, rule: FieldRule) -> str:
    if name == "properties" and isinstance(value, dict):
        wrong = next(key for key, one in value.items() if not isinstance(one, str))
        return f"field properties: the value of {wrong} is {_json(value[wrong])}, not a text"
    return f"field {name}: {_json(value)} is not {rule.allowed}"


def _hint(name: str) -> str:
    return TEXT_VALUES_HINT if name == "properties" else ""


def _json(value: object) -> str:
    return _shown(msgspec.json.encode(value).decode())


def _shown(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
