"""The manifest of queue ends: written, read, ignored when it is inconsistent."""

import json

import pytest

from broker.store.logfile.disk import Disk
from broker.store.recovery import store_manifest
from broker.store.recovery.store_manifest import StoreManifest
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.store_manifest import read_queue_ends
from tests.support.json_mutations import failures


@pytest.fixture
def ends(tmp_path):
    return StoreManifest(Disk(), str(tmp_path))


def test_a_missing_file_has_no_values(ends):
    ends.load([])
    assert ends.found is False
    assert ends.queues == {}


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "1", '{"logEnd": "x", "queues": {}}', '{"logEnd": 1, "queues": []}'),
        r'{"logEnd": 1, "queues": {"T\ud800": {"0": 1}}}',
        '{"logEnd": 1, "queues": {}, "sizes": [2147483648]}',
        '{"logEnd": 1, "queues": {}, "sizes": [4096, 400, -1]}',
    ],
)
def test_an_invalid_answer_is_ignored(ends, tmp_path, text):
    (tmp_path / "queueEnds.json").write_text(text)
    notes = []
    ends.load(notes)
    assert ends.found is False
    assert len(notes) == 1
    assert "queueEnds.json: not used" in notes[0]


def test_an_unreadable_object_is_an_error(tmp_path, ends):
    (tmp_path / "queueEnds.json").mkdir()
    with pytest.raises(OSError):
        ends.load([])


def test_written_data_is_read(stores, inner):
    store = stores.start()
    for n in range(5):
        store.put_message(inner(queue_id=n % 2))
    store.reader.damaged.append((100, 200))
    store.delete_topics(["Nobody"])
    stores.close(store)
    content = json.loads((stores.root / "queueEnds.json").read_text())
    assert content["queues"] == {"TopicA": {"0": 3, "1": 2}}
    ends = StoreManifest(Disk(), str(stores.root))
    ends.load([])
    assert ends.found
    assert ends.queues == {"TopicA": {0: 3, 1: 2}}
    assert ends.damaged == [(100, 200)]
    assert ends.log_end == store.max_physical_offset


def test_a_file_with_any_changed_bit_is_not_used_or_is_as_before(stores, inner, tmp_path):
    """Nothing else in a store contradicts a wrong deletion: its messages would be ignored."""
    store = stores.start()
    store.put_message(inner())
    store.delete_topics(["TopicA"])
    stores.close(store)
    path = stores.root / "queueEnds.json"
    whole = path.read_bytes()
    intact = StoreManifest(Disk(), str(stores.root))
    intact.load([])
    assert intact.deleted == {"TopicA": store.max_physical_offset}
    for bit in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        ends = StoreManifest(Disk(), str(stores.root))
        ends.load([])
        if ends.found:  # the name of the CRC has changed
            assert bit // 8 < whole.index(b",")
            assert (ends.bounds, ends.queues, ends.deleted) == (
                *(intact.bounds, intact.queues, intact.deleted),
            )
        recorded = read_queue_ends(StoreDirectory(stores.root))
        assert bool(recorded.problem) is not ends.found


def test_state_below_the_start_of_the_log_is_dropped(stores, inner):
    store = stores.start()
    for _ in range(10):
        store.put_message(inner(body=bytes(2000)))
    store.manifest.damaged += [(0, 100), (9000, 9100)]
    store.manifest.deleted = {"old": 50, "new": 9000}
    store.flush()
    store.log.files.remove_first()
    store.write_manifest()
    assert store.manifest.damaged == [(9000, 9100)]
    assert store.manifest.deleted == {"new": 9000}
    assert store.manifest.is_deleted("new", 8999)
    assert not store.manifest.is_deleted("new", 9000)
    assert not store.manifest.is_deleted("other", 0)


def test_queues_are_noted_as_far_as_the_log_is_flushed(stores, inner):
    store = stores.start()
    for n in range(50):
        store.put_message(inner(queue_id=n % 2))
        if n == 24:
            assert store.flush()
    store.write_manifest()
    content = json.loads((stores.root / "queueEnds.json").read_text())
    assert content["queues"] == {"TopicA": {"0": 13, "1": 12}}
    assert store.flush()
    store.write_manifest()
    content = json.loads((stores.root / "queueEnds.json").read_text())
    assert content["queues"] == {"TopicA": {"0": 25, "1": 25}}


def test_a_required_full_scan_survives_a_kill_until_the_next_write(stores, inner):
    """A kill during a repair must not leave a part undone."""
    store = stores.start()
    store.put_message(inner())
    store.flush()
    store.write_manifest()
    store.manifest.require_full_scan()
    ends = StoreManifest(Disk(), str(stores.root))
    ends.load([])
    assert ends.reread
    assert (ends.log_end, ends.queues) == (store.max_physical_offset, {"TopicA": {0: 1}})
    store.write_manifest()
    ends = StoreManifest(Disk(), str(stores.root))
    ends.load([])
    assert not ends.reread


def test_a_full_scan_required_before_the_first_write_leaves_everything_unknown(ends, tmp_path):
    ends.require_full_scan()
    again = StoreManifest(Disk(), str(tmp_path))
    again.load([])
    assert (again.reread, again.log_end, again.queues) == (True, -1, {})
    assert [again.size(kind) for kind in range(3)] == [0, 0, 0]


def test_a_file_with_a_value_of_another_type_is_used_or_ignored(tmp_path):
    """The file saves time only: whatever it contains, the store starts."""
    document = {
        "logMin": 0,
        "logEnd": 100,
        "queues": {"T": {"0": 5}},
        "begins": {"T": {"0": 0}},
        "damaged": [[1, 2]],
        "deleted": {"T": 4},
        "indexed": 5,
        "index": ["20240101000000000"],
        "sizes": [1, 2, 3],
        "reread": False,
    }

    def load(changed: object) -> None:
        (tmp_path / "queueEnds.json").write_text(json.dumps(changed))
        ends = StoreManifest(Disk(), str(tmp_path))
        ends.load([])
        if not ends.found:
            assert (ends.queues, ends.damaged, ends.deleted, ends.log_end) == ({}, [], {}, -1)

    _, wrong = failures(load, document)
    assert wrong == []


@pytest.fixture
def steps(monkeypatch):
    """Steps of one topic, as of very many queues; the deferred calls of the store."""
    monkeypatch.setattr(store_manifest, "QUEUES_PER_STEP", 1)
    deferred = []

    def run(count=None):
        for _ in range(len(deferred) if count is None else count):
            deferred.pop(0)()

    run.deferred = deferred
    return run


def read_manifest(root):
    return json.loads((root / "queueEnds.json").read_text())


def run_all(steps):
    while steps.deferred:
        steps()


def test_a_manifest_of_many_queues_is_written_in_steps(stores, inner, steps):
    """Messages stored between the steps are not expected by the next start."""
    store = stores.start(defer=steps.deferred.append)
    for n in range(6):
        store.put_message(inner(f"Topic{n}"))
    run_all(steps)
    assert store.flush()
    before = read_manifest(stores.root)
    store.try_write_manifest()
    assert read_manifest(stores.root) == before
    steps(2)
    for n in range(7):
        store.put_message(inner(f"Topic{n}"))
    assert read_manifest(stores.root) == before
    run_all(steps)
    content = read_manifest(stores.root)
    assert content["queues"] == {f"Topic{n}": {"0": 1} for n in range(6)}


def test_a_later_write_replaces_the_steps_of_an_earlier_one(stores, inner, steps):
    store = stores.start(defer=steps.deferred.append)
    for n in range(6):
        store.put_message(inner(f"Topic{n}"))
    run_all(steps)
    assert store.flush()
    store.try_write_manifest()
    steps(2)
    store.delete_topics(["Topic1"])
    content = read_manifest(stores.root)
    run_all(steps)
    assert read_manifest(stores.root) == content
    assert list(content["deleted"]) == ["Topic1"]


def test_a_store_that_is_closed_between_the_steps_keeps_the_last_manifest(stores, inner, steps):
    store = stores.start(defer=steps.deferred.append)
    for n in range(6):
        store.put_message(inner(f"Topic{n}"))
    run_all(steps)
    store.try_write_manifest()
    steps(1)
    stores.close(store)
    content = read_manifest(stores.root)
    assert len(content["queues"]) == 6
    run_all(steps)
    assert read_manifest(stores.root) == content
