"""The events a send waits for, and the result when flush and copies differ."""

import asyncio

import pytest

from broker.server.ha.durability import PutDurability
from broker.server.ha.replica_policy import ReplicaPolicy
from broker.store.results import PutMessageStatus

OK = PutMessageStatus.PUT_OK
DISK = PutMessageStatus.FLUSH_DISK_TIMEOUT
SLAVE = PutMessageStatus.FLUSH_SLAVE_TIMEOUT


class Waits:
    """A store and an HA service that keep the callbacks."""

    def __init__(self, *, sync_flush: bool) -> None:
        self.sync_flush = sync_flush
        self.callbacks = {}

    def await_flush(self, physical_end, callback) -> None:
        self.callbacks["flush"] = callback

    flushed_where = 0
    replicas = 1

    def in_sync(self, max_gap_bytes) -> int:
        return self.replicas

    def is_copied(self, physical_end, needed, first_end=None) -> bool:
        return needed <= self.replicas and physical_end <= 100

    def await_replicas(self, physical_end, needed, callback, first_end=None) -> None:
        self.callbacks["copy"] = callback


@pytest.mark.parametrize(
    ("sync_flush", "needed", "expected"),
    [
        (True, 1, {"flush"}),
        (False, 2, {"copy"}),
        (True, 2, {"flush", "copy"}),
    ],
)
def test_a_send_waits_for_the_configured_conditions(sync_flush, needed, expected) -> None:
    waits = Waits(sync_flush=sync_flush)
    durability = PutDurability(waits, waits, ReplicaPolicy(in_sync_replicas=needed))
    assert durability.waits
    durability.await_stored(100, [].append)
    assert set(waits.callbacks) == expected


def test_without_a_condition_a_send_need_not_wait_and_waiting_asks_the_flush() -> None:
    waits = Waits(sync_flush=False)
    durability = PutDurability(waits, waits, ReplicaPolicy(in_sync_replicas=1))
    assert not durability.waits
    durability.await_stored(100, [].append)
    assert set(waits.callbacks) == {"flush"}


@pytest.mark.parametrize("order", [("flush", "copy"), ("copy", "flush")])
@pytest.mark.parametrize(
    ("flush", "copy", "expected"),
    [(OK, OK, OK), (DISK, OK, DISK), (OK, SLAVE, SLAVE), (DISK, SLAVE, SLAVE)],
)
def test_both_must_succeed_and_a_missing_copy_counts_first(order, flush, copy, expected) -> None:
    waits, answers = Waits(sync_flush=True), []
    PutDurability(waits, waits, ReplicaPolicy(in_sync_replicas=2)).await_stored(100, answers.append)
    results = {"flush": flush, "copy": copy}
    waits.callbacks[order[0]](results[order[0]])
    assert answers == []
    waits.callbacks[order[1]](results[order[1]])
    assert answers == [expected]


def test_a_put_is_stored_when_it_is_flushed_and_enough_replicas_have_it() -> None:
    waits = Waits(sync_flush=True)
    durability = PutDurability(waits, waits, ReplicaPolicy(in_sync_replicas=2))
    assert not durability.is_stored(100)
    waits.replicas = 2
    assert not durability.is_stored(100)
    waits.flushed_where = 100
    assert durability.is_stored(100)
    assert not durability.is_stored(101)


def test_by_the_rules_of_4_9_a_put_without_a_slave_is_answered_at_once() -> None:
    waits, answers = Waits(sync_flush=False), []
    durability = PutDurability(waits, waits, ReplicaPolicy(fallbehind_max_bytes=1))
    durability.await_stored(100, answers.append)
    assert answers == [PutMessageStatus.SLAVE_NOT_AVAILABLE]
    waits.replicas = 2
    durability.await_stored(100, answers.append)
    waits.callbacks["copy"](OK)
    assert answers[1:] == [OK]


def test_too_few_replicas_in_sync_refuse_a_put() -> None:
    waits = Waits(sync_flush=False)
    durability = PutDurability(waits, waits, ReplicaPolicy(min_in_sync_replicas=2))
    assert durability.refuses
    assert durability.refusal() is PutMessageStatus.IN_SYNC_REPLICAS_NOT_ENOUGH
    waits.replicas = 2
    assert durability.refusal() is None


def test_a_coroutine_gets_the_status_too(run) -> None:
    async def main() -> None:
        waits = Waits(sync_flush=False)
        alone = PutDurability(waits, None, ReplicaPolicy())
        assert await alone.stored(100) is OK
        durability = PutDurability(waits, waits, ReplicaPolicy(in_sync_replicas=2))
        waiting = asyncio.ensure_future(durability.stored(100))
        await asyncio.sleep(0)
        assert not waiting.done()
        waits.callbacks["copy"](SLAVE)
        assert await waiting is SLAVE

    run(main())
