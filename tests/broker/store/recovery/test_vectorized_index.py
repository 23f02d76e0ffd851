"""The vectorized index validator accepts exactly the entries that the plain one accepts."""

import pytest

from broker.store.format.indexfile import entry_position

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
