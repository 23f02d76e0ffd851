"""Dead letters of a store without queues, and of a store without dead letters."""

from typing import Any

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.dlq import dlq_rows

NOW = 1_700_000_000_000


def test_without_queues_the_log_is_read(make_store: Any) -> None:
    store = make_store()
    for number in range(6):
        store.put("%DLQ%billing" if number % 2 else "orders")
    store.put("%DLQ%other")
    for queues in (False, True):
        store.write(queues=queues)
        rows = dlq_rows(StoreDirectory(store.root), now_ms=NOW + 10_000)
        assert [(row.group, row.messages) for row in rows] == [("billing", 3), ("other", 1)]
        assert (rows[0].oldest_timestamp, rows[0].newest_timestamp) == (NOW + 1000, NOW + 5000)
        one = dlq_rows(StoreDirectory(store.root), group="other", now_ms=NOW)
        assert [row.topic for row in one] == ["%DLQ%other"]


def test_no_dead_letters_is_an_empty_list(made: Any) -> None:
    assert dlq_rows(StoreDirectory(made.root), now_ms=NOW) == []
