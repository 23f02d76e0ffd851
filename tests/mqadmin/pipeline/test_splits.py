"""Splits: whatever the cuts, each record and each damage comes out once."""

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from broker.errors import StoreError
from broker.store.format.commitlog import encode_blank
from mqadmin.pipeline import splits
from mqadmin.pipeline.options import Wanted
from mqadmin.pipeline.source import COLUMN_TYPES
from mqadmin.pipeline.splits import Split, log_files, read_split

ALL = list(COLUMN_TYPES)
DAMAGES = {"damages": "true"}
Rows = Callable[[Any], list[tuple[Any, ...]]]


def read(root: Path, cuts: Callable[[int], list[int]], **options: str) -> list[pa.RecordBatch]:
    """All rows of a store whose files are cut at given positions."""
    files, store = log_files(str(root))
    found = []
    for file in files:
        length = splits.written_length(file)
        edges = [0, *sorted({cut for cut in cuts(length) if 0 < cut < length}), length]
        for start, end in itertools.pairwise(edges):
            split = Split(file, (start, end), store, exact=start == 0, follow=True)
            found += read_split(split, ALL, Wanted(), {**DAMAGES, **options})
    return found


def whole(_: int) -> list[int]:
    return []


def test_any_cuts_give_the_rows_of_the_plain_decoder(
    store_roots: dict[str, Path], plain_rows: Any, compared: Rows, rng: random.Random
) -> None:
    for name, root in store_roots.items():
        expected = compared({**row, "damage": None} for row in plain_rows(root))
        for most in (1, 3, 40):
            rows = read(
                root, lambda size, most=most: [rng.randrange(size + 1) for _ in range(most)]
            )
            assert compared(rows) == expected, (name, most)


def test_a_cut_at_every_byte_of_a_log_gives_the_same_rows(make_log: Any, compared: Rows) -> None:
    log = make_log(file_size=2048)
    for _ in range(14):
        log.put()
    expected = compared(read(log.root, whole))
    assert len(expected) == 14
    for cut in range(1, 2048):
        assert compared(read(log.root, lambda _, cut=cut: [cut])) == expected, cut


def damaged(log: Any, rng: random.Random) -> list[int]:
    """Damage a log of its own making at random places; the offsets of its records."""
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
def test_any_cuts_of_a_damaged_log_give_the_same_rows_and_damages(
    make_log: Any, compared: Rows, rng: random.Random, round_number: int
) -> None:
    log = make_log(file_size=4096)
    damaged(log, rng)
    expected = compared(read(log.root, whole))
    for most in (1, 2, 5, 30):
        cuts = [rng.randrange(4096) for _ in range(most)]
        assert compared(read(log.root, lambda _, cuts=cuts: cuts)) == expected, cuts


def test_what_lies_behind_the_blank_of_a_file_is_nobodys(make_log: Any, compared: Rows) -> None:
    """A file that was cut back and written on keeps old records behind its blank record."""
    log = make_log(file_size=4096)
    places = [log.put() for _ in range(12)]
    log.write(places[6], encode_blank(4096 - places[6]))
    for cuts in ([], [places[6]], [places[6] + 1], [places[7]], [places[8] + 20], [4090]):
        rows = read(log.root, lambda _, cuts=cuts: cuts)
        assert sum(len(batch) for batch in rows) == 6, cuts


def test_a_record_longer_than_splits_belongs_to_the_one_it_starts_in(make_log: Any) -> None:
    log = make_log(file_size=1 << 16)
    log.put()
    log.put(body=b"x" * 40_000)
    log.put()
    rows = read(log.root, lambda size: list(range(0, size, 1000)))
    assert [batch.num_rows for batch in rows] == [1, 1, 1] or sum(map(len, rows)) == 3


def test_the_tail_being_written_is_no_damage_once_it_is_whole(
    make_log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log(file_size=4096)
    log.put()
    end = log.end
    log.put()
    data = log.file(0).read_bytes()
    log.write(end, data[end : end + 50] + bytes(300))
    original = splits.damage_rows

    def late(batch: Any, maker: Any, wanted: Wanted) -> Any:
        log.write(end, data[end : log.end])
        return original(batch, maker, wanted)

    assert sum(map(len, read(log.root, whole))) == 2  # a row and a torn tail
    monkeypatch.setattr(splits, "damage_rows", late)
    rows = pa.Table.from_batches(read(log.root, whole)).to_pylist()
    assert [row["damage"] for row in rows] == [None]


def test_files_that_cannot_hold_wanted_rows_are_left_out(make_log: Any) -> None:
    log = make_log(file_size=4096)
    hour = 3_600_000
    start = 1_700_000_000_000
    for number in range(60):
        log.put(store_timestamp=start + number * hour)
    files, _ = log_files(str(log.root))

    def kept(**wanted: Any) -> list[int]:
        found = splits.plan([str(log.root)], Wanted(**wanted), {})
        return sorted({split.base for split in found})

    assert kept() == [file.start for file in files]
    assert kept(from_offset=4096, to_offset=8192) == [4096]
    late = kept(since_ms=start + 40 * hour)
    early = kept(until_ms=start + 20 * hour)
    assert 0 < len(late) < len(files)
    assert 0 < len(early) < len(files)
    assert late[-1] == files[-1].start
    assert early[0] == 0


def test_an_empty_or_unwritten_file_has_no_splits(make_log: Any) -> None:
    log = make_log(file_size=1 << 21)
    log.put()
    spare = log.file(1 << 21)
    with spare.open("wb") as file:
        file.truncate(1 << 21)
    log.file(2 << 21).touch()
    found = splits.plan([str(log.root)], Wanted(), {})
    assert [split.base for split in found] == [0]


def test_splits_are_at_least_128_mib_unless_said() -> None:
    assert splits.split_bytes({}, 1000) == 128 << 20
    assert splits.split_bytes({}, 1 << 50) > 128 << 20
    assert splits.split_bytes({"splitbytes": "77"}, 1 << 50) == 77


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such"):
        log_files(str(tmp_path / "nowhere"))
    with pytest.raises(StoreError) as found:
        splits.map_file(tmp_path / "gone")
    assert found.value.path == str(tmp_path / "gone")
