"""Deleted topics whose files cannot be removed: they stay deleted, and no message is lost."""

import errno
import json
from collections.abc import Callable

import pytest

from broker.common import sysflag
from broker.store.message_store import MessageExtBrokerInner, MessageStore
from tests.support.log_copy import queue_units
from tests.support.stores import Stores

FILE_UNITS = 20
Inner = Callable[..., MessageExtBrokerInner]


def put(store: MessageStore, inner: Inner, topic: str, count: int) -> None:
    batch = topic == "Batch"
    for _ in range(count):
        message = inner(
            topic,
            sys_flag=sysflag.INNER_BATCH if batch else 0,
            properties={"INNER_NUM": "2"} if batch else {},
        )
        assert store.put_message(message).physical_offset >= 0


def write_topics(stores: Stores) -> None:
    folder = stores.root / "config"
    folder.mkdir(parents=True)
    kinds = {"Plain": {}, "Batch": {"queue.type": "BatchCQ"}, "Other": {}}
    table = {name: {"topicName": name, "attributes": kind} for name, kind in kinds.items()}
    (folder / "topics.json").write_text(json.dumps({"topicConfigTable": table}))


def fail(path: str) -> None:
    raise OSError(errno.EIO, "input/output error", path)


@pytest.mark.parametrize("topic", ["Plain", "Batch"])
@pytest.mark.parametrize("old", [5, 2 * FILE_UNITS + 5])
@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_a_topic_whose_files_stay_is_deleted_with_those_after_it(
    stores: Stores,
    inner: Inner,
    monkeypatch: pytest.MonkeyPatch,
    topic: str,
    old: int,
    killed: bool,
) -> None:
    write_topics(stores)
    store = stores.load()
    store.queue_table.set_batch_topics(["Batch"])
    store.start()
    for name in (topic, "Other"):
        put(store, inner, name, old)
    with monkeypatch.context() as patch:
        patch.setattr(store.disk, "unlink", fail)
        patch.setattr(store.disk, "remove_folder", lambda path: None)
        assert store.delete_topics([topic, "Other"]) == [topic, "Other"]
    assert queue_units(store) == {}
    store.queue_table.set_batch_topics(["Batch"])
    put(store, inner, topic, 2)
    put(store, inner, "Later", 3)
    expected = queue_units(store)
    assert len(expected[topic, 0]) == (4 if topic == "Batch" else 2)
    if killed:
        stores.kill(store)
    else:
        stores.close(store)
    store = stores.load()
    assert queue_units(store) == expected
