"""The fast path of building queues writes the files of the slow path."""

import random
from pathlib import Path

import pytest

from broker.store.format.consumequeue import UNIT_SIZE, UNIT_STRUCT
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify import column_checks
from mqadmin.inspector.verify.log_walk import has_columns
from mqadmin.repair.derived_files import rebuild
from mqadmin.repair.derived_files.build_queues import BuildTable, OldUnits
from mqadmin.repair.files import Output
from tests.support.made_store import MadeStore

pytestmark = pytest.mark.skipif(not has_columns(), reason="needs the extra fast")

Files = dict[str, bytes]


def built(store: MadeStore, keys: set[tuple[str, int]], way: bool, trial: int = 0) -> Files:
    """Rebuild queues by the fast path (True) or the slow one; the bytes of each file."""
    root = store.root.parent / f"out-{way}-{trial}"
    table = BuildTable(Output(root), keys, {"Batches"}, (200, 460))
    directory = StoreDirectory(store.root)
    old = OldUnits(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rebuild, "has_columns", lambda: way)
        rebuild.rebuild(directory, table, old, None, None)
    old.close()
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("0*"))
        if path.is_file()
    }


def random_store(root: Path, rng: random.Random) -> tuple[MadeStore, set[tuple[str, int]]]:
    """Plain, delayed, LMQ, non-ASCII and batch messages, with losses and wrong offsets."""
    store = MadeStore(root, file_size=1 << 16)
    topics = ["TopicA", "TopicB", "Grüße", "SCHEDULE_TOPIC_XXXX"]
    next_offset: dict[tuple[str, int], int] = {}
    for number in range(rng.randrange(100, 300)):
        topic, queue_id = rng.choice(topics), rng.randrange(3)
        at = next_offset.get((topic, queue_id), 0)
        if rng.random() < 0.03:
            at += rng.randrange(1, 5)
        next_offset[topic, queue_id] = at + 1
        properties = {"TAGS": rng.choice(["TagA", "TagÄ", "x"])}
        if topic.startswith("SCHEDULE"):
            properties["DELAY"] = str(rng.randrange(1, 20))
        elif topic == "TopicB" and number % 7 == 0:
            properties["INNER_MULTI_DISPATCH"] = "%LMQ%one"
            offset = next_offset.get(("%LMQ%one", 0), 0)
            properties["INNER_MULTI_QUEUE_OFFSET"] = str(offset)
            next_offset["%LMQ%one", 0] = offset + 1
        wrong = rng.randrange(500) if rng.random() < 0.02 else at
        store.put(topic, queue_id, queue_offset=wrong, properties=properties)
    store.write(queues=False)
    return store, set(next_offset)


@pytest.mark.parametrize("chunk", [16, 1 << 18])
def test_both_paths_write_the_same_bytes(
    tmp_path: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(column_checks, "CHUNK", chunk)
    for trial in range(5):
        store, keys = random_store(tmp_path / f"store{trial}", rng)
        slow = built(store, keys, False, trial)
        assert built(store, keys, True, trial) == slow
        assert len(slow) >= len(keys)


def test_units_of_both_paths_are_merged_in_log_order(tmp_path: Path) -> None:
    """An LMQ unit, written by the slow path, is between two of the fast path."""
    store = MadeStore(tmp_path / "store")
    dispatch = {"INNER_MULTI_DISPATCH": "TopicA", "INNER_MULTI_QUEUE_OFFSET": "1"}
    store.put("TopicA", 0)
    store.put("TopicB", 0, properties=dispatch)
    store.put("TopicA", 0, queue_offset=2)
    store.write(queues=False)
    (data,) = built(store, {("TopicA", 0)}, True).values()
    units = [UNIT_STRUCT.unpack_from(data, at * UNIT_SIZE)[:2] for at in range(3)]
    assert units == store.places


def test_a_log_without_plain_records_gives_no_simple_queue(tmp_path: Path) -> None:
    store = MadeStore(tmp_path / "store")
    store.put("Batches", 0, properties={"INNER_NUM": "2"}, sys_flag=1 << 6)
    store.write(queues=False)
    files = built(store, {("Batches", 0), ("TopicA", 0)}, True)
    assert [name.split("/")[0] for name in files] == ["batchconsumequeue"]
