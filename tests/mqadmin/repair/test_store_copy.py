"""Copies of stopped and running stores: complete, consistent, and never in place of another."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pytest

from broker.errors import ConfigError, DiskFullError, StoreError
from broker.store.config import MessageStoreConfig
from broker.store.message_store import MessageStore
from broker.store.results import MessageExtBrokerInner
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.messages import scan_messages
from mqadmin.inspector.rows import DamageRow, StateRow
from mqadmin.inspector.verify.verifier import verify
from mqadmin.message_row import MessageRow
from mqadmin.repair import store_copy
from mqadmin.repair.files import Output
from mqadmin.repair.store_copy import copy_store, find_bounds, plan_copy
from tests.support.made_store import MadeStore, fingerprint

Golden = Callable[..., Path]
STORES = ["normal-stop-533", "batch-cq-533", "kill9-async-498", "delay-533"]


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def messages_of(root: Path) -> list[tuple[int, str, int]]:
    rows = scan_messages(StoreDirectory(root))
    return [
        (row.physical_offset, row.topic, row.queue_offset)
        for row in rows
        if isinstance(row, MessageRow)
    ]


@pytest.mark.parametrize("name", STORES)
def test_a_stopped_store_is_copied_byte_for_byte(
    golden_store: Golden, tmp_path: Path, name: str
) -> None:
    source = golden_store(name) / "store"
    before = fingerprint(source)
    done = copy_store(StoreDirectory(source), tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(source)
    assert fingerprint(source) == before
    assert not (tmp_path / "copy" / "lock").exists()
    assert done.ok == (not [r for r in verify(StoreDirectory(source)).findings if is_bad(r)])
    assert done.files_linked == 0


def is_bad(row: DamageRow) -> bool:
    return row.severity != "notice"


def test_hard_links_are_made_of_full_files_only(tmp_path: Path) -> None:
    made = MadeStore(tmp_path / "store")
    for _ in range(60):
        made.put()
    made.write_all()
    out = tmp_path / "copy"
    done = copy_store(StoreDirectory(made.root), out, links=True)
    linked = {
        str(path.relative_to(out))
        for path in out.rglob("*")
        if path.is_file() and path.stat().st_nlink == 2
    }
    log = sorted(path.name for path in (made.root / "commitlog").iterdir())
    last = max(name for name in log if int(name) < made.end)
    assert len(linked) == done.files_linked > 2
    assert {name for name in linked if name.startswith("commitlog")} == {
        f"commitlog/{name}" for name in log if name < last
    }
    assert not any(name.startswith(("config", "checkpoint")) for name in linked)


def inner(number: int) -> MessageExtBrokerInner:
    return MessageExtBrokerInner(
        topic=f"Topic{number % 3}",
        queue_id=number % 2,
        body=b"b" * (number * 37 % 500),
        properties=b"KEYS\x01k%d\x02TAGS\x01a\x02" % number,
        born_host=bytes((127, 0, 0, 1, 0, 0, 1, 1)),
        store_host=bytes((127, 0, 0, 1, 0, 0, 1, 2)),
        born_timestamp=1,
    )


def settings(root: Path) -> MessageStoreConfig:
    return MessageStoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=1 << 16,
        mapped_file_size_consume_queue=2000,
        max_hash_slot_num=500,
        max_index_num=400,
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_copy_made_during_writes_holds_each_message_stored_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Messages are stored and dispatched before each file is copied."""
    random = Random(seed)
    store = MessageStore(settings(tmp_path / "store"))
    store.load()
    store.start()
    take = Output.take
    numbers = itertools.count()

    def write(count: int) -> None:
        for _ in range(count):
            store.put_message(inner(next(numbers)))
            if random.random() < 0.3:
                store.dispatch()

    def write_first(self: Output, source: Path, name: str, *, sealed: bool) -> Path:
        write(random.randrange(12))
        return take(self, source, name, sealed=sealed)

    write(random.randrange(400))
    before = len(messages_of(tmp_path / "store"))
    out = tmp_path / "copy"
    with monkeypatch.context() as patch:
        patch.setattr(Output, "take", write_first)
        done = copy_store(StoreDirectory(tmp_path / "store"), out, links=seed % 2 == 1)
    store.dispatch()
    store.shutdown()
    assert done.running
    assert done.ok, done.findings
    assert find_bounds(StoreDirectory(out))[1] == done.max_physical_offset
    copied = messages_of(out)
    originals = messages_of(tmp_path / "store")
    assert before <= len(copied) < len(originals)
    assert copied == originals[: len(copied)]
    opened = MessageStore(settings(out))
    opened.load()
    opened.start()
    opened.dispatch()
    opened.shutdown()
    assert messages_of(out) == copied
    found = verify(StoreDirectory(out))
    assert not [row for row in found.findings if is_bad(row)]
    assert sum(queue.max_offset for queue in found.queues) == len(copied)


def test_an_output_that_is_not_empty_is_refused_and_unchanged(tmp_path: Path) -> None:
    made = MadeStore(tmp_path / "store")
    made.put()
    made.write_all()
    out = tmp_path / "mine"
    out.mkdir()
    (out / "file").write_text("mine")
    for call in (copy_store, plan_copy):
        with pytest.raises(ConfigError, match="not empty"):
            call(StoreDirectory(made.root), out)
        with pytest.raises(ConfigError, match="inside the store"):
            call(StoreDirectory(made.root), made.root / "copy")
        with pytest.raises(ConfigError, match="not the directory of a store"):
            call(StoreDirectory(made.root / "commitlog"), tmp_path / "new")
    assert [path.name for path in out.iterdir()] == ["file"]
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), DiskFullError("full")])
def test_an_incomplete_copy_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    made = MadeStore(tmp_path / "store")
    for _ in range(40):
        made.put()
    made.write_all()
    take = Output.take
    calls = []

    def fail(self: Output, source: Path, name: str, *, sealed: bool) -> Path:
        calls.append(name)
        if len(calls) == 5:
            raise error
        return take(self, source, name, sealed=sealed)

    monkeypatch.setattr(Output, "take", fail)
    with pytest.raises(type(error)):
        copy_store(StoreDirectory(made.root), tmp_path / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


def test_a_store_that_is_written_without_a_visible_lock_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = MadeStore(tmp_path / "store")
    made.put()
    made.write_all()
    take = Output.take

    def write_first(self: Output, source: Path, name: str, *, sealed: bool) -> Path:
        if name == "checkpoint":
            made.put()
            made.write()
        return take(self, source, name, sealed=sealed)

    monkeypatch.setattr(Output, "take", write_first)
    with pytest.raises(StoreError, match="has written to the store"):
        copy_store(StoreDirectory(made.root), tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_log_files_that_expire_during_the_copy_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = MadeStore(tmp_path / "store")
    for _ in range(60):
        made.put()
    made.write_all()
    log = sorted((made.root / "commitlog").iterdir())
    take = Output.take

    def expire(self: Output, source: Path, name: str, *, sealed: bool) -> Path:
        if name == f"commitlog/{log[1].name}":
            log[0].unlink()
            log[1].unlink()
        return take(self, source, name, sealed=sealed)

    monkeypatch.setattr(Output, "take", expire)
    monkeypatch.setattr(StoreDirectory, "state", running_state(StoreDirectory(made.root)))
    done = copy_store(StoreDirectory(made.root), tmp_path / "copy")
    assert done.skipped == [f"commitlog/{log[1].name}"]
    assert done.min_physical_offset == int(log[2].name)
    copied = sorted(path.name for path in (tmp_path / "copy" / "commitlog").iterdir())
    assert copied[0] == log[2].name
    assert done.ok, done.findings


def running_state(store: StoreDirectory) -> Callable[[StoreDirectory], StateRow]:
    """A state that shows this process as the holder of the lock of one store."""
    read = StoreDirectory.state

    def state(self: StoreDirectory) -> StateRow:
        found = read(self)
        if self.root != store.root:
            return found
        return msgspec.structs.replace(found, held_by=os.getpid())

    return state


def test_a_rocksdb_database_in_use_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = MadeStore(tmp_path / "store")
    made.put()
    made.write_all()
    (made.root / "consumequeue_r").mkdir()
    (made.root / "consumequeue_r" / "CURRENT").write_text("MANIFEST-000001\n")
    (made.root / "consumequeue_r" / "MANIFEST-000001").write_text("")
    copy_store(StoreDirectory(made.root), tmp_path / "stopped")
    monkeypatch.setattr(StoreDirectory, "state", running_state(StoreDirectory(made.root)))
    with pytest.raises(StoreError, match="RocksDB database in use"):
        copy_store(StoreDirectory(made.root), tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_plan_names_the_extent_and_writes_nothing(tmp_path: Path) -> None:
    made = MadeStore(tmp_path / "store", start=8192)
    for _ in range(20):
        made.put()
    made.write_all()
    plan = plan_copy(StoreDirectory(made.root), tmp_path / "copy")
    assert (plan.min_physical_offset, plan.max_physical_offset) == (8192, made.end)
    assert plan.files == len(contents(made.root))
    assert not (tmp_path / "copy").exists()


def test_bounds_of_an_empty_log_are_zero(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    assert store_copy.find_bounds(StoreDirectory(tmp_path)) == (0, 0)
