"""ConsumeQueue units: classic, batch and extension."""

from collections.abc import Callable

import pytest

from broker.errors import LocalProtocolError, RemoteProtocolError
from broker.store.format.commitlog import Damage
from broker.store.format.consumequeue import (
    BATCH_UNIT_SIZE,
    EXT_END,
    FILE_SIZE,
    NO_UNIT,
    PRE_BLANK,
    UNIT_SIZE,
    BatchConsumeQueueUnit,
    ConsumeQueueExtUnit,
    ConsumeQueueUnit,
    decode_batch_unit,
    decode_ext_unit,
    decode_unit,
    encode_ext_unit,
    encode_fillers,
    ext_address,
    ext_offset,
    holds_unit,
    is_ext_address,
    is_pre_blank,
    is_queue_name,
    place_of,
    scan_batch_units,
    scan_ext_units,
    scan_units,
    tags_code,
)
from tests.support.store_units import encode_batch_unit, encode_unit


def test_units_are_those_of_java(vectors: dict) -> None:
    for vector in vectors["consumequeue"]["unit"]:
        code = tags_code(vector["tags"])
        data = encode_unit(vector["physical_offset"], vector["size"], code)
        assert data.hex() == vector["hex"]
        assert decode_unit(data) == (vector["physical_offset"], vector["size"], code)


def test_each_vector_record_gets_its_unit(vectors: dict) -> None:
    for vector in vectors["record"]:
        wanted = vector["cq_unit_hex"]
        fields = vector["decoded"]
        if wanted is None or fields["topic"] == "SCHEDULE_TOPIC_XXXX":
            continue
        code = tags_code(fields["properties"].get("TAGS"))
        unit = encode_unit(fields["physical_offset"], fields["total_size"], code)
        assert unit.hex() == wanted, vector["name"]


def test_tags_code_is_javas_string_hash(vectors: dict) -> None:
    for vector in vectors["java_hash"]:
        code = tags_code(vector["string"])
        assert code.to_bytes(8, "big", signed=True).hex() == vector["cq_tags_code_hex"]
        assert tags_code(vector["string"].encode()) == code
    assert tags_code(None) == 0


def test_a_queue_offset_has_one_place(vectors: dict) -> None:
    for vector in vectors["consumequeue"]["names"]:
        place = place_of(vector["queue_offset"], vector["file_size"])
        assert place == (vector["file"], vector["position"])
    first = vectors["consumequeue"]["first_message_at_offset_250_file_size_2000"]
    assert place_of(250, 2000) == (first["file"], first["first_unit_position"])
    assert first["pre_blank_units"] * UNIT_SIZE == first["first_unit_position"]
    assert FILE_SIZE == 6_000_000


def test_unit_before_first_message_is_blank(vectors: dict) -> None:
    assert PRE_BLANK.hex() == vectors["consumequeue"]["pre_blank_hex"]
    assert is_pre_blank(decode_unit(PRE_BLANK))
    assert not is_pre_blank(decode_unit(encode_unit(0, 100)))
    assert encode_fillers(3) == PRE_BLANK * 3


def test_a_scan_ends_at_the_first_unwritten_unit() -> None:
    units = [encode_unit(100 * n, 50, n) for n in range(4)]
    data = encode_fillers(2) + b"".join(units) + bytes(60) + units[0]
    found = list(scan_units(data, 1000))
    assert [offset for offset, _ in found] == list(range(1000, 1006))
    assert found[2] == (1002, ConsumeQueueUnit(0, 50, 0))
    assert list(scan_units(data, 1000, UNIT_SIZE * 3, UNIT_SIZE * 5)) == found[3:5]
    assert list(scan_units(bytes(100))) == []
    assert list(scan_units(NO_UNIT + bytes(100))) == []
    assert [holds_unit(unit) for unit in (bytes(UNIT_SIZE), NO_UNIT, units[0])] == [
        False,
        False,
        True,
    ]


def test_a_bad_unit_is_reported_and_the_scan_continues() -> None:
    data = encode_unit(0, 50) + encode_unit(-1, 50) + encode_unit(60, 0, 7) + encode_unit(100, 50)
    first, *bad, last = list(scan_units(data, 10))
    assert first[0] == 10
    assert last == (13, ConsumeQueueUnit(100, 50, 0))
    assert [(d.kind, d.physical_offset, d.length) for d in bad] == [
        ("unit", 220, 20),
        ("unit", 240, 20),
    ]


def test_the_mark_of_a_new_file_is_damage_at_any_other_position() -> None:
    first, bad, last = scan_units(encode_unit(0, 50) + NO_UNIT + encode_unit(60, 50))
    assert isinstance(bad, Damage)
    assert (bad.kind, bad.physical_offset, bad.length) == ("unit", UNIT_SIZE, UNIT_SIZE)
    assert [first, last] == [(0, ConsumeQueueUnit(0, 50, 0)), (2, ConsumeQueueUnit(60, 50, 0))]


def test_a_partial_unit_is_corruption() -> None:
    for rest in range(1, UNIT_SIZE):
        *_, last = scan_units(encode_unit(0, 50) + b"\1" * rest)
        assert isinstance(last, Damage)
        assert last.kind == "truncated"
        assert last.length == rest


def test_a_cut_unit_is_refused(every_cut: Callable[..., list[int]]) -> None:
    assert every_cut(decode_unit, encode_unit(1, 2, 3)) == []
    assert every_cut(decode_batch_unit, encode_batch_unit(BatchConsumeQueueUnit(*range(8)))) == []
    assert every_cut(decode_ext_unit, encode_ext_unit(ConsumeQueueExtUnit(1, 2, b"abc"))) == []


def test_batch_units_are_those_of_java(vectors: dict) -> None:
    vector = vectors["inner_batch"]
    fields = vector["batch_cq_unit"]
    data = bytes.fromhex(vector["batch_cq_unit_hex"])
    unit = decode_batch_unit(data)
    assert tuple(unit) == tuple(fields.values())
    assert encode_batch_unit(unit) == data
    assert BATCH_UNIT_SIZE == len(data) == 46


def test_batch_units_scan_to_the_first_empty_one() -> None:
    units = [BatchConsumeQueueUnit(100 * n, 90, 0, 17, 3 * n, 3) for n in range(1, 4)]
    data = b"".join(map(encode_batch_unit, units))
    assert list(scan_batch_units(data + bytes(92))) == units
    bad = encode_batch_unit(units[0]._replace(batch_size=0))
    found = list(scan_batch_units(bad + data + b"\1", 460))
    assert isinstance(found[0], Damage)
    assert found[0].physical_offset == 460
    assert found[1:4] == units
    assert found[4].kind == "truncated"


def test_extension_units_are_those_of_java(vectors: dict) -> None:
    vector = vectors["consumequeue_ext"]
    data = b""
    for wanted in vector["units"]:
        unit = decode_ext_unit(bytes.fromhex(wanted["hex"]))
        assert unit.tags_code == wanted["tags_code"]
        assert unit.store_timestamp == wanted["store_time"]
        assert unit.bit_map.hex() == wanted["bit_map_hex"]
        assert encode_ext_unit(unit).hex() == wanted["hex"]
        assert ext_address(wanted["file_offset"]) == wanted["address_in_cq"]
        assert ext_offset(wanted["address_in_cq"]) == wanted["file_offset"]
        assert len(data) == wanted["file_offset"]
        data += bytes.fromhex(wanted["hex"])
    for wanted in vector["is_address"]:
        assert is_ext_address(wanted["value"]) == wanted["is_ext_address"]
    assert EXT_END.hex() == vector["end_mark_hex"]
    found = list(scan_ext_units(data + EXT_END + bytes(30), 1000))
    assert [at for at, _ in found] == [1000 + unit["file_offset"] for unit in vector["units"]]


def test_a_broken_extension_unit_ends_its_file() -> None:
    good = encode_ext_unit(ConsumeQueueExtUnit(1, 2, b"abc"))
    found = list(scan_ext_units(good + b"\0\x30" + bytes(40)))
    assert found[0] == (0, ConsumeQueueExtUnit(1, 2, b"abc"))
    assert found[1].kind == "unit"
    with pytest.raises(RemoteProtocolError):
        decode_ext_unit(b"\0\x15" + good[2:])
    with pytest.raises(LocalProtocolError):
        encode_ext_unit(ConsumeQueueExtUnit(0, 0, bytes(32_748)))


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        (b"a" * 255, True),
        (b"a" * 256, False),
        (b"", False),
        (b".", False),
        (b"..", False),
        (b"...", True),
        (b"a/b", False),
        (b"a\0", False),
    ],
)
def test_a_queue_name_is_valid_if_it_can_be_a_directory(name: bytes, valid: bool) -> None:
    assert is_queue_name(name) is valid


def test_a_scan_counts_from_0_unless_the_first_offset_is_given() -> None:
    data = b"".join(encode_unit(100 * n, 10, n) for n in range(1, 4))
    assert [found[0] for found in scan_units(data) if isinstance(found, tuple)] == [0, 1, 2]
    assert [found[0] for found in scan_units(data, 7) if isinstance(found, tuple)] == [7, 8, 9]
