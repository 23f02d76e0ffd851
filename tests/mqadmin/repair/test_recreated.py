"""A topic that was deleted and created again: its old records are neither damage nor restorable."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.store.config import MessageStoreConfig
from broker.store.message_store import MessageStore
from broker.store.results import MessageExtBrokerInner
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.log import LogWalk
from mqadmin.inspector.queries.queues import queue_rows, unit_rows
from mqadmin.inspector.query import Query
from mqadmin.inspector.verify.log_walk import has_columns
from mqadmin.inspector.verify.verifier import VerifyOptions, verify
from mqadmin.repair.new_store import recover_store
from mqadmin.repair.store_repair import make_plan, repair

HOST = b"\x7f\0\0\1\0\0\x2a\x9f"
WAYS = [False, True] if has_columns() else [False]
T = "recreated"
# Queue ids of the messages before the deletion, and after it.
CASES = {
    "no-new-message": ([0], []),
    "same-queue": ([0], [0]),
    "another-queue": ([0], [1]),
    "fewer": ([0, 1, 2, 3] * 5, [0, 0]),
    "more": ([0, 0, 0], [0] * 7),
}

Make = Callable[[str], Path]


def config(root: Path) -> MessageStoreConfig:
    return MessageStoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=65536,
        mapped_file_size_consume_queue=600,
        max_hash_slot_num=50,
        max_index_num=200,
    )


def opened(root: Path) -> MessageStore:
    engine = MessageStore(config(root))
    engine.load()
    engine.start()
    return engine


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def made(case: str) -> Path:
        root = tmp_path / case
        engine = opened(root)
        number = 0

        def put(topic: str, queue_id: int, body: bytes) -> None:
            nonlocal number
            number += 1
            properties = f"UNIQ_KEY\x01U{number:030d}\x02".encode()
            born = 1_700_000_000_000 + number
            engine.put_message(
                MessageExtBrokerInner(topic, queue_id, body, properties, 0, 0, born, HOST, HOST)
            )

        before, after = CASES[case]
        put("other", 0, b"kept")
        for queue_id in before:
            put(T, queue_id, b"deleted")
        put("other", 0, b"kept")
        engine.delete_topics([T])
        put("other", 0, b"kept")
        for queue_id in after:
            put(T, queue_id, b"kept")
        engine.shutdown()
        (root / "config").mkdir(exist_ok=True)
        entry = {"readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
        table = {name: {**entry, "topicName": name} for name in (T, "other")}
        text = json.dumps({"topicConfigTable": table})
        (root / "config" / "topics.json").write_text(text)
        return root

    return made


def queued(root: Path) -> dict[tuple[str, int], int]:
    return {
        (row.topic, row.queue_id): row.units
        for row in queue_rows(StoreDirectory(root), None)
        if row.units
    }


def lose_a_queue(root: Path) -> None:
    """Damage elsewhere, so that there is something to repair."""
    for path in (root / "consumequeue" / "other" / "0").iterdir():
        path.unlink()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", WAYS)
def test_records_of_a_deleted_topic_are_not_corruption(make: Make, case: str, way: bool) -> None:
    root = make(case)
    found = verify(StoreDirectory(root), VerifyOptions(columns=way))
    assert found.findings == []
    assert found.summary.before_recreation == len(CASES[case][0])
    assert make_plan(StoreDirectory(root)).steps == []


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("recorded", [True, False], ids=["ours", "java"])
def test_a_repair_does_not_bring_deleted_messages_back(
    make: Make, tmp_path: Path, case: str, recorded: bool
) -> None:
    if not recorded and case in ("no-new-message", "another-queue"):
        pytest.skip("a Java broker leaves no sign of such a deletion")
    root = make(case)
    before = queued(root)
    lose_a_queue(root)
    if not recorded:
        (root / "queueEnds.json").unlink()
    result = repair(make_plan(StoreDirectory(root)), tmp_path / "repaired")
    assert result.ok, result.findings
    assert queued(tmp_path / "repaired") == before
    # The broker reads the whole log of a repaired copy: it must not dispatch them either.
    opened(tmp_path / "repaired").shutdown()
    assert queued(tmp_path / "repaired") == before


def test_a_deleted_topic_with_a_damaged_name_keeps_the_other_deletions(
    make: Make, tmp_path: Path
) -> None:
    root = make("no-new-message")
    engine = opened(root)
    for _ in range(2):
        engine.delete_topics(["damaged"])
        born = 1_700_000_001_000
        engine.put_message(MessageExtBrokerInner("damaged", 0, b"any", b"", 0, 0, born, HOST, HOST))
    engine.shutdown()
    shutil.rmtree(root / "consumequeue" / "damaged")
    path = next((root / "commitlog").iterdir())
    path.write_bytes(path.read_bytes().replace(b"damaged", b"\xffamaged"))
    before = queued(root)
    lose_a_queue(root)
    assert repair(make_plan(StoreDirectory(root)), tmp_path / "repaired").ok
    opened(tmp_path / "repaired").shutdown()
    assert queued(tmp_path / "repaired") == before


@pytest.mark.parametrize("recorded", [True, False], ids=["ours", "java"])
def test_a_repair_after_the_first_new_message_is_lost_keeps_old_ones_out(
    make: Make, tmp_path: Path, recorded: bool
) -> None:
    root = make("more")
    if not recorded:
        (root / "queueEnds.json").unlink()
    new = [
        i.record for i in LogWalk(StoreDirectory(root)) if i.record and i.record.topic == T.encode()
    ]
    path = next((root / "commitlog").iterdir())
    data = bytearray(path.read_bytes())
    at = new[3].physical_offset
    data[at + 4 : at + 8] = bytes(4)
    path.write_bytes(data)
    repair(make_plan(StoreDirectory(root)), tmp_path / "repaired")
    rows = unit_rows(StoreDirectory(tmp_path / "repaired"), Query(topic=T))
    assert min(row.physical_offset for row in rows if not hasattr(row, "severity")) > at


def test_a_unit_that_leads_to_a_deleted_message_is_damage(make: Make, tmp_path: Path) -> None:
    root = make("no-new-message")
    record = next(
        i.record for i in LogWalk(StoreDirectory(root)) if i.record and i.record.topic == T.encode()
    )
    folder = root / "consumequeue" / T / "0"
    folder.mkdir(parents=True)
    unit = record.physical_offset.to_bytes(8, "big") + record.total_size.to_bytes(4, "big")
    (folder / f"{0:020d}").write_bytes(unit.ljust(600, b"\0"))
    (row,) = verify(StoreDirectory(root)).findings
    assert (row.kind, "deleted with its topic" in row.detail) == ("unit", True)
    repair(make_plan(StoreDirectory(root)), tmp_path / "repaired")
    assert (T, 0) not in queued(tmp_path / "repaired")


def test_a_new_store_leaves_deleted_messages_out(make: Make, tmp_path: Path) -> None:
    root = make("fewer")
    made = recover_store([root], tmp_path / "new", file_size=65536)
    assert (made.deleted_messages, made.messages) == (20, 5)
    assert queued(tmp_path / "new") == queued(root)


def test_units_lost_at_the_head_of_a_queue_are_not_a_deletion(make: Make, tmp_path: Path) -> None:
    root = make("more")
    (root / "queueEnds.json").unlink()
    path = root / "consumequeue" / "other" / "0" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[:20] = bytes(20)
    path.write_bytes(data)
    found = verify(StoreDirectory(root))
    assert not found.summary.ok
    assert b"other" not in found.deleted
    assert repair(make_plan(StoreDirectory(root)), tmp_path / "repaired").ok
    assert queued(tmp_path / "repaired")["other", 0] == 3
