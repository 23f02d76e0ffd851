"""The summary: counts of one fast pass, the same with and without looking into bodies."""

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker.common.sysflag import INNER_BATCH
from broker.message.batch import encode_batch
from broker.message.message import Message
from broker.store.format.vectorized import loops
from mqadmin.inspector import log as log_module
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries import summary as summary_module
from mqadmin.inspector.queries.find import message_rows
from mqadmin.inspector.queries.summary import summarize
from mqadmin.message_row import MessageRow

NOW = 1_700_000_000_000


def test_a_store_in_one_record(made: Any) -> None:
    summary, damage_rows = summarize(StoreDirectory(made.root))
    assert not damage_rows
    plain = msgspec.to_builtins(summary)
    sizes = {"TopicA": 0, "TopicB": 0}
    for number, (_, size) in enumerate(made.places):
        sizes["TopicA" if number % 3 else "TopicB"] += size
    assert plain["topics"] == [
        {"topic": "TopicA", "queues": 2, "messages": 26, "bytes": sizes["TopicA"]},
        {"topic": "TopicB", "queues": 2, "messages": 14, "bytes": sizes["TopicB"]},
    ]
    assert plain["messages"] == 40
    assert plain["bytes"] == sum(sizes.values())
    assert (plain["minPhysicalOffset"], plain["maxPhysicalOffset"]) == (0, made.end)
    assert plain["firstStoreTimestamp"] == NOW
    assert plain["lastStoreTimestamp"] == NOW + 39_000
    assert plain["blanks"] == (made.end - 1) // made.file_size
    assert plain["cleanStop"] is True
    assert plain["bodiesChecked"] is True
    assert plain["checkpoint"]["physicMsgTimestamp"] == NOW


def test_looking_into_bodies_changes_no_count(made: Any) -> None:
    with_crc, _ = summarize(StoreDirectory(made.root), check_crc=True)
    without, _ = summarize(StoreDirectory(made.root), check_crc=False)
    assert msgspec.structs.replace(without, bodies_checked=True) == with_crc


def test_a_large_log_is_walked_without_its_bodies(made: Any, monkeypatch: Any) -> None:
    made.flip(made.places[3][0] + 89)
    summary, _ = summarize(StoreDirectory(made.root))
    assert (summary.damages, summary.bodies_checked) == (1, True)
    monkeypatch.setattr(summary_module, "CHECK_CRC_BYTES", 100)
    summary, _ = summarize(StoreDirectory(made.root))
    assert (summary.damages, summary.bodies_checked) == (0, False)


def test_records_of_every_kind_are_counted(make_store: Any) -> None:
    store = make_store(file_size=16384)
    batch = encode_batch([Message("B", b"1"), Message("B", b"2")])
    for _ in range(10):
        store.put("plain")
        store.put("%RETRY%" + "g" * 150, queue_id=2)  # v2
        store.put("six", born_host_raw=bytes(20), store_host_raw=bytes(20))
        store.put("B", body=batch, sys_flag=INNER_BATCH, properties={"INNER_NUM": "2"})
    store.write()
    summary, damage_rows = summarize(StoreDirectory(store.root), check_crc=False)
    assert not damage_rows
    assert {topic.topic: topic.messages for topic in summary.topics} == {
        "plain": 10,
        "%RETRY%" + "g" * 150: 10,
        "six": 10,
        "B": 20,
    }
    assert summary.last_store_timestamp == NOW + 39_000


def test_summary_and_rows_agree_on_damaged_stores(made: Any, rng: random.Random) -> None:
    for _ in range(15):
        for _ in range(rng.randrange(1, 4)):
            made.flip(rng.randrange(made.end), 1 << rng.randrange(8))
        rows = list(message_rows(StoreDirectory(made.root)))
        summary, damage_rows = summarize(StoreDirectory(made.root), check_crc=True)
        messages = sum(isinstance(row, MessageRow) for row in rows)
        reported = [row for row in rows if not isinstance(row, MessageRow)]
        # A summary counts records: it neither decodes texts nor unpacks bodies.
        own = [row.kind for row in reported if row not in damage_rows]
        assert set(own) <= {"content", "decompress"}
        assert damage_rows == [row for row in reported if row in damage_rows]
        assert summary.messages == messages + own.count("content")
        fast, _ = summarize(StoreDirectory(made.root), check_crc=False)
        assert fast.messages == summary.messages
        assert fast.max_physical_offset == summary.max_physical_offset


def test_one_file_has_a_summary(made: Any) -> None:
    path, _ = made.file_of(5000)
    summary, damage_rows = summarize(StoreDirectory(path))
    assert not damage_rows
    assert summary.messages == sum(4096 <= offset < 8192 for offset, _ in made.places)
    assert (summary.min_physical_offset, summary.max_physical_offset) == (4096, 8192)


# --- two processes ---------------------------------------------------------------------------


@pytest.fixture
def in_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every log large enough for a second process."""
    monkeypatch.setattr(summary_module, "TWO_PROCESSES_BYTES", 0)
    monkeypatch.setattr(summary_module, "can_fork", lambda: True)


def both_ways(store: Any, check_crc: bool) -> tuple[Any, Any]:
    directory = StoreDirectory(store.root)
    parts = summary_module.count_in_two_processes(directory, check_crc)
    assert parts is not None
    assert len(parts) == 2
    return summarize(directory, check_crc=check_crc), summary_module.count_records(
        directory, check_crc
    )


def test_two_processes_count_the_same_as_one(made: Any, in_two: None) -> None:
    for check_crc in (True, False):
        (summary, damage_rows), alone = both_ways(made, check_crc)
        assert not damage_rows
        assert summary.messages == 40
        assert summary.max_physical_offset == alone.end == made.end
        assert summary.blanks == alone.blanks
        assert summary.first_store_timestamp == alone.first_timestamp
        assert summary.last_store_timestamp == alone.last_timestamp


def test_the_middle_is_among_the_records_where_written_zeros_follow(
    make_store: Any, in_two: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has no holes, as on a file system without them or after a copy."""
    monkeypatch.setattr(summary_module, "NEAR_BYTES", 4096)
    store = make_store(file_size=1 << 20)
    for number in range(200):
        store.put("TopicA", number % 4)
    store.write()
    path = min((store.root / "commitlog").iterdir())
    path.write_bytes(path.read_bytes())
    middle = summary_module.find_middle(StoreDirectory(store.root))
    assert middle in [offset for offset, _ in store.places[60:140]]
    assert both_ways(store, False)[0][0].messages == 200


def test_corruption_on_both_sides_of_the_middle_is_reported_once(made: Any, in_two: None) -> None:
    middle = summary_module.find_middle(StoreDirectory(made.root))
    number = [offset for offset, _ in made.places].index(middle)
    for corrupt in (number - 2, number - 1, number, number + 1, 0, 39):
        offset = made.places[corrupt][0]
        made.flip(offset + 5)
        (summary, damage_rows), alone = both_ways(made, False)
        assert damage_rows == alone.damaged_regions
        assert [damage.physical_offset for damage in damage_rows] == [offset]
        assert summary.messages == 39
        made.flip(offset + 5)


def test_an_invalid_record_in_the_middle_invalidates_the_result(
    made: Any, in_two: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary_module, "find_middle", lambda _: made.places[20][0] + 1)
    assert summary_module.count_in_two_processes(StoreDirectory(made.root), False) is None
    summary, _ = summarize(StoreDirectory(made.root))
    assert summary.messages == 40


def test_no_second_process_for_small_logs_or_beside_threads(made: Any) -> None:
    assert summary_module.find_middle(StoreDirectory(made.root)) is None
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert not summary_module.can_fork()
    finally:
        stop.set()
        thread.join()


def test_an_empty_log_has_no_middle(make_store: Any, in_two: None) -> None:
    store = make_store()
    store.write()
    assert summary_module.find_middle(StoreDirectory(store.root)) is None
    summary, _ = summarize(StoreDirectory(store.root))
    assert summary.messages == 0


def test_unreadable_files_are_reported_and_the_rest_is_counted(
    made: Any, forbid: Callable[[Path], None]
) -> None:
    whole, _ = summarize(StoreDirectory(made.root))
    second = sorted((made.root / "commitlog").iterdir())[1]
    forbid(second)
    for path in (made.root / "checkpoint", made.root / "config" / "topics.json"):
        path.unlink(missing_ok=True)
        path.mkdir(parents=True)
    summary, damage_rows = summarize(StoreDirectory(made.root))
    assert {(d.kind, d.path) for d in damage_rows} >= {
        ("unreadable", str(second)),
        ("checkpoint", str(made.root / "checkpoint")),
    }
    assert 0 < summary.messages < whole.messages
    rows = list(message_rows(StoreDirectory(made.root)))
    assert sum(hasattr(row, "uniq_key") for row in rows) == summary.messages


# --- compiled code ---------------------------------------------------------------------------

needs_numba = pytest.mark.skipif(not loops.compiled(), reason="needs numba")
GOLDEN = sorted(
    path.name.removesuffix(".tar.xz")
    for path in (Path(__file__).parents[3] / "golden" / "stores").glob("*.tar.xz")
)


def agree(root: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Summarise with and without compiled code; the results are equal."""
    store = StoreDirectory(root)
    monkeypatch.setattr(summary_module, "COMPILED_RECORDS", 1 << 62)
    plain = summarize(store, check_crc=False)
    monkeypatch.setattr(summary_module, "COMPILED_RECORDS", 0)
    for block in (1000, 64 << 20):
        monkeypatch.setattr(log_module, "RELEASE_BYTES", block)
        assert summarize(store, check_crc=False) == plain
    return plain


def damage_log(root: Path, rng: random.Random) -> object:
    """Flip a bit, cut a file, clear a region or exchange two regions of the log."""
    path = rng.choice([file for file in sorted((root / "commitlog").iterdir()) if any_data(file)])
    data = bytearray(path.read_bytes())
    written = len(data.rstrip(b"\0"))
    position, length = rng.randrange(written), rng.choice([1, 8, 100, 600])
    kind = rng.choice(["flip", "cut", "zero", "swap"])
    if kind == "flip":
        data[position] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del data[position:]
    elif kind == "zero":
        end = min(position + length, len(data))
        data[position:end] = bytes(end - position)
    else:
        other = rng.randrange(written)
        length = min(length, len(data) - max(position, other))
        mine, theirs = bytes(data[position:][:length]), bytes(data[other:][:length])
        data[other : other + length] = mine
        data[position : position + length] = theirs
    path.write_bytes(data)
    return path.name, kind, position, length


def any_data(path: Path) -> bool:
    return path.is_file() and any(path.read_bytes())


@needs_numba
def test_compiled_code_counts_the_same_of_damaged_stores(
    make_store: Any, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = encode_batch([Message("B", b"1"), Message("B", b"2")])
    for round_ in range(40):
        store = make_store(f"store{round_}", file_size=8192)
        for number in range(100):
            kind = rng.randrange(12)
            if kind == 0:
                store.put("%RETRY%" + "g" * 150, queue_id=2)  # v2
            elif kind == 1:
                store.put("six", born_host_raw=bytes(20), store_host_raw=bytes(20))
            elif kind == 2:
                store.put("B", body=batch, sys_flag=INNER_BATCH, properties={"INNER_NUM": "2"})
            else:
                store.put(f"Topic{number % 5}", number % 3, sys_flag=rng.choice([0, 1, 8]))
        store.write()
        for _ in range(rng.randrange(4)):
            print(round_, damage_log(store.root, rng))
        agree(store.root, monkeypatch)


@needs_numba
@pytest.mark.parametrize("name", GOLDEN)
def test_compiled_code_counts_the_same_of_recorded_stores(
    golden_store: Any, name: str, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = golden_store(name, copy=True)
    root = folder / ("master" if (folder / "master").exists() else "store")
    summary, _ = agree(root, monkeypatch)
    assert summary.messages > 0
    for _ in range(3):
        print(damage_log(root, rng))
        agree(root, monkeypatch)


@needs_numba
def test_compiled_code_is_used_for_many_records(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of records is estimated from the written bytes and the size of a first record."""
    counted = []
    original = summary_module.count_records

    def count(*args: Any, **options: Any) -> Any:
        counted.append(options.get("compiled", False))
        return original(*args, **options)

    monkeypatch.setattr(summary_module, "count_records", count)
    monkeypatch.setattr(summary_module, "COMPILED_RECORDS", 20)
    for check_crc in (False, True):
        assert summarize(StoreDirectory(made.root), check_crc=check_crc)[0].messages == 40
    monkeypatch.setattr(summary_module, "COMPILED_RECORDS", 200)
    summarize(StoreDirectory(made.root), check_crc=False)
    assert counted == [True, False, False]
