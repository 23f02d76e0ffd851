"""The fast walk counts the records that the scanner finds, and stops at all others."""

import importlib.util
import random
import struct
from collections.abc import Callable

import pytest

from broker.common.sysflag import INNER_BATCH
from broker.store.format.commitlog import (
    RECORD_LEAST,
    LogRecord,
    check_record,
    encode_blank,
    scan_commitlog,
)
from broker.store.format.vectorized import record_count
from broker.store.format.vectorized.record_count import Tally, walk_compiled, walk_plain

Make = Callable[..., bytes]
Walk = Callable[..., tuple[int, int]]
COMPILED = all(importlib.util.find_spec(name) is not None for name in ("numpy", "numba"))


@pytest.fixture(
    params=[
        walk_plain,
        pytest.param(
            walk_compiled, marks=pytest.mark.skipif(not COMPILED, reason="compiled needs numba")
        ),
    ]
)
def walk(request: pytest.FixtureRequest) -> Walk:
    """Each implementation of the walk."""
    return request.param


def slow_count(data: bytes, base: int) -> dict[tuple[bytes, int], tuple[int, int]]:
    counts: dict[tuple[bytes, int], tuple[int, int]] = {}
    for item in scan_commitlog(data, base, check_crc=False, decode=False):
        if isinstance(item, LogRecord):
            key = (item.topic, item.queue_id)
            messages, size = counts.get(key, (0, 0))
            counts[key] = (messages + 1, size + item.total_size)
    return counts


def totals(tally: Tally) -> dict[tuple[bytes, int], tuple[int, int]]:
    return {(topic, queue): (count, size) for topic, queue, count, size in tally.totals()}


def test_the_fast_walk_counts_the_records_of_the_scanner(
    rng: random.Random, make_record: Make, walk: Walk
) -> None:
    data = b""
    while len(data) < 30_000:
        data += make_record(
            5000 + len(data),
            topic=rng.choice(["a", "TopicB", "%RETRY%group"]),
            queue_id=rng.randrange(4),
            body=rng.randbytes(rng.randrange(300)),
            sys_flag=rng.choice([0, 1, 8]),
        )
    tally = Tally()
    end, last = walk(data + encode_blank(100) + bytes(92), 0, 5000, tally)
    assert end == len(data)
    assert check_record(data, last) == len(data) - last
    assert totals(tally) == slow_count(data, 5000)


def test_the_fast_walk_stops_at_everything_rare(make_record: Make, walk: Walk) -> None:
    plain = make_record(0)
    rare = {
        "v2": make_record(len(plain), topic="%RETRY%" + "x" * 150),
        "batch": make_record(len(plain), sys_flag=INNER_BATCH),
        "host": make_record(len(plain), born_host_raw=bytes(20)),
        "place": make_record(0),
        "blank": encode_blank(500),
        "zeros": bytes(100),
    }
    for name, follower in rare.items():
        tally = Tally()
        assert walk(plain + follower + bytes(500), 0, 0, tally) == (len(plain), 0), name
        assert totals(tally) == {(b"TopicA", 3): (1, len(plain))}
    assert walk(rare["batch"], 0, len(plain), Tally()) == (0, -1)


def test_the_fast_walk_counts_records_of_all_host_shapes(make_record: Make, walk: Walk) -> None:
    for born in (8, 20):
        for store in (8, 20):
            record = make_record(0, born_host_raw=bytes(born), store_host_raw=bytes(store))
            tally = Tally()
            assert walk(record, 0, 0, tally) == (len(record), 0)


def test_the_fast_walk_never_counts_a_cut_or_broken_record(make_record: Make, walk: Walk) -> None:
    record = make_record(0)
    for end in range(len(record)):
        assert walk(record[:end], 0, 0, Tally()) == (0, -1)
    for position in (*range(8), *range(28, 36), *range(84, 88), 102, 109, 110):
        for bit in range(8):
            broken = bytearray(record)
            broken[position] ^= 1 << bit
            assert walk(bytes(broken) + bytes(300), 0, 0, Tally())[1] == -1


def test_the_fast_walk_stops_at_the_end_it_is_given(make_file: Make, walk: Walk) -> None:
    data = bytes(make_file(0, 4096, 6))
    third = list(scan_commitlog(data, 0))[2].physical_offset
    tally = Tally()
    end, _ = walk(data, 0, 0, tally, third)
    assert end >= third - RECORD_LEAST
    assert sum(count for count, _ in totals(tally).values()) == 2


def test_a_tally_keeps_messages_and_bytes_apart() -> None:
    tally = Tally()
    tally.add(b"t", 1, 1000)
    tally.add(b"t", 1, 500, messages=3)
    tally.add(b"u", 1, 1 << 31)
    assert sorted(tally.totals()) == [(b"t", 1, 4, 1500), (b"u", 1, 1, 1 << 31)]


def test_a_negative_body_length_stops_the_walk(make_record: Make, walk: Walk) -> None:
    """Its topic would be located before it, in another record, and its end too."""
    first = make_record(0, body=b"\0" * 400)
    second = bytearray(make_record(len(first), body=b""))
    # topicLength and propertiesLength are read from the zeros of the first body.
    length = -300
    struct.pack_into(">i", second, 84, length)
    struct.pack_into(">i", second, 0, 88 + length + 1 + 2)
    assert walk(first + bytes(second) + bytes(100), 0, 0, Tally()) == (len(first), 0)


@pytest.mark.skipif(not COMPILED, reason="compiled needs numba")
def test_both_walks_count_the_same_of_damaged_bytes(rng: random.Random, make_record: Make) -> None:
    for _ in range(300):
        data = bytearray()
        while len(data) < 3000:
            data += make_record(
                5000 + len(data),
                topic=rng.choice(["a", "TopicB", "%RETRY%" + "g" * rng.randrange(150)]),
                queue_id=rng.choice([0, 1, -1, (1 << 31) - 1]),
                body=rng.randbytes(rng.randrange(300)),
                sys_flag=rng.choice([0, 0, 1, INNER_BATCH]) if rng.random() < 0.1 else 0,
                born_host_raw=bytes(rng.choice([8, 8, 8, 20])),
            )
        for _ in range(rng.randrange(3)):
            position = rng.randrange(len(data))
            if rng.random() < 0.5:
                data[position] ^= 1 << rng.randrange(8)
            else:
                data[position : position + rng.choice([1, 4, 64])] = rng.choice([b"", b"\0" * 4])
        del data[rng.choice([len(data), rng.randrange(1, len(data))]) :]
        end = rng.choice([None, rng.randrange(len(data))])
        position = 0
        while position < len(data):
            plain, fast = Tally(queues={}), Tally(queues={})
            after = walk_plain(bytes(data), position, 5000, plain, end)
            assert walk_compiled(bytes(data), position, 5000, fast, end) == after
            assert totals(fast) == totals(plain)
            position = max(after[0], position) + rng.randrange(1, 200)


@pytest.mark.skipif(not COMPILED, reason="compiled needs numba")
def test_more_queues_than_the_table_has_rows_are_counted(
    make_record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_count, "COMPILED_QUEUES", 16)
    data = b""
    for number in range(200):
        data += make_record(len(data), queue_id=number * 7 % 50, topic=f"topic{number % 3}")
    tally = Tally()
    assert walk_compiled(data, 0, 0, tally)[0] == len(data)
    assert totals(tally) == slow_count(data, 0)
