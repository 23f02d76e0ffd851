"""RecordSlices: units of a queue, intact and changed, against a plain reading of them."""

from itertools import pairwise

import pytest

from broker.store.format.commitlog import RECORD_LEAST
from broker.store.format.consumequeue import UNIT_SIZE
from broker.store.pulling.record_slices import RecordSlices


def expected(places, following, store) -> list[memoryview] | None:
    """The records of units in one slice per run; None if one is unusual.

    ``places``: offset and size of each unit; ``following``: those of the unit after them, if any.
    """
    if not places or any(size < RECORD_LEAST for _, size in places):
        return None
    for (before, size), (after, _) in pairwise([*places, *following]):
        if after < before + size:
            return None
    file = store.log.files.find(places[0][0])
    last, size = places[-1]
    if file is None or last + size > file.end:
        return None
    begin, end = places[0][0], sum(places[0])
    slices = []
    for offset, size in places[1:]:
        if offset != end:
            slices.append(file.view[begin - file.start : end - file.start])
            begin = offset
        end = offset + size
    return [*slices, file.view[begin - file.start : end - file.start]]


@pytest.mark.parametrize("topics", ["A", "AB", "AAAB"])
def test_random_pulls_of_changed_units(stores, inner, rng, topics) -> None:
    store = stores.start(stores.config(mapped_file_size_commit_log=1 << 14))
    for number in range(80):
        body = b"%04d" % number * rng.randrange(1, 200)
        store.put_message(inner(body=body, topic=rng.choice(topics)))
    queue = store.queue_table.find("A", 0)
    per_file = queue.files.file_size // UNIT_SIZE
    assert min(len(queue.files.files), len(store.log.files.files)) > 1
    slices = RecordSlices(store.reader)
    counted = {"left": 0, "run": 0, "read": 0}
    for turn in range(600):
        number = rng.randrange(queue.max_offset)
        file = queue.files.find(number * UNIT_SIZE)
        intact = bytes(file.mapping[: file.size])
        if turn % 2:
            change(file.mapping, number % per_file, rng)
        units = [queue.unit(number)[:2] for number in range(queue.max_offset)]
        start, most = rng.randrange(queue.max_offset + 2), rng.randrange(1, 40)
        end = min(start + most, start // per_file * per_file + per_file)
        places = units[start:end]
        right = expected(places, units[end : end + 1], store)
        found = slices.read(queue, start, most)
        file.mapping[: file.size] = intact
        if right is None or found is None:
            assert found is right is None
            counted["left"] += 1
            continue
        count, size, records, of = found
        assert (count, size) == (len(places), sum(size for _, size in places))
        assert [record.tobytes() for record in records] == [part.tobytes() for part in right]
        assert slices.end == sum(places[-1])
        assert of is queue
        counted["run" if len(right) < count else "read"] += 1
    assert counted["left"] > 50
    assert counted["run"] + counted["read"] > 50
    assert topics == "A" or min(counted.values()) > 20


def change(mapping, number: int, rng) -> None:
    """Change one unit: its offset or its size, a little or at random, or copy another one."""
    at = number * UNIT_SIZE
    kind = rng.randrange(4)
    if kind == 0:
        other = (number ^ 1) * UNIT_SIZE  # that of the next, or of the one before
        mapping[at : at + UNIT_SIZE] = mapping[other : other + UNIT_SIZE]
    elif kind == 1:
        value = int.from_bytes(mapping[at : at + 8], "big") + rng.choice((-1, 1, -(1 << 16)))
        mapping[at : at + 8] = value.to_bytes(8, "big", signed=True)
    elif kind == 2:
        value = rng.choice((0, -1, RECORD_LEAST - 1, RECORD_LEAST, 1 << 20, -(1 << 31)))
        mapping[at + 8 : at + 12] = value.to_bytes(4, "big", signed=True)
    else:
        mapping[at : at + 12] = rng.randbytes(12)


@pytest.mark.parametrize(("bytes_", "count"), [(0, 5), (1 << 20, 5), (1, None)])
def test_the_limit_of_bytes(stores, inner, bytes_, count) -> None:
    store = stores.start()
    for _ in range(5):
        store.put_message(inner())
    found = RecordSlices(store.reader).read(store.queue_table.find("TopicA", 0), 0, 32, bytes_)
    assert (found[0] if found is not None else None) == count


def test_records_far_from_the_end_have_smaller_limits(stores, inner) -> None:
    config = stores.config(max_transfer_count_on_message_in_disk=2)
    store = stores.start(config)
    for _ in range(5):
        store.put_message(inner())
    queue, slices = store.queue_table.find("TopicA", 0), RecordSlices(store.reader)
    store.reader.memory_bytes = 2 * sum(map(len, slices.read(queue, 4, 1)[2]))
    assert [slices.read(queue, start, 32)[0] for start in range(5)] == [2, 2, 2, 2, 1]


def test_a_queue_without_units(stores, inner) -> None:
    store = stores.start()
    store.put_message(inner())
    queue = store.queue_table.find("TopicA", 0)
    assert RecordSlices(store.reader).read(queue, 1, 32) is None
    assert RecordSlices(store.reader).read(queue, 1 << 40, 32) is None
