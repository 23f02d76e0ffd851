"""The comparison in columns has the findings of the comparison record by record."""

import random
from pathlib import Path

import pytest

from mqadmin.inspector.damage import DamageRow
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.log_walk import has_columns
from mqadmin.inspector.verify.vectorized import column_checks
from mqadmin.inspector.verify.verifier import VerifyOptions, verify
from tests.support.made_store import MadeStore
from tests.support.store_units import encode_unit

pytestmark = pytest.mark.skipif(not has_columns(), reason="columns need numpy")


def mixed(root: Path) -> MadeStore:
    """Plain, delayed, multi-dispatched and non-ASCII records, several keys, no tags."""
    store = MadeStore(root)
    for number in range(80):
        kind = number % 8
        if kind == 0:
            place = store.put("SCHEDULE_TOPIC_XXXX", 2, properties={"DELAY": "3"})
            stored = store.keys[-1][2]
            store.queues["SCHEDULE_TOPIC_XXXX", 2][-1] = encode_unit(
                place, store.places[-1][1], stored + 10_000
            )
        elif kind == 1:
            offset = len(store.queues.get(("%LMQ%a", 0), ()))
            place = store.put(
                properties={
                    "INNER_MULTI_DISPATCH": "%LMQ%a",
                    "INNER_MULTI_QUEUE_OFFSET": str(offset),
                }
            )
            unit = encode_unit(place, store.places[-1][1], 2598919)
            store.queues.setdefault(("%LMQ%a", 0), []).append(unit)
        elif kind == 2:
            store.put("Größe", properties={"KEYS": "schlüssel x"})
        elif kind == 3:
            store.put("NoTags", properties={"TAGS": "", "KEYS": ""})
        else:
            store.put("TopicA", number % 3, properties={"KEYS": f"a{number} b", "UNIQ_KEY": "u"})
    store.write_all()
    return store


def test_a_mixed_store_has_no_findings(tmp_path: Path, check) -> None:
    store = mixed(tmp_path / "store")
    found, result = check(store.root)
    assert found == []
    assert result.summary.units_checked == result.summary.units == 90
    assert result.summary.keys_indexed == len(store.keys)


@pytest.mark.parametrize("chunk", [1, 7, 1 << 18])
def test_chunks_of_any_size_give_the_same(tmp_path: Path, check, monkeypatch, chunk: int) -> None:
    monkeypatch.setattr(column_checks, "CHUNK", chunk)
    store = mixed(tmp_path / "store")
    store.poke_unit("TopicA", 1, 3, bytes(40))
    store.poke_unit("Größe", 0, 2, encode_unit(5, 5, 5))
    found, _ = check(store.root)
    assert sorted({one.kind for one in found}) == ["unit", "unitMissing"]


def both_ways(store: MadeStore) -> list[list[DamageRow]]:
    """The findings of the comparison record by record, and in columns."""
    return [
        verify(StoreDirectory(store.root), VerifyOptions(columns=way)).findings
        for way in (False, True)
    ]


def zero(path: Path, start: int, end: int) -> None:
    data = bytearray(path.read_bytes())
    data[start:end] = bytes(end - start)
    path.write_bytes(data)


def test_missing_units_of_plain_and_other_records_are_one_finding(tmp_path: Path) -> None:
    """Multi-dispatched records are matched before the plain ones that surround them."""
    store = mixed(tmp_path / "store")
    # Of the 19th unit the physical offset is left.
    zero(store.root / "consumequeue" / "TopicA" / "0" / ("0" * 20), 368, 600)
    plain, columns = both_ways(store)
    assert columns == plain
    assert [one.kind for one in plain] == ["unitMissing"]


def test_keys_of_a_record_whose_end_is_lost_are_not_reported(tmp_path: Path) -> None:
    """That its properties end in zeros shows only after the damage that follows it."""
    store = mixed(tmp_path / "store")
    zero(store.root / "commitlog" / f"{4096:020}", 3780, 4080)
    plain, columns = both_ways(store)
    assert sorted(columns, key=repr) == sorted(plain, key=repr)
    assert "indexEntry" not in {one.kind for one in plain}
    assert {"content", "unfinished"} <= {one.kind for one in plain}


def test_random_corruption_is_found_in_the_same_files(tmp_path: Path, rng: random.Random) -> None:
    """Of several corruptions the findings may be split and ordered differently."""
    store = mixed(tmp_path / "store")
    files = [
        *(store.root / "commitlog").iterdir(),
        *(store.root / "consumequeue").rglob("0*"),
        *(store.root / "index").iterdir(),
    ]
    files = [path for path in files if path.is_file()]
    kinds: set[str] = set()
    for _ in range(25):
        before = {path: path.read_bytes() for path in files}
        for _ in range(rng.randrange(1, 5)):
            path = rng.choice(files)
            data = bytearray(path.read_bytes())
            at = rng.randrange(len(data))
            if rng.random() < 0.3:
                length = min(rng.choice((20, 60, 300)), len(data) - at)
                data[at : at + length] = bytes(length)
            else:
                data[at] ^= 1 << rng.randrange(8)
            path.write_bytes(data)
        plain, columns = (
            {
                (row.kind, row.severity, row.path)
                for row in verify(StoreDirectory(store.root), VerifyOptions(columns=way)).findings
            }
            for way in (False, True)
        )
        assert columns == plain
        kinds |= {kind for kind, _, _ in plain}
        for path, data in before.items():
            path.write_bytes(data)
    assert len(kinds) >= 5, kinds


def test_topics_with_equal_hash_and_length_are_distinguished(tmp_path: Path, check) -> None:
    """Their rows are grouped by hash, length and queue id first."""
    store = MadeStore(tmp_path / "store", file_size=16384)
    for number in range(20):
        store.put("TopicAa" if number % 2 else "TopicBB")  # equal Java hashes
    store.write_all()
    assert check(store.root).found == []
    store.poke_unit("TopicBB", 0, 4, bytes(20))
    (finding,) = check(store.root).found
    assert (finding.kind, finding.physical_offset) == ("unitMissing", 80)


def test_a_queue_without_files_is_counted_from_columns(tmp_path: Path, check) -> None:
    import shutil

    store = mixed(tmp_path / "store")
    shutil.rmtree(store.root / "consumequeue" / "TopicA" / "1")
    found, _ = check(store.root)
    count = len(store.queues["TopicA", 1])
    assert found == [("queueMissing", "error", "consumequeue/TopicA/1", 0, count * 20)]


def test_a_file_cut_within_a_record_is_reported_once(tmp_path: Path, check) -> None:
    """Fewer zeros than a blank record has follow the last written byte of the cut record."""
    for followed in (True, False):
        store = MadeStore(tmp_path / str(followed))
        for _ in range(60):
            store.put("T", body=bytes(60))
        store.write()
        files = sorted((store.root / "commitlog").iterdir())
        data = files[1].read_bytes()
        if not followed:
            for path in files[2:]:
                path.unlink()
        first = store.places[[offset for offset, _ in store.places].index(4096) + 3][0] - 4096
        for cut in (2, 13, 17, 31, *range(first, first + 100, 3)):
            files[1].write_bytes(data[:cut])
            plain = check(store.root)[1].findings  # compares both paths
            rest = cut - len(data[:cut].rstrip(b"\0"))
            if rest < 8 and cut not in (first, first + 1):
                kinds = [row.kind for row in plain if row.path == str(files[1])]
                assert kinds.count("truncated") == 1
                assert "unfinished" not in kinds
