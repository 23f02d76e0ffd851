"""Entries of an IndexFile as columns; slots, chains, and the slot count of damaged files."""

import random
from pathlib import Path

import pytest

from broker.store.format.indexfile import (
    HEADER_SIZE,
    decode_header,
    encode_header,
    entry_position,
    slot_position,
)
from mqadmin.inspector.verify import index_chains
from mqadmin.inspector.verify.index_chains import Entries, chain_problems, shape_of
from tests.support.made_store import MadeStore

SLOTS = 8


@pytest.fixture(params=["columns", "plain"])
def entries_of(request, monkeypatch):
    """``entries_of(data, count)``: with numpy, and without it."""
    if request.param == "plain":
        import builtins

        real = builtins.__import__

        def refuse(name: str, *arguments, **options):
            if name == "numpy":
                raise ImportError(name)
            return real(name, *arguments, **options)

        def made(data: bytes, count: int) -> Entries:
            with monkeypatch.context() as patched:
                patched.setattr(builtins, "__import__", refuse)
                return Entries(data, SLOTS, count)

        return made
    pytest.importorskip("numpy")
    return lambda data, count: Entries(data, SLOTS, count)


@pytest.fixture
def data(tmp_path: Path) -> bytearray:
    """An IndexFile of 24 entries in 8 slots."""
    store = MadeStore(tmp_path / "store")
    for _ in range(24):
        store.put()
    (path,) = store.write_index(slots=SLOTS, capacity=30)
    return bytearray(path.read_bytes())


def set_int(data: bytearray, at: int, value: int) -> None:
    data[at : at + 4] = value.to_bytes(4, "big", signed=True)


def problems(data: bytearray, entries_of, count: int = 24) -> list[tuple[int, int]]:
    found = chain_problems(bytes(data), entries_of(bytes(data), 24), SLOTS, count)
    assert all(problem.detail for problem in found)
    return [(problem.position, problem.length) for problem in found]


def test_a_sound_file_has_no_problems(data: bytearray, entries_of) -> None:
    assert problems(data, entries_of) == []


@pytest.mark.parametrize("number", [1, 13, 24])
@pytest.mark.parametrize("wrong", [-1, 24, 25, 1 << 30])
def test_a_wrong_link_is_reported_at_its_entry(
    data: bytearray, entries_of, number: int, wrong: int
) -> None:
    at = entry_position(number, SLOTS)
    if int.from_bytes(data[at + 16 : at + 20], "big", signed=True) == wrong:
        wrong -= 1
    set_int(data, at + 16, wrong)
    assert problems(data, entries_of) == [(at, 20)]


def test_a_link_to_itself_or_a_later_entry_is_called_a_circle(data: bytearray, entries_of) -> None:
    details = []
    for has in (3, 20):
        changed = bytearray(data)
        set_int(changed, entry_position(3, SLOTS) + 16, has)
        entries = entries_of(bytes(changed), 24)
        (problem,) = chain_problems(bytes(changed), entries, SLOTS, 24)
        details.append(problem.detail)
    set_int(data, entry_position(20, SLOTS) + 16, 1)
    for problem in chain_problems(bytes(data), entries_of(bytes(data), 24), SLOTS, 24):
        assert "circle" not in problem.detail
    assert all("circle" in detail for detail in details)


@pytest.mark.parametrize("value", [0, 1, -7, 25, 1 << 30])
def test_a_wrong_slot_is_reported_at_its_position(data: bytearray, entries_of, value: int) -> None:
    """Brokers read slot values past the counted entries as 0."""
    slot = next(s for s in range(SLOTS) if data[slot_position(s) + 3] > 1)
    set_int(data, slot_position(slot), value)
    assert problems(data, entries_of) == [(slot_position(slot), 4)]


def test_a_slot_may_point_to_an_entry_that_the_header_does_not_count_yet(
    data: bytearray, entries_of
) -> None:
    slot = next(s for s in range(SLOTS) if data[slot_position(s) + 3])
    set_int(data, slot_position(slot), 25)
    assert problems(data, entries_of, count=25) == []


def test_a_wrong_hash_breaks_the_chains_of_both_slots(data: bytearray, entries_of) -> None:
    at = entry_position(12, SLOTS)
    old = int.from_bytes(data[at : at + 4], "big")
    set_int(data, at, old + 1)
    # the entry itself, the next one of the slot it left and the next one of the slot it entered
    places = [entry_position(number, SLOTS) for number in (12, 19, 20)]
    assert problems(data, entries_of) == [(place, 20) for place in places]


def test_both_implementations_agree_on_random_corruption(
    data: bytearray, rng: random.Random, monkeypatch
) -> None:
    pytest.importorskip("numpy")
    import builtins

    real = builtins.__import__

    def refuse(name: str, *arguments, **options):
        if name == "numpy":
            raise ImportError(name)
        return real(name, *arguments, **options)

    for _ in range(100):
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 5)):
            at = rng.randrange(HEADER_SIZE, entry_position(25, SLOTS))
            changed[at] ^= 1 << rng.randrange(8)
        whole = bytes(changed)
        columns = Entries(whole, SLOTS, 24)
        with monkeypatch.context() as patched:
            patched.setattr(builtins, "__import__", refuse)
            plain = Entries(whole, SLOTS, 24)
        assert [list(map(int, column)) for column in (columns.hashes, columns.physical)] == [
            list(plain.hashes),
            list(plain.physical),
        ]
        assert columns.rise() == plain.rise()
        assert columns.bounds() == plain.bounds()
        if all(value >= 0 for value in plain.hashes):
            assert sorted(chain_problems(whole, columns, SLOTS, 24)) == sorted(
                chain_problems(whole, plain, SLOTS, 24)
            )


def test_entries_are_ordered_and_keep_their_numbers(data: bytearray, entries_of) -> None:
    one, two = entry_position(5, SLOTS), entry_position(6, SLOTS)
    data[one : one + 20], data[two : two + 20] = data[two : two + 20], data[one : one + 20]
    entries = entries_of(bytes(data), 24)
    assert not entries.rise()
    entries.sort()
    assert entries.rise()
    assert [entries.number_of(place) for place in range(3, 7)] == [4, 6, 5, 7]


def test_a_span_contains_the_entries_of_a_range_of_the_log(data: bytearray, entries_of) -> None:
    entries = entries_of(bytes(data), 24)
    offsets = [int(value) for value in entries.physical]
    assert entries.span(0, 1 << 62) == (0, 24)
    assert entries.span(offsets[3], offsets[9]) == (3, 9)
    assert entries.span(offsets[3] + 1, offsets[9] + 1) == (4, 10)
    assert entries.bounds() == (offsets[0], offsets[-1])


@pytest.mark.parametrize("count", [-1, 0, 24, 29, 500])
def test_no_more_entries_are_read_than_the_file_contains(
    data: bytearray, entries_of, count: int
) -> None:
    assert len(entries_of(bytes(data), count)) == max(0, min(count, 29))


# ---- the slot count


def test_the_slot_count_follows_from_a_sound_file(data: bytearray) -> None:
    assert shape_of(bytes(data), 0) == SLOTS


def test_the_slot_count_of_another_file_of_the_same_length_is_used(data: bytearray) -> None:
    noise = bytes(at * at % 251 for at in range(len(data)))
    assert shape_of(noise, 0) == 0
    assert shape_of(noise, SLOTS) == SLOTS
    assert shape_of(b"short", 0) == 0
    assert shape_of(bytes(40 + SLOTS * 4 + 20 * 20), 0) == 0


def test_the_slot_count_of_a_damaged_file_follows_from_its_first_entry(tmp_path: Path) -> None:
    """The header's begin offset is that of entry 1, so the position of entry 1 gives the count."""
    store = MadeStore(tmp_path / "store", start=4096)
    for _ in range(24):
        store.put()
    (path,) = store.write_index(slots=SLOTS, capacity=30)
    whole = bytearray(path.read_bytes())
    header = decode_header(whole)
    whole[:HEADER_SIZE] = encode_header(header._replace(index_count=1 << 30))
    for slot in range(SLOTS):
        set_int(whole, slot_position(slot), 1 << 20)
    assert index_chains.probe_slot_count(bytes(whole)) == 0
    assert shape_of(bytes(whole), 0) == SLOTS


def test_compiled_code_reads_the_same_entries(rng: random.Random, monkeypatch) -> None:
    pytest.importorskip("numba")
    data = rng.randbytes(entry_position(40, SLOTS))
    fast = Entries(data, SLOTS, 39)
    monkeypatch.setattr(index_chains, "compiled_kernels", lambda: None)
    slow = Entries(data, SLOTS, 39)
    for name in ("hashes", "physical", "diff", "previous"):
        assert getattr(fast, name).dtype == getattr(slow, name).dtype
        assert getattr(fast, name).tolist() == getattr(slow, name).tolist()
