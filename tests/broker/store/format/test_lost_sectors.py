"""A missing sector of topic or properties is found at every place; complete records are not."""

import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from broker.store.format.commitlog import check_record
from broker.store.format.lost_sectors import LOST_PROPERTIES, SECTOR_SIZE, find_lost_part

Make = Callable[..., bytes]


def sectors(start: int, end: int) -> list[tuple[int, int]]:
    """The parts of [start, end) in each sector."""
    bounds = [start, *range(start - start % SECTOR_SIZE + SECTOR_SIZE, end, SECTOR_SIZE), end]
    return list(pairwise(bounds))


@pytest.mark.parametrize("topic", ["T" * 60, "T" * 200], ids=["V1", "V2"])
def test_each_missing_sector_is_found(make_record: Make, rng: random.Random, topic: str) -> None:
    for _ in range(100):
        at = rng.randrange(4096)
        properties = b"a\x01" + b"x" * rng.randrange(2000) + b"\x02"
        record = make_record(0, topic=topic, body=rng.randbytes(20), properties=properties)
        file = bytes(at) + record
        start = len(file) - len(properties)
        assert find_lost_part(file, at, len(record)) == len(record)
        for begin, end in sectors(start, len(file)):
            lost = file[:begin] + bytes(end - begin) + file[end:]
            assert check_record(lost, at) == len(record), "CRC and lengths do not cover it"
            assert find_lost_part(lost, at, len(record)) == LOST_PROPERTIES, (at, begin, end)


def test_a_missing_part_of_the_topic_is_found(make_record: Make) -> None:
    record = make_record(0, topic="TopicTest", body=b"x", properties=b"")
    at = record.index(b"TopicTest")
    lost = record[: at + 4] + bytes(5) + record[at + 9 :]
    assert find_lost_part(lost, 0, len(lost)) < 0
    assert find_lost_part(record, 0, len(record)) == len(record)


def test_zeros_within_a_sector_are_data(make_record: Make) -> None:
    record = make_record(0, body=b"x", properties=b"a\x01" + bytes(100) + b"\x02")
    assert find_lost_part(record, 0, len(record)) == len(record)
