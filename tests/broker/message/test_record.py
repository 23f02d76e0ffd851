import gzip
import json
from collections.abc import Callable

import pytest

from broker.common.address import encode_address
from broker.errors import LocalProtocolError, RemoteProtocolError
from broker.message import record as r
from broker.message.message import MessageExt
from broker.message.message_id import parse_offset_msg_id, parse_uniq_key
from broker.message.record import (
    RECORD_LAYOUT,
    body_crc,
    check_property_crc,
    decode_record,
    encode_record,
    field_position,
    peek_properties,
    peek_record,
    scan_records,
)

FIXED_NAMES = {
    "totalSize": "total_size",
    "magicCode": "magic",
    "bodyCRC": "body_crc",
    "queueId": "queue_id",
    "flag": "flag",
    "queueOffset": "queue_offset",
    "physicalOffset": "physical_offset",
    "sysFlag": "sys_flag",
    "bornTimestamp": "born_timestamp",
    "bornHost": "born_host_raw",
    "storeTimestamp": "store_timestamp",
    "storeHost": "store_host_raw",
    "reconsumeTimes": "reconsume_times",
    "preparedTransactionOffset": "prepared_transaction_offset",
    "bodyLength": "body_size",
}


def records(vectors) -> list[dict]:
    found = list(vectors["record"])
    assert len(found) == 22
    return found


def random_message(rng) -> MessageExt:
    def host() -> bytes:
        return rng.randbytes(rng.choice((4, 16))) + rng.randrange(65536).to_bytes(4, "big")

    topic = "".join(rng.choices("abcABC_-%|", k=rng.choice((0, 1, 127, 128, 255))))
    return MessageExt(
        topic,
        rng.randbytes(rng.choice((0, 1, 100, 5000))),
        rng.randbytes(rng.choice((0, 3, 300, 32767))),
        queue_id=rng.randrange(-(1 << 31), 1 << 31),
        flag=rng.randrange(-(1 << 31), 1 << 31),
        queue_offset=rng.randrange(-(1 << 63), 1 << 63),
        physical_offset=rng.randrange(-(1 << 63), 1 << 63),
        sys_flag=rng.choice((0, 1, 8, 0x301, 0xC0)),
        born_timestamp=rng.randrange(1 << 62),
        born_host_raw=host(),
        store_timestamp=rng.randrange(1 << 62),
        store_host_raw=host(),
        reconsume_times=rng.randrange(1 << 31),
        prepared_transaction_offset=rng.randrange(1 << 63),
    )


def test_golden_records_decode_to_the_expected_fields(vectors) -> None:
    for vector in records(vectors):
        expected = vector["decoded"]
        message = decode_record(bytes.fromhex(vector["hex"]), check_crc=True)
        for name in set(FIXED_NAMES.values()) & set(expected) - {"magic", "body_size"}:
            assert getattr(message, name) == expected[name], (vector["name"], name)
        assert f"{message.magic:08x}" == expected["magic"]
        assert message.body.hex() == expected["body_hex"]
        assert message.topic == expected["topic"]
        assert message.properties_raw.hex() == expected["properties_hex"]
        assert message.properties == expected["properties"]
        for end in ("born", "store"):
            host, port = expected[f"{end}_host"], expected[f"{end}_port"]
            text = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            assert getattr(message, f"{end}_host") == text
        assert message.offset_msg_id == vector["offset_message_id"]


def test_golden_records_encode_to_the_same_bytes(vectors) -> None:
    for vector in records(vectors):
        raw = bytes.fromhex(vector["hex"])
        message = decode_record(raw)
        assert encode_record(message) == raw, vector["name"]
        message.magic = 0  # the version is chosen by the topic's length, as a 5.x broker does
        assert encode_record(message) == raw, vector["name"]


def test_the_index_keys_of_golden_records_can_be_read_off(vectors) -> None:
    for vector in records(vectors):
        message = decode_record(bytes.fromhex(vector["hex"]))
        words = ([message.uniq_key] if message.uniq_key else []) + message.keys
        if message.sys_flag & 0xC != 0xC:  # rollback records have no index entries
            assert [f"{message.topic}#{word}" for word in words] == vector["index_keys"]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_and_any_position_decode_alike(vectors, kind: Callable) -> None:
    for vector in records(vectors):
        raw = bytes.fromhex(vector["hex"])
        message = decode_record(kind(b"\xff" * 7 + raw + b"tail"), 7)
        assert message == decode_record(raw)
        assert type(message.body) is bytes
        assert type(message.properties_raw) is bytes


def test_every_cut_record_is_refused(vectors, every_cut) -> None:
    for vector in records(vectors):
        raw = bytes.fromhex(vector["hex"])
        assert every_cut(decode_record, raw) == []
        assert [n for n in range(len(raw)) if peek_record(raw[:n]) is not None] == []


def test_every_flipped_bit_gives_a_value_or_a_protocol_error(vectors, every_flip) -> None:
    for vector in records(vectors):
        raw = bytes.fromhex(vector["hex"])
        refused = every_flip(lambda data: decode_record(data, check_crc=True), raw)
        assert refused > 64  # magic, sizes, CRC and body at least
        every_flip(peek_record, raw)
        every_flip(peek_properties, raw)


def test_peek_equals_decode(vectors) -> None:
    for vector in records(vectors):
        raw = b"xx" + bytes.fromhex(vector["hex"])
        head, message = peek_record(raw, 2), decode_record(raw, 2)
        assert head is not None
        for name in head._fields:
            assert getattr(head, name) == getattr(message, name)
        assert peek_properties(raw, 2) == message.properties_raw


def test_encode_and_decode_are_inverse(rng) -> None:
    for _ in range(300):
        message = random_message(rng)
        raw = encode_record(message)
        decoded = decode_record(raw, check_crc=True)
        for name in (*FIXED_NAMES.values(), "body", "topic", "properties_raw"):
            if name not in ("total_size", "magic", "body_crc", "sys_flag"):
                assert getattr(decoded, name) == getattr(message, name)
        assert decoded.sys_flag & ~0x30 == message.sys_flag
        assert decoded.total_size == len(raw)
        assert encode_record(decoded) == raw


def test_the_table_contains_the_position_of_every_fixed_field(rng) -> None:
    for _ in range(50):
        message = random_message(rng)
        raw = encode_record(message)
        decoded = decode_record(raw)
        for field in RECORD_LAYOUT[: r.FIXED_FIELD_COUNT]:
            at = field_position(field.name, decoded.sys_flag)
            value = getattr(decoded, FIXED_NAMES[field.name])
            if isinstance(value, bytes):
                assert raw[at : at + len(value)] == value
            else:
                data = raw[at : at + field.width]
                signed = field.type != "uint"
                assert int.from_bytes(data, "big", signed=signed) == value
    with pytest.raises(KeyError):
        field_position("body")


def test_the_four_host_shapes_have_their_sizes() -> None:
    assert r.FIXED_SIZES == (88, 100, 100, 112)
    for born, store, flag in (
        ("1.2.3.4:5", "6.7.8.9:10", 0),
        ("[::1]:5", "6.7.8.9:10", 0x10),
        ("1.2.3.4:5", "[::2]:10", 0x20),
        ("[::1]:5", "[::2]:10", 0x30),
    ):
        raw = encode_record(
            MessageExt(
                "T",
                born_host_raw=encode_address(born),
                store_host_raw=encode_address(store),
                sys_flag=0x30,  # ignored: the lengths of the hosts decide
            )
        )
        message = decode_record(raw)
        assert (message.born_host, message.store_host, message.sys_flag) == (born, store, flag)


def test_topic_above_127_bytes_makes_version_2() -> None:
    assert decode_record(encode_record(MessageExt("t" * 127))).magic == r.MAGIC_V1
    assert decode_record(encode_record(MessageExt("t" * 128))).magic == r.MAGIC_V2
    with pytest.raises(LocalProtocolError, match="128 bytes"):
        encode_record(MessageExt("t" * 128, magic=r.MAGIC_V1))


def test_a_value_out_of_range_is_a_local_error() -> None:
    with pytest.raises(LocalProtocolError, match="32768 bytes of properties"):
        encode_record(MessageExt("t", b"", b"x" * 32768))
    with pytest.raises(LocalProtocolError, match="8 or 20 bytes"):
        encode_record(MessageExt("t", born_host_raw=b"123"))


def test_errors_name_field_and_position() -> None:
    raw = bytearray(encode_record(MessageExt("Topic", b"body", b"K\x01v\x02")))

    def broken(position: int, data: bytes, prefix: bytes = b"\0" * 10) -> RemoteProtocolError:
        changed = raw[:]
        changed[position : position + len(data)] = data
        with pytest.raises(RemoteProtocolError) as caught:
            decode_record(prefix + changed, len(prefix), check_crc=True)
        return caught.value

    for position, data, field, at in (
        (0, b"\0\0\0\0", "totalSize", 10),
        (0, b"\xff\xff\xff\xff", "totalSize", 10),
        (4, bytes.fromhex("cbd43194"), "magicCode: CBD43194", 14),
        (84, b"\x80\0\0\0", "bodyLength", 94),
        (84, b"\x7f\xff\xff\xff", "bodyLength", 94),
        (88, b"BODY", "bodyCRC", 18),
        (92, b"\x80", "topicLength", 102),
        (92, b"\x06", "propertiesLength", 109),
        (93, b"\xff", "topic: not UTF-8", 103),
        (98, b"\xff\xff", "propertiesLength", 108),
        (98, b"\0\x01", "propertiesLength", 108),
    ):
        error = broken(position, data)
        assert field in str(error)
        assert error.position == at, field


def test_body_can_be_left_out() -> None:
    message = decode_record(encode_record(MessageExt("T", b"x" * 1000)), read_body=False)
    assert message.body == b""
    assert message.body_size == 1000


def test_an_empty_body_has_crc_0_and_is_not_checked() -> None:
    assert body_crc(b"") == 0
    raw = bytearray(encode_record(MessageExt("T")))
    raw[8:12] = b"\x12\x34\x56\x78"
    assert decode_record(bytes(raw), check_crc=True).body_crc == 0x12345678


def test_stored_crc_vectors(vectors) -> None:
    for vector in vectors["crc32"]:
        assert body_crc(bytes.fromhex(vector["hex"])) == vector["stored_crc"], vector["name"]


def test_scan_yields_the_joined_records(vectors) -> None:
    raws = [bytes.fromhex(vector["hex"]) for vector in records(vectors)]
    assert [encode_record(m) for m in scan_records(b"".join(raws))] == raws
    assert list(scan_records(b"")) == []


def test_scan_stops_with_an_error_at_the_first_cut_record(vectors) -> None:
    raws = [bytes.fromhex(vector["hex"]) for vector in records(vectors)[:3]]
    seen = []
    with pytest.raises(RemoteProtocolError):
        for message in scan_records(b"".join(raws)[:-1]):
            seen.append(message)
    assert len(seen) == 2


def test_property_crc(vectors) -> None:
    outcomes = {}
    for vector in records(vectors):
        raw = bytes.fromhex(vector["hex"])
        outcomes[vector["name"]] = check_property_crc(raw)
        if check_property_crc(raw):
            changed = bytes([raw[0], raw[1], raw[2], raw[3] ^ 1]) + raw[4:]
            assert check_property_crc(changed) is False
            assert r.encode_property_crc(raw[:-20]) == raw[-20:]
    assert [outcome for outcome in outcomes.values() if outcome is not None] == [True]
    assert check_property_crc(b"") is None


def test_property_crc_digits_are_least_significant_first(monkeypatch) -> None:
    monkeypatch.setattr(r, "crc32", lambda _: 1344022075)
    assert r.encode_property_crc(b"x") == b"__CRC32#\x015702204431\x02"


def test_records_that_java_sent_encode_back_to_the_byte(golden) -> None:
    counted = 0
    with gzip.open(golden / "frames" / "java-4.9.8.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            frame = bytes.fromhex(json.loads(line)["hex"])
            body = frame[8 + int.from_bytes(frame[5:8], "big") :]
            if body[4:8] != bytes.fromhex("daa320a7"):
                continue
            for message in scan_records(body, check_crc=True):
                assert message.payload() is not None
                assert message.topic
                assert parse_offset_msg_id(message.offset_msg_id)[2] == message.physical_offset
                if message.uniq_key is not None:
                    assert len(parse_uniq_key(message.uniq_key)) == 5
                counted += 1
            assert b"".join(encode_record(message) for message in scan_records(body)) == body
    assert counted > 50
