"""Lost messages: verification, repair and recovery count those that a start drops."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.store.config import MessageStoreConfig
from broker.store.message_store import MessageStore
from broker.store.results import MessageExtBrokerInner
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.loss import Extents, QueueLoss
from mqadmin.inspector.query import Query
from mqadmin.inspector.verify.log_walk import has_columns
from mqadmin.inspector.verify.verifier import VerifyOptions, verify
from mqadmin.repair.new_store import plan_store, recover_store
from mqadmin.repair.recover import SalvagedRows
from mqadmin.repair.store_repair import make_plan, repair

HOST = b"\x7f\0\0\1\0\0\x2a\x9f"
LOG_FILE = 65536
WAYS = [False, True] if has_columns() else [False]


def config(root: Path) -> MessageStoreConfig:
    return MessageStoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=LOG_FILE,
        mapped_file_size_consume_queue=600,
        max_hash_slot_num=50,
        max_index_num=200,
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """1,000 messages of two topics and four queues over several files, stopped cleanly."""
    root = tmp_path / "store"
    engine = MessageStore(config(root))
    engine.load()
    engine.start()
    for number in range(1000):
        engine.put_message(
            MessageExtBrokerInner(
                topic="AB"[number % 2],
                queue_id=number // 2 % 2,
                body=b"body %d" % number,
                properties=f"UNIQ_KEY\x01U{number:030d}\x02".encode(),
                flag=0,
                sys_flag=0,
                born_timestamp=1_700_000_000_000 + number,
                born_host=HOST,
                store_host=HOST,
            )
        )
    engine.shutdown()
    return root


def log_files(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


def cut(root: Path) -> None:
    """The second file ends within a record."""
    _, second, *rest = log_files(root)
    for path in rest:
        path.unlink()
    with second.open("r+b") as file:
        file.truncate(5300)


def zero(root: Path) -> None:
    """The pages of the end never reached the disk."""
    with log_files(root)[-1].open("r+b") as file:
        file.truncate(777)
        file.truncate(LOG_FILE)


def lose_last_file(root: Path) -> None:
    log_files(root)[-1].unlink()


def lose_queues_too(root: Path) -> None:
    """Only queueEnds.json knows."""
    cut(root)
    shutil.rmtree(root / "consumequeue")


def by_queue(rows: list[QueueLoss]) -> dict[tuple[str | None, int | None], int]:
    return {(row.topic, row.queue_id): row.messages for row in rows}


def dropped_by_the_broker(root: Path, folder: Path) -> dict[tuple[str, int], int]:
    """The report of a start on a copy, queue by queue."""
    shutil.copytree(root, folder)
    engine = MessageStore(config(folder))
    report = engine.load()
    engine.start()
    engine.shutdown()
    found = {}
    for note in report.notes:
        if match := re.match(r"(\w+)/(\d+): (\d+) units", note):
            found[match[1], int(match[2])] = int(match[3])
    return found


@pytest.mark.parametrize("damage", [cut, zero, lose_last_file])
@pytest.mark.parametrize("way", WAYS)
def test_the_loss_equals_the_records_that_the_broker_drops_at_start(
    store: Path, tmp_path: Path, damage: Callable[[Path], None], way: bool
) -> None:
    damage(store)
    expected = dropped_by_the_broker(store, tmp_path / "started")
    assert sum(expected.values()) > 20
    found = verify(StoreDirectory(store), VerifyOptions(columns=way))
    assert by_queue(found.summary.lost) == expected
    assert found.summary.lost_messages == sum(expected.values())
    assert {row.severity for row in found.findings if row.kind == "lost"} == {"error"}
    plan = make_plan(StoreDirectory(store))
    assert sum(step.action == "lost" for step in plan.steps) == len(expected)
    result = repair(plan, tmp_path / "repaired")
    assert result.ok
    assert by_queue(result.lost) == expected
    rows = SalvagedRows([store], Query())
    assert len(list(rows)) == 1000 - sum(expected.values())
    assert by_queue(rows.lost()) == expected
    planned = plan_store([store], tmp_path / "new")
    assert by_queue(planned.lost) == expected
    assert not (tmp_path / "new").exists()
    made = recover_store([store], tmp_path / "new", file_size=LOG_FILE)
    assert by_queue(made.lost) == expected
    assert made.messages == planned.messages


def test_lost_messages_of_lost_queues_are_known_from_queue_ends(
    store: Path, tmp_path: Path
) -> None:
    shutil.copytree(store, tmp_path / "other")
    cut(tmp_path / "other")
    expected = dropped_by_the_broker(tmp_path / "other", tmp_path / "started")
    lose_queues_too(store)
    assert by_queue(verify(StoreDirectory(store)).summary.lost) == expected
    rows = SalvagedRows([store], Query())
    list(rows)
    assert by_queue(rows.lost()) == expected


def test_messages_that_only_the_index_knows_are_counted(store: Path, tmp_path: Path) -> None:
    shutil.copytree(store, tmp_path / "other")
    cut(tmp_path / "other")
    expected = sum(dropped_by_the_broker(tmp_path / "other", tmp_path / "started").values())
    lose_queues_too(store)
    (store / "queueEnds.json").unlink()
    assert by_queue(verify(StoreDirectory(store)).summary.lost) == {(None, None): expected}
    rows = SalvagedRows([store], Query())
    list(rows)
    assert by_queue(rows.lost()) == {(None, None): expected}
    assert "which only the index knows" in rows.lost()[0].text


def test_a_damaged_part_in_the_middle_is_counted_by_queue(store: Path, tmp_path: Path) -> None:
    path = log_files(store)[0]
    data = bytearray(path.read_bytes())
    data[4096:8192] = bytes(4096)
    path.write_bytes(data)
    found = verify(StoreDirectory(store)).summary
    rows = SalvagedRows([store], Query())
    read = len(list(rows))
    assert found.lost_messages == 1000 - read > 20
    assert by_queue(rows.lost()) == by_queue(found.lost)
    result = repair(make_plan(StoreDirectory(store)), tmp_path / "repaired")
    assert (result.lost_messages, result.bridged) == (1000 - read, 1000 - read)


def test_a_corrupt_unit_is_not_a_lost_message(store: Path) -> None:
    path = store / "consumequeue" / "A" / "0" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[40] ^= 0x7F
    path.write_bytes(data)
    found = verify(StoreDirectory(store))
    assert not found.summary.ok
    assert found.summary.lost == []
    rows = SalvagedRows([store], Query())
    assert len(list(rows)) == 1000
    assert rows.lost() == []


def test_a_store_at_peace_has_no_losses(store: Path) -> None:
    assert verify(StoreDirectory(store)).summary.lost_messages == 0
    rows = SalvagedRows([store], Query())
    assert len(list(rows)) == 1000
    assert rows.lost() == []


def test_extents_join_neighbours_and_take_any_order() -> None:
    extents = Extents([(0, 3), (3, 5), (9, 12), (6, 7)])
    inside = {number for number in range(15) if number in extents}
    assert inside == {0, 1, 2, 3, 4, 6, 9, 10, 11}
    assert extents.end == 12
    if has_columns():
        import numpy as np

        assert extents.outside(np.arange(15)).tolist() == [n not in inside for n in range(15)]
        assert Extents().outside(np.arange(2)).tolist() == [True, True]
