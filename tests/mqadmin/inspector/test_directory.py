"""The kind of a path: store root, folder of a store, file; markers and names."""

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from broker.errors import StoreError
from broker.store.format.checkpoint import Checkpoint, encode_checkpoint
from broker.store.format.commitlog import file_name
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.find import message_rows
from mqadmin.inspector.queries.queues import unit_rows
from mqadmin.inspector.queries.summary import summarize
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import QueueUnitRow
from mqadmin.message_row import MessageRow
from mqadmin.output.values import plain


def offsets(store: StoreDirectory) -> list[int]:
    return [row.physical_offset for row in message_rows(store) if isinstance(row, MessageRow)]


def test_a_root_its_folders_and_its_files_all_lead_to_the_messages(made: Any) -> None:
    whole = [offset for offset, _ in made.places]
    assert offsets(StoreDirectory(made.root)) == whole
    assert offsets(StoreDirectory(str(made.root))) == whole
    assert offsets(StoreDirectory(made.root.parent)) == whole  # .../store below the given folder
    log = StoreDirectory(made.root / "commitlog")
    assert (log.kind, log.root, offsets(log)) == ("commitlog", made.root, whole)
    one = StoreDirectory(made.root / "commitlog" / file_name(4096))
    assert (one.kind, one.root) == ("commitlog", made.root)
    assert offsets(one) == [offset for offset in whole if 4096 <= offset < 8192]


def test_a_copied_file_under_any_name_is_known_by_its_bytes(made: Any, tmp_path: Path) -> None:
    copy = tmp_path / "evidence.bin"
    copy.write_bytes((made.root / "commitlog" / file_name(4096)).read_bytes())
    store = StoreDirectory(copy)
    assert store.kind == "commitlog"
    assert offsets(store) == [o for o, _ in made.places if 4096 <= o < 8192]
    queue = tmp_path / "queue.bin"
    queue.write_bytes((made.root / "consumequeue/TopicA/0" / file_name(0)).read_bytes())
    assert StoreDirectory(queue).kind == "consumequeue"
    assert len(list(unit_rows(StoreDirectory(queue)))) == len(made.queues["TopicA", 0])
    check = tmp_path / "check.bin"
    check.write_bytes((made.root / "checkpoint").read_bytes())
    assert StoreDirectory(check).kind == "checkpoint"
    text = tmp_path / "any.json"
    text.write_text("{}")
    assert StoreDirectory(text).kind == "config"


def test_a_single_queue_file_is_of_its_topic_and_queue(made: Any, tmp_path: Path) -> None:
    file = made.root / "consumequeue/TopicA/0" / file_name(0)
    copy = tmp_path / "queue.bin"
    copy.write_bytes(file.read_bytes())
    count = len(list(unit_rows(StoreDirectory(file))))
    for path, query, expected in (
        (file, Query(topic="TopicA", queue_id=0), count),
        (file, Query(topic="TopicB"), 0),
        (file, Query(queue_id=1), 0),
        (copy, Query(topic="TopicA"), 0),  # only the folders of a file have the topic
    ):
        assert len(list(unit_rows(StoreDirectory(path), query))) == expected


def test_a_copied_folder_of_log_files_is_a_log(made: Any, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    folder.mkdir()
    for path in (made.root / "commitlog").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    store = StoreDirectory(folder)
    assert (store.kind, store.root) == ("commitlog", None)
    assert offsets(store) == [offset for offset, _ in made.places]


def test_queue_folders_narrow_the_selection(made: Any) -> None:
    folder = made.root / "consumequeue"
    for path, wanted in (
        (folder, {("TopicA", 0), ("TopicA", 1), ("TopicB", 0), ("TopicB", 1)}),
        (folder / "TopicA", {("TopicA", 0), ("TopicA", 1)}),
        (folder / "TopicA" / "1", {("TopicA", 1)}),
        (folder / "TopicA" / "1" / file_name(0), {("TopicA", 1)}),
    ):
        store = StoreDirectory(path)
        assert store.kind == "consumequeue"
        rows = [row for row in unit_rows(store) if isinstance(row, QueueUnitRow)]
        assert {(row.topic, row.queue_id) for row in rows} == wanted


def test_a_folder_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such file"):
        StoreDirectory(tmp_path / "nothing")
    with pytest.raises(StoreError, match="no store"):
        StoreDirectory(tmp_path)
    junk = tmp_path / "junk"
    junk.write_bytes(b"junk" * 100)
    with pytest.raises(StoreError, match="no store"):
        StoreDirectory(junk)
    with pytest.raises(StoreError, match="unknown kind"):
        StoreDirectory(junk, "spoon")
    assert StoreDirectory(junk, "commitlog").kind == "commitlog"


def test_a_kind_can_be_given(made: Any) -> None:
    assert StoreDirectory(made.root, "consumequeue").kind == "consumequeue"
    assert len(list(unit_rows(StoreDirectory(made.root, "consumequeue")))) == 40


def test_markers_show_how_the_broker_stopped(made: Any) -> None:
    state = StoreDirectory(made.root).state()
    assert (state.clean_stop, state.abort, state.lock, state.held_by) == (True, False, False, None)
    (made.root / "abort").write_text("4242")
    (made.root / "lock").write_text("lock")
    state = StoreDirectory(made.root / "abort").state()
    assert (state.clean_stop, state.abort_pid, state.lock) == (False, 4242, True)


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="the kernel does not list locks")
def test_looking_never_drops_a_lock_of_this_process(made: Any) -> None:
    """Closing any descriptor of a locked file would: so the lock file is never opened."""
    path = made.root / "lock"
    with path.open("w") as held:
        fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
        before = StoreDirectory(made.root).state()
        assert before.held_by in (os.getpid(), None)  # containers may hide it
        pid = os.fork()
        if pid == 0:
            try:
                with path.open("r+") as other:
                    fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
            except OSError:
                os._exit(0)
            os._exit(1)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0


def test_unknown_times_and_free_locks_are_absent(made: Any) -> None:
    path = made.root / "checkpoint"
    path.write_bytes(encode_checkpoint(Checkpoint(physic_msg_timestamp=1_700_000_000_000)))
    row = StoreDirectory(made.root).checkpoint()
    assert (row.physic_msg_timestamp, row.index_msg_timestamp) == (1_700_000_000_000, None)
    assert plain(row)["indexMsgTime"] is None
    (made.root / "lock").write_text("lock")
    assert StoreDirectory(made.root).state().held_by is None


def test_the_checkpoint_is_read(made: Any) -> None:
    row = StoreDirectory(made.root / "checkpoint").checkpoint()
    assert row.physic_msg_timestamp == 1_700_000_000_000
    assert row.path.endswith("checkpoint")
    (made.root / "checkpoint").unlink()
    assert StoreDirectory(made.root).checkpoint() is None
    (made.root / "checkpoint").write_bytes(b"short")
    summary, (damage,) = summarize(StoreDirectory(made.root))
    assert summary.checkpoint is None
    assert damage.kind == "checkpoint"


def test_the_brokers_name_is_taken_from_the_directory_only(made: Any) -> None:
    store = StoreDirectory(made.root)
    assert store.broker_name() is None
    assert next(iter(message_rows(store))).broker_name is None
    conf = made.root.parent / "broker.conf"
    conf.write_text("brokerName=other\nstorePathRootDir=./elsewhere\n")
    assert store.broker_name() is None
    conf.write_text("brokerName=broker-x\nstorePathRootDir=./store\n")
    assert store.broker_name() == "broker-x"
    (made.root / "config").mkdir()
    (made.root / "config/topics.json").write_text('{"rmq_sys_SYNC_BROKER_MEMBER_broker-y":{}}')
    conf.unlink()
    assert store.broker_name() == "broker-y"
    (made.root / "brokerIdentity").write_text("cluster#broker-z#1")
    assert store.broker_name() == "broker-z"


def test_a_query_selects_everything_by_default(made: Any) -> None:
    assert list(message_rows(StoreDirectory(made.root), Query())) == list(
        message_rows(StoreDirectory(made.root))
    )
