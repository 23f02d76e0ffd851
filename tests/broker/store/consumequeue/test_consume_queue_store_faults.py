"""The table of queues: folders with other names, failing syncs, deletions, and a dict as model."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from broker.errors import FileNameError, StoreError
from broker.store.consumequeue.consume_queue_store import ConsumeQueueStore
from broker.store.logfile.disk import Disk
from tests.support.simulated_disk import Cutter, SimDisk

Make = Callable[..., ConsumeQueueStore]
SIZES = (200, 138)  # ten units, three units


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[ConsumeQueueStore] = []

    def new(disk: Disk | None = None, sizes: tuple[int, int] = SIZES) -> ConsumeQueueStore:
        folders = str(tmp_path / "consumequeue"), str(tmp_path / "batchconsumequeue")
        made.append(ConsumeQueueStore(disk or Disk(), folders, sizes))
        return made[-1]

    yield new
    for table in made:
        table.close()


def on_sim_disk() -> tuple[SimDisk, ConsumeQueueStore]:
    disk = SimDisk()
    for folder in ("/s", "/s/consumequeue", "/s/batchconsumequeue"):
        disk.make_folder(folder)
    return disk, ConsumeQueueStore(disk, ("/s/consumequeue", "/s/batchconsumequeue"), SIZES)


def append(table: ConsumeQueueStore, topic: str, queue_id: int, offset: int, physical: int) -> None:
    table.queue(table.topic(topic), queue_id).append(offset, physical, 10, 1)


# ---- folders


@pytest.mark.parametrize(
    "name", ["", "x", "-1", "+1", "01", "1_0", "\u0661", "2147483648", "9" * 40, "1.0", " 1"]
)
def test_a_folder_whose_name_is_not_a_queue_id_is_not_a_queue(
    make: Make, tmp_path: Path, name: str
) -> None:
    (tmp_path / "consumequeue" / "A" / name).mkdir(parents=True, exist_ok=True)
    table = make()
    table.load()
    assert list(table.all()) == []
    assert table.max_physical_offset() == -1


@pytest.mark.parametrize("queue_id", [0, 1, 2**31 - 1])
def test_the_smallest_and_the_largest_queue_id_are_loaded(make: Make, queue_id: int) -> None:
    table = make()
    append(table, "A", queue_id, 0, 100)
    table.close()
    again = make()
    again.load()
    assert [(one.topic.name, one.queue_id, one.max_offset) for one in again.all()] == [
        ("A", queue_id, 1)
    ]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/", "a\0b", "x" * 300])
def test_a_topic_that_cannot_be_a_folder_has_no_queue_and_leaves_no_trace(
    make: Make, tmp_path: Path, name: str
) -> None:
    table = make()
    with pytest.raises(FileNameError, match="not the name of a topic"):
        table.queue(table.topic(name), 0)
    assert table.find(name, 0) is None
    assert list(tmp_path.rglob("*")) == []


def test_bytes_that_are_not_utf8_name_one_topic(make: Make) -> None:
    table = make()
    broken = table.topic_of_data(b"\xff\xfe")
    assert table.topic_of_data(b"\xff\xfe") is broken
    assert table.topic_of_data("é".encode()) is table.topic("é")
    assert broken.name == "\ufffd\ufffd"


def test_light_queues_are_counted_while_their_topics_exist(make: Make) -> None:
    table = make()
    for name in ("%LMQ%a", "%LMQ%b", "%RETRY%g", "T"):
        table.topic(name)
        table.topic(name)
    assert table.lmq_count == 2
    assert table.delete_topic("%LMQ%a")
    assert not table.delete_topic("%LMQ%a")
    assert table.delete_topic("T")
    assert table.lmq_count == 1


def test_a_topic_keeps_its_kind_once_it_has_a_queue(make: Make, tmp_path: Path) -> None:
    table = make()
    append(table, "A", 0, 0, 100)
    table.set_batch_topics(["A", "B"])
    append(table, "B", 0, 0, 200)
    assert (tmp_path / "consumequeue" / "A" / "0").is_dir()
    assert (tmp_path / "batchconsumequeue" / "B" / "0").is_dir()
    assert table.folder_of("A", 3) == str(tmp_path / "consumequeue" / "A" / "3")
    assert table.folder_of("B", 3) == str(tmp_path / "batchconsumequeue" / "B" / "3")
    assert table.folder_of("new", 3) == str(tmp_path / "consumequeue" / "new" / "3")


def test_a_topic_with_queues_of_both_kinds_is_an_error_that_names_it(
    make: Make, tmp_path: Path
) -> None:
    for kind in ("consumequeue", "batchconsumequeue"):
        (tmp_path / kind / "A" / "0").mkdir(parents=True)
    with pytest.raises(StoreError, match="A: has folders below") as caught:
        make().survey()
    assert "queue.type" in caught.value.hint


@pytest.mark.parametrize(
    ("given", "used"),
    [((20, 46), (20, 46)), ((21, 47), (40, 92)), ((1, 1), (20, 46)), ((199, 137), (200, 138))],
)
def test_a_file_length_is_rounded_up_to_whole_units(
    make: Make, given: tuple[int, int], used: tuple[int, int]
) -> None:
    table = make(sizes=given)
    assert (table.file_size, table.batch_file_size) == used


def test_the_length_of_the_files_is_found_and_0_without_any(make: Make) -> None:
    table = make()
    assert (table.detect_file_size(), table.detect_batch_file_size()) == (0, 0)
    append(table, "A", 0, 0, 100)
    assert (table.detect_file_size(), table.detect_batch_file_size()) == (200, 0)


def test_a_queue_folder_without_files_is_incomplete_only_after_a_kill(
    make: Make, tmp_path: Path
) -> None:
    (tmp_path / "consumequeue" / "A" / "0").mkdir(parents=True)
    table = make()
    table.survey()
    assert not table.incomplete
    table = make()
    table.survey(crashed=True, killed=True)
    assert table.incomplete


# ---- syncs


def test_a_sync_that_fails_is_repeated_for_every_queue_that_was_left(make: Make) -> None:
    disk, table = on_sim_disk()
    for number in range(4):
        append(table, f"T{number}", 0, 0, number * 10)
    failures = 2

    def fail(name: str, path: str) -> None:
        nonlocal failures
        if name.startswith("sync") and failures:
            failures -= 1
            raise OSError(errno.EIO, "input/output error", path)

    disk.fail = fail
    for _ in range(2):
        with pytest.raises(OSError, match="input/output"):
            table.sync(0)
        assert {queue.topic.name for queue in table.dirty} == {"T0", "T1", "T2", "T3"}
        assert all(queue.dirty for queue in table.dirty)
    table.sync(0)
    assert not table.dirty
    assert all(queue.named and not queue.dirty for queue in table.all())


def test_a_folder_that_cannot_be_synced_leaves_its_new_queues_to_the_next_flush() -> None:
    disk, table = on_sim_disk()
    append(table, "T", 0, 0, 10)

    def fail(name: str, path: str) -> None:
        if name == "sync_folder" and path == "/s/consumequeue":
            raise OSError(errno.EIO, "input/output error", path)

    disk.fail = fail
    with pytest.raises(OSError, match="input/output"):
        table.sync(0)
    (queue,) = table.dirty
    assert not queue.named
    disk.fail = None
    table.sync(0)
    assert queue.named
    assert not table.dirty


def test_the_first_queue_of_a_store_survives_a_power_cut_after_its_flush() -> None:
    disk = SimDisk()
    disk.make_folder("/s")
    base = disk.copy()
    disk.recording = True
    table = ConsumeQueueStore(disk, ("/s/consumequeue", "/s/batchconsumequeue"), SIZES)
    append(table, "T", 0, 0, 10)
    table.sync(0)
    cutter = Cutter(disk.journal, base)
    cutter.advance(len(disk.journal))
    after = cutter.cut(Random(1), 0.0)
    assert after.folders["/s/consumequeue/T/0"]


def test_a_queue_below_the_pages_waits_in_its_turn_and_is_not_forgotten(make: Make) -> None:
    table = make()
    for number in range(3):
        append(table, f"T{number}", 0, 0, number * 10)
    for _ in range(3):
        table.sync(1)
        assert [queue.topic.name for queue in table.dirty] == ["T0", "T1", "T2"]
    table.sync(0)
    assert not table.dirty


def test_the_first_dirty_queue_after_each_flush_is_reported_once(make: Make) -> None:
    table = make()
    reports: list[int] = []
    table.on_first_dirty = lambda: reports.append(len(table.dirty))
    for round_number in range(3):
        for number in range(3):
            append(table, f"T{number}", 0, round_number, (round_number * 3 + number) * 10)
        table.sync(0)
    assert reports == [1, 1, 1]


# ---- deletions and the model


def test_a_deleted_topic_restarts_at_0_and_the_others_stay(make: Make, tmp_path: Path) -> None:
    table = make()
    for number in range(3):
        append(table, "A", 0, number, number * 10)
        append(table, "B", 0, number, number * 10 + 5)
    assert table.delete_topic("A")
    assert table.find("A", 0) is None
    assert not (tmp_path / "consumequeue" / "A").exists()
    append(table, "A", 0, 0, 500)
    queue = table.find("A", 0)
    assert queue is not None
    assert queue.max_offset == 1
    other = table.find("B", 0)
    assert other is not None
    assert other.max_offset == 3


def test_random_appends_deletions_syncs_and_restarts_equal_a_dict(make: Make, rng: Random) -> None:
    table = make()
    model: dict[tuple[str, int], list[int]] = {}
    physical = 0
    for _ in range(150):
        action = rng.random()
        key = rng.choice("ABC"), rng.randrange(3)
        if action < 0.8:
            entries = model.setdefault(key, [])
            append(table, *key, len(entries), physical)
            entries.append(physical)
            physical += rng.randrange(10, 100)
        elif action < 0.86:
            known = any(topic == key[0] for topic, _ in model)
            assert table.delete_topic(key[0]) is known
            model = {one: entries for one, entries in model.items() if one[0] != key[0]}
        elif action < 0.94:
            table.sync(rng.choice((0, 1)))
        else:
            table.sync(0)
            table.close()
            table = make()
            table.load()
        ends = {(q.topic.name, q.queue_id): q.max_offset for q in table.all() if q.max_offset}
        assert ends == {one: len(entries) for one, entries in model.items()}
        for one, entries in model.items():
            queue = table.find(*one)
            assert queue is not None
            offset = rng.randrange(len(entries))
            unit = queue.unit(offset)
            assert unit is not None
            assert unit[0] == entries[offset]
            assert queue.unit(len(entries)) is None
    newest = max((entries[-1] + 10 for entries in model.values()), default=-1)
    assert table.max_physical_offset() == newest


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EMFILE])
def test_a_queue_whose_file_cannot_be_created_has_no_unit_and_takes_the_next_one(
    number: int,
) -> None:
    disk, table = on_sim_disk()

    def fail(name: str, path: str) -> None:
        if name in ("open", "reserve") and path.startswith("/s/consumequeue/T"):
            raise OSError(number, os.strerror(number), path)

    disk.fail = fail
    queue = table.queue(table.topic("T"), 0)
    with pytest.raises(OSError, match=os.strerror(number)):
        queue.append(0, 100, 10, 1)
    assert queue.max_offset == 0
    disk.fail = None
    queue.append(0, 100, 10, 1)
    assert queue.max_offset == 1
    table.close()
