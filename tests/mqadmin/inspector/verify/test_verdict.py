"""The verdict on deviations: order, holes, lost, stale, superseded, filler and misplaced units."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from broker.common.topic import TopicConfig
from broker.store.format.checkpoint import Checkpoint, encode_checkpoint
from broker.store.format.commitlog import file_name
from broker.store.format.config import TOPICS, TopicsFile, encode_topics
from broker.store.format.consumequeue import (
    UNIT_SIZE,
    BatchConsumeQueueUnit,
    ConsumeQueueExtUnit,
    encode_ext_unit,
    ext_address,
)
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.files import FileBytes
from mqadmin.inspector.rows import StateRow
from mqadmin.inspector.verify.queue_checks import OpenFiles
from mqadmin.inspector.verify.verdict import Verdict, fresh_unit
from tests.support.made_store import NOW, MadeStore
from tests.support.store_units import encode_batch_unit, encode_unit

A0 = f"consumequeue/TopicA/0/{file_name(0)}"
TAG_A = 2598919


def drop_record(store: MadeStore, topic: str, queue_id: int, queue_offset: int) -> int:
    """Zero a record of the log; returns its physical offset."""
    physical, size = store.record_of(topic, queue_id, queue_offset)
    store.poke(physical, bytes(size))
    return physical


def test_a_unit_that_goes_back_in_the_log_is_an_order_error(sound: MadeStore, check) -> None:
    """Two records exchange their queue offsets, and their units with them."""
    one, other = sound.record_of("TopicA", 0, 4), sound.record_of("TopicA", 0, 5)
    for place, offset in ((one, 5), (other, 4)):
        sound.poke(place[0] + 20, offset.to_bytes(8, "big"))
    sound.poke_unit("TopicA", 0, 4, encode_unit(*other, TAG_A) + encode_unit(*one, TAG_A))
    assert check(sound.root).found == [("order", "error", A0, 100, 20)]


def test_an_empty_unit_of_a_lost_record_is_a_hole(sound: MadeStore, check) -> None:
    physical = drop_record(sound, "TopicA", 0, 6)
    sound.poke_unit("TopicA", 0, 6, bytes(20))
    found, result = check(sound.root)
    kinds = [(one.kind, one.physical_offset) for one in found]
    assert ("hole", physical) in kinds
    assert ("unitHole", 120) in kinds
    assert "unitMissing" not in {one.kind for one in found}
    assert [(row.topic, row.queue_id, row.messages) for row in result.losses] == []


def test_a_unit_of_a_lost_record_is_a_loss_but_not_a_finding_of_the_queue(
    sound: MadeStore, check
) -> None:
    physical = drop_record(sound, "TopicA", 0, 6)
    found, result = check(sound.root)
    assert [(one.kind, one.physical_offset) for one in found if one.kind != "indexEntry"] == [
        ("hole", physical)
    ]
    assert [(row.topic, row.queue_id, row.messages) for row in result.losses] == [("TopicA", 0, 1)]
    assert result.summary.lost_messages == 1


def test_a_unit_into_the_middle_of_a_record_is_reported_with_its_place(
    sound: MadeStore, check
) -> None:
    """A unit beyond the last record of its queue: no record is without a unit."""
    physical, _ = sound.record_of("TopicB", 0, 3)
    sound.poke_unit("TopicA", 0, 20, encode_unit(physical + 10, 100, 0))
    found, result = check(sound.root)
    assert found == [("unit", "error", A0, 400, 20)]
    assert [(row.topic, row.messages) for row in result.losses] == [("TopicA", 1)]


def test_a_unit_of_another_queues_record_is_a_mismatch(sound: MadeStore, check) -> None:
    place = sound.record_of("TopicB", 0, 9)
    sound.poke_unit("TopicA", 0, 20, encode_unit(*place, TAG_A))
    found, result = check(sound.root)
    assert found == [("unit", "error", A0, 400, 20)]
    (mismatch,) = result.mismatches
    assert mismatch == ("TopicA", 0, 20, place[0])


def test_a_record_with_the_queue_offset_of_an_earlier_one_is_superseded(
    sound: MadeStore, check
) -> None:
    one, other = sound.record_of("TopicA", 0, 4), sound.record_of("TopicA", 0, 5)
    sound.poke(other[0] + 20, (4).to_bytes(8, "big"))
    sound.poke_unit("TopicA", 0, 5, bytes(20))
    found, _ = check(sound.root)
    assert ("superseded", "error", A0, 80, 20) in found
    assert ("unitHole", "error", A0, 100, 20) in found
    assert one[0] < other[0]


@pytest.mark.parametrize(
    ("flushed", "expected"), [(NOW, ("stale", "notice")), (NOW + 900_000, ("lost", "error"))]
)
def test_units_past_the_end_are_lost_if_the_checkpoint_proves_a_later_message(
    sound: MadeStore, check, flushed: int, expected: tuple[str, str]
) -> None:
    """Without that proof they are left over from an earlier truncation."""
    (sound.root / "checkpoint").write_bytes(encode_checkpoint(Checkpoint(flushed, NOW, 0)))
    units = b"".join(encode_unit(sound.end + 500 + n * 200, 200, 1) for n in range(3))
    sound.poke_unit("TopicA", 0, 20, units)
    found, result = check(sound.root)
    assert (*expected, A0, 400, 60) in found
    assert result.summary.lost_messages == 3
    assert result.summary.ok is (expected[1] == "notice")


@pytest.mark.parametrize("crashed", [False, True])
def test_text_in_place_of_units_is_not_a_lost_message(
    sound: MadeStore, check, crashed: bool
) -> None:
    if crashed:
        (sound.root / "abort").write_bytes(b"")
    sound.poke_unit("TopicA", 0, 20, b"hello world\n" * 10)
    found, result = check(sound.root)
    assert {kind for kind, *_ in found} == {"unit"}
    assert result.summary.lost_messages == 0


def test_after_a_crash_units_past_the_end_are_a_warning(sound: MadeStore, check) -> None:
    (sound.root / "abort").write_bytes(b"")
    sound.poke_unit("TopicA", 0, 20, encode_unit(sound.end + 500, 200, 1))
    found, result = check(sound.root)
    assert found == [("lost", "warning", A0, 400, 20)]
    assert result.summary.state == "crashed"


@pytest.mark.parametrize("crashed", [False, True])
def test_records_after_the_last_dispatched_one_are_undispatched_only_after_a_clean_stop(
    sound: MadeStore, check, crashed: bool
) -> None:
    """After a crash the next start dispatches them."""
    last = max(
        (sound.record_of(topic, queue, len(units) - 1)[0], topic, queue, len(units) - 1)
        for (topic, queue), units in sound.queues.items()
    )
    _, topic, queue_id, queue_offset = last
    sound.poke_unit(topic, queue_id, queue_offset, bytes(20))
    if crashed:
        (sound.root / "abort").write_bytes(b"")
    found, result = check(sound.root)
    if crashed:
        assert found == []
        assert result.summary.not_yet_dispatched == 1
        assert result.lagging_queues == {(topic, queue_id)}
    else:
        folder = f"consumequeue/{topic}/{queue_id}"
        assert found == [("undispatched", "warning", folder, queue_offset * 20, 20)]


def test_after_a_crash_missing_units_before_the_end_are_a_warning(sound: MadeStore, check) -> None:
    (sound.root / "abort").write_bytes(b"")
    sound.poke_unit("TopicA", 0, 5, bytes(20))
    assert check(sound.root).found == [("unitMissing", "warning", A0, 100, 20)]


def test_filler_units_of_a_repair_are_a_notice(sound: MadeStore, check) -> None:
    """Units of lost records that equal the next good unit keep the queue readable."""
    for offset in (6, 7):
        drop_record(sound, "TopicA", 0, offset)
    good = encode_unit(*sound.record_of("TopicA", 0, 8), TAG_A)
    sound.poke_unit("TopicA", 0, 6, good * 2)
    found, result = check(sound.root)
    assert [one for one in found if one.kind == "bridge"] == [("bridge", "notice", A0, 140, None)]
    assert ("TopicA", 0) not in result.broken_queues


def test_a_missing_file_between_two_others_leaves_a_hole_of_its_lost_records(
    tmp_path: Path, check
) -> None:
    store = MadeStore(tmp_path / "store", file_size=65536)
    for _ in range(75):
        store.put()
    store.write_all()
    begin, end = store.record_of("TopicA", 0, 30)[0], store.record_of("TopicA", 0, 60)[0]
    store.poke(begin, bytes(end - begin))
    (store.root / "consumequeue" / "TopicA" / "0" / file_name(600)).unlink()
    found, _ = check(store.root)
    assert ("unitHole", "error", "consumequeue/TopicA/0", 600, 600) in found


def test_queues_of_deleted_topics_and_removed_queues_are_not_missing(
    sound: MadeStore, check
) -> None:
    shutil.rmtree(sound.root / "consumequeue" / "TopicB")
    assert {one.kind for one in check(sound.root).found} == {"queueMissing"}
    sound.queues = {key: units for key, units in sound.queues.items() if key[0] != "TopicB"}
    sound.write_topics()
    found, result = check(sound.root)
    assert found == []
    assert result.summary.before_recreation == 20


def test_an_extension_unit_holds_the_tags_code_of_its_unit(sound: MadeStore, check) -> None:
    place = sound.record_of("TopicA", 0, 5)
    sound.poke_unit("TopicA", 0, 5, encode_unit(*place, ext_address(0)))
    assert check(sound.root).found == [("tagsCode", "error", A0, 100, 20)]
    folder = sound.root / "consumequeue_ext" / "TopicA" / "0"
    folder.mkdir(parents=True)
    stored = NOW + sound.places.index(place) * 1000
    for timestamp, expected in ((stored, []), (stored + 1, ["extUnit"])):
        unit = encode_ext_unit(ConsumeQueueExtUnit(TAG_A, timestamp, b""))
        (folder / file_name(0)).write_bytes(unit.ljust(4096, b"\0"))
        assert [one.kind for one in check(sound.root).found] == expected


def test_lost_units_of_a_batch_queue_count_their_messages(tmp_path: Path, check) -> None:
    store = MadeStore(tmp_path / "store")
    store.put()
    store.write_all()
    folder = store.root / "batchconsumequeue" / "Batch" / "0"
    folder.mkdir(parents=True)
    unit = BatchConsumeQueueUnit(store.end + 100, 300, 0, NOW, 0, 7)
    (folder / file_name(0)).write_bytes(encode_batch_unit(unit).ljust(460, b"\0"))
    (store.root / "abort").write_bytes(b"")
    found, result = check(store.root)
    assert ("lost", "warning", f"batchconsumequeue/Batch/0/{file_name(0)}", None, None) in found
    assert [(row.topic, row.messages) for row in result.losses] == [("Batch", 7)]


def test_a_unit_is_read_from_the_file_of_its_offset(tmp_path: Path) -> None:
    folder = tmp_path / "0"
    assert fresh_unit(folder, 0) == -1
    folder.mkdir()
    assert fresh_unit(folder, 0) == -1
    (folder / file_name(0)).write_bytes(encode_unit(7, 1) + bytes(UNIT_SIZE))
    (folder / file_name(40)).write_bytes(encode_unit(9, 1) + bytes(10))
    assert [fresh_unit(folder, offset) for offset in range(4)] == [7, -1, 9, -1]


# --- a running broker: it writes while the store is read

IN_USE = [("state", "notice", "lock", None, None)]


@pytest.fixture
def running(sound: MadeStore, monkeypatch: pytest.MonkeyPatch) -> MadeStore:
    """A store whose lock a broker holds."""
    read = StoreDirectory.state

    def state(self: StoreDirectory) -> StateRow:
        return msgspec.structs.replace(read(self), held_by=os.getpid())

    monkeypatch.setattr(StoreDirectory, "state", state)
    return sound


def test_a_sound_store_in_use_has_no_findings(running: MadeStore, check) -> None:
    found, result = check(running.root)
    assert found == IN_USE
    assert result.summary.state == "running"


def test_units_past_the_end_of_a_log_in_use_are_of_newer_records(running: MadeStore, check) -> None:
    running.poke_unit("TopicA", 0, 20, encode_unit(running.end + 500, 200, 1))
    found, result = check(running.root)
    assert found == IN_USE
    assert result.summary.lost_messages == 0


def test_the_last_records_of_a_log_in_use_are_not_yet_dispatched(running: MadeStore, check) -> None:
    last = max(
        (running.record_of(topic, queue, len(units) - 1)[0], topic, queue, len(units) - 1)
        for (topic, queue), units in running.queues.items()
    )
    running.poke_unit(*last[1:], bytes(20))
    found, result = check(running.root)
    assert found == IN_USE
    assert result.summary.not_yet_dispatched == 1


def test_a_unit_in_the_middle_of_a_record_is_an_error_in_a_store_in_use_too(
    running: MadeStore, check
) -> None:
    physical, _ = running.record_of("TopicB", 0, 3)
    running.poke_unit("TopicA", 0, 20, encode_unit(physical + 10, 100, 0))
    found = [one for one in check(running.root).found if one not in IN_USE]
    assert [(one.kind, one.severity) for one in found] == [("unit", "error")]


# --- tags codes


@pytest.mark.parametrize("count", [1, 3])
def test_adjacent_units_with_a_wrong_tags_code_are_one_finding(
    sound: MadeStore, check, count: int
) -> None:
    for offset in range(5, 5 + count):
        sound.poke_unit("TopicA", 0, offset, encode_unit(*sound.record_of("TopicA", 0, offset), 7))
    found, result = check(sound.root)
    assert found == [("tagsCode", "error", A0, 100, 20)]
    assert f"{count} units from queue offset 5" in result.findings[0].detail
    assert "(the first: 7)" in result.findings[0].detail


@pytest.mark.parametrize("damage", ["cut", "zeros", "later file"])
def test_an_address_without_an_extension_unit_is_a_wrong_tags_code(
    sound: MadeStore, check, damage: str
) -> None:
    place = sound.record_of("TopicA", 0, 5)
    sound.poke_unit("TopicA", 0, 5, encode_unit(*place, ext_address(0)))
    folder = sound.root / "consumequeue_ext" / "TopicA" / "0"
    folder.mkdir(parents=True)
    stored = NOW + sound.places.index(place) * 1000
    unit = encode_ext_unit(ConsumeQueueExtUnit(TAG_A, stored, b""))
    name, data = file_name(0), unit.ljust(4096, b"\0")
    if damage == "cut":
        data = unit[:10]
    elif damage == "zeros":
        data = bytes(4096)
    else:
        name = file_name(4096)
    (folder / name).write_bytes(data)
    assert ("tagsCode", "error", A0, 100, 20) in check(sound.root).found


# --- mismatches: one unit or one record is wrong


def test_of_two_adjacent_wrong_units_neither_is_a_mismatch(sound: MadeStore, check) -> None:
    """A mismatch is repaired by its neighbours, which must be good."""
    places = [sound.record_of("TopicB", 0, 8), sound.record_of("TopicB", 0, 9)]
    units = b"".join(encode_unit(*place, TAG_A) for place in places)
    sound.poke_unit("TopicA", 0, 20, units)
    found, result = check(sound.root)
    assert [one.kind for one in found] == ["unit", "unit"]
    assert result.mismatches == []


def test_a_unit_of_another_size_than_its_record_is_not_a_mismatch(sound: MadeStore, check) -> None:
    physical, size = sound.record_of("TopicB", 0, 9)
    sound.poke_unit("TopicA", 0, 20, encode_unit(physical, size + 1, TAG_A))
    found, result = check(sound.root)
    assert [one.kind for one in found] == ["unit"]
    assert result.mismatches == []
    assert f"the unit has size {size + 1}" in result.findings[0].detail


def test_the_list_of_mismatches_is_bounded(
    sound: MadeStore, check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqadmin.inspector.verify.verdict.MAX_MISMATCHES", 1)
    for queue_id in (0, 1):
        count = len(sound.queues["TopicA", queue_id])
        place = sound.record_of("TopicB", 0, 9)
        sound.poke_unit("TopicA", queue_id, count, encode_unit(*place, TAG_A))
    found, result = check(sound.root)
    assert [one.kind for one in found] == ["unit", "unit"]
    assert len(result.mismatches) == 1


def test_a_wrong_unit_of_a_record_in_the_queue_shows_its_content(sound: MadeStore, check) -> None:
    sound.poke_unit("TopicA", 0, 5, encode_unit(12, 34, TAG_A))
    found, result = check(sound.root)
    assert [one.kind for one in found] == ["unit"]
    assert "it has physical offset 12, size 34" in result.findings[0].detail


# --- batch queues


def batch_queue(store: MadeStore, *units: BatchConsumeQueueUnit) -> str:
    folder = store.root / "batchconsumequeue" / "Batch" / "0"
    folder.mkdir(parents=True)
    data = b"".join(map(encode_batch_unit, units))
    (folder / file_name(0)).write_bytes(data.ljust(460, b"\0"))
    return f"batchconsumequeue/Batch/0/{file_name(0)}"


def test_batch_units_of_removed_files_are_not_checked(tmp_path: Path, check) -> None:
    store = MadeStore(tmp_path / "store", start=4096)
    store.put()
    store.write_all()
    batch_queue(store, BatchConsumeQueueUnit(100, 300, 0, NOW, 0, 7))
    found, result = check(store.root)
    assert [one for one in found if "batchconsumequeue" in one.path] == []
    assert result.losses == []
    assert (result.summary.units, result.summary.units_checked) == (2, 1)


def test_batch_units_of_a_damaged_region_are_losses_without_a_finding(
    tmp_path: Path, check
) -> None:
    store = MadeStore(tmp_path / "store")
    for _ in range(5):
        store.put()
    store.write_all()
    physical, size = store.places[2]
    store.poke(physical, bytes(size))
    path = batch_queue(store, BatchConsumeQueueUnit(physical, size, 0, NOW, 0, 4))
    found, result = check(store.root)
    assert path not in {one.path for one in found}
    assert ("Batch", 0, 4) in [(row.topic, row.queue_id, row.messages) for row in result.losses]


def test_a_batch_unit_of_a_record_of_another_topic_is_an_error_and_not_a_loss(
    tmp_path: Path, check
) -> None:
    store = MadeStore(tmp_path / "store")
    store.put()
    store.write_all()
    path = batch_queue(store, BatchConsumeQueueUnit(*store.places[0], 0, NOW, 0, 3))
    found, result = check(store.root)
    assert ("unit", "error", path, None, None) in found
    assert result.losses == []


# --- queues without files


def test_records_of_queues_that_a_topic_no_longer_has_are_not_missing(
    sound: MadeStore, check
) -> None:
    shutil.rmtree(sound.root / "consumequeue" / "TopicA" / "1")
    table = {
        "TopicA": TopicConfig(topic_name="TopicA", read_queue_nums=1, write_queue_nums=1),
        "TopicB": TopicConfig(topic_name="TopicB"),
    }
    (sound.root / "config" / TOPICS).write_text(encode_topics(TopicsFile(topics=table)))
    found, result = check(sound.root)
    assert found == []
    assert result.summary.before_recreation == len(sound.queues["TopicA", 1])


def test_a_missing_queue_names_its_records(sound: MadeStore, check) -> None:
    shutil.rmtree(sound.root / "consumequeue" / "TopicA" / "1")
    found, result = check(sound.root)
    count = len(sound.queues["TopicA", 1])
    first = sound.record_of("TopicA", 1, 0)[0]
    assert found == [("queueMissing", "error", "consumequeue/TopicA/1", 0, count * 20)]
    detail = result.findings[0].detail
    assert f"the log holds {count} of its messages (queue offsets 0 to {count - 1})" in detail
    assert f"in the log from physical offset {first} on" in detail


def test_any_damaged_byte_of_a_queue_is_found_or_harmless(sound: MadeStore, check, rng) -> None:
    """Both implementations agree on each (the fixture compares them)."""
    path = sound.root / A0
    whole = path.read_bytes()
    units = len(sound.queues["TopicA", 0])
    for _ in range(6):
        at = rng.randrange(units * 20)
        data = bytearray(whole)
        data[at] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        found, _ = check(sound.root)
        assert found, f"bit in byte {at} not found"


def test_a_queue_file_that_can_no_longer_be_read(
    sound: MadeStore, check, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could be read until the end of the scan of the log."""
    get, run = OpenFiles.get, Verdict.run

    def without_file(files: OpenFiles, path: Path) -> FileBytes:
        return FileBytes(path, b"", 0) if path == sound.root / A0 else get(files, path)

    def run_without_file(verdict: Verdict, progress: Callable[[int], None]) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(OpenFiles, "get", without_file)
            run(verdict, progress)

    monkeypatch.setattr(Verdict, "run", run_without_file)
    assert check(sound.root).found == [("unreadable", "error", A0, None, None)]
