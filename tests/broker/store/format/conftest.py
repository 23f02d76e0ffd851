"""Small logs for the tests of file formats."""

from collections.abc import Callable

import pytest

from broker.message.message import MessageExt
from broker.message.record import encode_record
from broker.store.format.commitlog import encode_blank


@pytest.fixture
def make_record() -> Callable[..., bytes]:
    """``make_record(physical_offset, topic=..., body=..., ...)``: the bytes of one record."""

    def make(
        physical_offset: int,
        *,
        topic: str = "TopicA",
        body: bytes = b"hello RocketMQ",
        properties: bytes = b"KEYS\x01k1 k2\x02TAGS\x01TagA\x02",
        **fields: object,
    ) -> bytes:
        given = {
            "queue_id": 3,
            "queue_offset": 42,
            "store_timestamp": 1700000000012,
            "born_timestamp": 1700000000000,
            **fields,
        }
        return encode_record(
            MessageExt(topic, body, properties, physical_offset=physical_offset, **given)
        )

    return make


@pytest.fixture
def make_file(make_record: Callable[..., bytes]) -> Callable[..., bytes]:
    """``make_file(base, size, count)``: a CommitLog file of that size with ``count`` records.

    ``full`` ends it with a blank record; other arguments go to each record.
    """

    def make(
        base: int, size: int, count: int, *, full: bool = False, **fields: object
    ) -> bytearray:
        data = bytearray()
        for number in range(count):
            data += make_record(
                base + len(data), queue_offset=number, **{"body": b"b" * (20 + number), **fields}
            )
        assert len(data) + 8 <= size
        if full:
            data += encode_blank(size - len(data))
        return data.ljust(size, b"\0")

    return make
