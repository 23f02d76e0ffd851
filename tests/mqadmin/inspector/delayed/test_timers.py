"""Pending timer messages of the store of a Java broker."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mqadmin.inspector.delayed.timers import pending_timers
from mqadmin.inspector.directory import StoreDirectory

# Two producers sent one message of each kind; the others were delivered or recalled.
PENDING = [
    *("timer-TIMER_DELAY_SEC-0", "timer-TIMER_DELAY_SEC-1"),
    *("timer-TIMER_DELIVER_MS-0", "timer-TIMER_DELIVER_MS-1"),
    *("timer-TIMER_DELAY_SEC-0", "timer-TIMER_DELAY_SEC-1"),
    *("timer-TIMER_DELAY_MS-0", "timer-TIMER_DELAY_MS-1"),
]


def test_the_messages_in_the_wheel_come_in_the_order_of_their_slots(
    delay_store: StoreDirectory,
) -> None:
    rows = list(pending_timers(delay_store, now_ms=0))
    assert [row.keys[0] for row in rows] == PENDING
    assert {row.topic for row in rows} == {"LaterA"}
    # The third pair is due in three days, so its slot is that of the end of the roll window.
    assert rows[4].due_timestamp > rows[7].due_timestamp


@pytest.mark.parametrize("missing", ["timerwheel", "config/timercheck"])
def test_without_wheel_or_checkpoint_the_queue_is_read(
    golden_store: Callable[..., Path], missing: str
) -> None:
    folder = golden_store("delay-533", copy=True) / "store"
    (folder / missing).unlink()
    rows = list(pending_timers(StoreDirectory(folder), now_ms=0))
    assert {row.keys[0] for row in rows} >= set(PENDING)
    assert len(rows) == len(PENDING) or missing != "timerwheel"


def test_a_store_without_timers_has_none(golden_store: Callable[..., Path]) -> None:
    store = StoreDirectory(golden_store("normal-stop-498") / "store")
    assert list(pending_timers(store, now_ms=0)) == []
