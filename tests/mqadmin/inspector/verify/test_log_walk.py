"""The scan in batches equals the scan record by record; selections of multi-dispatch."""

import random
import threading
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from broker.common.sysflag import INNER_BATCH
from broker.store.format.commitlog import file_name
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.log import LogWalk
from mqadmin.inspector.verify.log_walk import (
    UNTRUSTED,
    ColumnWalk,
    Selection,
    has_columns,
    lmq_enabled,
    messages_in,
    one_ahead,
)
from tests.support.made_store import MadeStore

needs_numpy = pytest.mark.skipif(not has_columns(), reason="the column scan needs numpy")


def by_columns(store: MadeStore, start: int = 0, *, crc: bool = True) -> tuple[Any, ...]:
    """Records, untrusted offsets, findings, blanks and the end of a scan in batches."""
    records: list[int] = []
    untrusted: set[int] = set()

    def take(file: object, batch: Any, skipped: frozenset[int]) -> None:
        records.extend(int(offset) for offset in batch.physical_offset)
        untrusted.update(skipped)

    walk = ColumnWalk(StoreDirectory(store.root), take, start=start, check_crc=crc)
    items = list(walk)
    corruption = [item.damage for item in items if item.damage is not None]
    blanks = [item.blank for item in items if item.blank is not None]
    return records, untrusted, corruption, blanks, walk.end


def by_records(store: MadeStore, start: int = 0, *, crc: bool = True) -> tuple[Any, ...]:
    """The same from a scan record by record."""
    walk = LogWalk(StoreDirectory(store.root), start=start, check_crc=crc)
    records, untrusted, corruption, blanks = [], set(), [], []
    for item in walk:
        if item.record is not None:
            records.append(item.record.physical_offset)
        if item.damage is not None:
            corruption.append(item.damage)
            if item.damage.kind in UNTRUSTED:
                untrusted.add(item.damage.physical_offset)
        if item.blank is not None:
            blanks.append(item.blank)
    return records, untrusted, corruption, blanks, walk.end


@needs_numpy
def test_a_sound_log_is_scanned_alike(sound: MadeStore) -> None:
    assert by_columns(sound) == by_records(sound)
    records, untrusted, corruption, blanks, end = by_columns(sound)
    assert records == [offset for offset, _ in sound.places]
    assert (untrusted, corruption, end) == (set(), [], sound.end)
    assert [blank.physical_offset + blank.length for blank in blanks] == [4096, 8192, 12288]


@needs_numpy
@pytest.mark.parametrize("crc", [True, False])
def test_a_damaged_log_is_scanned_alike(sound: MadeStore, rng: random.Random, crc: bool) -> None:
    for _ in range(25):
        before = {path: path.read_bytes() for path in (sound.root / "commitlog").iterdir()}
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(sound.end)
            if rng.random() < 0.3:
                sound.poke(at, bytes(min(rng.randrange(1, 600), 4096 - at % 4096)))
            else:
                sound.flip(at, 1 << rng.randrange(8))
        assert by_columns(sound, crc=crc) == by_records(sound, crc=crc)
        for path, data in before.items():
            path.write_bytes(data)


@needs_numpy
def test_a_scan_may_start_at_any_record(sound: MadeStore) -> None:
    for start in (0, 1, sound.places[17][0], sound.places[40][0] + 1, sound.end):
        assert by_columns(sound, start) == by_records(sound, start)


@needs_numpy
def test_a_missing_file_and_a_torn_end_are_scanned_alike(sound: MadeStore) -> None:
    offset, size = sound.places[-1]
    sound.poke(offset + 60, bytes(size - 60))
    assert by_columns(sound) == by_records(sound)
    (sound.root / "commitlog" / file_name(4096)).unlink()
    assert by_columns(sound) == by_records(sound)


def record(topic: bytes, properties: bytes, *, sys_flag: int = 0, queue_id: int = 3) -> Any:
    return SimpleNamespace(topic=topic, properties=properties, sys_flag=sys_flag, queue_id=queue_id)


def dispatch(names: str, offsets: str) -> bytes:
    return f"INNER_MULTI_DISPATCH\x01{names}\x02INNER_MULTI_QUEUE_OFFSET\x01{offsets}\x02".encode()


def test_multi_dispatch_selects_queue_0_of_an_lmq_and_the_own_queue_of_other_names() -> None:
    assert lmq_enabled(record(b"T", dispatch("%LMQ%a,mirror", "5,7"))) == [
        Selection(b"%LMQ%a", 0, 5),
        Selection(b"mirror", 3, 7),
    ]


@pytest.mark.parametrize(
    ("topic", "properties"),
    [
        (b"T", b""),
        (b"T", b"INNER_MULTI_DISPATCH\x01a\x02"),
        (b"T", b"INNER_MULTI_QUEUE_OFFSET\x015\x02"),
        (b"%RETRY%g", dispatch("%LMQ%a", "5")),
        (b"rmq_sys_x", dispatch("%LMQ%a", "5")),
        (b"SCHEDULE_TOPIC_XXXX", dispatch("%LMQ%a", "5")),
        (b"T", dispatch("a/b", "5")),
        (b"T", dispatch("%LMQ%a", "five")),
        (b"T", dispatch("%LMQ%a", "-1")),
        (b"T", dispatch(",", "5,6")),
    ],
)
def test_records_that_java_does_not_dispatch_further_select_nothing(
    topic: bytes, properties: bytes
) -> None:
    assert lmq_enabled(record(topic, properties)) == []


@pytest.mark.parametrize(
    ("sys_flag", "properties", "count"),
    [
        (0, b"INNER_NUM\x019\x02", 1),
        (INNER_BATCH, b"INNER_NUM\x019\x02", 9),
        (INNER_BATCH, b"", 1),
        (INNER_BATCH, b"INNER_NUM\x01many\x02", 1),
        (INNER_BATCH, b"INNER_NUM\x010\x02", 1),
        (INNER_BATCH, b"INNER_NUM\x0140000\x02", 1),
    ],
)
def test_a_record_has_one_message_unless_it_is_an_inner_batch(
    sys_flag: int, properties: bytes, count: int
) -> None:
    assert messages_in(record(b"T", properties, sys_flag=sys_flag)) == count


def test_batches_scanned_ahead_keep_their_order_and_end_with_the_walk() -> None:
    closed = []

    def batches(count: int) -> Generator[int]:
        try:
            yield from range(count)
        finally:
            closed.append(count)

    assert list(one_ahead(batches(5))) == list(range(5))  # type: ignore[arg-type]
    ahead = one_ahead(batches(9))  # type: ignore[arg-type]
    assert next(ahead) == 0
    ahead.close()
    assert closed == [5, 9]


def test_a_walk_may_end_while_the_next_batch_is_scanned() -> None:
    scanning, go_ahead = threading.Event(), threading.Event()

    def batches() -> Generator[int]:
        yield 1
        scanning.set()
        go_ahead.wait(10)
        yield 2

    ahead = one_ahead(batches())  # type: ignore[arg-type]
    assert next(ahead) == 1
    assert scanning.wait(10)
    timer = threading.Timer(0.05, go_ahead.set)
    timer.start()
    ahead.close()  # ValueError if it closed the generator that the thread runs
    assert go_ahead.is_set()


def test_an_error_while_scanning_ahead_is_raised() -> None:
    def batches() -> Generator[int]:
        yield 1
        raise OSError("lost")

    ahead = one_ahead(batches())  # type: ignore[arg-type]
    assert next(ahead) == 1
    with pytest.raises(OSError, match="lost"):
        next(ahead)
