"""Check points and acknowledgements of POP consumption: the bodies of messages in the revive topic.

::

    ck     {"bm":0,"bn":"broker-a","c":"G","d":[0,1],"it":60000,"n":2,"pt":…,"q":1,
            "reviveTime":…,"ro":0,"so":100,"t":"TopicA"}          n messages, popped from so on
    ack    {"ao":101,"bn":"broker-a","c":"G","pt":…,"q":1,"so":100,"t":"TopicA"}
    bAck   as ack, with "aol":[100,101] for several messages

A check point and its acknowledgements have the same topic, group, queue, start offset, pop time
and broker: the key under which they are merged.

**Source:** RocketMQ PopCheckPoint, AckMsg, BatchAckMsg, PopAckConstants,
PopMessageProcessor#genCkUniqueId, #genAckUniqueId, #genBatchAckUniqueId.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from broker.common.java import INT32_MAX, INT32_MIN, parse_number
from broker.errors import RemoteProtocolError

CK_TAG: Final = "ck"
ACK_TAG: Final = "ack"
BATCH_ACK_TAG: Final = "bAck"
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
MAX_MESSAGES: Final = 32  # in a check point: one bit of an int for each

MergeKey = tuple[str, str, int, int, int, str]
"""topic, group, queue id, start offset, pop time, broker name."""


class PopCheckPoint(msgspec.Struct, kw_only=True):
    """Messages of one queue that were popped together and are invisible until ``revive_time``.

    ``diffs`` are their queue offsets relative to ``start_offset``; empty in the old form, where
    the offsets are consecutive. ``bits`` has a bit for each acknowledged message. ``revive_offset``
    is the position in the revive queue. Times in ms.
    """

    topic: str
    group: str
    queue_id: int
    start_offset: int
    pop_time: int
    invisible_time: int
    broker_name: str | None
    count: int
    diffs: list[int] = []
    bits: int = 0
    revive_offset: int = 0
    re_put_times: int = 0

    @property
    def revive_time(self) -> int:
        """End of the invisible time, epoch ms."""
        return self.pop_time + self.invisible_time

    @property
    def done(self) -> bool:
        """Whether every message is acknowledged."""
        return self.bits & self.all_bits == self.all_bits

    @property
    def all_bits(self) -> int:
        """The bits of all messages."""
        return (1 << self.count) - 1

    @property
    def unacknowledged(self) -> list[int]:
        """Queue offsets of the messages that are not acknowledged."""
        return [self.offset_at(index) for index in range(self.count) if not self.bits >> index & 1]

    def merge_key(self, own_broker: str) -> MergeKey:
        """Return the key that acknowledgements are matched by; a missing broker is ``own_broker``.

        **Source:** RocketMQ PopReviveService#consumeReviveMessage.
        """
        return _merge_key(self, own_broker)

    def offset_at(self, index: int) -> int:
        """Return the queue offset of a message.

        **Source:** RocketMQ PopCheckPoint#ackOffsetByIndex.
        """
        return self.start_offset + (self.diffs[index] if self.diffs else index)

    def index_of(self, queue_offset: int) -> int:
        """Return the index of a message, -1 if the check point does not contain it.

        **Source:** RocketMQ PopCheckPoint#indexOfAck.
        """
        diff = queue_offset - self.start_offset
        if not self.diffs:
            return diff if 0 <= diff < self.count else -1
        return self.diffs.index(diff) if diff in self.diffs else -1

    def acknowledge(self, offsets: Sequence[int]) -> int:
        """Mark messages as acknowledged; return the number of those that were not before."""
        before = self.bits
        for offset in offsets:
            index = self.index_of(offset)
            if index >= 0:
                self.bits |= 1 << index
        return (before ^ self.bits).bit_count()


class AckMsg(msgspec.Struct, kw_only=True):
    """An acknowledgement of messages of one check point.

    ``batched``: several messages in one record (tag bAck). ``broker_name`` is None in a batch that
    the pop buffer wrote; then the check point of this broker is meant.
    """

    topic: str
    group: str
    queue_id: int
    start_offset: int
    pop_time: int
    broker_name: str | None
    offsets: list[int]
    batched: bool = False

    def merge_key(self, own_broker: str) -> MergeKey:
        """Return the key of the check point that the acknowledgement belongs to."""
        return _merge_key(self, own_broker)

    @property
    def tag(self) -> str:
        """The tag of the message in the revive topic."""
        return BATCH_ACK_TAG if self.batched else ACK_TAG

    @property
    def ack_offset(self) -> int:
        """The field ``ao``: the offset of a single one, else -1 (0 if the pop buffer wrote it)."""
        if not self.batched:
            return self.offsets[0]
        return 0 if self.broker_name is None else -1

    @property
    def uniq_key(self) -> str:
        """The UNIQ_KEY of the message in the revive topic."""
        head = f"{self.topic}@{self.queue_id}@"
        if self.broker_name is None:
            listed = ", ".join(map(str, self.offsets))
            return f"{head}[{listed}]@{self.group}@{self.pop_time}@{BATCH_ACK_TAG}"
        tail = f"{self.group}@{self.pop_time}@{self.broker_name}@{ACK_TAG}"
        return f"{head}{self.ack_offset}@{tail}"


def check_point_uniq_key(ck: PopCheckPoint) -> str:
    """Return the UNIQ_KEY of a check point in the revive topic."""
    tail = f"{ck.group}@{ck.pop_time}@{ck.broker_name}@{CK_TAG}"
    return f"{ck.topic}@{ck.queue_id}@{ck.start_offset}@{tail}"


def encode_check_point(ck: PopCheckPoint) -> bytes:
    """Encode the body of a check point, fields in Java's (alphabetical) order."""
    wire: dict[str, object] = {"bm": ck.bits}
    if ck.broker_name is not None:
        wire["bn"] = ck.broker_name
    wire.update(c=ck.group, d=ck.diffs, it=ck.invisible_time, n=ck.count, pt=ck.pop_time)
    wire.update(q=ck.queue_id, reviveTime=ck.revive_time, ro=ck.revive_offset)
    if ck.re_put_times:
        wire["rp"] = str(ck.re_put_times)
    wire.update(so=ck.start_offset, t=ck.topic)
    return msgspec.json.encode(wire)


def encode_ack(ack: AckMsg) -> bytes:
    """Encode the body of an acknowledgement."""
    wire: dict[str, object] = {"ao": ack.ack_offset}
    if ack.batched:
        wire["aol"] = ack.offsets
    if ack.broker_name is not None:
        wire["bn"] = ack.broker_name
    wire.update(c=ack.group, pt=ack.pop_time, q=ack.queue_id, so=ack.start_offset, t=ack.topic)
    return msgspec.json.encode(wire)


def decode_check_point(body: bytes) -> PopCheckPoint:
    """Decode the body of a check point; RemoteProtocolError naming the invalid field."""
    wire = _object(body)
    count = _int(wire, "n", 0)
    diffs = _ints(wire, "d")
    if not 0 <= count <= MAX_MESSAGES or (diffs and len(diffs) != count):
        raise RemoteProtocolError(f"check point of {count} messages with {len(diffs)} offsets")
    return PopCheckPoint(
        topic=_text(wire, "t"),
        group=_text(wire, "c"),
        queue_id=_queue(wire),
        start_offset=_int(wire, "so", 0),
        pop_time=_int(wire, "pt", 0),
        invisible_time=_int(wire, "it", 0),
        broker_name=_optional_text(wire, "bn"),
        count=count,
        diffs=diffs,
        bits=_int(wire, "bm", 0) & 0xFFFFFFFF,
        revive_offset=_int(wire, "ro", 0),
        re_put_times=_int(wire, "rp", 0),
    )


def decode_ack(body: bytes, *, batched: bool = False) -> AckMsg:
    """Decode the body of an acknowledgement (``batched``: tag bAck); RemoteProtocolError."""
    wire = _object(body)
    return AckMsg(
        topic=_text(wire, "t"),
        group=_text(wire, "c"),
        queue_id=_queue(wire),
        start_offset=_int(wire, "so", 0),
        pop_time=_int(wire, "pt", 0),
        broker_name=_optional_text(wire, "bn") or None,
        offsets=_ints(wire, "aol") if batched else [_int(wire, "ao", 0)],
        batched=batched,
    )


def _object(body: bytes) -> Mapping[str, object]:
    try:
        wire = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"record of the revive topic: not JSON: {error}") from None
    if not isinstance(wire, dict):
        raise RemoteProtocolError("record of the revive topic: not a JSON object")
    return wire


def _int(wire: Mapping[str, object], name: str, default: int) -> int:
    value = wire.get(name)
    if value is None:
        return default
    number = parse_number(str(value)) if type(value) in (int, str) else None
    if number is None:
        raise RemoteProtocolError(f"record of the revive topic: {name} is {str(value)[:40]!r}")
    return number


def _queue(wire: Mapping[str, object]) -> int:
    queue_id = _int(wire, "q", 0)
    if not INT32_MIN <= queue_id <= INT32_MAX:
        raise RemoteProtocolError(f"record of the revive topic: q is {queue_id}")
    return queue_id


def _ints(wire: Mapping[str, object], name: str) -> list[int]:
    value = wire.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        raise RemoteProtocolError(f"record of the revive topic: {name} is {str(value)[:40]!r}")
    return value


def _text(wire: Mapping[str, object], name: str) -> str:
    value = _optional_text(wire, name)
    if not value:
        raise RemoteProtocolError(f"record of the revive topic: {name} is missing")
    return value


def _optional_text(wire: Mapping[str, object], name: str) -> str | None:
    value = wire.get(name)
    if value is not None and not isinstance(value, str):
        raise RemoteProtocolError(f"record of the revive topic: {name} is {str(value)[:40]!r}")
    return value


def _merge_key(record: PopCheckPoint | AckMsg, own_broker: str) -> MergeKey:
    return (
        record.topic,
        record.group,
        record.queue_id,
        record.start_offset,
        record.pop_time,
        record.broker_name or own_broker,
    )
