"""Rebuilt IndexFiles equal those made entry by entry, in any parts, with and without numpy."""

import itertools
import random
from pathlib import Path

import pytest

from broker.store.format.indexfile import (
    decode_header,
    index_key_hash,
    scan_entries,
    time_diff_seconds,
    walk_chain,
)
from mqadmin.inspector.verify.log_walk import has_columns
from mqadmin.repair.derived_files import build_index
from mqadmin.repair.derived_files.build_index import IndexWriter
from mqadmin.repair.files import Output
from tests.support.made_store import MadeStore

WAYS = [False, True] if has_columns() else [False]


@pytest.fixture(params=WAYS, ids=lambda way: "columns" if way else "plain")
def way(request, monkeypatch) -> bool:
    monkeypatch.setattr(build_index, "has_columns", lambda: request.param)
    return bool(request.param)


def build(root: Path, keys, *, slots: int = 32, entries: int = 25, parts=None) -> IndexWriter:
    output = Output(root)
    writer = IndexWriter(output, slots, entries)
    for part in parts or [slice(0, len(keys))]:
        columns = list(zip(*keys[part], strict=True)) or [(), (), ()]
        writer.add(*map(list, columns))
    writer.close()
    output.sync()
    return writer


def contents(root: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((root / "index").iterdir())]


def test_the_files_equal_those_of_a_made_store(tmp_path: Path, way: bool) -> None:
    store = MadeStore(tmp_path / "store")
    for number in range(60):
        store.put("TopicA", number % 2)
    paths = store.write_index(slots=32, capacity=25)
    writer = build(tmp_path / "new", store.keys)
    assert contents(tmp_path / "new") == [path.read_bytes() for path in paths]
    assert (writer.files, writer.keys) == (3, 60)


def test_parts_of_any_length_give_the_same_files(
    tmp_path: Path, way: bool, rng: random.Random
) -> None:
    keys = [(n * 100, rng.randrange(1 << 31), 1000 + n * 700) for n in range(100)]
    build(tmp_path / "whole", keys)
    cuts = [0, *sorted(rng.sample(range(1, 100), 12)), 100]
    parts = [slice(begin, end) for begin, end in itertools.pairwise(cuts)]
    build(tmp_path / "parts", keys, parts=parts)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


@pytest.mark.skipif(not has_columns(), reason="compares both implementations")
def test_both_implementations_write_the_same(tmp_path: Path, monkeypatch, rng) -> None:
    for number in range(10):
        keys = []
        moment = rng.choice([0, 5, 1_700_000_000_000])
        for n in range(rng.randrange(1, 90)):
            moment = max(0, moment + rng.choice((-5000, 0, 1, 900, 60_000)))
            keys.append((n * 100, rng.choice((rng.randrange(1 << 31), 7, 39)), moment))
        for columns in (False, True):
            monkeypatch.setattr(build_index, "has_columns", lambda columns=columns: columns)
            build(tmp_path / f"{number}-{columns}", keys, slots=8, entries=12)
        assert contents(tmp_path / f"{number}-False") == contents(tmp_path / f"{number}-True")


def test_every_key_is_found_through_its_chain(tmp_path: Path, way: bool) -> None:
    keys = [(n * 100, index_key_hash("T", f"k{n % 4}"), 1000 + n) for n in range(20)]
    build(tmp_path / "new", keys, slots=2)
    (data,) = contents(tmp_path / "new")
    for word in range(4):
        chain = walk_chain(data, index_key_hash("T", f"k{word}"), 2)
        expected = [n * 100 for n in range(20) if n % 4 == word]
        assert [entry.physical_offset for entry in chain] == expected[::-1]


def test_the_header_has_bounds_counts_and_used_slots(tmp_path: Path, way: bool) -> None:
    keys = [(500, 1, 10_000), (600, 33, 11_000), (600, 2, 11_000)]
    build(tmp_path / "new", keys)
    (data,) = contents(tmp_path / "new")
    # 1 and 33 share slot 1 of 32
    assert decode_header(data) == (10_000, 11_000, 500, 600, 2, 4)
    assert [entry.previous_entry for entry in scan_entries(data, 32)] == [0, 1, 0]


def test_files_are_named_by_time_and_never_alike(tmp_path: Path, way: bool) -> None:
    keys = [(n, n, 1_700_000_000_123) for n in range(70)]
    writer = build(tmp_path / "new", keys)
    names = [path.name for path in sorted((tmp_path / "new" / "index").iterdir())]
    assert names == ["20231114221320123", "20231114221320124", "20231114221320125"]
    assert writer.full_until == 1_700_000_000_123


def test_the_end_of_the_last_full_file_is_kept_for_the_checkpoint(
    tmp_path: Path, way: bool
) -> None:
    keys = [(n, n, 1_000_000 + n * 1000) for n in range(24 + 5)]
    writer = build(tmp_path / "new", keys)
    assert writer.full_until == 1_000_000 + 23 * 1000
    assert build(tmp_path / "short", keys[:5]).full_until == 0


def test_times_before_the_begin_and_without_a_begin_count_as_0_seconds(
    tmp_path: Path, way: bool
) -> None:
    keys = [(1, 1, 5000), (2, 2, 4000), (3, 3, 7999)]
    build(tmp_path / "new", keys)
    (data,) = contents(tmp_path / "new")
    assert (
        [entry.time_diff_seconds for entry in scan_entries(data, 32)]
        == [time_diff_seconds(moment, 5000) for _, _, moment in keys]
        == [0, 0, 2]
    )
    build(tmp_path / "zero", [(1, 1, 0), (2, 2, 9000)])
    (data,) = contents(tmp_path / "zero")
    assert [entry.time_diff_seconds for entry in scan_entries(data, 32)] == [0, 0]


def test_without_keys_no_file_is_written(tmp_path: Path, way: bool) -> None:
    writer = build(tmp_path / "new", [])
    assert (writer.files, writer.keys) == (0, 0)
    assert not (tmp_path / "new" / "index").exists()


def test_seconds_are_bounded_by_the_four_bytes_of_the_entry(tmp_path: Path, way: bool) -> None:
    limit = (1 << 31) - 1
    times = [1, 1 + (limit - 1) * 1000, 1 + limit * 1000, 1 + (limit + 1) * 1000, 1 << 62]
    build(tmp_path / "new", [(at, at, moment) for at, moment in enumerate(times)])
    (data,) = contents(tmp_path / "new")
    seconds = [entry.time_diff_seconds for entry in scan_entries(data, 32)]
    assert seconds == [0, limit - 1, limit, limit, limit]
