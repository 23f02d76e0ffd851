"""Recovery of the timer files: consistent files are used, all others are rebuilt."""

from collections.abc import Callable
from pathlib import Path

import pytest

from broker.common.clock import ManualClock
from broker.store.config import FIELD_OF_KEY
from broker.store.format.timer import (
    LOG_UNIT_SIZE,
    SLOT_SIZE,
    SLOTS,
    TimerCheckpoint,
    decode_timer_checkpoint,
    encode_timer_checkpoint,
)
from broker.store.timer.timer_message import decode_timer_message
from broker.store.timer.timer_recovery import Delivered
from broker.store.timer.timer_wheel import Changes
from tests.support.timers import SMALL, START_MS, Timers


def check_file(timers: Timers) -> Path:
    return Path(timers.config.root) / "config" / "timercheck"


def change_checkpoint(timers: Timers, **changes: int) -> TimerCheckpoint:
    path = check_file(timers)
    checkpoint = decode_timer_checkpoint(path.read_bytes())._replace(**changes)
    path.write_bytes(encode_timer_checkpoint(checkpoint))
    return checkpoint


@pytest.fixture
def stopped(make_timers: Callable[..., Timers]) -> Timers:
    """Ten pending messages, one a second, in a store that was stopped."""
    timers = make_timers()
    for number in range(10):
        timers.send(f"m{number}", 5_500 + 1_000 * number)
    timers.run()
    timers.close()
    return timers


ALL = {f"m{number}": 1 for number in range(10)}


def finish(timers: Timers) -> None:
    timers.open()
    timers.wait(60_000)
    assert timers.delivered() == ALL
    assert timers.timers.wheel.pending == 0


def test_queue_offset_of_java_that_is_ahead_of_the_log_position_is_corrected(
    stopped: Timers,
) -> None:
    """Java stores the log position of the previous flush with the current queue offset."""
    change_checkpoint(stopped, last_timer_log_flush_position=4 * LOG_UNIT_SIZE)
    stopped.open()
    assert stopped.timers.queue_offset == 4
    assert stopped.timers.wheel.pending == 4
    stopped.close()
    finish(stopped)


def test_queue_offset_past_the_queue_is_lowered(stopped: Timers) -> None:
    change_checkpoint(stopped, last_timer_queue_offset=99, master_timer_queue_offset=99)
    stopped.open()
    assert stopped.timers.queue_offset == 10
    stopped.close()
    finish(stopped)


def test_wheel_that_is_ahead_of_its_checkpoint_loses_nothing(
    make_timers: Callable[..., Timers], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The begun slot got another chain at the stop; then the power failed before the checkpoint."""
    timers = make_timers()
    for number in range(6):
        timers.send(f"m{number}", 1_500)
    timers.recall("m5", START_MS + 1_500)
    timers.run()
    timers.persist()
    timers.clock.advance(2_000)
    timers.timers.run(2)
    progress = timers.timers.progress

    def cut(checkpoint: TimerCheckpoint, changes: Changes, metrics: str) -> None:
        progress.timer_log.sync(checkpoint.last_timer_log_flush_position)
        progress.wheel.write(changes)
        raise OSError(5, "power cut")

    monkeypatch.setattr(progress, "write", cut)
    with pytest.raises(OSError, match="power cut"):
        timers.timers.shutdown()
    timers.kill()
    for _ in range(2):
        timers.open()
        timers.kill()
    timers.open()
    timers.wait(0)
    assert timers.delivered() == {f"m{number}": 1 for number in range(5)}


def test_log_position_past_the_log_rebuilds(stopped: Timers) -> None:
    change_checkpoint(stopped, last_timer_log_flush_position=10**6)
    stopped.open()
    assert "ends before" in stopped.notes[0]
    stopped.close()
    finish(stopped)


def test_slot_that_leads_nowhere_rebuilds(stopped: Timers) -> None:
    path = Path(stopped.config.root) / "timerlog" / f"{0:020}"
    data = bytearray(path.read_bytes())
    data[3 * LOG_UNIT_SIZE : 3 * LOG_UNIT_SIZE + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    stopped.open()
    assert "rebuilt" in stopped.notes[0]
    stopped.close()
    finish(stopped)


def test_wheel_of_another_length_rebuilds(stopped: Timers) -> None:
    path = Path(stopped.config.root) / "timerwheel"
    path.write_bytes(path.read_bytes()[:-32])
    stopped.open()
    assert "length" in stopped.notes[0]
    stopped.close()
    finish(stopped)


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("part", ["slot", "file"])
def test_zeros_in_the_wheel_rebuild(stopped: Timers, part: str, killed: bool) -> None:
    wheel = Path(stopped.timers.wheel.path)
    data = bytearray(wheel.read_bytes())
    first = next(at for at, byte in enumerate(data) if byte) // SLOT_SIZE * SLOT_SIZE
    gone = slice(first, first + SLOT_SIZE) if part == "slot" else slice(0, len(data))
    data[gone] = bytes(gone.stop - gone.start)
    wheel.write_bytes(data)
    if killed:
        (Path(stopped.config.root) / "abort").write_bytes(b"")
    stopped.open()
    assert any("the wheel lacks the slot" in note for note in stopped.notes)
    stopped.close()
    finish(stopped)


def test_a_read_time_in_the_future_rebuilds(stopped: Timers) -> None:
    """Slots before the read time count as delivered: a corrupt one would skip pending messages."""
    change_checkpoint(stopped, last_read_time=START_MS + 3_600_000)
    stopped.open()
    assert "is in the future" in stopped.notes[0]
    stopped.close()
    finish(stopped)


@pytest.mark.parametrize("position", range(8))
def test_a_flipped_bit_of_the_read_time_loses_no_message(stopped: Timers, position: int) -> None:
    path = check_file(stopped)
    whole = path.read_bytes()
    for bit in range(8):
        data = bytearray(whole)
        data[position] ^= 1 << bit
        path.write_bytes(data)
        stopped.open()
        assert stopped.timers.wheel.pending + stopped.timers.offset_behind == 10, bit
        stopped.kill()
        path.write_bytes(whole)


@pytest.mark.parametrize("bit", range(8))
def test_flipped_bits_of_the_checkpoint_lose_and_repeat_nothing(stopped: Timers, bit: int) -> None:
    path = check_file(stopped)
    whole = path.read_bytes()
    for position in range(bit, 32, 5):
        data = bytearray(whole)
        data[position] ^= 1 << bit
        path.write_bytes(data)
        stopped.open()
        pending = stopped.timers.wheel.pending + stopped.timers.offset_behind
        assert pending == 10, position
        stopped.kill()
        path.write_bytes(whole)


def test_slots_that_java_left_behind_are_erased(stopped: Timers) -> None:
    """Java does not empty a slot; one whose time is over must not be delivered again."""
    wheel = Path(stopped.config.root) / "timerwheel"
    left = wheel.read_bytes()
    finish(stopped)
    stopped.close()
    wheel.write_bytes(left)
    stopped.open()
    assert stopped.timers.wheel.pending == 0
    assert list(stopped.timers.wheel.stored_slots()) == []
    stopped.wait(1_000)
    assert stopped.delivered() == ALL


def test_store_of_a_java_broker_is_continued(golden_store: Callable[..., Path]) -> None:
    """Messages pending in Java are delivered when due; delivered ones are not repeated."""
    folder = golden_store("delay-533", copy=True)
    checkpoint = decode_timer_checkpoint((folder / "store/config/timercheck").read_bytes())
    sizes = {
        field: int(value)
        for line in (folder / "broker.conf").read_text().splitlines()
        for key, _, value in [line.partition("=")]
        if (field := FIELD_OF_KEY.get(key)) in SMALL
    }
    clock = ManualClock(checkpoint.last_read_time)
    timers = Timers(str(folder / "store"), clock=clock, file_reserved_time=100_000, **sizes)
    timers.slots = SLOTS
    timers.open()
    assert timers.notes == []
    before = timers.delivered("LaterA")
    pending = timers.timers.wheel.pending
    assert pending == timers.timers.metrics.topics["LaterA"].count == 8
    slots = timers.timers.wheel.times()
    timers.wait(3 * 86_400_000)
    after = timers.delivered("LaterA")
    assert (after - before).total() == pending
    assert set(after.values()) == {1}
    assert min(slots) >= checkpoint.last_read_time
    assert timers.timers.metrics.topics["LaterA"].count == 0
    timers.close()


def test_metrics_are_counted_again_after_a_kill(make_timers: Callable[..., Timers]) -> None:
    timers = make_timers()
    timers.send("a", 5_500)
    timers.send("b", 5_500)
    timers.recall("b", START_MS + 5_500)
    timers.run()
    timers.persist()
    timers.kill()
    metrics = Path(timers.config.root) / "config" / "timermetrics"
    metrics.write_text("{")
    timers.open()
    assert timers.timers.metrics.topics["Orders"].count == 1
    assert any("timermetrics" in note for note in timers.notes)


def test_store_without_timers_has_no_timer_files(make_timers: Callable[..., Timers]) -> None:
    timers = make_timers()
    timers.send("a")
    timers.run()
    timers.close()
    names = {path.name for path in Path(timers.config.root).rglob("*")}
    assert not names & {"timerwheel", "timerlog", "timercheck", "timermetrics"}


def test_each_copy_counts_once(make_timers: Callable[..., Timers]) -> None:
    timers = make_timers()
    timers.send("a", 5_500)
    record = timers.store.get_record_at(0)
    assert record is not None
    message = decode_timer_message(record)
    delivered = Delivered()
    assert not delivered
    delivered.add(message, b"Orders")
    delivered.add(message, b"Orders")
    assert [delivered.take(message) for _ in range(3)] == [True, True, False]
    assert not delivered
    delivered.add(message, b"Orders")
    delivered.clear()
    assert not delivered.take(message)


def test_a_damaged_copy_is_delivered_again(make_timers: Callable[..., Timers]) -> None:
    """A power failure kept a record after the copy, but not the copy: consumers cannot read it."""
    timers = make_timers()
    timers.send("m0", 1_500)
    timers.run()
    timers.persist()
    timers.clock.advance(3_000)
    timers.run()
    assert timers.delivered() == {"m0": 1}
    copy = timers.messages()[0].physical_offset
    timers.send("m1")
    timers.run()
    timers.kill()
    root = Path(timers.config.root)
    path = root / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[data.index(b"m0", copy)] ^= 1
    path.write_bytes(data)
    (root / "abort").write_bytes(b"1\n")
    timers.open()
    assert timers.store.reader.damaged
    timers.wait(10_000)
    assert [message.body for message in timers.messages()] == [b"m1", b"m0"]
