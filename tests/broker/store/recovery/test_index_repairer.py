"""IndexRepairer: after a power cut doubtful index files are rebuilt by the scan of the log."""

import pytest

from broker.store.dispatch.reput import ReputService
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


def entries(path):
    """Slots and entries of the index file, without the header."""
    return path.read_bytes()[40 : entry_position(KEYS, 20) + ENTRY_SIZE]


def index_paths(stores):
    return sorted((stores.root / "index").iterdir())


@pytest.mark.parametrize("number", [1, 2, 11, KEYS])
def test_a_corrupt_file_is_rebuilt_with_the_same_entries(stores, index_path, number):
    before = entries(index_path)
    corrupt(index_path, number)
    store = stores.start()
    for key in range(KEYS):
        assert len(store.query_message("TopicA", f"k{key}", 9, 0, 1 << 62).buffers) == 1
    assert store.report.removed_files == [str(index_path)]
    assert f"{index_path}: rebuilt from the log" in store.report.notes
    stores.close(store)
    (path,) = index_paths(stores)
    assert entries(path) == before


def test_an_intact_file_not_known_to_be_on_disk_is_rebuilt_with_the_same_bytes(stores, index_path):
    before = index_path.read_bytes()
    store = stores.start()
    assert store.report.removed_files == [str(index_path)]
    stores.close(store)
    (path,) = index_paths(stores)
    assert path.read_bytes() == before


def test_records_before_the_start_of_the_queues_are_only_indexed(stores, inner, monkeypatch):
    """The checkpoint is newer than all of the log but its last file: queues there are complete."""
    config = stores.config(mapped_file_size_commit_log=4096)
    store = stores.start(config)
    for number in range(KEYS * 4):
        store.put_message(inner(body=bytes(100), properties={"KEYS": f"k{number}"}))
        stores.clock.advance(5000)
    store.flush()
    last = store.log.files.files[-1].start
    before = [path.read_bytes() for path in index_paths(stores)]
    stores.close(store)
    (stores.root / "abort").write_bytes(b"")
    placed = []
    append = ReputService.append_repaired

    def recorded(self, request, *rest):
        placed.append(request.physical_offset)
        append(self, request, *rest)

    monkeypatch.setattr(ReputService, "append_repaired", recorded)
    store = stores.start(config)
    assert store.report.scanned_from < last
    assert placed
    assert min(placed) >= last
    stores.close(store)
    assert [path.read_bytes() for path in index_paths(stores)] == before


@pytest.mark.parametrize("header", [bytes(40), b"\xff" * 40, b"\x80"])
@pytest.mark.parametrize("recorded", [True, False])
def test_a_file_before_the_last_with_a_corrupt_header_is_rebuilt(stores, inner, header, recorded):
    """A header of zeros or of negative counts reads as that of a file without entries.

    A negative beginTimestamp would end the queries that go back to older files.
    """
    store = stores.start()
    for number in range(120):
        store.put_message(inner(properties={"KEYS": f"k{number}"}))
    stores.close(store)
    before, damaged, last = index_paths(stores)
    with damaged.open("r+b") as file:
        file.write(header)
    if not recorded:  # as Java leaves a store
        (stores.root / "queueEnds.json").unlink()
    store = stores.start()
    for key in range(120):
        assert len(store.query_message("TopicA", f"k{key}", 9, 0, 1 << 62).buffers) == 1, key
    assert store.report.removed_files == [str(damaged), str(last)]
    assert before.exists()
