"""Files missing, short, empty or corrupt: the log restores them, and the loss is reported.

Each damage is met after a clean stop, after a kill, and after a power cut.
"""

import json
import shutil
from pathlib import Path

import pytest

from broker.errors import StoreError
from broker.message.message import MessageExt
from broker.message.record import decode_record, encode_record
from broker.store.format.commitlog import encode_blank
from broker.store.format.state import QUEUE_ENDS
from broker.store.logfile.disk import Disk
from broker.store.message_store import MessageStore
from broker.store.recovery.log_scan import LogScan
from broker.store.recovery.store_recovery import abort_content

MESSAGES = 120
SHORT = 300
STOPS = ("clean", "killed", "power-cut")


@pytest.fixture
def filled(stores, inner):
    """A closed store: several files of the log, of each of two queues and of the index."""
    store = stores.start()
    places = []
    for n in range(MESSAGES):
        stores.clock.advance(700)
        result = store.put_message(
            inner(
                queue_id=n % 2,
                body=b"%04d" % n * 30,
                properties={"KEYS": f"k{n}", "TAGS": f"t{n % 3}"},
            )
        )
        places.append(result)
    stores.close(store)
    return places


def files(stores, kind):
    return sorted(path for path in (stores.root / kind).rglob("*") if path.is_file())


def leave(stores, stop):
    """Make the directory look as after this kind of stop."""
    abort = stores.root / "abort"
    if stop == "killed":
        abort.write_bytes(abort_content(Disk(), str(stores.root)))
    elif stop == "power-cut":
        abort.write_bytes(b"")


def report_of(store):
    report = store.report
    return "\n".join(
        [
            *report.notes,
            *report.removed_files,
            *(f"{d.path} at {d.physical_offset}: {d.reason}" for d in report.damaged_regions),
        ]
    )


def read_all(store):
    found = {}
    for queue_id in store.queues().get("TopicA", ()):
        offset = max(0, store.get_min_offset("TopicA", queue_id))
        while offset < store.get_max_offset("TopicA", queue_id):
            result = store.get_message("TopicA", queue_id, offset)
            for buffer in result.buffers:
                position = 0
                while position < len(buffer):
                    message = decode_record(buffer, position, check_crc=True)
                    found[int(message.body[:4])] = (queue_id, message.queue_offset)
                    position += message.total_size
            assert result.next_begin_offset > offset
            offset = result.next_begin_offset
    return found


def by_key(store, number):
    buffers = store.query_message("TopicA", f"k{number}", 64, 0, 1 << 62).buffers
    return [int(decode_record(buffer).body[:4]) for buffer in buffers]


def expected(numbers):
    return {n: (n % 2, n // 2) for n in numbers}


def check_all_there(store):
    assert read_all(store) == expected(range(MESSAGES))
    for number in range(MESSAGES):
        assert by_key(store, number).count(number) == 1, number


def check_continues(stores, store, inner):
    """New messages go behind the old ones, and a further start finds nothing to do."""
    result = store.put_message(inner(queue_id=0, body=b"9999", properties={"KEYS": "new"}))
    assert result.queue_offset == MESSAGES // 2
    store = stores.reopen(store)
    assert store.report.clean
    assert store.report.scanned_bytes == 0, store.report.notes
    assert not store.report.damaged_regions


def first(stores, kind):
    return files(stores, kind)[0]


def middle(stores, kind):
    found = files(stores, kind)
    assert len(found) > 2
    return found[1]


def last(stores, kind):
    return files(stores, kind)[-1]


def empty(path: Path):
    path.write_bytes(b"")


def shorten(path: Path):
    data = path.read_bytes()
    path.write_bytes(data[: min(SHORT, len(data) // 3)])


def cut_first_record(path: Path):
    path.write_bytes(path.read_bytes()[:100])


DERIVED = [
    (kind, which, corruption)
    for kind in ("consumequeue", "index")
    for which in (first, middle, last)
    for corruption in (Path.unlink, empty, shorten)
]


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize(
    ("kind", "which", "corruption"),
    DERIVED,
    ids=[f"{k}-{w.__name__}-{s.__name__}" for k, w, s in DERIVED],
)
def test_a_derived_file_comes_back(stores, filled, inner, kind, which, corruption, stop):
    path = which(stores, kind)
    corruption(path)
    leave(stores, stop)
    store = stores.start()
    check_all_there(store)
    name = path.name if kind == "index" else path.parent.name
    assert name in report_of(store)
    check_continues(stores, store, inner)


@pytest.mark.parametrize("stop", STOPS)
def test_the_only_index_file_is_rebuilt_from_its_first_half(stores, filled, inner, stop):
    """As in the store of a Java broker, no manifest confirms the configured length."""
    only, *others = files(stores, "index")
    for path in others:
        path.unlink()
    only.write_bytes(only.read_bytes()[: only.stat().st_size // 2])
    (stores.root / "queueEnds.json").unlink()
    leave(stores, stop)
    store = stores.start()
    assert only.name in report_of(store)
    check_all_there(store)
    check_continues(stores, store, inner)


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("field", [0, 8, 16, 24, 32, 36])
def test_a_spoiled_header_of_the_index_costs_no_key(stores, filled, inner, field, stop, rng):
    path = last(stores, "index")
    data = bytearray(path.read_bytes())
    data[field] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    leave(stores, stop)
    store = stores.start()
    check_all_there(store)
    check_continues(stores, store, inner)


def test_a_corrupt_index_is_rebuilt_with_the_same_entries(stores, filled, rng):
    path = last(stores, "index")
    before = path.read_bytes()
    data = bytearray(before)
    entries = 40 + 4 * 20
    data[entries + 10 * 20 + 5] ^= 0x40
    path.write_bytes(data)
    leave(stores, "power-cut")
    store = stores.start()
    assert path.name in report_of(store)
    check_all_there(store)
    stores.close(store)
    rebuilt = last(stores, "index")
    assert rebuilt.read_bytes()[entries:] == before[entries:]


@pytest.mark.parametrize("stop", STOPS)
def test_without_checkpoint(stores, filled, inner, stop):
    (stores.root / "checkpoint").unlink()
    leave(stores, stop)
    store = stores.start()
    check_all_there(store)
    check_continues(stores, store, inner)


def in_file(filled, start, end):
    return {n for n, place in enumerate(filled) if start <= place.physical_offset < end}


LOG = [
    (which, corruption) for which in (first, middle) for corruption in (Path.unlink, empty, shorten)
]


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize(
    ("which", "corruption"), LOG, ids=[f"{w.__name__}-{s.__name__}" for w, s in LOG]
)
def test_a_lost_log_file_loses_only_its_messages(stores, filled, inner, which, corruption, stop):
    path = which(stores, "commitlog")
    start = int(path.name)
    kept_to = start + (SHORT if corruption is shorten else 0)
    lost = {n for n in in_file(filled, start, start + 4096) if filled[n].physical_end > kept_to}
    corruption(path)
    leave(stores, stop)
    store = stores.start()
    found = read_all(store)
    assert found == expected(set(range(MESSAGES)) - lost)
    for number in found:
        assert number in by_key(store, number)
    report = report_of(store)
    if which is first and corruption is Path.unlink and stop != "clean":
        # the same as the log of a killed broker whose first file has expired
        assert "the log started at 0, now at 4096" in report
    else:
        assert path.name in report
    if corruption is shorten:
        at = max(place.physical_end for place in filled if place.physical_end <= kept_to)
        assert str(at) in report_of(store)
    assert store.put_message(inner(queue_id=0, body=b"9999")).queue_offset == MESSAGES // 2
    store = stores.reopen(store)
    assert set(read_all(store)) >= set(found)


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("corruption", [Path.unlink, empty, cut_first_record])
def test_a_lost_end_of_the_log_is_reported(stores, filled, inner, corruption, stop):
    """It cannot be restored: the messages before it are served, and the offset is reported."""
    path = last(stores, "commitlog")
    kept = [n for n, place in enumerate(filled) if place.physical_end <= int(path.name)]
    assert len(kept) < MESSAGES
    corruption(path)
    leave(stores, stop)
    store = stores.start()
    assert read_all(store) == expected(kept)
    for number in kept:
        assert number in by_key(store, number)
    damage = store.report.damaged_regions[-1]
    assert damage.physical_offset == filled[kept[-1]].physical_end
    assert damage.physical_offset + damage.length == filled[-1].physical_end
    result = store.put_message(inner(queue_id=0, body=b"9999", properties={"KEYS": "new"}))
    assert result.queue_offset == len([n for n in kept if n % 2 == 0])
    store = stores.reopen(store)
    assert not store.report.damaged_regions


@pytest.mark.parametrize("stop", ["clean", "power-cut"])
def test_zeroed_pages_lose_only_their_messages(stores, inner, stop):
    config = stores.config(mapped_file_size_commit_log=1 << 16)
    store = stores.start(config)
    places = [
        store.put_message(
            inner(queue_id=n % 2, body=b"%04d" % n * 30, properties={"KEYS": f"k{n}"})
        )
        for n in range(MESSAGES)
    ]
    stores.close(store)
    path = first(stores, "commitlog")
    data = bytearray(path.read_bytes())
    data[8192:12288] = bytes(4096)
    path.write_bytes(data)
    # After a clean stop the log is read only when there is a reason.
    (stores.root / QUEUE_ENDS).unlink()
    leave(stores, stop)
    store = stores.start(config)
    lost = {n for n, p in enumerate(places) if p.physical_end > 8192 and p.physical_offset < 12288}
    found = read_all(store)
    assert set(found) == set(range(MESSAGES)) - lost
    damage = store.report.damaged_regions[0]
    assert (damage.path, damage.physical_offset) == (
        str(path),
        min(places[n].physical_offset for n in lost),
    )


@pytest.mark.parametrize("stop", STOPS)
def test_a_start_that_repairs_may_be_killed(stores, filled, inner, stop, monkeypatch):
    """A start fills up a short queue file and ends before the log is read: the next repairs it.

    In between the broker had stored more than was noted when it started.
    """
    ends = stores.root / QUEUE_ENDS
    noted = json.loads(ends.read_bytes())
    if stop != "clean":
        noted["queues"]["TopicA"] = {"0": 1, "1": 1}
        noted["logEnd"] = filled[1].physical_end
        ends.write_text(json.dumps(noted))
    shorten(middle(stores, "consumequeue"))
    leave(stores, stop)
    with monkeypatch.context() as patch:
        patch.setattr(LogScan, "run", lambda self, start: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            stores.load()
    store = stores.start()
    check_all_there(store)
    check_continues(stores, store, inner)


def test_a_file_known_to_be_missing_is_not_looked_for_again(stores, filled):
    middle(stores, "commitlog").unlink()
    store = stores.start()
    assert store.report.scanned_bytes
    store = stores.reopen(store)
    assert store.report.scanned_bytes == 0


def test_units_past_a_truncation_do_not_reappear(stores, filled):
    """Units past the end of a queue are erased: the log may contain their messages again later."""
    store = stores.start()
    queue = store.queue_table.find("TopicA", 0)
    queue.truncate_units(3)
    file = queue.files.files[-1]
    assert any(file.mapping[:60])
    assert not any(file.mapping[60:])
    # Lost again for the check at the end: the next start fills it from the log.
    assert store.get_max_offset("TopicA", 0) == 3
    (stores.root / QUEUE_ENDS).unlink()
    store.write_manifest = lambda: None


# --- files that cannot be opened are left unchanged -----------------------------------------------


def tree(root: Path):
    """Every file but the lock, with its bytes, length and time."""
    return {
        path.relative_to(root): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file() and path.name != "lock"
    }


def stray_name(stores):
    (stores.root / "commitlog" / "notes.txt").write_text("x")


def stray_queue_name(stores):
    (stores.root / "consumequeue" / "TopicA" / "1" / "zzz").write_text("x")


def long_file(stores):
    path = last(stores, "commitlog")
    path.write_bytes(path.read_bytes() + b"x")


def long_queue_file(stores):
    path = last(stores, "consumequeue")
    path.write_bytes(path.read_bytes() + b"x")


def long_index_file(stores):
    path = last(stores, "index")
    path.write_bytes(path.read_bytes() + b"x")


def no_log(stores):
    shutil.rmtree(stores.root / "commitlog")


def two_kinds(stores):
    (stores.root / "batchconsumequeue" / "TopicA" / "0").mkdir(parents=True)


def folder_for_a_file(stores):
    path = last(stores, "index")
    path.unlink()
    (stores.root / QUEUE_ENDS).unlink()
    (stores.root / QUEUE_ENDS).mkdir()


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize(
    "corruption",
    [
        stray_name,
        stray_queue_name,
        long_file,
        long_queue_file,
        long_index_file,
        no_log,
        two_kinds,
        folder_for_a_file,
    ],
)
def test_a_refused_change_has_no_effect(stores, filled, corruption, stop):
    corruption(stores)
    # Something that a start would change.
    (stores.root / "consumequeue" / "TopicA" / "0" / f"{10**6:020d}").write_bytes(b"")
    if corruption is not no_log:
        (stores.root / "commitlog" / f"{10**6:020d}").write_bytes(b"")
    leave(stores, stop)
    before = tree(stores.root)
    store = MessageStore(stores.config())
    with pytest.raises(StoreError) as caught:
        store.load()
    assert str(stores.root) in caught.value.message
    assert caught.value.hint
    assert tree(stores.root) == before
    # The teardown opens the store once more.
    shutil.rmtree(stores.root)


def test_a_unit_that_points_into_a_replaced_file_gives_no_bytes(stores, filled):
    """A long record of another file and a blank record: most units point between them."""
    path = files(stores, "commitlog")[1]
    host = bytes((127, 0, 0, 1, 0, 0, 0, 1))
    message = MessageExt(
        "TopicA", bytes(1000), b"", born_host_raw=host, store_host_raw=host, store_timestamp=1
    )
    record = encode_record(message)
    left = path.stat().st_size - len(record)
    path.write_bytes(record + encode_blank(left).ljust(left, b"\0"))
    (stores.root / QUEUE_ENDS).unlink()  # as of another broker: the whole log is read
    store = stores.load()
    assert str(path) in report_of(store)
    assert set(read_all(store)) < set(range(MESSAGES))
    stores.kill(store)
    shutil.rmtree(stores.root)  # its queues do not agree with the log any more


@pytest.mark.parametrize("stop", ["clean", "power-cut"])
@pytest.mark.parametrize("number", [1, 2])
def test_damage_across_the_start_of_a_file_does_not_end_the_log(stores, filled, stop, number):
    """Neither the end of one file nor the first records of the next one can be read."""
    before, after = files(stores, "commitlog")[number - 1 : number + 1]
    before.write_bytes(before.read_bytes()[:2000].ljust(4096, b"\0"))
    after.write_bytes(bytes(1000) + after.read_bytes()[1000:])
    (stores.root / "checkpoint").unlink()  # the whole log is read
    (stores.root / QUEUE_ENDS).unlink()
    leave(stores, stop)
    store = stores.load()
    begin, end = int(after.name) - 2096 - 250, int(after.name) + 1000 + 250
    expected = {n for n, place in enumerate(filled) if not begin <= place.physical_offset < end}
    assert set(read_all(store)) >= expected
    stores.kill(store)


@pytest.mark.parametrize("stop", STOPS)
def test_a_damaged_record_after_a_missing_file_does_not_end_the_log(stores, filled, stop):
    missing, after = files(stores, "commitlog")[1:3]
    missing.unlink()
    after.write_bytes(bytes(1000) + after.read_bytes()[1000:])
    (stores.root / QUEUE_ENDS).unlink()
    leave(stores, stop)
    store = stores.load()
    assert max(read_all(store)) == MESSAGES - 1
    assert after.exists()
    stores.kill(store)


@pytest.mark.parametrize("count", [1, 2, 5, 32])
@pytest.mark.parametrize("filtered", [False, True])
def test_a_message_after_filler_units_is_returned_once(stores, inner, count, filtered):
    """Repair replaces the units of lost messages by copies of the next unit."""
    store = stores.start()
    for number in range(8):
        store.put_message(inner(body=b"%d" % number))
    store.worker.drain()
    stores.close(store)
    path = files(stores, "consumequeue")[0]
    units = path.read_bytes()
    path.write_bytes(units[:40] + units[80:100] * 2 + units[80:])
    store = stores.start()
    pulled, offset = [], 0
    while offset < 8:
        matcher = (lambda code: True) if filtered else None
        result = store.get_message("TopicA", 0, offset, count, matcher=matcher)
        data = b"".join(map(bytes, result.buffers))
        while data:
            message = decode_record(data)
            pulled.append(message.queue_offset)
            data = data[message.total_size :]
        offset = result.next_begin_offset
    assert pulled == [0, 1, 4, 5, 6, 7]
    stores.close(store)
    path.write_bytes(units)
