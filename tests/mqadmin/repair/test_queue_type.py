"""The queue type in topics.json decides how the queues of a topic are checked and rebuilt."""

import json
import shutil
from pathlib import Path

import pytest

from broker.common import sysflag
from broker.store.message_store import MessageStore
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.log_walk import has_columns
from mqadmin.inspector.verify.verifier import VerifyOptions, verify
from mqadmin.repair.store_repair import make_plan, repair
from tests.support.log_copy import queue_units
from tests.support.stores import Stores, make_inner

WAYS = [False, True] if has_columns() else [False]


def put(store: MessageStore, *, batches: bool) -> None:
    flags, properties = (sysflag.INNER_BATCH, {"INNER_NUM": "3"}) if batches else (0, {})
    for _ in range(3):
        place = store.put_message(make_inner("Bulk", sys_flag=flags, properties=properties))
        assert place.physical_offset >= 0
    store.put_message(make_inner("TopicA"))


def write_topics(root: Path) -> None:
    table = {
        "Bulk": {"topicName": "Bulk", "attributes": {"queue.type": "BatchCQ"}},
        "TopicA": {"topicName": "TopicA"},
    }
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return Stores(tmp_path)


@pytest.mark.parametrize("way", WAYS)
def test_plain_queues_of_a_batch_topic_are_reported_and_rebuilt(
    stores: Stores, tmp_path: Path, way: bool
) -> None:
    store = stores.start()
    put(store, batches=False)
    stores.close(store)
    write_topics(stores.root)
    plain = StoreDirectory(stores.root)
    (found,) = verify(plain, VerifyOptions(columns=way)).findings
    folder = str(stores.root / "consumequeue/Bulk/0")
    assert (found.kind, found.severity, found.path) == ("queueType", "error", folder)
    result = repair(make_plan(plain), tmp_path / "repaired")
    assert result.ok, result.findings
    assert (tmp_path / "repaired/batchconsumequeue/Bulk/0").is_dir()
    assert not (tmp_path / "repaired/consumequeue/Bulk").exists()


def test_the_lost_queues_of_a_batch_topic_are_rebuilt_as_they_were(
    stores: Stores, tmp_path: Path
) -> None:
    store = stores.start()
    store.queue_table.set_batch_topics(["Bulk"])
    put(store, batches=True)
    expected = queue_units(store)
    stores.close(store)
    write_topics(stores.root)
    shutil.rmtree(stores.root / "batchconsumequeue")
    assert repair(make_plan(StoreDirectory(stores.root)), tmp_path / "repaired").ok
    config = stores.config(store_path_root_dir=str(tmp_path / "repaired"))
    store = stores.start(config)
    assert queue_units(store) == expected
    assert not [note for note in store.report.notes if "Bulk" in note]
    stores.close(store)


@pytest.mark.parametrize("wrong", [0, 3, 99])
@pytest.mark.parametrize("number", [1, 2])
def test_the_unit_corrects_the_queue_offset_of_an_inner_batch(
    stores: Stores, tmp_path: Path, number: int, wrong: int
) -> None:
    """Also that of the last one, which no later record shows to be wrong."""
    store = stores.start()
    store.queue_table.set_batch_topics(["Bulk"])
    put(store, batches=True)
    store.worker.drain()
    units = [store.queue_table.find("Bulk", 0).unit(3 * one) for one in range(3)]
    stores.close(store)
    write_topics(stores.root)
    log = sorted((stores.root / "commitlog").iterdir())[0]
    intact = log.read_bytes()
    begin = units[number][0] + 20
    log.write_bytes(intact[:begin] + wrong.to_bytes(8, "big") + intact[begin + 8 :])
    result = repair(make_plan(StoreDirectory(stores.root)), tmp_path / "repaired")
    assert result.ok, result.findings
    assert (tmp_path / "repaired/commitlog" / log.name).read_bytes() == intact
