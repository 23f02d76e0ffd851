"""A batch request as records."""

import pytest

from broker.errors import RemoteProtocolError
from broker.message.batch import encode_batch, encode_batch_item
from broker.message.message import Message
from broker.message.properties import decode_properties
from broker.server.processor.send.batch_records import (
    MAX_BATCH_ITEMS,
    BatchHead,
    check_batch,
    inner_batch_record,
    item_records,
)

HOST = b"\x7f\0\0\1\0\0\0\1"
BROKER = {"MSG_REGION": "r", "CLUSTER": "c"}


def head(topic: str = "Orders", sys_flag: int = 0, **properties: str) -> BatchHead:
    return BatchHead(topic, 2, 5, sys_flag, 77, HOST, HOST, properties)


def test_items_share_the_header_fields() -> None:
    body = encode_batch([Message("Orders", b"a", flag=1), Message("Orders", b"b", flag=2)])
    records = list(item_records(head(x="y"), body, BROKER))
    assert [(r.body, r.flag, r.queue_id, r.born_timestamp) for r in records] == [
        (b"a", 1, 2, 77),
        (b"b", 2, 2, 77),
    ]
    assert decode_properties(records[0].properties)["x"] == "y"
    assert BROKER.items() <= decode_properties(records[0].properties).items()


def test_keys_of_items_win_over_the_batchs() -> None:
    body = encode_batch_item(0, b"a", b"UNIQ_KEY\x01own\x02WAIT\x01false\x02")
    (record,) = item_records(head(UNIQ_KEY="batch", WAIT="true"), body, BROKER)
    properties = decode_properties(record.properties)
    assert (properties["UNIQ_KEY"], properties["WAIT"]) == ("own", "false")


@pytest.mark.parametrize("raw", [b"", b"TAGS\x01A", b"TAGS\x01A\x02"])
def test_item_properties_end_with_their_separator(raw) -> None:
    (record,) = item_records(head(), encode_batch_item(0, b"a", raw), BROKER)
    properties = decode_properties(record.properties)
    assert properties.get("TAGS") == ("A" if raw else None)
    assert BROKER.items() <= properties.items()


def test_inner_batch_keeps_the_body_as_it_came() -> None:
    body = encode_batch([Message("Orders", b"a"), Message("Orders", b"b")])
    record = inner_batch_record(head(UNIQ_KEY="batch"), body, BROKER)
    assert (record.body, record.flag, record.sys_flag) == (body, 5, 0xC0)
    properties = decode_properties(record.properties)
    assert (properties["INNER_NUM"], properties["UNIQ_KEY"]) == ("2", "batch")


def test_an_empty_result_prints_no_record() -> None:
    assert list(item_records(head(), b"", BROKER)) == []
    assert inner_batch_record(head(), b"", BROKER) is None


def test_a_body_that_is_not_a_batch_is_refused() -> None:
    for make in (item_records, inner_batch_record):
        with pytest.raises(RemoteProtocolError):
            list(make(head(), b"no batch at all, certainly", BROKER))


@pytest.mark.parametrize(
    ("given", "size", "words"),
    [
        (head("%RETRY%G"), 1, "retry"),
        (head("t" * 128), 1, "too long"),
        (head(sys_flag=0x4), 1, "transactional"),
        (head(DELAY="3"), 1, "delayed"),
        (head(DELAY="99999999999"), 1, "delayed"),
        (head(DELAY="soon"), 1, "property DELAY: 'soon' is not an integer"),
        (head(), 11, "limit of 10"),
    ],
)
def test_why_a_batch_is_illegal(given, size, words) -> None:
    assert words in check_batch(given, b"x" * size, 10)
    assert check_batch(head(), b"x" * 10, 10) is None


def test_shared_properties_count_once_per_message() -> None:
    body = encode_batch_item(0, b"", b"") * 100
    shared = len("k") + 78 + 2
    limit = len(body) + 100 * shared
    assert check_batch(head(k="v" * 78), body, limit) is None
    assert "100 messages takes" in check_batch(head(k="v" * 78), body, limit - 1)
    own = head(UNIQ_KEY="v" * 78, WAIT="true")  # not copied into the records
    assert check_batch(own, body, len(body)) is None


def test_messages_of_a_batch_are_limited() -> None:
    item = encode_batch_item(0, b"", b"")
    assert check_batch(head(), item * MAX_BATCH_ITEMS, 1 << 22) is None
    reason = check_batch(head(), item * (MAX_BATCH_ITEMS + 1), 1 << 22)
    assert f"more than {MAX_BATCH_ITEMS} messages" in reason


def test_sizes_that_make_no_sense_end_the_count() -> None:
    for size in (0, -1, 1 << 31 - 1):
        body = size.to_bytes(4, "big", signed=True) + bytes(1000)
        assert check_batch(head(), body, 1 << 22) is None
