"""IndexRepairer: after a power cut each index file is cut to its valid prefix and completed."""

import pytest

from broker.store.format.indexfile import ENTRY_SIZE, entry_position

KEYS = 20


@pytest.fixture
def index_path(stores, inner):
    """The index file of a store that lost its power: the abort file has no boot ID."""
    store = stores.start()
    for number in range(KEYS):
        store.put_message(inner(properties={"KEYS": f"k{number}"}))
    store.flush()
    path = stores.root / "index" / store.index.files[0].name
    stores.close(store)
    (stores.root / "abort").write_bytes(b"")
    return path


def corrupt(path, number):
    data = bytearray(path.read_bytes())
    data[entry_position(number, 20)] ^= 0x40
    path.write_bytes(data)


@pytest.mark.parametrize("number", [1, 2, 11, KEYS])
def test_entries_from_the_first_invalid_one_on_are_rebuilt(stores, index_path, number):
    before = index_path.read_bytes()
    corrupt(index_path, number)
    store = stores.start()
    for key in range(KEYS):
        assert len(store.query_message("TopicA", f"k{key}", 9, 0, 1 << 62).buffers) == 1
    notes = [note for note in store.report.notes if index_path.name in note]
    # without a valid entry the whole file is rebuilt, which another note reports
    assert [f"{number - 1} valid entries" in note for note in notes] == [True] * (number > 1), notes
    stores.close(store)
    if number > 1:
        end = entry_position(KEYS, 20) + ENTRY_SIZE
        assert index_path.read_bytes()[40:end] == before[40:end]


def test_an_index_without_a_valid_entry_is_removed_and_rebuilt(stores, index_path):
    corrupt(index_path, 1)
    store = stores.start()
    assert store.report.removed_files == [str(index_path)]
    assert len(store.index.files) == 1
