"""Timer wheel, timer log, timer checkpoint."""

from collections.abc import Callable
from pathlib import Path

import pytest

from broker.errors import RemoteProtocolError
from broker.store.format import timer
from broker.store.format.table import Layout
from broker.store.format.timer import (
    TimerCheckpoint,
    TimerLogUnit,
    TimerSlot,
    decode_log_unit,
    decode_slot,
    decode_timer_checkpoint,
    encode_log_blank,
    encode_log_unit,
    encode_slot,
    encode_timer_checkpoint,
    slot_position,
)


def test_slots_are_those_of_java(vectors: dict) -> None:
    vector = vectors["timer"]["slot"]
    slot = TimerSlot(
        vector["time_ms"] // vector["precision_ms"],
        vector["first_pos"],
        vector["last_pos"],
        vector["num"],
        vector["magic"],
    )
    assert encode_slot(slot).hex() == vector["hex"]
    assert decode_slot(bytes.fromhex(vector["hex"])) == slot
    assert slot_position(vector["time_ms"]) == vector["file_offset"]
    assert vectors["timer"]["wheel_file_length"] == timer.SLOTS * timer.SLOT_SIZE


def test_log_units_are_those_of_java(vectors: dict) -> None:
    for vector in vectors["timer"]["log_unit"]:
        unit = TimerLogUnit(*vector["fields"].values())
        assert encode_log_unit(unit).hex() == vector["hex"]
        assert decode_log_unit(bytes.fromhex(vector["hex"])) == unit
    blank = vectors["timer"]["log_blank"]
    assert encode_log_blank(blank["left"]).hex() == blank["hex"]


def test_the_checkpoint_is_that_of_java(vectors: dict) -> None:
    value = TimerCheckpoint(*vectors["timer"]["timercheck"].values())
    data = encode_timer_checkpoint(value)
    assert data[:56].hex() == vectors["timer"]["timercheck_first_56_bytes_hex"]
    assert len(data) == 4096
    assert decode_timer_checkpoint(data) == value


def test_truncated_input_is_refused(every_cut: Callable[..., list[int]], vectors: dict) -> None:
    assert every_cut(decode_slot, bytes(32)) == []
    unit = bytes.fromhex(vectors["timer"]["log_unit"][0]["hex"])
    assert every_cut(decode_log_unit, unit) == []
    assert every_cut(decode_timer_checkpoint, bytes(56)) == []


@pytest.mark.parametrize("name", ["delay-533", "pop-533"])
def test_files_of_a_java_broker_are_encoded_back_to_their_bytes(
    golden_store: Callable[..., Path], name: str
) -> None:
    root = golden_store(name) / "store"
    check = (root / "config" / "timercheck").read_bytes()
    checkpoint = decode_timer_checkpoint(check)
    assert encode_timer_checkpoint(checkpoint) == check
    log = b"".join(path.read_bytes() for path in sorted((root / "timerlog").iterdir()))
    units = 0
    for position in range(0, checkpoint.last_timer_log_flush_position, timer.LOG_UNIT_SIZE):
        unit = decode_log_unit(log, position)
        assert encode_log_unit(unit) == log[position : position + timer.LOG_UNIT_SIZE]
        assert unit.previous_position < position
        units += 1
    assert units >= 16
    wheel = (root / "timerwheel").read_bytes()
    assert len(wheel) == timer.SLOTS * timer.SLOT_SIZE
    empty = bytes(timer.SLOT_SIZE)
    for position in range(0, len(wheel), timer.SLOT_SIZE):
        data = wheel[position : position + timer.SLOT_SIZE]
        if data == empty:
            continue
        slot = decode_slot(wheel, position)
        assert encode_slot(slot) == data
        assert slot_position(slot.time * timer.PRECISION_MS) == position
        last = decode_log_unit(log, slot.last_position)
        assert last.current_write_time + last.delayed_ms == slot.time * timer.PRECISION_MS


@pytest.mark.parametrize("field", range(9))
def test_each_bit_of_a_log_unit_counts(vectors: dict, field: int) -> None:
    """A flipped size is refused, any other flipped bit changes the decoded unit."""
    whole = bytes.fromhex(vectors["timer"]["log_unit"][1]["hex"])
    starts = [0, 4, 12, 16, 24, 28, 36, 40, 44, 52]
    for bit in range(8 * (starts[field + 1] - starts[field])):
        data = bytearray(whole)
        data[starts[field] + bit // 8] ^= 1 << bit % 8
        if field == 0:
            with pytest.raises(RemoteProtocolError):
                decode_log_unit(data)
        else:
            changed = [
                a != b for a, b in zip(decode_log_unit(data), decode_log_unit(whole), strict=True)
            ]
            assert changed == [number == field for number in range(9)]


@pytest.mark.parametrize(
    ("layout", "size"),
    [(timer.SLOT, 32), (timer.LOG_UNIT, 52), (timer.LOG_BLANK, 16), (timer.CHECKPOINT, 56)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_layouts_have_the_size_of_java(layout: Layout, size: int) -> None:
    assert layout.size == size
