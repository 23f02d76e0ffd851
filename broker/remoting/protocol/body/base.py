"""Body: the base class of JSON bodies, with one reader and writer for all subclasses.

Subclasses declare typed fields; the reader and writer of a class are built from them once, at the
first use:

=====================  ==============================================================
``str int float bool`` read from numbers, text and booleans, as fastjson does
``T | None``           omitted from the JSON when None
``list[T]``            arrays; also Java's sets
``dict[str, T]``       objects
``dict[int, T]``       ``{0:"a"}``; quoted digits are read as well
``dict[MessageQueue]`` ``{{"brokerName":"b","queueId":0,"topic":"T"}:1}``
a body class           nested
values of common       TopicConfig, SubscriptionGroupConfig, SubscriptionData, MessageQueue
``object``             any value, unchanged
=====================  ==============================================================

Every field has a default, as in a Java bean: an absent or null field keeps it. Fields are written
in alphabetical order, as fastjson does.

**Source:** RocketMQ ``RemotingSerializable``; fastjson 1.2 ``JavaBeanDeserializer``.
"""

import re
from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Self, Union, get_args, get_origin, get_type_hints

import msgspec

from broker.common.encoding import java_json
from broker.common.group import (
    SubscriptionGroupConfig,
    group_config_from_wire,
    group_config_to_wire,
)
from broker.common.java import parse_number
from broker.common.message_queue import (
    MessageQueue,
    message_queue_from_wire,
    message_queue_to_wire,
)
from broker.common.subscription import (
    SubscriptionData,
    subscription_from_wire,
    subscription_to_wire,
)
from broker.common.topic import TopicConfig, topic_config_from_wire, topic_config_to_wire
from broker.errors import RemoteProtocolError

Read = Callable[[Any], Any]
Write = Callable[[Any], Any]
Buffer = bytes | bytearray | memoryview

MAX_INT64 = 2**63 - 1


class JsonLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Size limits of a body: any JSON, JSON with Java's keys, JSON for the tolerant reader."""

    body_bytes: int
    java_keys_bytes: int
    tolerant_bytes: int


REQUEST_LIMITS: Final = JsonLimits(
    body_bytes=1024 * 1024, java_keys_bytes=256 * 1024, tolerant_bytes=32 * 1024
)
"""For requests, which a server decodes on its event loop for any peer. 1 MiB is enough for the
heartbeat of a client with about 2,000 subscriptions; quoting Java's keys costs 60 ns per byte, the
tolerant reader 1 µs."""

RESPONSE_LIMITS: Final = JsonLimits(
    body_bytes=1 << 30, java_keys_bytes=1 << 30, tolerant_bytes=16 * 1024 * 1024
)
"""For responses on outgoing connections; in practice the frame limit bounds them."""


class Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all JSON bodies; ``extra`` keeps undeclared fields by their wire names."""

    extra: dict[str, object] = {}

    @classmethod
    def from_wire(cls, wire: object) -> Self:
        """Build the record from a decoded JSON object.

        Raises RemoteProtocolError naming class and field.
        """
        if not isinstance(wire, dict):
            raise RemoteProtocolError(f"{cls.__name__}: an object is expected, not {wire!r:.60}")
        plan = _plan(cls)
        values: dict[str, Any] = {}
        extra: dict[str, object] = {}
        for name, value in wire.items():
            found = plan.readers.get(name)
            if found is None:
                found = plan.readers.get(_loose(name), None) if type(name) is str else None
                if found is None:
                    extra[str(name)] = value
                    continue
            if value is None:
                continue
            attribute, read = found
            try:
                values[attribute] = read(value)
            except RemoteProtocolError as err:
                raise RemoteProtocolError(f"{cls.__name__}.{name}: {err.message}") from None
        if extra:
            values["extra"] = extra
        return cls(**values)

    def to_wire(self) -> dict[str, object]:
        """Return the JSON object, fields in alphabetical order, without None."""
        wire: dict[str, object] = {}
        for attribute, name, write in _plan(type(self)).writers:
            value = getattr(self, attribute)
            if value is not None:
                wire[name] = value if write is None else write(value)
        if self.extra:
            wire = dict(sorted({**self.extra, **wire}.items()))
        return wire

    @classmethod
    def from_bytes(cls, data: Buffer, limits: JsonLimits = REQUEST_LIMITS) -> Self:
        """Decode a body; an empty body yields the class's defaults.

        Raises RemoteProtocolError, also for a body above ``limits``.
        """
        value = load(data, limits)
        return cls.from_wire({} if value is None else value)

    def to_bytes(self) -> bytes:
        """Encode the body as Java does."""
        return java_json.dump_bytes(self.to_wire())


class ListBody(msgspec.Struct, frozen=True, kw_only=True):
    """Base of bodies that are a JSON array: subclasses declare ``items``."""

    items: list[Any] = []

    @classmethod
    def from_bytes(cls, data: Buffer, limits: JsonLimits = REQUEST_LIMITS) -> Self:
        """Decode a body; an empty body yields an empty list. Raises RemoteProtocolError."""
        value = load(data, limits)
        if value is None:
            return cls()
        read, _ = _codec(get_type_hints(cls)["items"])
        try:
            return cls(items=read(value))
        except RemoteProtocolError as err:
            raise RemoteProtocolError(f"{cls.__name__}: {err.message}") from None

    def to_bytes(self) -> bytes:
        """Encode the body as Java does."""
        _, write = _codec(get_type_hints(type(self))["items"])
        return java_json.dump_bytes(self.items if write is None else write(self.items))


# --- JSON with Java's keys ---------------------------------------------------------------------

_TEXT = r'"(?:[^"\\]|\\.)*+"'
_JAVA_KEYS = rf"""(?<=[{{,])
    (?:(-?[0-9]+)|(\{{"brokerName":{_TEXT},"queueId":-?[0-9]+,"topic":{_TEXT}\}}))(?=:)
    |{_TEXT}"""


@cache
def _java_keys() -> re.Pattern[str]:
    # compiled at the first use: 0.6 ms, and most bodies are standard JSON
    return re.compile(_JAVA_KEYS, re.VERBOSE)


def _quote_key(match: re.Match[str]) -> str:
    if match[1]:
        return f'"{match[1]}"'
    if match[2]:
        return '"' + match[2].replace("\\", "\\\\").replace('"', '\\"') + '"'
    return match[0]


def load(data: Buffer, limits: JsonLimits = REQUEST_LIMITS) -> object:
    """Decode a body; object and integer keys may be returned as text.

    One pass over the text quotes Java's keys, so that the fast reader can decode it: the tolerant
    reader would need tens of milliseconds for a table of a thousand queues. Bodies with ``$ref``
    or other non-standard syntax still use the tolerant reader. Raises RemoteProtocolError.
    """
    raw = data if isinstance(data, bytes) else bytes(data)
    if len(raw) > limits.body_bytes:
        raise RemoteProtocolError(
            f"body of {len(raw)} bytes is above the limit of {limits.body_bytes}"
        )
    tolerant = limits.tolerant_bytes
    try:
        msgspec.json.decode(raw, type=msgspec.Raw)  # only checks whether it is standard JSON
    except RecursionError:
        pass  # java_json.loads reports the depth
    except msgspec.DecodeError:
        if len(raw) > limits.java_keys_bytes:
            raise RemoteProtocolError(
                f"body of {len(raw)} bytes that is not standard JSON is above the limit of "
                f"{limits.java_keys_bytes}"
            ) from None
        if raw and b"$ref" not in raw:
            text = _java_keys().sub(_quote_key, raw.decode("utf-8", "replace"))
            return java_json.loads(text, tolerant_limit_bytes=tolerant)
    return java_json.loads(raw, tolerant_limit_bytes=tolerant)


# --- readers and writers per type --------------------------------------------------------------


class _Plan:
    """The field readers and writers of one class."""

    __slots__ = ("readers", "writers")

    def __init__(self, cls: type[msgspec.Struct]) -> None:
        hints = get_type_hints(cls)
        self.readers: dict[str, tuple[str, Read]] = {}
        self.writers: list[tuple[str, str, Write | None]] = []
        loose: dict[str, tuple[str, Read]] = {}
        names = zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
        for attribute, name in sorted(names, key=lambda pair: pair[1]):
            if attribute == "extra":
                continue
            read, write = _codec(hints[attribute])
            self.readers[name] = attribute, read
            loose[_loose(name)] = attribute, read
            self.writers.append((attribute, name, write))
        for name, entry in loose.items():
            self.readers.setdefault(name, entry)


def _loose(name: str) -> str:
    """Normalise a name as fastjson does for inexact matches: without case, ``_``, ``-``, ``is``."""
    name = name.replace("_", "").replace("-", "").lower()
    return "~" + (name[2:] if name.startswith("is") else name)


@cache
def _plan(cls: type[msgspec.Struct]) -> _Plan:
    return _Plan(cls)


def _fail(expected: str, value: object) -> RemoteProtocolError:
    return RemoteProtocolError(f"{expected} is expected, not {value!r:.60}")


def _read_str(value: Any) -> str:
    if type(value) is str:
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return java_json.dumps(value)


def _read_int(value: Any) -> int:
    if type(value) is not int:
        try:
            if isinstance(value, bool | float):
                value = int(value)
            else:
                number = parse_number(value or "0") if isinstance(value, str) else None
                if number is None:
                    raise _fail("an integer", value)
                return number
        except (ValueError, OverflowError):
            raise _fail("an integer", value) from None
    if -MAX_INT64 - 1 <= value <= MAX_INT64:
        return int(value)
    raise _fail("a 64-bit integer", value)


def _read_float(value: Any) -> float:
    if isinstance(value, float):
        return value
    try:
        if isinstance(value, int | str):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise _fail("a number", value)


def _read_bool(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    if isinstance(value, int):
        return value == 1
    if isinstance(value, str):
        return value.lower() in ("true", "1", "y", "yes", "t")
    raise _fail("a boolean", value)


def _read_queue(value: Any) -> MessageQueue:
    if type(value) is str:
        try:
            return _queue_key(value)
        except msgspec.MsgspecError:
            pass
    return message_queue_from_wire(value)


_queue_key = msgspec.json.Decoder(MessageQueue).decode

_Codec = tuple[Read, Write | None]

_SIMPLE: dict[Any, _Codec] = {
    str: (_read_str, None),
    int: (_read_int, None),
    float: (_read_float, None),
    bool: (_read_bool, None),
    object: (lambda value: value, None),
    Any: (lambda value: value, None),
    MessageQueue: (_read_queue, message_queue_to_wire),
    TopicConfig: (topic_config_from_wire, topic_config_to_wire),
    SubscriptionGroupConfig: (group_config_from_wire, group_config_to_wire),
    SubscriptionData: (subscription_from_wire, subscription_to_wire),
}

_COMMON = (TopicConfig, SubscriptionGroupConfig, SubscriptionData)


def _codec(hint: Any) -> _Codec:
    """Return reader and writer of a type; a writer of None means unchanged."""
    if hint in _COMMON:
        return _object_reader(_SIMPLE[hint][0]), _SIMPLE[hint][1]
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _codec(next(arg for arg in get_args(hint) if arg is not NoneType))
    if origin is list:
        return _list_codec(get_args(hint)[0])
    if origin is dict:
        return _dict_codec(*get_args(hint))
    if isinstance(hint, type) and issubclass(hint, Body):
        return hint.from_wire, Body.to_wire
    raise TypeError(f"no reader for {hint!r}")


def _object_reader(read: Read) -> Read:
    def read_object(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _fail("an object", value)
        return read(value)

    return read_object


def _list_codec(item: Any) -> _Codec:
    read, write = _codec(item)

    def read_list(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise _fail("an array", value)
        return [read(element) for element in value if element is not None]

    def write_list(value: Any) -> list[Any]:
        return list(value) if write is None else [write(element) for element in value]

    return read_list, write_list


def _dict_codec(key: Any, item: Any) -> _Codec:
    read_key = _SIMPLE[key][0]
    read, write = _codec(item)

    def read_dict(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise _fail("an object", value)
        return {
            read_key(name): read(element) for name, element in value.items() if element is not None
        }

    if write is None:
        return read_dict, None

    def write_dict(value: Any) -> dict[Any, Any]:
        return {name: write(element) for name, element in value.items()}

    return read_dict, write_dict
