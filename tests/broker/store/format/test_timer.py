"""Timer wheel, timer log, timer checkpoint."""

from collections.abc import Callable

from broker.store.format import timer
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
