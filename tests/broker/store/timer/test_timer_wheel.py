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


def test_a_slot_of_the_next_round_replaces_the_one_at_its_place(wheel: TimerWheel) -> None:
    """Both are changes of one write: the earlier time is written first."""
    later = (SLOTS + 5) * 1_000
    wheel.put(5_000, Chain(0, 0, 1))
    wheel.clear(5_000)
    wheel.put(later, Chain(52, 52, 3))
    wheel.write(wheel.take_changes())
    assert [slot.time for _, slot in wheel.stored_slots()] == [SLOTS + 5]


def test_a_change_after_a_failed_write_wins_over_the_one_given_back(wheel: TimerWheel) -> None:
    wheel.put(5_000, Chain(0, 0, 1))
    wheel.put(6_000, Chain(0, 0, 1))
    failed = wheel.take_changes()
    wheel.put(5_000, Chain(0, 52, 2))
    wheel.clear(6_000)
    wheel.give_back(failed)
    assert dict(wheel.take_changes()) == {5_000: Chain(0, 52, 2), 6_000: None}


def test_a_model_of_writes_and_restarts(tmp_path: Path, rng: random.Random) -> None:
    """After each write a wheel restored from the file has the slots of the dictionary."""
    path = str(tmp_path / "timerwheel")
    wheel = TimerWheel(Disk(), path, 1_000, SLOTS)
    model: dict[int, Chain] = {}
    now = 0
    for _ in range(120):
        for _ in range(rng.randrange(6)):
            time_ms = (now + rng.randrange(SLOTS - 1)) * 1_000
            if rng.random() < 0.7:
                model[time_ms] = Chain(rng.randrange(99), rng.randrange(99), rng.randint(1, 9))
                wheel.put(time_ms, model[time_ms])
            else:
                model.pop(time_ms, None)
                wheel.clear(time_ms)
        for time_ms in [one for one in model if one < now * 1_000]:
            del model[time_ms]
            wheel.clear(time_ms)
        changes = wheel.take_changes()
        if rng.random() < 0.2:
            wheel.give_back(changes)
            changes = wheel.take_changes()
        wheel.write(changes)
        now += rng.randrange(3)
        again = TimerWheel(Disk(), path, 1_000, SLOTS)
        if again.exists():
            again.restore(
                {
                    slot.time * 1_000: Chain(slot.first_position, slot.last_position, slot.number)
                    for _, slot in again.stored_slots()
                }
            )
        assert {time_ms: again.get(time_ms) for time_ms in again.times()} == model
        assert (again.first_time(), again.pending) == (wheel.first_time(), wheel.pending)


def test_a_file_of_another_length_is_read_to_its_last_whole_slot(wheel: TimerWheel) -> None:
    """A tail shorter than a slot is not one; reading ends there."""
    wheel.put(5_000, Chain(0, 52, 2))
    wheel.write(wheel.take_changes())
    path = Path(wheel.path)
    path.write_bytes(path.read_bytes() + b"\xff" * 7)
    assert not wheel.has_length()
    assert [slot.time for _, slot in wheel.stored_slots()] == [5]
    path.write_bytes(path.read_bytes()[: 5 * SLOT_SIZE + 9])
    assert list(wheel.stored_slots()) == []
