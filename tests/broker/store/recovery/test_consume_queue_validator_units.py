"""Queues checked before the log scan: units without a record, missing queues, lost files."""

from pathlib import Path

import pytest

from broker.message.record import decode_record
from broker.store.consumequeue.consume_queue import Topic
from broker.store.logfile.disk import Disk
from broker.store.recovery.consume_queue_validator import MAX_NOTES, ConsumeQueueValidator
from broker.store.recovery.store_manifest import StoreManifest
from broker.store.results import RecoveryReport
from tests.support.store_units import encode_unit

UNITS_PER_FILE = 20  # of the small stores of these tests


@pytest.fixture
def store(stores, inner):
    """An open store with 25 messages in each of two queues."""
    opened = stores.start()
    for number in range(50):
        opened.put_message(inner(queue_id=number % 2, body=b"%04d" % number))
    opened.worker.drain()
    return opened


@pytest.fixture
def manifest(tmp_path) -> StoreManifest:
    return StoreManifest(Disk(), str(tmp_path))


@pytest.fixture
def report() -> RecoveryReport:
    return RecoveryReport()


@pytest.fixture
def validator(store, manifest, report) -> ConsumeQueueValidator:
    return ConsumeQueueValidator(store.log, store.queue_table, store.reput, manifest, report)


def ends(store) -> list[int]:
    return [store.get_max_offset("TopicA", queue_id) for queue_id in (0, 1)]


def bodies(store, queue_id: int) -> list[int]:
    found = []
    for offset in range(store.get_max_offset("TopicA", queue_id)):
        unit = store.queue_table.find("TopicA", queue_id).unit(offset)
        found.append(int(decode_record(store.get_record_at(unit[0], unit[1])).body))
    return found


# ---- units at the end of a queue


@pytest.mark.parametrize("intact", [True, False])
def test_units_with_their_records_are_kept(store, validator, report, intact: bool) -> None:
    validator.drop_unvalidated(intact=intact)
    assert ends(store) == [25, 25]
    assert report.notes == []


def foreign(store) -> bytes:
    """A unit of a record of the other queue."""
    unit = store.queue_table.find("TopicA", 1).unit(3)
    return encode_unit(unit[0], unit[1], unit[2])


def past_the_end(store) -> bytes:
    return encode_unit(store.max_physical_offset + 100, 200, 0)


def inside_a_record(store) -> bytes:
    unit = store.queue_table.find("TopicA", 0).unit(3)
    return encode_unit(unit[0] + 8, unit[1], 0)


def wrong_size(store) -> bytes:
    unit = store.queue_table.find("TopicA", 0).unit(24)
    return encode_unit(unit[0], unit[1] + 1, 0)


@pytest.mark.parametrize("unit", [foreign, past_the_end, inside_a_record, wrong_size])
@pytest.mark.parametrize("count", [1, 3])
def test_units_without_their_record_are_dropped_from_the_end(
    stores, store, validator, report, unit, count: int
) -> None:
    queue = store.queue_table.find("TopicA", 0)
    data = unit(store)
    at = (25 - count - UNITS_PER_FILE) * 20
    queue.files.files[-1].mapping[at : at + count * 20] = data * count
    validator.drop_unvalidated(intact=True)
    assert ends(store) == [25 - count, 25]
    (note,) = report.notes
    assert note.startswith("TopicA/0: ")
    assert str(count) in note
    assert bodies(store, 0) == [2 * number for number in range(25 - count)]


def test_a_wrong_unit_before_a_right_one_is_left_to_the_scan(store, validator, report) -> None:
    mapping = store.queue_table.find("TopicA", 0).files.files[-1].mapping
    right = bytes(mapping[0:20])
    mapping[0:20] = past_the_end(store)
    validator.drop_unvalidated(intact=True)
    assert ends(store) == [25, 25]
    assert report.notes == []
    mapping[0:20] = right


def test_a_queue_of_wrong_units_only_becomes_empty(store, validator) -> None:
    queue = store.queue_table.find("TopicA", 0)
    for file in queue.files.files:
        for at in range(0, 400, 20):
            file.mapping[at : at + 20] = past_the_end(store)
    validator.drop_unvalidated(intact=False)
    assert ends(store)[0] == 0


def test_the_queues_of_an_interrupted_deletion_are_destroyed(store, validator, manifest) -> None:
    manifest.deleted["TopicA"] = store.max_physical_offset
    validator.drop_unvalidated(intact=True)
    assert ends(store) == [0, 0]
    assert not any(queue.files.files for queue in store.queue_table.all())


def test_multi_dispatched_records_prove_the_units_of_further_queues(
    stores, inner, manifest, report
) -> None:
    opened = stores.start(stores.config(enable_multi_dispatch=True, enable_lmq=True))
    for _ in range(3):
        opened.put_message(inner(properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}))
    opened.worker.drain()
    assert opened.get_max_offset("%LMQ%a", 0) == 3
    made = ConsumeQueueValidator(opened.log, opened.queue_table, opened.reput, manifest, report)
    made.drop_unvalidated(intact=True)
    assert opened.get_max_offset("%LMQ%a", 0) == 3
    queue = opened.queue_table.find("%LMQ%a", 0)
    queue.files.files[-1].mapping[40:60] = bytes(queue.files.files[-1].mapping[0:20])
    made.drop_unvalidated(intact=True)
    assert opened.get_max_offset("%LMQ%a", 0) == 2


# ---- queues that the manifest knows


def test_queues_that_reach_their_recorded_ends_are_complete(validator, manifest, report) -> None:
    manifest.queues = {"TopicA": {0: 25, 1: 10}}
    assert not validator.missing()
    assert report.notes == []


@pytest.mark.parametrize("recorded", [{"TopicA": {0: 26}}, {"TopicA": {7: 1}}, {"Gone": {0: 5}}])
def test_a_missing_or_shorter_queue_is_reported(
    validator, manifest, report, recorded: dict[str, dict[int, int]]
) -> None:
    manifest.queues = recorded
    assert validator.missing()
    (note,) = report.notes
    ((topic, queues),) = recorded.items()
    ((queue_id, end),) = queues.items()
    assert str(Path(topic) / str(queue_id)) in note
    assert str(end) in note


def test_queues_of_topics_that_do_not_exist_any_more_are_not_missing(
    validator, manifest, report
) -> None:
    manifest.queues = {"Gone": {0: 5}}
    validator.known = {"TopicA"}
    assert not validator.missing()
    validator.known = {"TopicA", "Gone"}
    assert validator.missing()


def test_a_queue_that_lost_its_first_file_is_reported(store, validator, manifest, report) -> None:
    manifest.begins = {"TopicA": {0: 0}}
    assert not validator.missing()
    first = store.queue_table.find("TopicA", 0).files.files[0]
    first.start = 400
    assert validator.missing()
    assert first.path in report.notes[0]
    manifest.begins = {"TopicA": {0: 400}}
    assert not validator.missing()


def test_notes_are_bounded(validator, manifest, report) -> None:
    manifest.queues = {f"Gone{number}": {0: 1} for number in range(MAX_NOTES + 50)}
    assert validator.missing()
    assert len(report.notes) == MAX_NOTES


# ---- queues that end with a full file


def test_only_queues_whose_last_file_is_full_may_have_lost_one(stores, inner, manifest) -> None:
    opened = stores.start()
    for queue_id, count in ((0, UNITS_PER_FILE), (1, UNITS_PER_FILE + 1), (2, 3)):
        for _ in range(count):
            opened.put_message(inner(queue_id=queue_id))
    opened = stores.reopen(opened)  # the ends of files are set when they are opened
    report = RecoveryReport()
    made = ConsumeQueueValidator(opened.log, opened.queue_table, opened.reput, manifest, report)
    full = made.full()
    assert [(queue.queue_id, end) for queue, end in full] == [(0, UNITS_PER_FILE)]
    made.report_repaired(full)
    assert report.notes == []
    opened.put_message(inner(queue_id=0))
    opened.worker.drain()
    made.report_repaired(full)
    assert len(report.notes) == 1


# ---- deleted topics


@pytest.mark.parametrize(
    ("name", "known", "gone"),
    [
        ("TopicA", {"Other"}, False),  # it has files
        ("Fresh", {"Other"}, True),
        ("Fresh", {"Fresh"}, False),
        ("Fresh", None, False),  # topics.json cannot be read
        ("%RETRY%g", {"Other"}, False),
        ("SCHEDULE_TOPIC_XXXX", {"Other"}, False),
    ],
)
def test_a_topic_without_entry_and_files_is_deleted(
    store, validator, name: str, known: set[str] | None, gone: bool
) -> None:
    validator.known = known
    topic = store.queue_table.topics.get(name) or Topic(name)
    assert validator.is_gone(topic, 0) is gone


def test_records_before_a_recorded_deletion_are_deleted(validator, manifest) -> None:
    manifest.deleted["TopicA"] = 1000
    assert validator.is_gone(Topic("TopicA"), 999)
    assert not validator.is_gone(Topic("TopicA"), 1000)
