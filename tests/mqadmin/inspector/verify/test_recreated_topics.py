"""Records of a topic that was deleted and recreated are neither missing nor damaged."""

import json
from types import SimpleNamespace

import pytest

from mqadmin.inspector.store_manifest import DeletedTopics
from mqadmin.inspector.verify.queue_checks import MISSING, OTHER, TAGS, Run
from mqadmin.inspector.verify.recreated_topics import Recreations
from mqadmin.inspector.verify.report import QueueState
from mqadmin.inspector.verify.unit_view import NO_UNIT
from tests.support.made_store import MadeStore
from tests.support.store_units import encode_unit


def recreated(root, *, recorded: bool) -> tuple[MadeStore, int]:
    """A store whose topic was deleted after 10 messages and recreated, and that physical offset."""
    store = MadeStore(root, file_size=16384)
    for _ in range(10):
        store.put("Again")
    end = store.end
    store.queues["Again", 0] = []
    for _ in range(12):
        store.put("Again")
    store.write_all()
    if recorded:
        ends = {"logEnd": -1, "queues": {}, "deleted": {"Again": end}}
        (store.root / "queueEnds.json").write_text(json.dumps(ends))
    return store, end


@pytest.mark.parametrize("recorded", [True, False], ids=["our broker", "Java"])
def test_records_before_a_recreation_need_no_units(tmp_path, check, recorded: bool) -> None:
    store, end = recreated(tmp_path / "store", recorded=recorded)
    found, result = check(store.root)
    assert found == []
    assert result.summary.before_recreation == 10
    assert result.deleted[b"Again"] <= end


@pytest.mark.parametrize("recorded", [True, False], ids=["our broker", "Java"])
def test_units_missing_after_a_recreation_are_reported(tmp_path, check, recorded: bool) -> None:
    store, _ = recreated(tmp_path / "store", recorded=recorded)
    store.poke_unit("Again", 0, 5, bytes(20))
    found, result = check(store.root)
    assert [(one.kind, one.physical_offset) for one in found] == [("unitMissing", 100)]
    assert result.summary.before_recreation == 10


def test_a_unit_of_a_deleted_record_is_reported(tmp_path, check) -> None:
    store, _ = recreated(tmp_path / "store", recorded=True)
    store.poke_unit("Again", 0, 12, encode_unit(*store.places[3], 2598919))
    found, result = check(store.root)
    assert [(one.kind, one.physical_offset) for one in found] == [("unit", 240)]
    assert result.mismatches == []


@pytest.mark.parametrize(("queue_offset", "found"), [(0, []), (1, ["unitMissing", "unit"])])
def test_a_light_message_queue_keeps_the_messages_of_a_deleted_topic(
    tmp_path, check, queue_offset: int, found: list[str]
) -> None:
    store = MadeStore(tmp_path / "store", file_size=16384)
    names = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": str(queue_offset)}
    place = store.put("Gone", properties=names)
    store.queues = {("%LMQ%a", 0): [encode_unit(place, store.places[0][1], 2598919)]}
    end = store.end
    store.put("Other")
    store.write_all()
    ends = {"logEnd": -1, "queues": {}, "deleted": {"Gone": end}}
    (store.root / "queueEnds.json").write_text(json.dumps(ends))
    assert [one.kind for one in check(store.root).found] == found


@pytest.mark.parametrize(("recorded", "found"), [({}, []), ({"0": 1}, ["queueMissing"])])
def test_a_deleted_topic_has_messages_in_light_message_queues_that_exist_or_existed(
    tmp_path, check, recorded: dict[str, int], found: list[str]
) -> None:
    """Without multi-dispatch a broker stores a client's property and adds no unit."""
    store = MadeStore(tmp_path / "store", file_size=16384)
    store.put(
        "Gone", properties={"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "0"}
    )
    store.queues.clear()
    end = store.end
    store.put("Other")
    store.write_all()
    ends = {"logEnd": -1, "queues": {"%LMQ%a": recorded}, "deleted": {"Gone": end}}
    (store.root / "queueEnds.json").write_text(json.dumps(ends))
    assert [one.kind for one in check(store.root).found] == found


@pytest.mark.parametrize("moved", [1, 2, 3])
def test_a_damaged_queue_id_is_not_a_deletion(tmp_path, check, moved: int) -> None:
    """The record is older than all others of the queue to which it seems to belong."""
    store = MadeStore(tmp_path / "store", file_size=16384)
    for queue_id in (0, 1):
        for _ in range(4):
            store.put("Later", queue_id)
    store.write_all()
    path = store.root / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[store.places[moved][0] + 15] = 1  # the last byte of queueId
    path.write_bytes(data)
    found, result = check(store.root)
    assert result.summary.before_recreation == 0
    assert result.deleted == {}
    assert "unit" in [one.kind for one in found]


# ---- the decision


def table(deleted: dict[bytes, int] | None = None, restarts: dict[bytes, int] | None = None):
    return SimpleNamespace(deleted=DeletedTopics(deleted or {}), restarts=restarts or {})


def queue(*runs: Run, first: int = 0) -> SimpleNamespace:
    files = [SimpleNamespace(first=first, count=100)]
    return SimpleNamespace(topic="T", queue_id=0, runs=list(runs), files=files)


def state(first: int, end: int) -> QueueState:
    return QueueState(topic="T", queue_id=0, min_offset=first, max_offset=end, units=end - first)


def test_a_run_stored_before_the_first_good_unit_shows_a_recreation() -> None:
    run = Run(MISSING, 0, 9, 100, 900)
    found = Recreations(table())
    one = queue(run)
    found.note_queue(one, state(0, 5), 1000)
    assert found.take_run(one, run, state(0, 5), 1000)
    assert (found.records, found.deleted) == (10, {b"T": 901})


@pytest.mark.parametrize(
    ("run", "first"),
    [
        (Run(TAGS, 0, 9, 100, 900), 1000),
        (Run(MISSING, 0, 9, 100, 1100), 1000),
        (Run(MISSING, 0, 2, 100, 900), 1000),
    ],
    ids=["tags only", "stored after the first unit", "before the minOffset"],
)
def test_other_runs_do_not_show_a_recreation(run: Run, first: int) -> None:
    found = Recreations(table())
    one = queue(run)
    current = state(5, 20)
    found.note_queue(one, current, first)
    assert not found.take_run(one, run, current, first)
    assert (found.records, found.deleted) == (0, {})


def test_a_first_record_with_a_damaged_queue_offset_shows_no_recreation() -> None:
    """Its unit points to the next record; the other queues of the topic begin before it."""
    run = Run(MISSING, 64, 64, 100, 100)
    found = Recreations(table())
    one = queue(run)
    found.note_queue(one, state(1, 8), 300)
    assert not found.take_run(one, run, state(1, 8), 300)
    assert found.deleted == {}


def test_runs_that_follow_each_other_from_0_show_a_recreation() -> None:
    """Damage at the first units of the new queue does not hide it."""
    replaced, beyond = Run(OTHER, 0, 4, 100, 500), Run(MISSING, 5, 9, 600, 900)
    found = Recreations(table())
    one = queue(replaced, beyond)
    found.note_queue(one, state(1, 5), 1000)
    for run in (replaced, beyond):
        assert found.take_run(one, run, state(1, 5), 1000)
    assert (found.records, found.deleted) == (10, {b"T": 901})


def test_a_queue_without_good_units_is_decided_by_the_other_queues_of_the_topic() -> None:
    restarted, empty = queue(Run(MISSING, 0, 9, 100, 900)), queue(Run(MISSING, 0, 3, 150, 400))
    found = Recreations(table())
    found.note_queue(restarted, state(0, 5), 1000)
    found.note_queue(empty, state(0, 0), NO_UNIT)
    assert found.take_run(empty, empty.runs[0], state(0, 0), NO_UNIT)
    assert not found.take_run(empty, Run(MISSING, 4, 6, 1200, 1400), state(0, 0), NO_UNIT)


def test_a_recorded_deletion_is_exact() -> None:
    found = Recreations(table(deleted={b"T": 500}))
    restarted = queue(Run(MISSING, 0, 9, 100, 900))
    found.note_queue(restarted, state(0, 5), 1000)
    assert not found.take_run(queue(), Run(MISSING, 0, 0, 600, 600), state(0, 0), NO_UNIT)
    assert found.take_absent("T", 499, 3)
    assert not found.take_absent("T", 500, 3)


def test_restarts_of_queues_without_files_count_as_deletions() -> None:
    found = Recreations(table(restarts={b"T": 700}))
    assert found.deleted == {b"T": 700}
    assert found.take_absent("T", 699, 4)
    assert found.records == 4
