"""Writers of rebuilt ConsumeQueues: position, filler units, corrections, restarts, open files."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.common.sysflag import INNER_BATCH
from broker.store.format.commitlog import file_name
from broker.store.format.consumequeue import (
    BATCH_UNIT_SIZE,
    PRE_BLANK,
    UNIT_SIZE,
    UNIT_STRUCT,
    decode_batch_unit,
)
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.repair.derived_files import build_queues, rebuild
from mqadmin.repair.derived_files.build_queues import BuildTable, OldUnits, QueueWriter
from mqadmin.repair.files import Output
from tests.support.made_store import NOW, MadeStore

FILE_UNITS = 10
KEY = ("TopicA", 0)
BLANK = bytes(UNIT_SIZE)


def unit(number: int) -> bytes:
    """A unit of a record of 100 bytes; the number is its order in the log."""
    return UNIT_STRUCT.pack(number * 100, 100, 7)


@pytest.fixture
def table(tmp_path: Path) -> BuildTable:
    sizes = FILE_UNITS * UNIT_SIZE, 4 * BATCH_UNIT_SIZE
    return BuildTable(Output(tmp_path / "out"), {KEY, ("TopicB", 1)}, set(), sizes)


@pytest.fixture
def writer(table: BuildTable) -> QueueWriter:
    writer = table.queues[b"TopicA", 0]
    assert isinstance(writer, QueueWriter)
    return writer


def written(table: BuildTable, key: tuple[str, int] = KEY) -> dict[int, bytes]:
    """The units in the files of a queue by queue offset; empty ones are omitted."""
    table.close()
    found = {}
    for path in sorted((table.root / "consumequeue" / key[0] / str(key[1])).iterdir()):
        data = path.read_bytes()
        assert len(data) == FILE_UNITS * UNIT_SIZE, path
        first = int(path.name) // UNIT_SIZE
        for at in range(FILE_UNITS):
            piece = data[at * UNIT_SIZE : (at + 1) * UNIT_SIZE]
            if piece != BLANK:
                found[first + at] = piece
    return found


def add_one_by_one(writer: QueueWriter, *queue_offsets: int) -> None:
    """Add single units in log order; the n-th record gets unit(n)."""
    for number, queue_offset in enumerate(queue_offsets, 1):
        writer.add(queue_offset, unit(number))
    writer.finish()


def test_units_are_written_at_their_queue_offsets_across_files(
    table: BuildTable, writer: QueueWriter
) -> None:
    writer.add(0, b"".join(map(unit, range(7))))
    writer.add(7, b"".join(map(unit, range(7, 25))))
    writer.finish()
    assert written(table) == {number: unit(number) for number in range(25)}
    assert (writer.first, writer.next, writer.units, writer.bridged) == (0, 25, 25, 0)
    folder = table.root / "consumequeue/TopicA/0"
    assert sorted(path.name for path in folder.iterdir()) == [
        file_name(start) for start in (0, 200, 400)
    ]


def test_lost_messages_are_replaced_by_filler_units_of_the_next_message(
    table: BuildTable, writer: QueueWriter
) -> None:
    writer.add(0, unit(0) + unit(1))
    writer.add(5, unit(5) + unit(6))
    assert written(table) == {
        0: unit(0), 1: unit(1), 2: unit(5), 3: unit(5), 4: unit(5), 5: unit(5), 6: unit(6),
    }  # fmt: skip
    assert (writer.units, writer.bridged) == (4, 3)


@pytest.mark.parametrize("log_start", [0, 4096])
def test_a_queue_that_starts_within_a_file_has_no_empty_unit_before_it(
    table: BuildTable, writer: QueueWriter, log_start: int
) -> None:
    table.log_start = log_start
    writer.add(13, unit(13) + unit(14))
    before = PRE_BLANK if log_start else unit(13)
    assert written(table) == {
        10: before, 11: before, 12: before, 13: unit(13), 14: unit(14)
    }  # fmt: skip
    assert writer.first == 10
    # Pre-blank units replace expired messages, fillers lost ones.
    assert writer.bridged == (0 if log_start else 3)


def test_a_single_offset_that_leaves_its_place_free_is_corrected(
    table: BuildTable, writer: QueueWriter
) -> None:
    add_one_by_one(writer, 0, 1, 77, 3, 4)
    assert written(table) == {number - 1: unit(number) for number in range(1, 6)}
    assert table.fixes == [(300, 2)]
    assert writer.bridged == 0


def test_a_single_offset_without_a_free_place_is_dropped(
    table: BuildTable, writer: QueueWriter
) -> None:
    add_one_by_one(writer, 0, 1, 77, 2, 3)
    assert written(table) == {0: unit(1), 1: unit(2), 2: unit(4), 3: unit(5)}
    assert table.fixes == []


def test_two_records_in_reverse_order_keep_their_offsets(
    table: BuildTable, writer: QueueWriter
) -> None:
    add_one_by_one(writer, 0, 2, 1, 3)
    assert written(table) == {0: unit(1), 1: unit(3), 2: unit(2), 3: unit(4)}
    assert (writer.units, writer.bridged) == (4, 0)


def test_a_gap_that_the_following_units_confirm_is_a_loss(
    table: BuildTable, writer: QueueWriter
) -> None:
    add_one_by_one(writer, 0, 4, 5)
    assert written(table) == {
        0: unit(1), 1: unit(2), 2: unit(2), 3: unit(2), 4: unit(2), 5: unit(3)
    }  # fmt: skip
    assert table.fixes == []


def test_the_last_unit_of_a_queue_is_written_even_if_its_offset_is_unconfirmed(
    table: BuildTable, writer: QueueWriter
) -> None:
    add_one_by_one(writer, 0, 3)
    assert written(table) == {0: unit(1), 1: unit(2), 2: unit(2), 3: unit(2)}


def test_a_recreated_topic_keeps_no_unit_of_the_deleted_one(
    table: BuildTable, writer: QueueWriter
) -> None:
    writer.add(0, b"".join(map(unit, range(25))))
    writer.add(0, unit(100) + unit(101))
    assert written(table) == {0: unit(100), 1: unit(101)}
    assert (writer.next, writer.units) == (2, 2)
    assert [path.name for path in (table.root / "consumequeue/TopicA/0").iterdir()] == [
        file_name(0)
    ]


def test_a_restart_before_the_first_file_removes_all_files(
    table: BuildTable, writer: QueueWriter
) -> None:
    table.log_start = 4096
    writer.add(30, b"".join(map(unit, range(30, 45))))
    writer.add(12, unit(100) + unit(101))
    assert written(table) == {10: PRE_BLANK, 11: PRE_BLANK, 12: unit(100), 13: unit(101)}
    assert (writer.first, writer.next, writer.units) == (10, 14, 2)


def test_a_truncated_queue_keeps_the_units_before_the_truncation(
    table: BuildTable, writer: QueueWriter
) -> None:
    writer.add(0, b"".join(map(unit, range(25))))
    writer.add(13, unit(100) + unit(101))
    expected = {number: unit(number) for number in range(13)}
    assert written(table) == expected | {13: unit(100), 14: unit(101)}
    assert writer.units == 15


def test_any_division_into_calls_gives_the_same_files(tmp_path: Path, rng: random.Random) -> None:
    """Runs of two units and more are never deferred: only their order decides."""
    made = []
    for trial in range(2):
        table = BuildTable(Output(tmp_path / f"out{trial}"), {KEY}, set(), (200, 200))
        writer = table.queues[b"TopicA", 0]
        assert isinstance(writer, QueueWriter)
        at = 0
        while at < 60:
            count = min(rng.randrange(2, 9), 60 - at)
            if 60 - at - count == 1:
                count += 1
            writer.add(at, b"".join(map(unit, range(at, at + count))))
            at += count
        made.append(written(table))
    assert made[0] == made[1] == {number: unit(number) for number in range(60)}


def test_open_files_are_bounded_and_reopened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_queues, "OPEN_QUEUES", 3)
    keys = {("TopicA", number) for number in range(8)}
    table = BuildTable(Output(tmp_path / "out"), keys, set(), (200, 200))
    opened = set()
    for queue_offset in range(4):
        for key in sorted(keys):
            table.pending.append((key, queue_offset, (queue_offset + 1) * 100, 100, 7))
        table.write_pending()
        opened.add(len(list(Path("/proc/self/fd").iterdir())))
    assert max(opened) - min(opened) == 0
    for key in keys:
        assert written(table, key) == {at: unit(at + 1) for at in range(4)}


def test_records_of_queues_that_are_not_rebuilt_are_ignored(tmp_path: Path) -> None:
    store = MadeStore(tmp_path / "store")
    for number in range(6):
        store.put("TopicA", number % 2)
    table = build(store, {("TopicA", 1)})
    assert written(table, ("TopicA", 1)).keys() >= {0, 1, 2}
    assert not (table.root / "consumequeue/TopicA/0").exists()


@pytest.mark.parametrize("rebuilt", [True, False])
def test_a_light_message_queue_of_a_deleted_topic_is_rebuilt_only_if_it_is_wanted(
    tmp_path: Path, rebuilt: bool
) -> None:
    store = MadeStore(tmp_path / "store")
    light = "%LMQ%a"
    store.put("Gone", properties={"INNER_MULTI_DISPATCH": light, "INNER_MULTI_QUEUE_OFFSET": "0"})
    end = store.end
    store.put("TopicA")
    keys = {KEY, (light, 0)} if rebuilt else {KEY}
    table = build(store, keys, deleted={b"Gone": end})
    assert written(table).keys() == {0}
    if rebuilt:
        assert written(table, (light, 0)).keys() == {0}
    else:
        assert not (table.root / "consumequeue" / light).exists()


def build(store: MadeStore, keys: set[tuple[str, int]], **given: object) -> BuildTable:
    """Rebuild queues of a made store next to it, with 10 units in a file."""
    store.write()
    output = Output(store.root.parent / "out")
    batch_topics = given.get("batch_topics", set())
    assert isinstance(batch_topics, set)
    deleted = given.get("deleted")
    assert deleted is None or isinstance(deleted, dict)
    sizes = FILE_UNITS * UNIT_SIZE, 4 * BATCH_UNIT_SIZE
    table = BuildTable(output, keys, batch_topics, sizes, deleted)
    directory = StoreDirectory(store.root)
    old = OldUnits(directory)
    levels = given.get("levels")
    assert levels is None or isinstance(levels, str)
    rebuild.rebuild(directory, table, old, None, levels)
    old.close()
    return table


def batch_fields(number: int, messages: int) -> dict[str, object]:
    properties = {"INNER_NUM": str(messages), "INNER_BASE": str(number)}
    return {"sys_flag": INNER_BATCH, "queue_offset": number, "properties": properties}


def test_a_batch_queue_gets_one_unit_per_record_with_its_message_count(tmp_path: Path) -> None:
    store = MadeStore(tmp_path / "store")
    counts = [3, 1, 7, 2, 5]
    at = 0
    for count in counts:
        store.put("Batches", 0, **batch_fields(at, count))
        at += count
    table = build(store, {("Batches", 0)}, batch_topics={"Batches"})
    table.close()
    paths = sorted((table.root / "batchconsumequeue/Batches/0").iterdir())
    assert [path.name for path in paths] == [file_name(0), file_name(4 * BATCH_UNIT_SIZE)]
    data = b"".join(path.read_bytes() for path in paths)
    units = [
        decode_batch_unit(data[number * BATCH_UNIT_SIZE :][:BATCH_UNIT_SIZE])
        for number in range(len(counts))
    ]
    assert [(one.base_offset, one.batch_size) for one in units] == [
        (0, 3), (3, 1), (4, 7), (11, 2), (13, 5)
    ]  # fmt: skip
    assert [(one.physical_offset, one.size) for one in units] == store.places
    assert [one.store_timestamp for one in units] == [NOW + n * 1000 for n in range(5)]
    assert data[len(counts) * BATCH_UNIT_SIZE :].strip(b"\0") == b""


def test_an_inner_batch_in_a_simple_queue_is_one_unit(tmp_path: Path) -> None:
    store = MadeStore(tmp_path / "store")
    store.put("TopicA", 0, **batch_fields(0, 4))
    store.put("TopicA", 0, queue_offset=1)
    table = build(store, {KEY})
    found = {at: UNIT_STRUCT.unpack(data)[:2] for at, data in written(table).items()}
    assert found == dict(enumerate(store.places))


DELAY_TOPIC = "SCHEDULE_TOPIC_XXXX"


@pytest.mark.parametrize(
    ("old_delay_ms", "expected_delay_ms"),
    [
        (60_000, 60_000),  # the levels of that time had another delay
        (10_000, 10_000),
        (0, 5_000),  # due when stored: not a delay
        (-60_000, 5_000),
        (1_234, 5_000),  # not whole seconds: a tags hash
        (400 * 86_400_000, 5_000),  # too far in the future
    ],
)
def test_the_delivery_time_is_that_of_the_old_unit_if_it_can_be_one(
    tmp_path: Path, old_delay_ms: int, expected_delay_ms: int
) -> None:
    store = MadeStore(tmp_path / "store")
    store.put(DELAY_TOPIC, 1, properties={"DELAY": "2"})
    ((physical, size),) = store.places
    store.queues[DELAY_TOPIC, 1] = [UNIT_STRUCT.pack(physical, size, NOW + old_delay_ms)]
    table = build(store, {(DELAY_TOPIC, 1)})
    assert written(table, (DELAY_TOPIC, 1)) == {
        0: UNIT_STRUCT.pack(physical, size, NOW + expected_delay_ms)
    }


@pytest.mark.parametrize(
    ("level", "delay_ms"), [("1", 2_000), ("3", 60_000), ("9", 60_000), ("2", 30_000)]
)
def test_without_an_old_unit_the_delivery_time_follows_from_the_levels(
    tmp_path: Path, level: str, delay_ms: int
) -> None:
    """A level above the highest one is the highest one."""
    store = MadeStore(tmp_path / "store")
    store.put(DELAY_TOPIC, 1, properties={"DELAY": level})
    ((physical, size),) = store.places
    store.queues.clear()
    table = build(store, {(DELAY_TOPIC, 1)}, levels="2s 30s 1m")
    assert written(table, (DELAY_TOPIC, 1)) == {0: UNIT_STRUCT.pack(physical, size, NOW + delay_ms)}


def test_a_delayed_message_without_a_level_keeps_the_tags_hash(tmp_path: Path) -> None:
    store = MadeStore(tmp_path / "store")
    store.put(DELAY_TOPIC, 1)
    expected = store.queues[DELAY_TOPIC, 1][0]
    table = build(store, {(DELAY_TOPIC, 1)})
    assert written(table, (DELAY_TOPIC, 1)) == {0: expected}


@pytest.fixture
def old_tags_code(tmp_path: Path) -> Callable[[int, int], int | None]:
    """The tags code that OldUnits gives for a record of the given physical offset and size."""
    from types import SimpleNamespace

    from mqadmin.inspector.verify.log_walk import Selection

    store = MadeStore(tmp_path / "store")
    store.put(DELAY_TOPIC, 1)
    store.queues[DELAY_TOPIC, 1] = [UNIT_STRUCT.pack(0, 300, 4711)]
    store.write()
    old = OldUnits(StoreDirectory(store.root))

    def ask(physical: int, size: int) -> int | None:
        record = SimpleNamespace(physical_offset=physical, total_size=size)
        return old.tags_code(Selection(DELAY_TOPIC.encode(), 1, 0), record)  # type: ignore[arg-type]

    return ask


def test_an_old_unit_counts_only_for_the_record_it_refers_to(
    old_tags_code: Callable[[int, int], int | None],
) -> None:
    assert old_tags_code(0, 300) == 4711
    assert old_tags_code(0, 301) is None
    assert old_tags_code(100, 300) is None
