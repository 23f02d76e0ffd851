"""The compiled loop of pulls copies the bytes of its units' records, or finds a unit unusual."""

import random
import struct

import pytest

np = pytest.importorskip("numpy", reason="the compiled loops need the extra 'fast'")
pytest.importorskip("numba", reason="the compiled loops need the extra 'fast'")

from broker.store.pulling.kernels import UNUSUAL, collect  # noqa: E402

BASE = 1 << 30
LEAST = 91  # the shortest record


def octets(data: bytes):
    return np.frombuffer(data, dtype=np.uint8)


class Log:
    """Records of random sizes with gaps between them, and their units from ``first`` on."""

    def __init__(self, rng: random.Random, count: int = 8) -> None:
        self.data = bytearray(rng.randbytes(rng.randrange(50)))
        self.places: list[tuple[int, int]] = []
        for _ in range(count):
            size = rng.randrange(LEAST, 2_000)
            self.places.append((len(self.data), size))
            self.data += size.to_bytes(4, "big") + rng.randbytes(size - 4)
            self.data += rng.randbytes(rng.choice((0, 0, rng.randrange(3_000))))
        self.first = 20 * rng.randrange(3)
        self.out = np.zeros(1 << 16, dtype=np.uint8)

    def units(self) -> bytes:
        packed = (struct.pack(">qiq", BASE + at, size, 7) for at, size in self.places)
        return bytes(self.first) + b"".join(packed)

    def collect(self, count: int, *, written: int = -1, limit: int = 1 << 20) -> int:
        end = len(self.data) if written < 0 else written
        units, data = octets(self.units()), octets(bytes(self.data))
        known = (len(units) - self.first) // 20
        return int(collect(units, self.first, count, known, data, BASE, end, limit, self.out))

    def records(self, count: int) -> bytes:
        return b"".join(bytes(self.data[at : at + size]) for at, size in self.places[:count])


@pytest.fixture
def log(rng: random.Random) -> Log:
    return Log(rng)


def test_records_are_copied_one_after_the_other(rng) -> None:
    for _ in range(50):
        log = Log(rng, rng.randrange(1, 33))
        count = rng.randrange(1, len(log.places) + 1)
        size = log.collect(count)
        assert log.out[:size].tobytes() == log.records(count)


def test_of_no_unit_nothing_is_copied(log) -> None:
    assert log.collect(0) == 0


def test_more_units_than_there_are_is_unusual(log) -> None:
    assert log.collect(len(log.places) + 1) == UNUSUAL


def test_nothing_is_copied_from_after_the_end(log) -> None:
    at, size = log.places[-1]
    assert log.collect(8, written=at + size) == len(log.records(8))
    assert log.collect(8, written=at + size - 1) == UNUSUAL


def test_the_limit_is_that_of_all_records(log) -> None:
    size = len(log.records(8))
    assert log.collect(8, limit=size) == size
    assert log.collect(8, limit=size - 1) == UNUSUAL


@pytest.mark.parametrize("size", [0, -1, LEAST - 1, 0x7FFFFFFF, -(2**31)])
def test_a_size_that_no_record_has_is_unusual(log, size) -> None:
    log.places[3] = log.places[3][0], size
    assert log.collect(8) == UNUSUAL


@pytest.mark.parametrize("change", [-1, 1])
def test_a_size_that_is_not_that_of_the_record_is_unusual(log, change) -> None:
    at, size = log.places[7]
    log.data += bytes(1)
    log.places[7] = at, size + change
    assert log.collect(8) == UNUSUAL


def test_records_that_are_not_in_order_are_unusual(log) -> None:
    log.places[2], log.places[3] = log.places[3], log.places[2]
    assert log.collect(8) == UNUSUAL


def test_a_filler_unit_is_unusual(log) -> None:
    """A copy of the next unit, in the place of a lost message's."""
    log.places[2] = log.places[3]
    assert log.collect(8) == UNUSUAL


def test_a_filler_unit_before_the_first_one_that_is_not_asked_for_is_unusual(log) -> None:
    log.places[2] = log.places[3]
    assert log.collect(2) == len(log.records(2))
    assert log.collect(3) == UNUSUAL


@pytest.mark.parametrize(
    "offset", [-BASE, -BASE - 1, (1 << 63) - 1 - BASE, -(1 << 63) - BASE, 1 << 40]
)
def test_an_offset_outside_of_the_file_is_unusual(log, offset) -> None:
    log.places[4] = offset, log.places[4][1]
    assert log.collect(8) == UNUSUAL
