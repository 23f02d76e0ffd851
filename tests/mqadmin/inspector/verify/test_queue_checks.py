"""Queues against the log: missing and wrong units, files of queues, queues without files."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.common.sysflag import INNER_BATCH
from broker.errors import StoreError
from broker.store.format.commitlog import file_name
from broker.store.format.consumequeue import BatchConsumeQueueUnit, ConsumeQueueUnit
from mqadmin.inspector.directory import QueueFiles, StoreDirectory
from mqadmin.inspector.files import open_bytes
from mqadmin.inspector.verify.queue_checks import (
    FINE,
    MISSING,
    OTHER,
    TAGS,
    MissingQueue,
    OpenFiles,
    Queue,
    QueueTable,
    Run,
    UnitFile,
    usual_lengths,
)
from mqadmin.inspector.verify.report import Findings
from tests.support.made_store import MadeStore
from tests.support.store_units import encode_batch_unit, encode_unit

Check = Callable[..., "object"]
A0 = f"consumequeue/TopicA/0/{file_name(0)}"


@pytest.fixture
def long(tmp_path: Path) -> MadeStore:
    """One queue of 75 units in three files."""
    store = MadeStore(tmp_path / "store", file_size=65536)
    for _ in range(75):
        store.put()
    store.write_all()
    return store


def test_a_sound_store_has_no_findings(sound: MadeStore, check) -> None:
    found, result = check(sound.root)
    assert found == []
    assert result.summary.ok
    assert (result.summary.units, result.summary.units_checked, result.summary.queues) == (
        60,
        60,
        4,
    )


@pytest.mark.parametrize(("first", "count"), [(0, 1), (5, 1), (5, 4)])
def test_empty_units_of_existing_records_are_one_finding(
    sound: MadeStore, check, first: int, count: int
) -> None:
    sound.poke_unit("TopicA", 0, first, bytes(count * 20))
    found, result = check(sound.root)
    assert found == [("unitMissing", "error", A0, first * 20, count * 20)]
    assert result.broken_queues == {("TopicA", 0)}


def test_each_group_of_adjacent_missing_units_is_a_finding(sound: MadeStore, check) -> None:
    sound.poke_unit("TopicA", 0, 2, bytes(40))
    sound.poke_unit("TopicA", 0, 9, bytes(20))
    found, _ = check(sound.root)
    assert found == [
        ("unitMissing", "error", A0, 40, 40),
        ("unitMissing", "error", A0, 180, 20),
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda unit: encode_unit(unit.physical_offset + 1, unit.size, unit.tags_code),
        lambda unit: encode_unit(unit.physical_offset, unit.size + 1, unit.tags_code),
    ],
)
def test_a_unit_with_another_place_or_size_is_reported(sound: MadeStore, check, wrong) -> None:
    unit = ConsumeQueueUnit(*sound.record_of("TopicA", 0, 7), 2598919)
    sound.poke_unit("TopicA", 0, 7, wrong(unit))
    assert check(sound.root).found == [("unit", "error", A0, 140, 20)]


def test_a_unit_with_another_tags_code_is_reported(sound: MadeStore, check) -> None:
    sound.poke_unit("TopicA", 0, 7, encode_unit(*sound.record_of("TopicA", 0, 7), 4711))
    found, result = check(sound.root)
    assert found == [("tagsCode", "error", A0, 140, 20)]
    assert result.broken_queues == {("TopicA", 0)}


def test_a_queue_without_files_is_one_finding_with_its_extent(sound: MadeStore, check) -> None:
    shutil.rmtree(sound.root / "consumequeue" / "TopicB" / "1")
    found, result = check(sound.root)
    assert found == [("queueMissing", "error", "consumequeue/TopicB/1", 0, 10 * 20)]
    assert result.broken_queues == {("TopicB", 1)}


def test_a_missing_queue_file_is_reported_with_its_units(long: MadeStore, check) -> None:
    gone = long.root / "consumequeue" / "TopicA" / "0" / file_name(600)
    gone.unlink()
    found, _ = check(long.root)
    folder = "consumequeue/TopicA/0"
    assert found == [
        ("queueFiles", "warning", f"{folder}/{file_name(1200)}", 1200, None),
        ("unitMissing", "error", folder, 600, 600),
    ]


def test_a_short_queue_file_is_reported_with_the_place_of_its_end(long: MadeStore, check) -> None:
    path = long.root / "consumequeue" / "TopicA" / "0" / file_name(600)
    path.write_bytes(path.read_bytes()[:400])
    found, _ = check(long.root)
    name = f"consumequeue/TopicA/0/{path.name}"
    assert found[0] == ("queueFiles", "warning", name, 1000, None)
    assert ("unitMissing", "error", "consumequeue/TopicA/0", 1000, 200) in found


def test_a_queue_file_between_two_places_is_reported(long: MadeStore, check) -> None:
    folder = long.root / "consumequeue" / "TopicA" / "0"
    (folder / file_name(1200)).rename(folder / file_name(1220))
    kinds = {(one.kind, one.path) for one in check(long.root).found}
    assert ("queueFiles", f"consumequeue/TopicA/0/{file_name(1220)}") in kinds


@pytest.mark.parametrize("name", ["junk", "0000", "00000000000000000000.bak"])
def test_a_file_with_another_name_in_a_queue_is_reported(
    sound: MadeStore, check, name: str
) -> None:
    (sound.root / "consumequeue" / "TopicA" / "0" / name).write_bytes(b"x")
    found, _ = check(sound.root)
    assert found == [("queueFiles", "warning", f"consumequeue/TopicA/0/{name}", None, None)]


def test_only_the_requested_topic_is_compared(sound: MadeStore, check) -> None:
    sound.poke_unit("TopicA", 0, 5, bytes(20))
    assert check(sound.root, topic="TopicB").found == []
    assert [one.kind for one in check(sound.root, topic="TopicA").found] == ["unitMissing"]


def batch_store(tmp_path: Path, **changes: int) -> MadeStore:
    """A store with one batch of 3 messages in a BatchConsumeQueue; its unit has ``changes``."""
    store = MadeStore(tmp_path / "store", file_size=65536)
    fields = {"sys_flag": INNER_BATCH, "properties": {"INNER_NUM": "3", "TAGS": "TagA"}}
    units = []
    for number in range(2):
        physical = store.put("Batch", queue_offset=3 * number, **fields)
        unit = BatchConsumeQueueUnit(
            physical, store.places[-1][1], 2598919, store.keys[-1][2], 3 * number, 3
        )
        units.append(unit)
    units[1] = units[1]._replace(**changes)
    store.write(queues=False)
    store.write_index()
    store.write_topics()
    folder = store.root / "batchconsumequeue" / "Batch" / "0"
    folder.mkdir(parents=True)
    (folder / file_name(0)).write_bytes(b"".join(map(encode_batch_unit, units)).ljust(460, b"\0"))
    return store


def test_a_sound_batch_queue_has_no_findings(tmp_path: Path, check) -> None:
    assert check(batch_store(tmp_path).root).found == []


@pytest.mark.parametrize(
    "change",
    [
        {"physical_offset": 5},
        {"size": 7},
        {"tags_code": 1},
        {"store_timestamp": 9},
        {"batch_size": 2},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_field_of_a_batch_unit_is_compared(tmp_path: Path, check, change) -> None:
    store = batch_store(tmp_path, **change)
    (finding,) = check(store.root).found
    assert (finding.kind, finding.severity) == ("unit", "error")
    assert finding.path == f"batchconsumequeue/Batch/0/{file_name(0)}"
    assert finding.physical_offset == store.places[1][0]


def test_a_record_without_batch_unit_is_reported(tmp_path: Path, check) -> None:
    store = batch_store(tmp_path, base_offset=50)
    kinds = [one.kind for one in check(store.root).found]
    assert "unitMissing" in kinds


# ---- the parts


@pytest.fixture
def queue(long: MadeStore) -> Queue:
    (found,) = StoreDirectory(long.root).queue_files()
    return Queue(found, OpenFiles())


def test_matching_returns_one_code_per_deviation(queue: Queue, long: MadeStore) -> None:
    physical, size = long.record_of("TopicA", 0, 40)
    assert queue.match(40, physical, size, 2598919) == FINE
    assert queue.match(40, physical, size, None) == FINE
    assert queue.match(40, physical, size, 1) == TAGS
    assert queue.match(40, physical + 1, size, None) == OTHER
    assert queue.match(75, physical, size, None) == MISSING
    assert queue.match(10_000, physical, size, None) == MISSING
    assert queue.was_seen(40)
    assert not queue.was_seen(41)


def test_deviations_with_consecutive_offsets_and_one_code_are_one_run(queue: Queue) -> None:
    for code, offset in ((MISSING, 3), (MISSING, 4), (OTHER, 5), (MISSING, 7), (MISSING, 8)):
        queue.add_run(Run(code, offset, offset, offset * 100, offset * 100))
    assert queue.runs == [
        Run(MISSING, 3, 4, 300, 400),
        Run(OTHER, 5, 5, 500, 500),
        Run(MISSING, 7, 8, 700, 800),
    ]
    assert [run.records for run in queue.runs] == [2, 1, 2]


def test_files_whose_units_were_all_seen_share_their_marks(long: MadeStore) -> None:
    (found,) = StoreDirectory(long.root).queue_files()
    queue = Queue(found, OpenFiles())
    for offset in range(60):
        physical, size = long.record_of("TopicA", 0, offset)
        queue.match(offset, physical, size, None)
        queue.match(offset, physical, size, None)  # again: a mark counts once
    assert queue.files[0].seen is queue.files[1].seen
    assert bytes(queue.files[1].seen) == b"\1" * 30
    assert not any(queue.files[2].seen)


@pytest.mark.parametrize("written", [0, 1, 17, 4000])
def test_the_units_of_a_file_end_at_the_last_one_that_is_not_empty(
    tmp_path: Path, written: int
) -> None:
    path = tmp_path / file_name(0)
    path.write_bytes((encode_unit(100, 10, 1) * written).ljust(200_000, b"\0"))
    with open_bytes(path) as file:
        assert UnitFile(path, 0, file).count == written


def test_a_unit_is_found_by_its_offset_and_none_outside_the_files(
    queue: Queue, long: MadeStore
) -> None:
    assert queue.unit(31) == (*long.record_of("TopicA", 0, 31), 2598919)
    assert queue.unit(75) is None
    assert queue.path_of(31).name == file_name(600)
    assert queue.path_of(1000) == queue.found.path


def test_the_usual_length_is_the_longer_of_two_equally_common_ones(tmp_path: Path) -> None:
    folder = tmp_path / "store" / "consumequeue" / "T" / "0"
    folder.mkdir(parents=True)
    for number, length in enumerate((600, 400)):
        (folder / file_name(number * 600)).write_bytes(bytes(length))
    assert usual_lengths(StoreDirectory(tmp_path / "store")) == {"classic": 600, "batch": 0}


def test_a_file_that_cannot_be_opened_counts_as_empty(tmp_path: Path, monkeypatch) -> None:
    def refuse(path: Path) -> object:
        raise StoreError(f"cannot read {path}", path=str(path))

    monkeypatch.setattr("mqadmin.inspector.verify.queue_checks.open_bytes", refuse)
    files = OpenFiles()
    assert len(files.get(tmp_path / "x")) == 0
    files.close()


def test_open_files_are_bounded_and_opened_once_while_kept(long: MadeStore, monkeypatch) -> None:
    opened: list[Path] = []

    def counting(path: Path):
        opened.append(path)
        return open_bytes(path)

    monkeypatch.setattr("mqadmin.inspector.verify.queue_checks.open_bytes", counting)
    first, second, third = sorted((long.root / "consumequeue" / "TopicA" / "0").iterdir())
    files = OpenFiles(2)
    for path in (first, second, first, second, third, second, first):
        assert len(files.get(path)) == 600
    assert opened == [first, second, third, first]
    files.close()


def test_missing_queues_are_joined_and_a_restart_at_0_starts_a_new_one(sound: MadeStore) -> None:
    table = QueueTable(StoreDirectory(sound.root), None, Findings())
    key = (b"TopicC", 0)
    table.join_absent(key, MissingQueue(2, 4, 5, 1000, 1100))
    table.join_absent(key, MissingQueue(3, 6, 8, 1200, 1500))
    assert table.absent[key] == MissingQueue(5, 4, 8, 1000, 1500)
    table.join_absent(key, MissingQueue(1, 0, 0, 1600, 1600))
    assert table.absent[key] == MissingQueue(1, 0, 0, 1600, 1600)
    assert table.deleted.records == 5
    assert table.restarts == {b"TopicC": 1501}
    table.close()


def test_a_queue_table_contains_only_the_requested_topic(sound: MadeStore) -> None:
    table = QueueTable(StoreDirectory(sound.root), "TopicA", Findings())
    assert {queue.topic for queue in table} == {"TopicA"}
    assert table.is_wanted(b"TopicA")
    assert not table.is_wanted(b"TopicB")
    table.close()


def test_queue_files_are_listed_by_their_start(long: MadeStore) -> None:
    (found,) = StoreDirectory(long.root).queue_files()
    assert isinstance(found, QueueFiles)
    assert [start for _, start in found.files] == [0, 600, 1200]


def test_deferred_deviations_are_added_in_order_when_joined(sound: MadeStore) -> None:
    table = QueueTable(StoreDirectory(sound.root), None, Findings())
    table.defer()
    queue = table.queues[b"TopicA", 0]
    for offset in (3, 4):
        queue.add_run(Run(MISSING, offset, offset, offset * 100, offset * 100))
        table.lacks((b"TopicC", 0), offset, offset * 100)
    assert queue.runs == []
    assert table.absent == {}
    table.join_deferred()
    assert queue.runs == [Run(MISSING, 3, 4, 300, 400)]
    assert table.absent == {(b"TopicC", 0): MissingQueue(2, 3, 4, 300, 400)}
    assert queue.take_deferred() == []
    assert table.take_deferred((b"TopicC", 0)) == []
    table.close()
