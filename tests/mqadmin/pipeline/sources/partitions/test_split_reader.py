"""Wherever files are cut, each record and each damaged region is returned once."""

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from broker.errors import StoreError
from broker.store.format.commitlog import encode_blank
from mqadmin.pipeline.sources.options import RowFilter
from mqadmin.pipeline.sources.partitions import split_reader
from mqadmin.pipeline.sources.partitions.split_reader import read_split
from mqadmin.pipeline.sources.partitions.splits import Split, log_files, written_length
from mqadmin.pipeline.sources.partitions.store_reader import COLUMN_TYPES
from tests.support.pipeline_store import MakeLog, decode_store, normalize

ALL = list(COLUMN_TYPES)
DAMAGES = {"damages": "true"}


def read(root: Path, cuts: Callable[[int], list[int]], **options: str) -> list[pa.RecordBatch]:
    """Return all rows of a store whose files are cut at the given positions."""
    files, store = log_files(str(root))
    found = []
    for file in files:
        length = written_length(file)
        edges = [0, *sorted({cut for cut in cuts(length) if 0 < cut < length}), length]
        for start, end in itertools.pairwise(edges):
            split = Split(file, (start, end), store, exact=start == 0, follow=True)
            found += read_split(split, ALL, RowFilter(), {**DAMAGES, **options})
    return found


def uncut(_: int) -> list[int]:
    return []


def test_any_cuts_yield_the_rows_of_the_record_decoder(
    store_roots: dict[str, Path], rng: random.Random
) -> None:
    for name, root in store_roots.items():
        expected = normalize({**row, "damage": None} for row in decode_store(root))
        for most in (1, 3, 40):
            rows = read(
                root, lambda size, most=most: [rng.randrange(size + 1) for _ in range(most)]
            )
            assert normalize(rows) == expected, (name, most)


def test_a_cut_at_any_byte_yields_the_same_rows(make_log: MakeLog) -> None:
    log = make_log(file_size=2048)
    for _ in range(14):
        log.put()
    expected = normalize(read(log.root, uncut))
    assert len(expected) == 14
    for cut in range(1, 2048):
        assert normalize(read(log.root, lambda _, cut=cut: [cut])) == expected, cut


def fill_and_damage(log: Any, rng: random.Random) -> list[int]:
    """Fill a log, damage it at random places; return the physical offsets of its records."""
    places = [log.put() for _ in range(40)]
    for kind in rng.sample(("magic", "size", "zeros", "body", "own", "run", "lengths"), 4):
        at = rng.choice(places[:-1])
        if kind == "magic":
            log.write(at + 4, b"\x00\x01\x02\x03")
        elif kind == "size":
            log.write(at, rng.randbytes(4))
        elif kind == "zeros":
            log.write(at, bytes(rng.randrange(60, 1500)))
        elif kind == "body":
            log.write(at + 90, b"\xff")
        elif kind == "own":
            log.write(at + 28, rng.randbytes(8))
        elif kind == "lengths":
            log.write(at + 84, rng.randbytes(4))
        else:
            log.write(at, rng.randbytes(rng.randrange(100, 2500)))
    return places


@pytest.mark.parametrize("round_number", range(25))
def test_any_cuts_of_a_damaged_log_yield_the_same_rows_and_damaged_regions(
    make_log: MakeLog, rng: random.Random, round_number: int
) -> None:
    log = make_log(file_size=4096)
    fill_and_damage(log, rng)
    expected = normalize(read(log.root, uncut))
    for most in (1, 2, 5, 30):
        cuts = [rng.randrange(4096) for _ in range(most)]
        assert normalize(read(log.root, lambda _, cuts=cuts: cuts)) == expected, cuts


def test_records_after_the_blank_of_a_file_are_not_returned(make_log: MakeLog) -> None:
    """A file that was truncated and rewritten contains old records after its blank record."""
    log = make_log(file_size=4096)
    places = [log.put() for _ in range(12)]
    log.write(places[6], encode_blank(4096 - places[6]))
    for cuts in ([], [places[6]], [places[6] + 1], [places[7]], [places[8] + 20], [4090]):
        rows = read(log.root, lambda _, cuts=cuts: cuts)
        assert sum(len(batch) for batch in rows) == 6, cuts


def test_a_record_longer_than_a_split_belongs_to_the_split_of_its_start(make_log: MakeLog) -> None:
    log = make_log(file_size=1 << 16)
    offsets = [log.put(), log.put(body=b"x" * 40_000), log.put()]
    rows = read(log.root, lambda size: list(range(0, size, 1000)))
    assert pa.Table.from_batches(rows)["physical_offset"].to_pylist() == offsets


def test_a_record_completed_during_the_scan_is_not_damaged(
    make_log: MakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log(file_size=4096)
    log.put()
    end = log.end
    log.put()
    data = log.file(0).read_bytes()
    log.write(end, data[end : end + 50] + bytes(300))
    original = split_reader.damage_rows

    def complete_record_first(batch: Any, maker: Any, wanted: RowFilter) -> Any:
        log.write(end, data[end : log.end])
        return original(batch, maker, wanted)

    assert sum(map(len, read(log.root, uncut))) == 2  # a message and a torn record
    monkeypatch.setattr(split_reader, "damage_rows", complete_record_first)
    rows = pa.Table.from_batches(read(log.root, uncut)).to_pylist()
    assert [row["damage"] for row in rows] == [None]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as raised:
        split_reader.map_file(tmp_path / "gone", 4096)
    assert raised.value.path == str(tmp_path / "gone")
    assert raised.value.physical_offset == 4096
    assert raised.value.message.endswith("at physical offset 4096: No such file or directory")
