"""Entries added by the thousand are those that are added message by message."""

import pytest

pytest.importorskip("numba")

import numpy as np

from broker.store.format.indexfile import key_hash
from broker.store.index.index_service import IndexService
from broker.store.logfile.disk import Disk
from broker.store.recovery.runs.vectorized_index import put_entries

PREFIX = 77
ENTRIES = 30


@pytest.fixture
def service(tmp_path):
    """Two services with the same clock; files of few slots and entries."""
    found = []

    def create(name: str) -> IndexService:
        found.append(IndexService(Disk(), str(tmp_path / name), slots=7, entries=ENTRIES))
        found[-1].now_ms = lambda: 1_700_000_000_000
        return found[-1]

    yield create
    for one in found:
        one.close()


def messages(rng, count):
    stored = 1_700_000_000_000
    for number in range(count):
        stored += rng.choice([0, 0, 900, 5000])
        yield b"k%d" % rng.randrange(9), 100 * number, stored


@pytest.mark.parametrize("count", [1, ENTRIES - 2, ENTRIES - 1, ENTRIES, 3 * ENTRIES])
def test_entries_added_together_are_those_added_one_by_one(service, rng, count):
    one_by_one, together = service("one"), service("all")
    given = list(messages(rng, count))
    for key, physical_offset, stored in given:
        one_by_one.put_keys(PREFIX, [key], physical_offset, stored)
    columns = [[key_hash(PREFIX, key), physical_offset, t] for key, physical_offset, t in given]
    table = np.array(columns, dtype=np.int64).T.copy()
    cut = rng.randrange(count + 1)
    put_entries(together, table[:, :cut])
    put_entries(together, table[:, cut:])
    for index in (one_by_one, together):
        index.flush_header()
    found = [[bytes(file.file.mapping) for file in s.files] for s in (one_by_one, together)]
    assert found[0] == found[1]
