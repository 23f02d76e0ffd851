"""DispatchScheduler: one flush request and one dispatch per turn, for single puts and batches."""

import struct

import pytest

from broker.errors import DiskFullError
from broker.store.message_store import PutMessageStatus as P


@pytest.fixture
def turn():
    """The functions deferred to the end of the turn."""
    return []


@pytest.fixture
def store(stores, turn):
    return stores.start(defer=turn.append)


def test_puts_and_batches_of_one_turn_share_one_dispatch(store, inner, turn):
    store.put_message(inner())
    store.put_messages([inner(), inner()])
    store.put_message(inner())
    assert len(turn) == 1
    turn.pop()()
    assert store.get_max_offset("TopicA", 0) == 4


def test_a_batch_schedules_once_and_leaves_later_puts_scheduled(store, inner, turn):
    store.put_messages([inner(), inner()])
    assert store.scheduler.scheduled
    turn.pop()()
    assert not store.scheduler.scheduled
    assert store.get_max_offset("TopicA", 0) == 2


def test_a_batch_with_an_illegal_number_is_not_stored_in_part(store, inner, turn):
    wrong = inner()
    wrong.flag = 1 << 40
    with pytest.raises(struct.error):
        store.put_messages([inner(), wrong])
    assert turn == []
    assert store.put_message(inner()).queue_offset == 0


def test_a_batch_that_fails_in_the_middle_dispatches_its_stored_part(
    store, inner, turn, monkeypatch
):
    appended = []

    def append(*args, real=store.log.append):
        if appended:
            raise OSError("no more")
        appended.append(args)
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(store.log, "append", append)
        with pytest.raises(OSError, match="no more"):
            store.put_messages([inner(), inner()])
    turn.pop()()
    assert store.get_max_offset("TopicA", 0) == 1
    assert store.put_message(inner()).queue_offset == 1


def test_nested_pauses_schedule_at_the_outermost_resume(store, inner, turn):
    outer = store.scheduler.pause()
    store.put_messages([inner()])
    assert turn == []
    store.scheduler.resume(outer)
    assert len(turn) == 1


def test_a_retry_after_a_full_disk_dispatches_the_waiting_records(
    stores, store, inner, turn, monkeypatch
):
    store.put_message(inner())

    def full(limit, most=None):
        raise DiskFullError("consumequeue/x: no space")

    with monkeypatch.context() as patch:
        patch.setattr(store.reput, "run", full)
        turn.pop()()
    assert not store.writable
    assert not store.scheduler.retry_allocation()
    stores.clock.advance(1_000)
    assert store.scheduler.retry_allocation()
    assert store.get_max_offset("TopicA", 0) == 1


def test_without_defer_each_put_is_dispatched_at_once(stores, inner):
    store = stores.start()
    assert store.put_message(inner()).status is P.PUT_OK
    assert store.get_max_offset("TopicA", 0) == 1
    assert store.dispatch_behind_bytes == 0


@pytest.mark.parametrize("waits", [True, False])
def test_a_turn_wakes_the_flusher_once(stores, inner, turn, monkeypatch, waits):
    """Also if its puts wait for the flush only after the end of the turn is scheduled."""
    store = stores.start(stores.config(flush_disk_type="SYNC_FLUSH"), defer=turn.append)
    calls = []
    monkeypatch.setattr(store.flusher, "wake", lambda: calls.append("wake"))
    monkeypatch.setattr(store.flusher, "touched", lambda: calls.append("touched"))
    result = store.put_message(inner())
    if waits:
        turn.append(lambda: store.await_flush(result.physical_end, lambda status: None))
    while turn:
        turn.pop(0)()
    assert calls == ["wake" if waits else "touched"]
    monkeypatch.undo()
    assert store.flush()
