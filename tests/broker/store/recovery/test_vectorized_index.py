"""The vectorized index validator accepts exactly the entries that the plain one accepts."""

import struct

import pytest

from broker.store.format.indexfile import ENTRY_SIZE, HEADER_SIZE, entry_position

pytest.importorskip("numba")

from broker.store.recovery.index_validator import IndexValidator
from broker.store.recovery.vectorized_index import VectorizedIndexValidator

MESSAGES = 18


@pytest.fixture
def store(stores, inner):
    store = stores.start()
    for number in range(MESSAGES):
        keys = {"UNIQ_KEY": f"U{number}", "KEYS": f"k{number % 5}"}
        store.put_message(inner(body=b"%d" % number, properties=keys))
    yield store
    store.index.drop_from(0)  # corrupted on purpose


def valid_entries(store):
    index = store.index.files[0]
    return [
        kind(store.log, store.reput).valid_entries(index)
        for kind in (IndexValidator, VectorizedIndexValidator)
    ]


def test_both_accept_a_whole_file(store):
    assert valid_entries(store) == [2 * MESSAGES + 1] * 2


@pytest.mark.parametrize("field", [0, 4, 8])
def test_both_stop_at_the_same_corrupt_entry(store, rng, field):
    index = store.index.files[0]
    for number in rng.sample(range(1, 2 * MESSAGES + 1), 12):
        at = entry_position(number, index.slots) + field + 3
        index.file.mapping[at] ^= 0x10
        plain, vectorized = valid_entries(store)
        assert plain == vectorized <= number
        index.file.mapping[at] ^= 0x10


def restored(store, kind, kept):
    """Restore the index up to entry ``kept`` - 1; its bytes and header fields afterwards."""
    index = store.index.files[0]
    validator = kind(store.log, store.reput)
    assert validator.valid_entries(index) >= kept
    validator.restore(index, kept)
    fields = ("begin_timestamp", "end_timestamp", "begin_physical_offset", "end_physical_offset")
    header = [getattr(index, name) for name in (*fields, "used_slots", "count")]
    return bytes(index.file.mapping), header


@pytest.mark.parametrize("kept", [2, 3, 8, 2 * MESSAGES, 2 * MESSAGES + 1])
@pytest.mark.parametrize("wrong_field", [None, 12, 16], ids=["whole", "seconds", "previous"])
def test_both_restore_the_same_bytes(store, rng, kept, wrong_field):
    """Wrong times and links before the cut are corrected, entries after it are not linked."""
    index = store.index.files[0]
    if wrong_field is not None:
        for number in rng.sample(range(1, 2 * MESSAGES + 1), 9):
            index.file.mapping[entry_position(number, index.slots) + wrong_field + 3] ^= 0x15
    before = bytes(index.file.mapping)
    found = []
    for kind in (IndexValidator, VectorizedIndexValidator):
        index.file.mapping[:] = before
        found.append(restored(store, kind, kept))
    assert found[0] == found[1]


def test_the_slots_of_a_restored_index_name_the_newest_entry_before_the_cut(store):
    """A link into the part that was cut off would end the search for a key."""
    index = store.index.files[0]
    for kept in (2 * MESSAGES, 9, 3):
        mapping, header = restored(store, VectorizedIndexValidator, kept)
        slots = struct.unpack_from(f">{index.slots}i", mapping, HEADER_SIZE)
        assert max(slots) == kept - 1
        assert sum(slot > 0 for slot in slots) == header[-2]
        cut = entry_position(kept, index.slots)
        assert mapping[cut : cut + ENTRY_SIZE] == bytes(ENTRY_SIZE)
