"""Delay levels of the stores of Java brokers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mqadmin.inspector.delayed.levels import delay_levels, delayed_messages
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.system_topics.delay_levels import DelayFilter


@pytest.mark.parametrize("name", ["delay-498", "delay-533", "retry-dlq-533"])
def test_the_backlogs_are_the_messages_that_wait(
    golden_store: Callable[..., Path], name: str
) -> None:
    store = StoreDirectory(golden_store(name) / "store")
    rows = delay_levels(store, now_ms=0)
    # retry-dlq was recorded with nine levels
    assert [row.level for row in rows] == list(range(1, 10 if "retry" in name else 19))
    waiting = list(delayed_messages(store, DelayFilter(), now_ms=0))
    assert len(waiting) == sum(row.backlog for row in rows)
    for row in rows:
        own = [one.due_timestamp for one in waiting if one.level == row.level]
        assert row.next_due_timestamp == min(own, default=None)


def test_levels_that_were_delivered_have_no_backlog(delay_store: StoreDirectory) -> None:
    rows = delay_levels(delay_store, now_ms=0)
    assert [row.backlog for row in rows] == [0] * 5 + [2] * 12 + [3]
    (first, *_) = delayed_messages(delay_store, DelayFilter(level=18), now_ms=0)
    assert first.due_timestamp - first.store_timestamp == 7_200_000
    assert list(delayed_messages(delay_store, DelayFilter(topic="none"), now_ms=0)) == []
