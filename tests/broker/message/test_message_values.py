"""Messages: boundary values of each property, hosts, equality field by field."""

import random

import pytest

from broker.common import sysflag
from broker.errors import RemoteProtocolError
from broker.message.compression import compress
from broker.message.message import RESERVED_PROPERTIES, Message, MessageExt, split_keys
from broker.message.properties import encode_properties

FIELDS: dict[str, object] = {
    "total_size": 1,
    "magic": 2,
    "body_crc": 3,
    "queue_id": 4,
    "flag": 5,
    "queue_offset": 6,
    "physical_offset": 7,
    "sys_flag": 8,
    "born_timestamp": 9,
    "born_host_raw": b"\x01" * 8,
    "store_timestamp": 10,
    "store_host_raw": b"\x02" * 8,
    "reconsume_times": 11,
    "prepared_transaction_offset": 12,
    "body_size": 13,
}


@pytest.mark.parametrize("name", FIELDS)
def test_a_difference_in_any_field_makes_messages_unequal(name: str) -> None:
    same = MessageExt("T", b"x", b"")
    other = MessageExt("T", b"x", b"", **{name: FIELDS[name]})  # type: ignore[arg-type]
    assert other != same
    assert other == MessageExt("T", b"x", b"", **{name: FIELDS[name]})  # type: ignore[arg-type]
    assert getattr(other, name) == FIELDS[name]


def test_decoded_properties_are_not_part_of_the_equality() -> None:
    one, other = MessageExt("T", b"", b"A\x01b\x02"), MessageExt("T", b"", b"A\x01b\x02")
    assert one.properties == {"A": "b"}
    assert one == other
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("0", 0),
        ("1", 1),
        ("18", 18),
        ("+3", 3),
        ("2147483647", 2**31 - 1),
        ("2147483648", 0),
        ("-1", 0),
        ("", 0),
        (" 3", 0),
        ("3.0", 0),
        ("1_0", 0),
        ("\u0663", 0),
        ("9" * 5_000, 0),
    ],
)
def test_a_delay_level_is_a_positive_number_of_32_bits_or_none(text: str, level: int) -> None:
    assert Message("T", b"x", properties={"DELAY": text}).delay_level == level


@pytest.mark.parametrize(
    ("text", "wait"), [("true", True), ("false", False), ("", False), ("TRUE", False), ("1", False)]
)
def test_only_the_text_true_waits(text: str, wait: bool) -> None:
    message = Message("T", b"x")
    message.properties["WAIT"] = text
    assert message.wait is wait
    del message.properties["WAIT"]
    assert message.wait, "Java's default"


def test_a_message_takes_no_reference_to_the_callers_properties() -> None:
    given = {"a": "b"}
    message = Message("T", b"x", properties=given, tags="t")
    assert given == {"a": "b"}
    message.properties["a"] = "c"
    assert given == {"a": "b"}


@pytest.mark.parametrize("keys", [None, "", [], ()])
def test_empty_keys_set_nothing(keys: object) -> None:
    assert "KEYS" not in Message("T", b"x", keys=keys).properties  # type: ignore[arg-type]
    assert Message("T", b"x", tags="").tags is None


def test_keys_from_any_iterable_are_joined_and_split_again(rng: random.Random) -> None:
    for _ in range(50):
        keys = ["".join(rng.choices("ab消-_", k=rng.randrange(1, 6))) for _ in range(5)]
        assert Message("T", b"x", keys=iter(keys)).keys == keys
        assert Message("T", b"x", keys=" ".join(keys)).keys == keys


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (None, []),
        ("", []),
        (" ", []),
        ("a", ["a"]),
        (" a", ["a"]),
        ("a  b ", ["a", "b"]),
        ("a\tb\nc", ["a\tb\nc"]),  # single blanks separate, as in Java
        ("\u00a0", ["\u00a0"]),
    ],
)
def test_keys_are_separated_by_blanks_only(text: str | None, keys: list[str]) -> None:
    assert split_keys(text) == keys


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (bytes((127, 0, 0, 1, 0, 0, 0, 0)), "127.0.0.1:0"),
        (bytes((255, 255, 255, 255)) + (65_535).to_bytes(4, "big"), "255.255.255.255:65535"),
        (bytes(15) + b"\x01" + (10_911).to_bytes(4, "big"), "[::1]:10911"),
        (bytes.fromhex("20010db8") + bytes(11) + b"\x02" + bytes(4), "[2001:db8::2]:0"),
    ],
)
def test_hosts_of_both_families_are_shown_with_their_port(raw: bytes, text: str) -> None:
    message = MessageExt("T", born_host_raw=raw, store_host_raw=raw)
    assert (message.born_host, message.store_host) == (text, text)


@pytest.mark.parametrize("offset", [0, 1, 2**31, 2**63 - 1])
def test_the_offset_message_id_is_host_and_offset_in_hex(offset: int) -> None:
    host = bytes((10, 0, 0, 7)) + (10_911).to_bytes(4, "big")
    message = MessageExt("T", store_host_raw=host, physical_offset=offset)
    assert message.offset_msg_id == f"0A00000700002A9F{offset:016X}"
    six = MessageExt("T", store_host_raw=bytes(20), physical_offset=offset)
    assert len(six.offset_msg_id) == 56


def test_one_property_is_found_without_and_with_decoding(rng: random.Random) -> None:
    names = ["TAGS", "TAG", "KEYS", "KEY", "a", "é", "UNIQ_KEY", "TAGS2"]
    for _ in range(100):
        chosen = rng.sample(names, rng.randrange(len(names) + 1))
        table = {name: "".join(rng.choices("xy é", k=rng.randrange(1, 5))) for name in chosen}
        raw = encode_properties(table)
        for name in names:
            assert MessageExt("T", b"", raw).get_property(name) == table.get(name)
        decoded = MessageExt("T", b"", raw)
        assert decoded.properties == table
        assert {name: decoded.get_property(name) for name in names} == {
            name: table.get(name) for name in names
        }


def test_bytes_that_are_not_utf8_are_shown_with_a_replacement() -> None:
    message = MessageExt("T", b"", b"TAGS\x01\xff\x02")
    assert message.tags == "\ufffd"
    assert message.properties["TAGS"] == "\ufffd"
    assert message.get_property("\ud800") is None


@pytest.mark.parametrize("codec", ["zlib", "lz4", "zstd"])
def test_a_payload_has_a_limit_for_each_codec(codec: str) -> None:
    from_codec = {"lz4": 0x100, "zstd": 0x200, "zlib": 0x300}
    data = bytes(5_000)
    packed = compress(data, codec)
    message = MessageExt("T", packed, sys_flag=sysflag.COMPRESSED | from_codec[codec])
    assert message.payload(5_000) == data
    with pytest.raises(RemoteProtocolError):
        message.payload(4_999)
    assert MessageExt("T", b"", sys_flag=message.sys_flag).payload() == b""
    for length in range(1, len(packed)):
        cut = MessageExt("T", packed[:length], sys_flag=message.sys_flag)
        with pytest.raises(RemoteProtocolError):
            cut.payload()


@pytest.mark.parametrize("bits", [0, sysflag.INNER_BATCH, 0x2, 0x4, 0x10, 0x20])
def test_other_flags_do_not_make_a_body_compressed(bits: int) -> None:
    message = MessageExt("T", b"plain", sys_flag=bits)
    assert not message.is_compressed
    assert message.payload() == b"plain"
    assert message.is_inner_batch is bool(bits & sysflag.INNER_BATCH)


def test_a_body_that_was_not_read_keeps_its_size() -> None:
    assert MessageExt("T", b"12345").body_size == 5
    assert MessageExt("T", b"", body_size=77).body_size == 77
    assert MessageExt("T", b"12345", body_size=0).body_size == 0


def test_a_representation_shows_no_body() -> None:
    secret = b"a secret of the application"
    assert "secret" not in repr(Message("T", secret))
    assert "secret" not in repr(MessageExt("T", secret))
    assert str(len(secret)) in repr(Message("T", secret))


def test_reserved_names_are_texts_without_separators() -> None:
    assert all(name and "\x01" not in name and "\x02" not in name for name in RESERVED_PROPERTIES)
    assert len(RESERVED_PROPERTIES) > 50
