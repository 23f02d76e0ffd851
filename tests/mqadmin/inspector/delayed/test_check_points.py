"""Check points of the store of a Java broker."""

import shutil
from collections.abc import Callable
from pathlib import Path

from mqadmin.inspector.delayed.check_points import check_points
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import DamageRow
from tests.support.made_store import MadeStore


def test_waiting_check_points_are_merged_with_their_acknowledgements(
    pop_store: StoreDirectory,
) -> None:
    rows = list(check_points(pop_store, Query(), now_ms=0))
    assert not [row for row in rows if isinstance(row, DamageRow)]
    slow = list(check_points(pop_store, Query(key="CG_pop_slow", topic="PopA"), now_ms=0))
    left = {(row.queue_id, row.start_offset): row.unacknowledged for row in slow}
    assert left[0, 0] == [1, 2, 4]
    assert left[1, 10] == [11, 12, 14]
    assert {row.group for row in rows} == {"CG_pop", "CG_pop_slow"}
    assert [row.revive_timestamp for row in rows] == sorted(row.revive_timestamp for row in rows)


def test_revived_check_points_are_not_listed(pop_store: StoreDirectory) -> None:
    starts = {
        (row.topic, row.queue_id, row.start_offset)
        for row in check_points(pop_store, Query(key="CG_pop"), now_ms=0)
    }
    # The broker delivered them again: their copies are in the retry topic.
    assert ("PopA", 0, 10) not in starts


def test_the_offsets_of_a_broker_with_lmqs_are_read(
    pop_store: StoreDirectory, tmp_path: Path
) -> None:
    expected = list(check_points(pop_store, Query(), now_ms=0))
    root = tmp_path / "lmq"
    shutil.copytree(pop_store.path, root)
    offsets = root / "config" / "consumerOffset.json"
    offsets.rename(offsets.with_name("lmqConsumerOffset.json"))
    assert list(check_points(StoreDirectory(root), Query(), now_ms=0)) == expected


def test_a_store_without_pop_has_none(golden_store: Callable[..., Path]) -> None:
    store = StoreDirectory(golden_store("transaction-498") / "store")
    assert list(check_points(store, Query(), now_ms=0)) == []


def test_a_record_that_cannot_be_decoded_is_reported(tmp_path: Path) -> None:
    made = MadeStore(tmp_path / "store")
    made.put("rmq_sys_REVIVE_LOG_C", 0, body=b"not JSON", properties={"TAGS": "ck"})
    made.write()
    (row,) = check_points(StoreDirectory(tmp_path / "store"), Query(), now_ms=0)
    assert isinstance(row, DamageRow)
    assert row.kind == "checkPoint"
