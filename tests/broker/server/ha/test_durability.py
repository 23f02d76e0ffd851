"""What a send waits for, and the result when flush and copies differ."""

import pytest

from broker.server.ha.durability import PutDurability
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

    def await_replicas(self, physical_end, needed, callback) -> None:
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
    durability = PutDurability(waits, waits, needed)
    assert durability.waits
    durability.await_stored(100, [].append)
    assert set(waits.callbacks) == expected


def test_without_a_condition_a_send_need_not_wait_and_waiting_asks_the_flush() -> None:
    waits = Waits(sync_flush=False)
    durability = PutDurability(waits, waits, 1)
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
    PutDurability(waits, waits, 2).await_stored(100, answers.append)
    results = {"flush": flush, "copy": copy}
    waits.callbacks[order[0]](results[order[0]])
    assert answers == []
    waits.callbacks[order[1]](results[order[1]])
    assert answers == [expected]
