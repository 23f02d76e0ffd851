"""From a line of the input to the message that is sent.

Properties that brokers, consumers and the client add are dropped, so that a message of one topic
becomes a new message of another; tags, keys, sharding key and the application's properties are
kept.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from broker.errors import ConfigError
from broker.message import message as names
from broker.message.message import Message
from mqadmin.traffic.options import Defaults

KEPT: Final = frozenset(
    {names.PROPERTY_KEYS, names.PROPERTY_TAGS, names.PROPERTY_SHARDING_KEY, names.PROPERTY_BUYER_ID}
)
"""Reserved properties that belong to the application."""


class InputMessage(msgspec.Struct, kw_only=True):
    """One message of the input. ``line`` is its first line, ``raw`` its bytes in the input.

    Of a store ``line`` is the physical offset of the record, ``part`` the number of the message in
    it, and ``original_id`` its offsetMsgId.

    ``delay_level``, ``delay_ms`` and ``deliver_ms`` (epoch ms) are those of the line; the place of
    a stored message (``broker_name``, ``queue_id``) selects a queue only with --ordered-by queueId.
    """

    line: int
    raw: bytes
    body: bytes
    topic: str | None = None
    tags: str | None = None
    keys: Sequence[str] = ()
    properties: Mapping[str, str] = {}
    flag: int = 0
    delay_level: int | None = None
    delay_ms: int | None = None
    deliver_ms: int | None = None
    broker_name: str | None = None
    queue_id: int | None = None
    part: int = 0
    original_id: str | None = None


class BadInput(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the input that is not a message."""

    line: int
    raw: bytes
    reason: str
    hint: str = ""
    part: int = 0


class Outgoing(msgspec.Struct, frozen=True):
    """A message ready to be sent, with its line; ``order`` is the value of --ordered-by.

    ``queue_id`` is the number of its queue among those of the topic, when its own is kept, ``key``
    the uniqKey of the original, else its offsetMsgId.
    """

    line: int
    raw: bytes
    message: Message
    order: str | None = None
    queue_id: int | None = None
    part: int = 0
    key: str | None = None

    @property
    def size(self) -> int:
        """Bytes that it occupies until it has an outcome: the input line and the body."""
        return len(self.raw) + len(self.message.body) + OVERHEAD_BYTES


OVERHEAD_BYTES: Final = 1_024
"""Estimate of objects and properties of one message in flight."""


def outgoing(found: InputMessage, defaults: Defaults) -> Outgoing:
    """Build the message of a line; ConfigError with the reason if it cannot be one."""
    topic = defaults.topic or found.topic
    if not topic:
        raise ConfigError("the line names no topic", "give one with --topic")
    message = Message(
        topic,
        found.body,
        tags=defaults.tags or found.tags,
        keys=list(defaults.keys or found.keys),
        flag=found.flag,
    )
    own = message.properties
    for name, value in found.properties.items():
        if not is_system_property(name):
            own.setdefault(name, value)
    own.update(defaults.properties)
    uniq_key = found.properties.get(names.PROPERTY_UNIQ_KEY)
    if defaults.keep_uniq_key and uniq_key:
        own[names.PROPERTY_UNIQ_KEY] = uniq_key
    _set_delay(own, defaults if _has_delay(defaults) else found)
    order = None
    if defaults.ordered_by is not None:
        order = _order_of(found, message, defaults.ordered_by)
    queue_id = found.queue_id if defaults.keep_queue_id else None
    key = uniq_key or found.original_id
    return Outgoing(found.line, found.raw, message, order, queue_id, found.part, key)


def is_system_property(name: str) -> bool:
    """Return whether brokers, consumers or the client set this property."""
    if name in KEPT:
        return False
    return name in names.RESERVED_PROPERTIES or name.startswith(names.TRANSIENT_PREFIX)


def _has_delay(one: Defaults | InputMessage) -> bool:
    return any(value is not None for value in (one.delay_level, one.delay_ms, one.deliver_ms))


def _set_delay(own: dict[str, str], one: Defaults | InputMessage) -> None:
    for name, value in (
        (names.PROPERTY_DELAY, one.delay_level),
        (names.PROPERTY_TIMER_DELAY_MS, one.delay_ms),
        (names.PROPERTY_TIMER_DELIVER_MS, one.deliver_ms),
    ):
        if value is not None:
            own[name] = str(value)


def _order_of(found: InputMessage, message: Message, field: str) -> str:
    value: str | None
    if field in ("keys", "key", names.PROPERTY_KEYS):
        value = message.keys[0] if message.keys else None
    elif field in ("tags", "tag", names.PROPERTY_TAGS):
        value = message.tags
    elif field == "queueId":
        known = found.queue_id is not None
        value = f"{found.broker_name or ''}:{found.queue_id}" if known else None
    else:
        value = message.properties.get(field)
    if value is None:
        raise ConfigError(
            f"the message has no {field}, which --ordered-by names",
            "keys, tags, queueId, or a property that every message has",
        )
    return value
