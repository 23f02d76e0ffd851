import pytest

from broker.errors import LocalProtocolError, RemoteProtocolError
from broker.message.batch import (
    BatchItem,
    encode_batch,
    encode_batch_item,
    scan_batch,
    unwrap_inner_batch,
)
from broker.message.compression import compress
from broker.message.message import Message, MessageExt
from broker.message.properties import append_property
from broker.message.record import decode_record


def test_golden_batch_items_become_the_golden_records(vectors) -> None:
    vector = vectors["plain_batch"]
    items = list(scan_batch(bytes.fromhex(vector["request_body_hex"])))
    records = [decode_record(bytes.fromhex(text)) for text in vector["stored_records_hex"]]
    assert len(items) == len(records) == 2
    for item, record in zip(items, records, strict=True):
        assert (item.flag, item.body) == (record.flag, record.body)
        assert append_property(item.properties_raw, b"CLUSTER", b"C1") == record.properties_raw
    body = b"".join(encode_batch_item(*item) for item in items)
    assert body.hex() == vector["request_body_hex"]


def test_item_of_the_wire_description() -> None:
    properties = {"WAIT": "true", "TAGS": "TagA"}
    message = Message("T", b"hello", properties=properties)
    assert encode_batch([message]).hex() == (
        "0000002f00000000000000000000000000000005"
        + b"hello".hex()
        + "0014574149540174727565025441475301546167410 2".replace(" ", "")
    )


def test_golden_inner_batch(vectors) -> None:
    vector = vectors["inner_batch"]
    record = decode_record(bytes.fromhex(vector["stored_record_hex"]))
    assert record.sys_flag == vector["sys_flag"]
    assert record.body.hex() == vector["request_body_hex"]
    assert record.is_inner_batch
    messages = unwrap_inner_batch(record)
    base = vector["batch_cq_unit"]["msg_base_offset"]
    assert [m.queue_offset for m in messages] == [base, base + 1]
    assert [m.body for m in messages] == [b"b0", b"b1"]
    assert [m.tags for m in messages] == ["TagA", "TagB"]
    assert [m.flag for m in messages] == [0, 1]
    assert {m.sys_flag for m in messages} == {0}
    assert {m.physical_offset for m in messages} == {record.physical_offset}


def test_ordinary_and_compressed_records_unwrap() -> None:
    plain = MessageExt("T", b"x")
    assert unwrap_inner_batch(plain) == [plain]
    body = encode_batch([Message("T", b"a"), Message("T", b"b")])
    packed = MessageExt("T", compress(body, "lz4"), sys_flag=0xC0 | 0x101)
    assert [m.payload() for m in unwrap_inner_batch(packed)] == [b"a", b"b"]


def test_scan_is_the_inverse_of_encode(rng) -> None:
    for _ in range(100):
        items = [
            BatchItem(
                rng.randrange(-(1 << 31), 1 << 31),
                rng.randbytes(rng.randint(0, 50)),
                rng.randbytes(rng.randint(0, 50)),
            )
            for _ in range(rng.randint(0, 5))
        ]
        body = b"".join(encode_batch_item(*item) for item in items)
        assert list(scan_batch(body)) == items
        assert list(scan_batch(memoryview(body))) == items


def test_every_cut_and_flip_is_a_value_or_a_protocol_error(every_cut, every_flip) -> None:
    first, second = encode_batch_item(1, b"aa", b"K\x01v\x02"), encode_batch_item(2, b"", b"")
    whole = first + second

    def decode(data: bytes) -> list[BatchItem]:
        return list(scan_batch(data))

    assert every_cut(decode, whole) == [0, len(first)]
    assert every_flip(decode, whole) > 100


def test_errors_name_the_position() -> None:
    whole = encode_batch_item(1, b"aa", b"") + b"\0\0\0\x10" + b"\0" * 30
    with pytest.raises(RemoteProtocolError, match="byte 24, totalSize: 16") as caught:
        list(scan_batch(whole))
    assert caught.value.position == 24


def test_properties_beyond_the_length_field_are_our_error() -> None:
    with pytest.raises(LocalProtocolError, match="32768"):
        encode_batch_item(0, b"", b"x" * 32768)
