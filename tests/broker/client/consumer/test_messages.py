"""From records to the messages that a listener gets."""

from broker.client.consumer.messages import (
    add_offset_bounds,
    read_messages,
    restore_topic,
    select_messages,
)
from broker.common import sysflag
from broker.common.subscription import build_subscription
from broker.message.batch import encode_batch_item
from broker.message.compression import compress
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import encode_record


def record(body: bytes, *, sys_flag: int = 0, offset: int = 0, tags: str = "") -> bytes:
    properties = encode_properties({"TAGS": tags}) if tags else b""
    return encode_record(MessageExt("T", body, properties, sys_flag=sys_flag, queue_offset=offset))


def test_bodies_are_decompressed() -> None:
    flag = sysflag.COMPRESSED | sysflag.COMPRESSION_ZSTD
    found = read_messages(record(compress(b"text", "zstd"), sys_flag=flag) + record(b"plain"))
    assert [one.body for one in found] == [b"text", b"plain"]
    assert [one.is_compressed for one in found] == [False, False]
    assert found[0].payload() == b"text"


def test_inner_batches_are_split() -> None:
    body = b"".join(encode_batch_item(0, b"%d" % number, b"") for number in range(3))
    found = read_messages(record(body, sys_flag=sysflag.INNER_BATCH, offset=7))
    assert [(one.body, one.queue_offset) for one in found] == [(b"0", 7), (b"1", 8), (b"2", 9)]


def test_tags_with_equal_hashes_are_compared_by_their_text() -> None:
    """ "Aa" and "BB" have the same Java hash: the broker returns both."""
    found = read_messages(record(b"1", tags="Aa") + record(b"2", tags="BB") + record(b"3"))
    assert [one.body for one in select_messages(found, build_subscription("T", "Aa"))] == [b"1"]
    assert len(select_messages(found, build_subscription("T", "*"))) == 3
    assert len(select_messages(found, build_subscription("T", "n > 1", "SQL92"))) == 3


def test_the_bounds_of_the_queue_are_properties() -> None:
    found = read_messages(record(b"1"))
    add_offset_bounds(found, 5, 9)
    assert (found[0].get_property("MIN_OFFSET"), found[0].get_property("MAX_OFFSET")) == ("5", "9")


def test_a_retried_message_gets_its_topic_back() -> None:
    def message(topic: str) -> MessageExt:
        return MessageExt(topic, b"x", encode_properties({"RETRY_TOPIC": "ns%orders"}))

    retried, other = message("%RETRY%ns%g"), message("%RETRY%ns%other")
    restore_topic([retried, other], "ns%g", "ns")
    assert (retried.topic, other.topic) == ("orders", "%RETRY%other")
