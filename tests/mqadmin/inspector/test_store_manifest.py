"""queueEnds.json as inspection reads it: defaults, unreadable files, deleted topics."""

import json
from pathlib import Path

import pytest

from broker.store.format.state import QUEUE_ENDS
from broker.store.logfile.disk import Disk
from broker.store.recovery.store_manifest import StoreManifest as BrokerManifest
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.store_manifest import (
    DeletedTopics,
    StoreManifest,
    encode_deleted,
    read_queue_ends,
)
from tests.support.json_mutations import failures
from tests.support.made_store import MadeStore


@pytest.fixture
def store(tmp_path: Path) -> MadeStore:
    made = MadeStore(tmp_path / "store")
    made.put()
    made.write_all()
    return made


def read(store: MadeStore, text: str | None) -> StoreManifest:
    if text is not None:
        (store.root / QUEUE_ENDS).write_text(text)
    return read_queue_ends(StoreDirectory(store.root))


def test_a_store_of_java_has_no_file(store: MadeStore) -> None:
    assert read(store, None) == StoreManifest()


def test_ends_deletions_and_sizes_are_read(store: MadeStore) -> None:
    content = {
        "logEnd": 500,
        "queues": {"T": {"0": 7, "1": 3}},
        "deleted": {"Gone": 400},
        "sizes": [4096, 600, 460, 32, 25],
        "damaged": [[1, 2]],
    }
    assert read(store, json.dumps(content)) == StoreManifest(
        log_end=500,
        queues={("T", 0): 7, ("T", 1): 3},
        deleted={b"Gone": 400},
        file_sizes=(4096, 600, 460),
        index_shape=(32, 25),
    )


def test_missing_sizes_are_unknown(store: MadeStore) -> None:
    assert read(store, '{"logEnd":5,"sizes":[4096]}').file_sizes == (4096, 0, 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"logEnd":"x"}',
        '{"logEnd":1,"queues":[]}',
        '{"logEnd":1,"sizes":["x"]}',
        '{"logEnd":1,"sizes":[2147483648]}',
        '{"logEnd":1,"sizes":[4096,400,-1]}',
    ],
)
def test_an_unreadable_file_is_a_problem_and_not_an_error(store: MadeStore, text: str) -> None:
    found = read(store, text)
    assert found.problem
    assert found == StoreManifest(problem=found.problem)


def test_deletions_written_by_a_repair_are_read_and_force_a_full_scan(store: MadeStore) -> None:
    (store.root / QUEUE_ENDS).write_bytes(encode_deleted({b"b": 900, b"a": 100}, 500))
    found = read_queue_ends(StoreDirectory(store.root))
    assert found.log_end == -1
    assert found.deleted == {b"a": 100, b"b": 500}  # no deletion is past the end of the log


def test_a_topic_outside_utf_8_has_the_name_of_its_queues(store: MadeStore) -> None:
    # Both records are dispatched to the queues of one topic: the later end counts.
    data = encode_deleted({b"\xff": 5, b"\xfe": 4, b"T": 7}, 10)
    (store.root / QUEUE_ENDS).write_bytes(data)
    manifest = BrokerManifest(Disk(), str(store.root))
    manifest.load([])
    assert manifest.deleted == {"\ufffd": 5, "T": 7}


def test_a_file_that_the_broker_refuses_is_a_problem(store: MadeStore) -> None:
    text = '{"logEnd":1,"queues":{},"deleted":{"\\udcff":5}}'
    assert read(store, text).problem
    manifest = BrokerManifest(Disk(), str(store.root))
    manifest.load([])
    assert not manifest.found


def test_records_below_the_deletion_are_deleted_and_counted() -> None:
    deleted = DeletedTopics({b"T": 100})
    assert deleted.take(b"T", 99)
    assert not deleted.take(b"T", 100)
    assert not deleted.take(b"U", 5)
    assert deleted.records == 1


def test_a_file_with_a_value_of_another_type_is_read_or_reported(store: MadeStore) -> None:
    document = {
        "logEnd": 100,
        "queues": {"T": {"0": 5}},
        "deleted": {"T": 4},
        "sizes": [1, 2, 3],
    }

    def load(changed: object) -> None:
        manifest = read(store, json.dumps(changed))
        if manifest.problem:
            assert manifest == StoreManifest(problem=manifest.problem)

    accepted, wrong = failures(load, document)
    assert wrong == []
    assert accepted > 0
