"""Group commit, asynchronous flush, failed syncs, the checkpoint."""

import queue
import threading
from pathlib import Path

import msgspec
import pytest

from broker.errors import DiskFullError
from broker.store.faults.handler import FaultHandler
from broker.store.faults.running_flags import RunningFlags
from broker.store.flushing import flush
from broker.store.flushing.flush import StoreCheckpoint
from broker.store.format.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from broker.store.logfile.disk import Disk
from broker.store.message_store import PutMessageStatus

P = PutMessageStatus
WAIT = 20  # seconds; only a broken test waits so long


class GatedDisk(Disk):
    """A disk where the syncs of the CommitLog wait at a gate, and are counted."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.syncing = threading.Event()
        self.synced: list[str] = []
        self.syncs = 0
        self.error: OSError | None = None
        self.paths: dict[int, str] = {}

    def open(self, path, **options):
        fd = super().open(path, **options)
        self.paths[fd] = str(path)
        return fd

    def sync_data(self, fd):
        if "/commitlog/" not in self.paths.get(fd, ""):
            # Queues, index and checkpoint are synced by other threads, at times of their own.
            super().sync_data(fd)
            return
        self.syncs += 1
        self.synced.append(self.paths[fd])
        self.syncing.set()
        assert self.gate.wait(WAIT)
        if self.error is not None:
            raise self.error
        super().sync_data(fd)


class Waits:
    """Callbacks of await_flush, to be waited for."""

    def __init__(self) -> None:
        self.got: list[PutMessageStatus] = []
        self.changed = threading.Condition()

    def __call__(self, status: PutMessageStatus) -> None:
        with self.changed:
            self.got.append(status)
            self.changed.notify_all()

    def wait(self, count: int) -> list[PutMessageStatus]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.got) >= count, WAIT)
            return self.got


@pytest.fixture
def gated() -> GatedDisk:
    return GatedDisk()


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture(autouse=True)
def only_waits_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that close the gate decide when a flush begins; see :func:`group_commit`."""
    monkeypatch.setattr(flush, "GROUP_COMMIT_SECONDS", 3_600)


@pytest.fixture
def group_commit(monkeypatch: pytest.MonkeyPatch, only_waits_flush: None) -> None:
    """A put without a waiter is flushed by the timer."""
    monkeypatch.setattr(flush, "GROUP_COMMIT_SECONDS", 0.001)


@pytest.fixture
def sync_store(stores, gated):
    return stores.start(stores.config(flush_disk_type="SYNC_FLUSH"), disk=gated)


def test_an_answer_follows_the_flush(sync_store, inner, waits, gated):
    result = sync_store.put_message(inner())
    sync_store.worker.drain()
    gated.gate.clear()
    gated.syncing.clear()
    sync_store.await_flush(result.physical_end, waits)
    assert gated.syncing.wait(WAIT)
    assert waits.got == []
    gated.gate.set()
    assert waits.wait(1) == [P.PUT_OK]
    assert sync_store.flushed_where >= result.physical_end


def test_a_flushed_put_is_answered_at_once(sync_store, inner, waits):
    result = sync_store.put_message(inner())
    assert sync_store.flush()
    sync_store.await_flush(result.physical_end, waits)
    assert waits.got == [P.PUT_OK]


def test_one_sync_serves_all_that_wait(sync_store, inner, waits, gated):
    first = sync_store.put_message(inner())
    sync_store.worker.drain()  # the next file is synced when it is made
    gated.gate.clear()
    gated.syncing.clear()
    sync_store.await_flush(first.physical_end, waits)
    assert gated.syncing.wait(WAIT)
    for _ in range(20):
        sync_store.await_flush(sync_store.put_message(inner()).physical_end, waits)
    gated.gate.set()
    assert waits.wait(21) == [P.PUT_OK] * 21
    # Tickets of the first sync's duration share the next; none waits for a third.
    assert sync_store.flusher.syncs == 2


def test_a_turn_starts_one_flush(stores, inner, waits, gated):
    turn = []
    config = stores.config(flush_disk_type="SYNC_FLUSH")
    store = stores.start(config, disk=gated, defer=turn.append)
    gated.syncs = 0
    for _ in range(5):
        store.await_flush(store.put_message(inner()).physical_end, waits)
    assert gated.syncs == 0
    assert len(turn) == 1
    turn.pop()()
    assert waits.wait(5) == [P.PUT_OK] * 5


class Posted:
    """Calls that the flushing thread hands over, run in the test's thread."""

    def __init__(self) -> None:
        self._calls: queue.Queue = queue.Queue()

    def __call__(self, call) -> None:
        self._calls.put(call)

    def run_one(self) -> None:
        self._calls.get(timeout=WAIT)()


def test_a_put_without_a_waiter_is_flushed_and_dispatched(stores, inner, gated, group_commit):
    posted = Posted()
    config = stores.config(flush_disk_type="SYNC_FLUSH")
    store = stores.start(config, disk=gated, notify=posted)
    arrived = []
    store.add_arriving_listener(lambda *arrival: arrived.append(arrival[0]))
    for count in (1, 2, 3):
        result = store.put_message(inner())
        posted.run_one()
        assert store.flushed_where == result.physical_end
        assert store.get_max_offset("TopicA", 0) == count
        assert len(arrived) == count


def test_puts_without_a_waiter_share_a_sync(stores, inner, gated, group_commit):
    posted = Posted()
    config = stores.config(flush_disk_type="SYNC_FLUSH")
    store = stores.start(config, disk=gated, notify=posted)
    store.put_message(inner(body=bytes(10)))
    store.worker.drain()
    posted.run_one()
    gated.gate.clear()
    gated.syncing.clear()
    gated.syncs = 0
    store.put_message(inner())
    assert gated.syncing.wait(WAIT)
    for _ in range(10):
        last = store.put_message(inner())
    gated.gate.set()
    posted.run_one()
    posted.run_one()
    assert store.flushed_where == last.physical_end
    assert gated.syncs == 2


def test_a_wait_ends_the_group_commit_interval(stores, inner, gated, waits):
    store = stores.start(stores.config(flush_disk_type="SYNC_FLUSH"), disk=gated)
    store.put_message(inner())
    result = store.put_message(inner())
    store.await_flush(result.physical_end, waits)
    assert waits.wait(1) == [P.PUT_OK]
    assert store.flushed_where == result.physical_end


def test_a_put_after_the_wait_of_its_turn_is_flushed_too(stores, inner, gated, waits, group_commit):
    """The flush of an earlier turn may serve the wait before the put is there."""
    turn, posted = [], Posted()
    config = stores.config(flush_disk_type="SYNC_FLUSH")
    store = stores.start(config, disk=gated, defer=turn.append, notify=posted)
    store.await_flush(store.put_message(inner()).physical_end, waits)
    assert store.flush()
    last = store.put_message(inner())
    turn.pop()()
    while store.flushed_where < last.physical_end or store.get_max_offset("TopicA", 0) < 2:
        posted.run_one()
    assert waits.got == [P.PUT_OK]


def test_data_flushed_by_another_thread_is_dispatched(stores, inner, gated, group_commit):
    posted = Posted()
    config = stores.config(flush_disk_type="SYNC_FLUSH")
    store = stores.start(config, disk=gated, notify=posted)
    store.put_message(inner())
    assert store.flusher.flush()
    posted.run_one()
    assert store.get_max_offset("TopicA", 0) == 1


def test_callbacks_run_through_notify_after_dispatch(stores, inner, gated):
    posted, ready = [], threading.Event()

    def notify(fn):
        posted.append(fn)
        ready.set()

    config = stores.config(flush_disk_type="SYNC_FLUSH")
    store = stores.start(config, disk=gated, notify=notify)
    seen = []
    result = store.put_message(inner())
    store.await_flush(
        result.physical_end,
        lambda status: seen.append((status, store.get_max_offset("TopicA", 0))),
    )
    assert ready.wait(WAIT)
    assert seen == []
    for fn in posted:
        fn()
    # Whoever reads the answer finds the message.
    assert seen == [(P.PUT_OK, 1)]


def test_a_listener_that_raises_loses_no_callback(stores, inner, gated, caplog):
    calls = queue.Queue()
    store = stores.start(stores.config(flush_disk_type="SYNC_FLUSH"), disk=gated, notify=calls.put)
    waits = Waits()

    def fail() -> None:
        raise ValueError("listener")

    store.flusher.on_flushed = fail
    store.await_flush(store.put_message(inner()).physical_end, waits)
    while not waits.got:
        calls.get(timeout=WAIT)()
    assert waits.got == [P.PUT_OK]
    assert "the listener of flushes failed" in caplog.text


def test_a_callback_that_raises_loses_no_other_callback(stores, inner, gated, caplog):
    calls = queue.Queue()
    store = stores.start(stores.config(flush_disk_type="SYNC_FLUSH"), disk=gated, notify=calls.put)
    waits = Waits()

    def fail(status: PutMessageStatus) -> None:
        raise ValueError("callback")

    end = store.put_message(inner()).physical_end
    gated.gate.clear()
    store.await_flush(end, fail)
    store.await_flush(end, waits)
    gated.gate.set()
    while not waits.got:
        calls.get(timeout=WAIT)()
    assert waits.got == [P.PUT_OK]
    assert f"the flush callback of physical offset {end} failed" in caplog.text


def test_a_roll_syncs_the_old_file_first(stores, inner, gated):
    store = stores.start(stores.config(flush_disk_type="SYNC_FLUSH"), disk=gated)
    store.put_message(inner(body=bytes(3000)))
    store.worker.drain()
    result = store.put_message(inner(body=bytes(3000)))
    old, new = store.log.files.files
    gated.synced.clear()
    assert store.flush()
    # the next file may be prepared meanwhile
    assert [path for path in gated.synced if path in (old.path, new.path)] == [old.path, new.path]
    assert store.flushed_where == result.physical_end


class AdvisedDisk(Disk):
    """Counts the advice for the mappings of a store."""

    def __init__(self) -> None:
        self.advice: list[tuple[str, int]] = []

    def expect_single_pages(self, mapping, start):
        super().expect_single_pages(mapping, start)
        self.advice.append(("writes", id(mapping)))

    def expect_reads(self, mapping):
        super().expect_reads(mapping)
        self.advice.append(("reads", id(mapping)))


def advice_about(disk: AdvisedDisk, *mappings: int) -> list[tuple[str, int]]:
    return [one for one in disk.advice if one[1] in mappings]


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_file_of_the_log_reads_ahead_after_its_last_write(stores, inner, flush):
    disk = AdvisedDisk()
    store = stores.start(stores.config(flush_disk_type=flush), disk=disk)
    for _ in range(2):
        store.put_message(inner(body=bytes(100)))
        assert store.flush()
    store.put_message(inner(body=bytes(3000)))
    store.put_message(inner(body=bytes(3000)))
    assert store.flush()
    old, new = (id(file.mapping) for file in store.log.files.files)
    assert advice_about(disk, old, new) == [
        ("writes", old),
        ("writes", new),
        ("reads", old),
    ]


def test_a_failed_sync_ends_all_acknowledgements(sync_store, stores, inner, waits, gated):
    kept = sync_store.put_message(inner(body=b"kept"))
    assert sync_store.flush()
    gated.error = OSError(5, "Input/output error")
    lost = sync_store.put_message(inner(body=b"doubtful"))
    sync_store.await_flush(lost.physical_end, waits)
    assert waits.wait(1) == [P.FLUSH_DISK_TIMEOUT]
    gated.error = None
    # The kernel may have thrown the pages away: a later sync that works proves nothing.
    assert sync_store.flush() is False
    sync_store.await_flush(lost.physical_end, waits)
    assert waits.got == [P.FLUSH_DISK_TIMEOUT] * 2
    refused = sync_store.put_message(inner())
    assert refused.status is P.SERVICE_NOT_AVAILABLE
    assert "Input/output error" in refused.remark
    assert not sync_store.writable
    assert "Input/output error" in sync_store.not_writable_reason
    # Reads continue, of flushed data.
    assert sync_store.get_message("TopicA", 0, 0).message_count == 1
    assert sync_store.get_record_at(kept.physical_offset) is not None
    stores.close(sync_store)
    assert (stores.root / "abort").exists()
    store = stores.start()
    assert not store.report.clean
    assert store.writable


def test_a_failed_asynchronous_sync_stops_writes(stores, inner, faulty_disk):
    store = stores.start(disk=faulty_disk)
    store.put_message(inner())
    faulty_disk.fail["sync_data"] = OSError(5, "Input/output error")
    assert store.flush() is False
    assert store.put_message(inner()).status is P.SERVICE_NOT_AVAILABLE


def test_nothing_lifts_the_refusal_of_a_failed_sync(stores, inner, faulty_disk, monkeypatch):
    """Not the end of a full disk either, whenever the sync fails."""
    store = stores.start(disk=faulty_disk)
    store.put_message(inner(body=bytes(3000)))
    store.worker.drain()
    store.log.preparer.discard()
    faulty_disk.fail["reserve"] = DiskFullError("commitlog/x: No space left on device")
    assert store.put_message(inner(body=bytes(3000))).status is P.SERVICE_NOT_AVAILABLE
    del faulty_disk.fail["reserve"]
    ready = store.log.ready

    def failing_meanwhile() -> None:
        ready()
        faulty_disk.fail["sync_data"] = OSError(5, "Input/output error")
        assert store.flusher.flush() is False
        del faulty_disk.fail["sync_data"]

    monkeypatch.setattr(store.log, "ready", failing_meanwhile)
    for _ in range(3):
        stores.clock.advance(1_000)
        refused = store.put_message(inner())
        assert refused.status is P.SERVICE_NOT_AVAILABLE
        assert "Input/output error" in refused.remark
        store.clean_expired()
        assert not store.writable


@pytest.mark.parametrize(
    ("flush_type", "method"),
    [("ASYNC_FLUSH", "_run"), ("SYNC_FLUSH", "_run"), ("SYNC_FLUSH", "_watch")],
)
def test_a_flush_thread_that_dies_ends_all_acknowledgements(
    stores, inner, waits, monkeypatch, flush_type, method
):
    died, go = threading.Event(), threading.Event()

    def die(self) -> None:
        assert go.wait(WAIT)
        raise OverflowError("timestamp too large to convert to C PyTime_t")

    monkeypatch.setattr(flush.FlushService, method, die)
    report = FaultHandler.background_died

    def on_died(self, reason: str) -> None:
        report(self, reason)
        died.set()

    monkeypatch.setattr(FaultHandler, "background_died", on_died)
    store = stores.start(stores.config(flush_disk_type=flush_type))
    result = store.put_message(inner())
    if method == "_run":
        store.await_flush(result.physical_end, waits)
    go.set()
    if method == "_run":
        assert waits.wait(1) == [P.FLUSH_DISK_TIMEOUT]
    assert died.wait(WAIT)
    refused = store.put_message(inner())
    assert refused.status is P.SERVICE_NOT_AVAILABLE
    assert "store-flush" in refused.remark
    assert "OverflowError" in refused.remark
    store.await_flush(result.physical_end + 1, waits)
    assert waits.got[-1] is P.FLUSH_DISK_TIMEOUT


def test_a_flush_that_hangs_is_a_timeout(sync_store, inner, waits, gated):
    first = sync_store.put_message(inner())
    sync_store.worker.drain()
    gated.gate.clear()
    gated.syncing.clear()
    sync_store.await_flush(first.physical_end, waits)
    assert gated.syncing.wait(WAIT)
    second = sync_store.put_message(inner())
    sync_store.await_flush(second.physical_end, waits)
    import time

    now = time.monotonic()
    sync_store.flusher.expire(now + 4)
    assert waits.got == []
    sync_store.flusher.expire(now + 6)
    assert waits.got == [P.FLUSH_DISK_TIMEOUT] * 2
    gated.gate.set()
    # The message is stored; a late success is not answered a second time.
    assert sync_store.flush()
    assert waits.got == [P.FLUSH_DISK_TIMEOUT] * 2


def test_a_stop_answers_those_who_wait(stores, inner, waits, gated):
    turn = []
    config = stores.config(flush_disk_type="SYNC_FLUSH")
    store = stores.start(config, disk=gated, defer=turn.append)
    store.await_flush(store.put_message(inner()).physical_end, waits)
    stores.close(store)
    assert len(waits.got) == 1


def test_an_idle_store_syncs_nothing(stores, inner, gated):
    config = stores.config(flush_interval_commit_log=1, flush_commit_log_least_pages=0)
    store = stores.start(config, disk=gated)
    store.put_message(inner())
    assert gated.syncing.wait(WAIT)
    assert store.flush()
    before = gated.syncs
    store.flusher.set_config(config)  # starts a round of the thread
    store.flusher.stop()  # returns after that round
    assert gated.syncs == before


def test_asynchronous_flush_comes_by_itself(stores, inner, waits):
    config = stores.config(flush_interval_commit_log=1, flush_commit_log_least_pages=0)
    store = stores.start(config)
    result = store.put_message(inner())
    store.await_flush(result.physical_end, waits)
    assert waits.wait(1) == [P.PUT_OK]
    assert store.flushed_where == result.physical_end


def test_queue_flushes_have_one_timer(stores, inner, monkeypatch):
    """Whoever asks while one is pending, and whatever becomes dirty during a flush."""
    store = stores.load()
    timers = []
    monkeypatch.setattr(store.worker, "run_later", lambda delay_ms, job: timers.append(job))
    store.start()
    for number in range(50):
        stores.clock.advance(60_000)  # every flush is a thorough one: no queue stays dirty
        store.put_message(inner(queue_id=number % 3))
        if number % 5 == 0 and timers:
            # A unit is written between the flush's look at the queues and its end.
            sync = store.queue_table.sync

            def sync_then_put(least_pages, sync=sync) -> None:
                sync(least_pages)
                store.put_message(inner())
                store.put_message(inner(queue_id=1))

            with monkeypatch.context() as patched:
                patched.setattr(store.queue_table, "sync", sync_then_put)
                timers.pop(0)()
        assert len(timers) == 1


def test_a_shorter_interval_takes_effect_at_once(stores, inner, gated):
    config = stores.config(flush_interval_commit_log=3_600_000, flush_commit_log_least_pages=0)
    store = stores.start(config, disk=gated)
    store.worker.drain()
    store.put_message(inner())
    store.worker.drain()  # the next file is synced when it is made
    gated.syncing.clear()
    store.set_config(msgspec.structs.replace(config, flush_interval_commit_log=1))
    assert gated.syncing.wait(WAIT)


# --- checkpoint -----------------------------------------------------------------------------------


def checkpoint_of(root: Path) -> Checkpoint:
    return decode_checkpoint((root / "checkpoint").read_bytes())


def test_a_clean_stop_writes_the_times_of_the_last_message(stores, inner):
    store = stores.start()
    store.put_message(inner())
    stores.clock.advance(500)
    last = store.put_message(inner()).store_timestamp
    stores.close(store)
    assert checkpoint_of(stores.root)[:3] == (last, last, 0)


def test_the_index_time_is_that_of_the_last_full_file(stores, inner):
    store = stores.start()
    for n in range(60):
        store.put_message(inner(properties={"KEYS": f"k{n}"}))
        stores.clock.advance(10)
    store.worker.drain()
    assert store.checkpoint.value.index_msg_timestamp == store.index.files[0].end_timestamp
    stores.close(store)
    assert checkpoint_of(stores.root).index_msg_timestamp == store.index.files[0].end_timestamp


def test_the_checkpoint_is_never_ahead_of_the_disk(stores, inner):
    store = stores.start()
    first = store.put_message(inner()).store_timestamp
    assert store.flush()
    stores.clock.advance(1000)
    store.put_message(inner())
    assert store.checkpoint.value.physic_msg_timestamp == first
    assert store.checkpoint.value.logics_msg_timestamp == 0
    store.queue_flush.sync(thorough=True)
    assert store.checkpoint.value.logics_msg_timestamp == first + 1000


def test_a_broken_checkpoint_counts_as_empty(tmp_path):
    path = tmp_path / "checkpoint"
    path.write_bytes(b"short")
    notes = []
    checkpoint = StoreCheckpoint(Disk(), str(path), RunningFlags())
    checkpoint.load(notes)
    assert checkpoint.value == Checkpoint()
    assert len(notes) == 1


def test_a_truncated_checkpoint_is_written_at_its_full_length(tmp_path):
    path = tmp_path / "checkpoint"
    path.write_bytes(encode_checkpoint(Checkpoint(5, 5, 5))[:-1])
    checkpoint = StoreCheckpoint(Disk(), str(path), RunningFlags())
    checkpoint.load([])
    checkpoint.flush()
    assert path.read_bytes() == encode_checkpoint(Checkpoint(5, 5, 5))


def test_an_unchanged_checkpoint_is_not_written(tmp_path, faulty_disk):
    checkpoint = StoreCheckpoint(faulty_disk, str(tmp_path / "checkpoint"), RunningFlags())
    checkpoint.set_physic(5)
    checkpoint.flush()
    calls = len(faulty_disk.calls)
    checkpoint.flush()
    assert len(faulty_disk.calls) == calls
