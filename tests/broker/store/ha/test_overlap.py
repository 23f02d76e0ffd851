"""OverlapCheck finds the offset of divergence that a comparison of the two logs finds."""

import random

import pytest

from broker.errors import StoreError
from broker.store.ha.overlap import WINDOW_BYTES, DivergedError, OverlapCheck

FILE = 100_000


def reader(log: bytes):
    """Read like a CommitLog: never across the end of a file."""

    def read(offset: int, size: int) -> bytes:
        return log[offset : min(offset + size, offset - offset % FILE + FILE)]

    return read


def follow(own: bytes, master: bytes, block: int, min_offset: int = 0) -> tuple[bytes, int]:
    """Run the check against a master; (bytes after the own end, number of requests)."""
    check = OverlapCheck(reader(own), min_offset, len(own))
    while not check.done:
        number, position = check.requests, check.request
        while check.requests == number and not check.done:
            if position >= len(master):
                check.master_ends(len(master))
                continue
            end = min(position + block, len(master), position - position % FILE + FILE)
            rest = check.feed(position, master[position:end])
            position = end
            if rest is not None:
                return rest, check.requests
    return b"", check.requests


def test_a_master_that_continues_the_log_is_followed_after_one_request() -> None:
    own = random.Random(1).randbytes(300_000)
    rest, requests = follow(own, own + b"next", 32_768)
    assert rest == b"next"[: len(rest)]
    assert requests == 1


def test_a_short_log_is_compared_except_for_its_first_byte() -> None:
    assert follow(b"ab", b"abc", 10) == (b"c", 1)
    with pytest.raises(DivergedError) as caught:
        follow(b"abc", b"axc", 10)
    assert caught.value.physical_offset == 1


def test_an_empty_log_needs_no_comparison() -> None:
    assert OverlapCheck(reader(b""), 0, 0).done


def test_the_offset_of_divergence_is_found(rng: random.Random) -> None:
    for _ in range(40):
        size = rng.randrange(2, 1_500_000)
        own = rng.randbytes(size)
        place = rng.randrange(1, size)
        master = bytearray(own + rng.randbytes(1000))
        master[place:] = rng.randbytes(len(master) - place)
        first = next(i for i in range(1, size) if own[i] != master[i]) if place < size else size
        with pytest.raises(DivergedError, match=f"from physical offset {first} on") as caught:
            follow(own, bytes(master), rng.choice([500, 32_768, 4 << 20]))
        assert caught.value.physical_offset == first


def test_a_master_with_a_shorter_log_has_diverged_at_its_end(rng: random.Random) -> None:
    own = rng.randbytes(400_000)
    for end in (399_999, 350_000, 200_000, 5, 1):
        with pytest.raises(DivergedError, match=f"from physical offset {end} on"):
            follow(own, own[:end], 32_768)


def test_equal_bytes_after_the_divergence_do_not_hide_it() -> None:
    own = bytearray(1_000_000)
    master = bytearray(1_000_100)
    master[123_456] = 1  # everything else is zeros in both
    master[999_990] = 1
    with pytest.raises(DivergedError) as caught:
        follow(bytes(own), bytes(master), 32_768)
    # A window of equal bytes counts as an equal history, so the answer is the last difference.
    assert caught.value.physical_offset in (123_456, 999_990)


def test_a_master_that_closes_during_the_search_has_diverged() -> None:
    own = random.Random(2).randbytes(500_000)
    check = OverlapCheck(reader(own), 0, len(own))
    check.master_refuses()  # a broken connection before the first difference means nothing
    master = bytes(500_000)
    assert check.feed(check.request, master[check.request : check.request + 100]) is None
    with pytest.raises(DivergedError, match=f"offset {500_000 - WINDOW_BYTES} on"):
        check.master_refuses()


def test_bytes_of_another_offset_are_refused() -> None:
    check = OverlapCheck(reader(b"x" * 100), 0, 100)
    with pytest.raises(StoreError, match="sent physical offset 5, expected 1"):
        check.feed(5, b"x")
