"""Batches of records against the units of a queue: the same result as record by record."""

from pathlib import Path

import pytest

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.loss import Extents
from mqadmin.inspector.verify.queue_checks import FINE, TAGS, OpenFiles, Queue
from tests.support.made_store import MadeStore
from tests.support.store_units import encode_unit

np = pytest.importorskip("numpy")
queue_columns = pytest.importorskip("mqadmin.inspector.verify.vectorized.queue_columns")


@pytest.fixture
def long(tmp_path: Path) -> MadeStore:
    """One queue of 75 units in three files."""
    store = MadeStore(tmp_path / "store", file_size=65536)
    for _ in range(75):
        store.put()
    store.write_all()
    return store


def test_columns_give_the_runs_of_single_matches(long: MadeStore, rng) -> None:
    (found,) = StoreDirectory(long.root).queue_files()
    for _ in range(20):
        one, other = Queue(found, OpenFiles()), Queue(found, OpenFiles())
        rows = []
        for offset in sorted(rng.sample(range(90), 50)):
            physical, size = long.record_of("TopicA", 0, min(offset, 74))
            tags = 2598919
            match rng.randrange(5):
                case 0:
                    physical += 1
                case 1:
                    tags = 7
            rows.append((offset, physical, size, tags))
        end = max((row[1] + row[2] for row in rows if one.match(*row) in (FINE, TAGS)), default=0)
        columns = [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]
        assert queue_columns.match_columns(other, *columns) == end
        assert other.runs == one.runs
        assert [bytes(file.seen) for file in other.files] == [bytes(f.seen) for f in one.files]


def test_units_outside_the_extents_are_found_by_position() -> None:
    data = b"".join(encode_unit(place, 100) for place in (50, 100, 200, 300)) + bytes(20)
    found = queue_columns.units_outside(data, 5, 100, Extents([(200, 300)]))
    assert list(found) == [1, 3]
