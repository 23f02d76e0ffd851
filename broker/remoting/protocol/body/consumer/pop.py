"""Batch acknowledgement of popped messages (5.1.3)."""

# ruff: noqa: RUF012  (msgspec copies empty defaults per instance)

from typing import Self

from msgspec import field

from broker.remoting.protocol.body.base import Body

_LONG_NAMES = {
    "consumerGroup": "c",
    "topic": "t",
    "retry": "r",
    "startOffset": "so",
    "queueId": "q",
    "reviveQueueId": "rq",
    "popTime": "pt",
    "invisibleTime": "it",
    "bitSet": "b",
}


class BatchAck(Body, frozen=True, kw_only=True):
    """Messages of one check point; wire names are abbreviated, long names are read too.

    ``topic`` without retry prefix; ``retry`` "0", "1", "2" as in the receipt handle; ``bit_set``
    base64 of the little-endian bits: bit i means queue offset ``start_offset`` + i; times in ms.

    **Source:** RocketMQ ``BatchAck``.
    """

    consumer_group: str | None = field(name="c", default=None)
    topic: str | None = field(name="t", default=None)
    retry: str | None = field(name="r", default=None)
    start_offset: int = field(name="so", default=0)
    queue_id: int = field(name="q", default=0)
    revive_queue_id: int = field(name="rq", default=0)
    pop_time: int = field(name="pt", default=0)
    invisible_time: int = field(name="it", default=0)
    bit_set: str | None = field(name="b", default=None)

    @classmethod
    def from_wire(cls, wire: object) -> Self:
        """Build the record from a decoded JSON object. Raises RemoteProtocolError."""
        if isinstance(wire, dict):
            wire = {_LONG_NAMES.get(name, name): value for name, value in wire.items()}
        return super().from_wire(wire)


class BatchAckMessageRequestBody(Body, frozen=True, kw_only=True):
    """BATCH_ACK_MESSAGE (200151).

    **Source:** RocketMQ ``BatchAckMessageRequestBody``.
    """

    broker_name: str | None = None
    acks: list[BatchAck] = []
