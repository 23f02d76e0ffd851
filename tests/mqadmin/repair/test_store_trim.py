"""Trimmed stores: exactly the oldest files are missing, and brokers open the rest."""

import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker.errors import ConfigError, DiskFullError, StoreError, StoreLockedError
from broker.store.config import MessageStoreConfig
from broker.store.message_store import MessageStore
from broker.store.results import MessageExtBrokerInner
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.messages import scan_messages
from mqadmin.inspector.queries.queues import queue_rows
from mqadmin.inspector.verify.verifier import verify
from mqadmin.message_row import MessageRow
from mqadmin.repair import store_trim
from mqadmin.repair.files import Output
from mqadmin.repair.store_trim import (
    TrimResult,
    Unconsumed,
    first_kept_by_size,
    first_kept_by_time,
    plan_trim,
    trim_in_place,
    trim_store,
)
from tests.support.made_store import NOW, MadeStore, fingerprint

FILE = 4096


def settings(root: Path) -> MessageStoreConfig:
    return MessageStoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=FILE,
        mapped_file_size_consume_queue=400,
        max_hash_slot_num=50,
        max_index_num=40,
    )


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


def messages_of(root: Path) -> list[tuple[int, str, int]]:
    return [
        (row.physical_offset, row.topic, row.queue_offset)
        for row in scan_messages(StoreDirectory(root))
        if isinstance(row, MessageRow)
    ]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store of our broker: 400 messages, stopped."""
    store = MessageStore(settings(tmp_path / "store"))
    store.load()
    store.start()
    for number in range(400):
        store.put_message(inner(number))
    store.dispatch()
    store.shutdown()
    return tmp_path / "store"


def test_only_messages_of_removed_files_are_missing(root: Path, tmp_path: Path) -> None:
    before = fingerprint_without_links(root)
    store = StoreDirectory(root)
    originals = messages_of(root)
    first = 20 * FILE
    plan = plan_trim(store, first)
    assert plan.messages == sum(place < first for place, _, _ in originals)
    assert {name.split("/")[0] for name in plan.files} == {"commitlog", "consumequeue", "index"}
    done = trim_store(store, plan, tmp_path / "out")
    assert done.ok, done.findings
    assert done.files_linked > 0
    assert messages_of(tmp_path / "out") == [row for row in originals if row[0] >= first]
    assert fingerprint_without_links(root) == before
    names = {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}
    copied = {str(p.relative_to(done.output)) for p in Path(done.output).rglob("*") if p.is_file()}
    assert names - copied - {"lock"} == set(plan.files)


def fingerprint_without_links(root: Path) -> dict[str, tuple[object, ...]]:
    """Names, contents and modification times; hard links change the ctime."""
    found = fingerprint(root)
    return {name: (*values[:3], values[-1]) for name, values in found.items()}


def test_a_broker_continues_after_a_trim(root: Path, tmp_path: Path) -> None:
    store = StoreDirectory(root)
    first = 20 * FILE
    plan = plan_trim(store, first)
    done = trim_in_place(store, plan, tmp_path / "backup", links=False)
    assert (done.output, done.backup) == (str(root), str(tmp_path / "backup"))
    rest = messages_of(root)
    opened = MessageStore(settings(root))
    assert opened.load().damaged_regions == []
    opened.start()
    opened.put_message(inner(400))
    opened.dispatch()
    opened.shutdown()
    assert messages_of(root)[:-1] == rest
    assert min(place for place, _, _ in rest) == first
    assert not [row for row in verify(store).findings if row.severity != "notice"]
    assert sum(row.units for row in queue_rows(store)) == len(rest) + 1
    assert len(messages_of(tmp_path / "backup")) == 400


def test_the_last_file_is_never_removed(root: Path, tmp_path: Path) -> None:
    store = StoreDirectory(root)
    plan = plan_trim(store, first_kept_by_time(store, 1 << 60))
    last = plan.max_physical_offset // FILE * FILE
    assert plan.new_min_physical_offset == last
    done = trim_store(store, plan, tmp_path / "out")
    assert done.ok, done.findings
    assert messages_of(tmp_path / "out") == [row for row in messages_of(root) if row[0] >= last]


def test_a_file_is_removed_by_time_if_the_next_one_begins_before_it(tmp_path: Path) -> None:
    made = MadeStore(tmp_path / "store")
    for _ in range(60):
        made.put()
    made.write_all()
    store = StoreDirectory(made.root)
    starts = [file.start for file in store.log_files() if file.start < made.end]
    numbers = {place: number for number, (place, _) in enumerate(made.places)}
    assert len(starts) > 2
    for before, start in itertools.pairwise(starts):
        stored = NOW + numbers[start] * 1000
        assert first_kept_by_time(store, stored) == before
        assert first_kept_by_time(store, stored + 1) == start


def test_kept_bytes_are_rounded_up_to_whole_files(tmp_path: Path) -> None:
    made = MadeStore(tmp_path / "store", start=2 * FILE)
    for _ in range(60):
        made.put()
    made.write_all()
    store = StoreDirectory(made.root)
    last = made.end // FILE * FILE
    assert first_kept_by_size(store, 0) == last
    assert first_kept_by_size(store, made.end - last) == last
    assert first_kept_by_size(store, made.end - last + 1) == last - FILE
    assert first_kept_by_size(store, 1 << 40) == 2 * FILE


@pytest.mark.parametrize("name", ["consumerOffset.json", "lmqConsumerOffset.json"])
def test_unconsumed_messages_are_counted_by_group_and_queue(tmp_path: Path, name: str) -> None:
    made = MadeStore(tmp_path / "store")
    for _ in range(60):
        made.put("TopicA")
    made.write_all()
    offsets = '{"offsetTable":{"TopicA@slow":{0:3},"TopicA@done":{0:60}}}'
    (made.root / "config" / name).write_text(offsets)
    store = StoreDirectory(made.root)
    plan = plan_trim(store, 2 * FILE)
    removed = sum(place < 2 * FILE for place, _ in made.places)
    assert plan.messages == removed
    assert plan.unconsumed == [
        Unconsumed(group="slow", topic="TopicA", queue_id=0, messages=removed - 3)
    ]
    assert plan_trim(store, 0).unconsumed == []


def test_a_store_in_use_is_refused(tmp_path: Path) -> None:
    store = MessageStore(settings(tmp_path / "store"))
    store.load()
    store.start()
    try:
        with pytest.raises(StoreLockedError):
            plan_trim(StoreDirectory(tmp_path / "store"), 0)
    finally:
        store.shutdown()


def test_existing_outputs_and_backups_are_refused_and_unchanged(root: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    store = StoreDirectory(root)
    plan = plan_trim(store, FILE)
    with pytest.raises(ConfigError, match="not empty"):
        trim_store(store, plan, tmp_path / "mine")
    with pytest.raises(ConfigError, match="exists"):
        trim_in_place(store, plan, tmp_path / "mine")
    assert (tmp_path / "mine" / "file").read_text() == "mine"
    assert len(messages_of(root)) == 400


def small(tmp_path: Path, count: int = 120) -> MadeStore:
    """A store of several log files, with an index."""
    store = MadeStore(tmp_path / "store")
    for number in range(count):
        store.put("TopicA", number % 2)
    store.write_all()
    return store


def offsets_file(root: Path, text: str) -> None:
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "consumerOffset.json").write_text(text)


def test_a_part_of_a_store_cannot_be_trimmed(tmp_path: Path) -> None:
    store = small(tmp_path)
    with pytest.raises(ConfigError, match="is not the directory of a store") as caught:
        plan_trim(StoreDirectory(store.root / "commitlog"), FILE)
    assert caught.value.hint == "give its root"


@pytest.mark.parametrize("text", ["{", '{"offsetTable":[]}', '{"offsetTable":{"T@g":{"a":1}}}'])
def test_damaged_consumer_offsets_stop_the_plan(tmp_path: Path, text: str) -> None:
    """The messages that groups would lose cannot be counted."""
    store = small(tmp_path)
    offsets_file(store.root, text)
    with pytest.raises(ConfigError, match=r"consumerOffset\.json") as caught:
        plan_trim(StoreDirectory(store.root), FILE)
    assert caught.value.hint == "mqadmin store repair restores it in a copy"


def test_index_files_are_removed_up_to_the_first_one_that_is_needed(tmp_path: Path) -> None:
    store = small(tmp_path)
    starts = [file.start for file in StoreDirectory(store.root).log_files()]
    counts = []
    for first_kept in starts[:-1]:
        plan = plan_trim(StoreDirectory(store.root), first_kept)
        counts.append(sum("index" in name for name in plan.files))
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] > 0


def test_a_missing_index_file_is_not_a_new_finding(root: Path, tmp_path: Path) -> None:
    """Its keys are not indexed before and after; only their number differs."""
    files = StoreDirectory(root).index_files()
    files[len(files) // 2].unlink()
    store = StoreDirectory(root)
    plan = plan_trim(store, store.log_files()[2].start)
    result = trim_store(store, plan, tmp_path / "out")
    assert (result.ok, result.findings) == (True, [])


def test_a_damaged_index_file_ends_the_removal_of_index_files(tmp_path: Path) -> None:
    store = small(tmp_path)
    last = [file.start for file in StoreDirectory(store.root).log_files()][-2]
    first = sorted((store.root / "index").iterdir())[0]
    first.write_bytes(first.read_bytes()[:10])
    plan = plan_trim(StoreDirectory(store.root), last)
    assert not any("index" in name for name in plan.files)


def test_a_plan_that_keeps_everything_removes_nothing(tmp_path: Path) -> None:
    plan = plan_trim(StoreDirectory(small(tmp_path).root), 0)
    assert (list(plan.files), plan.messages) == ([], 0)


@pytest.mark.parametrize("keep", [0, 1, FILE - 1, FILE, FILE + 1])
def test_the_last_bytes_are_always_in_the_files_that_are_kept(tmp_path: Path, keep: int) -> None:
    store = small(tmp_path)
    first_kept = first_kept_by_size(StoreDirectory(store.root), keep)
    assert first_kept % FILE == 0
    assert first_kept <= store.end - keep
    assert store.end - first_kept - keep < 2 * FILE


def test_more_bytes_than_the_log_has_keep_all_of_it(tmp_path: Path) -> None:
    assert first_kept_by_size(StoreDirectory(small(tmp_path).root), 1 << 40) == 0


def test_by_time_an_implausible_first_record_ends_the_removal(tmp_path: Path) -> None:
    """Its time is not known: the files from there on are kept."""
    store = small(tmp_path)
    starts = [file.start for file in StoreDirectory(store.root).log_files()]
    assert first_kept_by_time(StoreDirectory(store.root), NOW + 10_000_000) >= starts[3]
    store.poke(starts[2], bytes(8))
    assert first_kept_by_time(StoreDirectory(store.root), NOW + 10_000_000) == starts[1]


def test_a_store_without_a_log_keeps_from_the_start(tmp_path: Path) -> None:
    root = small(tmp_path).root
    for path in (root / "commitlog").iterdir():
        path.unlink()
    assert first_kept_by_time(StoreDirectory(root), NOW) == 0


def test_a_copy_that_does_not_verify_is_left_and_the_store_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = small(tmp_path)
    before = fingerprint(store.root)
    plan = plan_trim(StoreDirectory(store.root), FILE)
    honest = store_trim.trim_store

    def failing(*args: Any, **options: Any) -> TrimResult:
        return msgspec.structs.replace(honest(*args, **options), ok=False)

    monkeypatch.setattr(store_trim, "trim_store", failing)
    with pytest.raises(StoreError, match="does not verify") as caught:
        trim_in_place(StoreDirectory(store.root), plan, tmp_path / "backup")
    assert "was left unchanged" in caught.value.message
    assert caught.value.hint == f"check it with mqadmin store verify {tmp_path}/store.trimming"
    assert fingerprint(store.root).keys() == before.keys()
    assert not (tmp_path / "backup").exists()


def test_an_error_during_the_copy_removes_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = small(tmp_path)
    plan = plan_trim(StoreDirectory(store.root), FILE)

    def failing(self: Output) -> None:
        raise DiskFullError("no space", "", path="x")

    monkeypatch.setattr(Output, "sync", failing)
    with pytest.raises(DiskFullError):
        trim_store(StoreDirectory(store.root), plan, tmp_path / "out")
    assert not (tmp_path / "out").exists()
