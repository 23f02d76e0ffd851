"""The wheel in memory and its file."""

import random
from pathlib import Path

import pytest

from broker.store.format.timer import SLOT_SIZE, decode_slot
from broker.store.logfile.disk import Disk
from broker.store.timer.timer_wheel import Chain, TimerWheel

SLOTS = 64


@pytest.fixture
def wheel(tmp_path: Path) -> TimerWheel:
    return TimerWheel(Disk(), str(tmp_path / "timerwheel"), 1_000, SLOTS)


def test_earliest_slot_is_found_whatever_was_put_and_cleared(
    wheel: TimerWheel, rng: random.Random
) -> None:
    model: dict[int, Chain] = {}
    for _ in range(500):
        time_ms = rng.randrange(40) * 1_000
        if rng.random() < 0.6:
            model[time_ms] = Chain(0, rng.randrange(100), 1)
            wheel.put(time_ms, model[time_ms])
        else:
            model.pop(time_ms, None)
            wheel.clear(time_ms)
        assert wheel.first_time() == min(model, default=None)
        assert wheel.get(time_ms) == model.get(time_ms)
    assert wheel.times() == sorted(model)
    assert wheel.pending == len(wheel) == len(model)


def test_file_has_javas_slots_at_javas_places(wheel: TimerWheel) -> None:
    wheel.put(5_000, Chain(0, 52, 2))
    wheel.put((SLOTS + 7) * 1_000, Chain(104, 104, 1))
    wheel.write(wheel.take_changes())
    data = Path(wheel.path).read_bytes()
    assert len(data) == wheel.length == SLOTS * SLOT_SIZE
    assert decode_slot(data, 5 * SLOT_SIZE) == (5, 0, 52, 2, 0)
    assert decode_slot(data, 7 * SLOT_SIZE) == (SLOTS + 7, 104, 104, 1, 0)
    assert dict(wheel.stored_slots()) == {
        5 * SLOT_SIZE: (5, 0, 52, 2, 0),
        7 * SLOT_SIZE: (SLOTS + 7, 104, 104, 1, 0),
    }
    assert wheel.has_length()


def test_only_changes_are_written(wheel: TimerWheel) -> None:
    assert not wheel.changed
    wheel.write(wheel.take_changes())
    assert not wheel.exists()
    wheel.put(5_000, Chain(0, 0, 1))
    wheel.write(wheel.take_changes())
    assert not wheel.changed
    wheel.clear(5_000)
    wheel.clear(6_000)
    changes = wheel.take_changes()
    assert dict(changes) == {5_000: None}
    wheel.write(changes)
    assert not any(Path(wheel.path).read_bytes())


def test_changes_that_were_not_written_are_kept(wheel: TimerWheel) -> None:
    wheel.put(5_000, Chain(0, 0, 1))
    changes = wheel.take_changes()
    wheel.put(6_000, Chain(52, 52, 1))
    wheel.give_back(changes)
    assert wheel.take_changes().keys() == {5_000, 6_000}


def test_stale_slots_are_erased(wheel: TimerWheel) -> None:
    for second in range(10):
        wheel.put(second * 1_000, Chain(0, 0, 1))
    wheel.write(wheel.take_changes())
    wheel.erase([])
    wheel.erase([position for position, slot in wheel.stored_slots() if slot.time < 8])
    assert [slot.time for _, slot in wheel.stored_slots()] == [8, 9]


def test_removed_file_is_made_again(wheel: TimerWheel) -> None:
    wheel.put(5_000, Chain(0, 0, 1))
    wheel.write(wheel.take_changes())
    wheel.remove_file()
    assert not wheel.exists()
    wheel.put(6_000, Chain(0, 0, 1))
    wheel.write(wheel.take_changes())
    assert wheel.has_length()


def test_restored_slots_are_unchanged(wheel: TimerWheel) -> None:
    wheel.restore({9_000: Chain(0, 0, 1), 3_000: Chain(1, 1, 4)})
    assert wheel.first_time() == 3_000
    assert wheel.pending == 5
    assert not wheel.changed
