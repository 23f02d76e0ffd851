"""Exports: the same messages in every form, resumed where they stopped."""

import csv
import errno
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ConfigError, DiskFullError, StoreLockedError
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.find import message_rows
from mqadmin.inspector.query import Query
from mqadmin.repair import export as export_module
from mqadmin.repair.export import export


class Killed(BaseException):
    """Stands for SIGKILL: no handler catches it."""


def places(root: Path, query: Query | None = None) -> list[tuple[int, int]]:
    rows = message_rows(StoreDirectory(root), query or Query())
    return [(row.physical_offset, row.queue_offset) for row in rows]  # type: ignore[union-attr]


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_lines_contain_the_messages_of_the_log(golden_store, tmp_path: Path) -> None:
    root = golden_store("normal-stop-533") / "store"
    result = export(StoreDirectory(root), Query(body="base64"), tmp_path / "x.ndjson", "ndjson")
    rows = read(tmp_path / "x.ndjson")
    assert [(row["physicalOffset"], row["queueOffset"]) for row in rows] == places(root)
    assert result.rows == result.total_rows == len(rows)
    assert rows[0]["storeTime"].endswith("Z")
    assert rows[0]["bodyEncoding"] == "base64"


def test_csv_has_one_header_over_all_runs(golden_store, tmp_path: Path) -> None:
    root = golden_store("normal-stop-533") / "store"
    path = tmp_path / "x.csv"
    export(StoreDirectory(root), Query(topic="OrdersA"), path, "csv")
    export(StoreDirectory(root), Query(topic="OrdersA"), path, "csv")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["physicalOffset"]) for row in rows] == [
        place for place, _ in places(root, Query(topic="OrdersA"))
    ]
    assert json.loads(rows[0]["properties"])


def test_a_second_run_resumes_where_the_first_stopped(base_store, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    last = sorted((root / "commitlog").iterdir())[-1]
    kept = last.read_bytes()
    last.write_bytes(bytes(len(kept)))
    path = tmp_path / "x.ndjson"
    first = export(StoreDirectory(root), Query(), path, "ndjson")
    assert not first.resumed
    last.write_bytes(kept)
    # A crash left half a line after the last saved state.
    with path.open("ab") as file:
        file.write(b'{"half')
    second = export(StoreDirectory(root), Query(), path, "ndjson")
    assert second.resumed
    assert second.rows == len(places(root)) - first.rows > 0
    assert [row["physicalOffset"] for row in read(path)] == [place for place, _ in places(root)]
    assert export(StoreDirectory(root), Query(), path, "ndjson").rows == 0


def test_another_question_is_refused(golden_store, tmp_path: Path) -> None:
    root = golden_store("normal-stop-533") / "store"
    path = tmp_path / "x.ndjson"
    export(StoreDirectory(root), Query(topic="ZipA"), path, "ndjson")
    with pytest.raises(ConfigError, match="another question"):
        export(StoreDirectory(root), Query(topic="OrdersA"), path, "ndjson")
    other = tmp_path / "there"
    other.write_text("mine")
    with pytest.raises(ConfigError, match="no state"):
        export(StoreDirectory(root), Query(), other, "ndjson")
    assert other.read_text() == "mine"


def test_damaged_regions_are_passed_through(base_store, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    path = sorted((root / "commitlog").iterdir())[0]
    data = bytearray(path.read_bytes())
    data[336] ^= 0xFF
    path.write_bytes(data)
    found: list[Any] = []
    result = export(StoreDirectory(root), Query(), tmp_path / "x", "ndjson", damaged_regions=found)
    assert result.damages == len(found) == 1


def test_parquet_holds_the_same(golden_store, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    root = golden_store("batch-cq-533") / "store"
    out = tmp_path / "parts"
    result = export(StoreDirectory(root), Query(body="text"), out, "parquet")
    table = parquet.read_table(out / f"part-{0:020d}.parquet")
    pairs = list(
        zip(
            table.column("physical_offset").to_pylist(),
            table.column("queue_offset").to_pylist(),
            strict=True,
        )
    )
    assert pairs == places(root)
    assert result.rows == len(pairs)
    assert table.column("body").to_pylist()[0]
    again = export(StoreDirectory(root), Query(body="text"), out, "parquet")
    assert (again.resumed, again.rows, again.files) == (True, 0, 1)


def test_parquet_can_be_narrowed(golden_store, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    root = golden_store("normal-stop-533") / "store"
    store = StoreDirectory(root)
    export(store, Query(topic="PaymentsA", queue_id=1), tmp_path / "a", "parquet")
    table = parquet.read_table(tmp_path / "a")
    assert "body" not in table.column_names
    wanted = places(root, Query(topic="PaymentsA", queue_id=1))
    assert table.column("physical_offset").to_pylist() == [place for place, _ in wanted]
    export(store, Query(key="o-1"), tmp_path / "b", "parquet")
    assert parquet.read_table(tmp_path / "b").num_rows == len(places(root, Query(key="o-1")))


def tree(path: Path) -> dict[str, bytes]:
    """The files of an export without its state."""
    files = [path] if path.is_file() else sorted(path.iterdir())
    return {file.name: file.read_bytes() for file in files if not file.name.endswith(".json")}


@pytest.mark.parametrize("form", ["ndjson", "csv", "parquet"])
def test_an_export_that_is_killed_anywhere_comes_to_the_same(
    golden_store,
    form: str,
    rng: random.Random,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow")
    root = golden_store("normal-stop-533") / "store"
    store, query = StoreDirectory(root), Query(body="base64")
    # Small pieces, so that there is something between two states.
    monkeypatch.setattr(export_module, "STATE_BYTES", 4000)
    monkeypatch.setattr(export_module, "PART_ROWS", 40)
    monkeypatch.setattr(export_module, "GROUP_ROWS", 15)
    monkeypatch.setattr("mqadmin.inspector.export.pieces.PIECE_ROWS", 7)
    monkeypatch.setattr(
        "broker.store.format.vectorized.columns.scan_columns.__kwdefaults__", _small_batches()
    )
    export(store, query, tmp_path / "whole", form)

    killed: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        if rng.random() < 0.25:
            raise Killed
        real(fd)
        if rng.random() < 0.25:
            raise Killed

    path = tmp_path / "cut"
    for _ in range(500):
        with monkeypatch.context() as patched:
            patched.setattr(export_module.os, "fsync", fsync)
            try:
                result = export(store, query, path, form)
                break
            except Killed:
                killed.append("killed")
    else:
        pytest.fail("never came to the end")
    assert killed
    assert result.total_rows == len(places(root))
    assert list(tree(path).values()) == list(tree(tmp_path / "whole").values())


def _small_batches() -> dict[str, Any]:
    from broker.store.format.vectorized.columns import scan_columns

    return {**(scan_columns.__kwdefaults__ or {}), "rows": 10}


def test_a_relative_begin_resumes_with_the_time_of_the_first_run(
    golden_store, tmp_path: Path
) -> None:
    root = golden_store("normal-stop-533") / "store"
    rows = list(message_rows(StoreDirectory(root), Query()))
    first, later = (rows[at].store_timestamp for at in (50, 200))  # type: ignore[union-attr]
    path = tmp_path / "x"
    whole = export(StoreDirectory(root), Query(begin_ms=first), path, "ndjson")
    again = export(StoreDirectory(root), Query(begin_ms=later), path, "ndjson")
    assert (again.rows, again.total_rows) == (0, whole.rows)
    for other in (Query(), Query(begin_ms=first - 1), Query(begin_ms=first, end_ms=later)):
        with pytest.raises(ConfigError, match="another question"):
            export(StoreDirectory(root), other, path, "ndjson")


def test_a_file_that_was_taken_away_is_not_gone_on_with(golden_store, tmp_path: Path) -> None:
    root = golden_store("normal-stop-533") / "store"
    path = tmp_path / "x"
    export(StoreDirectory(root), Query(), path, "ndjson")
    path.unlink()
    with pytest.raises(ConfigError, match="were exported to it"):
        export(StoreDirectory(root), Query(), path, "ndjson")
    assert not path.exists()


def test_another_store_is_not_gone_on_with(base_store, golden_store, tmp_path: Path) -> None:
    path = tmp_path / "x"
    export(StoreDirectory(golden_store("normal-stop-533") / "store"), Query(), path, "ndjson")
    root = base_store("normal-stop-533")
    for file in sorted((root / "commitlog").iterdir())[1:]:
        file.unlink()
    with pytest.raises(ConfigError, match=r"the log of .* ends before"):
        export(StoreDirectory(root), Query(), path, "ndjson")


@pytest.mark.parametrize("form", ["ndjson", "parquet"])
def test_one_export_at_a_time(golden_store, form: str, tmp_path: Path) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow")
    root = golden_store("normal-stop-533") / "store"
    path = tmp_path / "x"
    first = export_module.make_export(StoreDirectory(root), Query(), path, form)
    with first.locked(), pytest.raises(StoreLockedError, match="another export"):
        export(StoreDirectory(root), Query(), path, form)
    assert export(StoreDirectory(root), Query(), path, form).rows == len(places(root))


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_full_disk_is_reported_and_recovered_from(
    golden_store, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow")
    root = golden_store("normal-stop-533") / "store"
    path = tmp_path / "x"

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(export_module.os, "fsync", full)
        with pytest.raises(DiskFullError, match="No space left"):
            export(StoreDirectory(root), Query(), path, form)
    assert export(StoreDirectory(root), Query(), path, form).total_rows == len(places(root))


def test_parquet_contains_corruption_and_marks_changed_bodies(base_store, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    root = base_store("normal-stop-533")
    names = sorted((root / "commitlog").iterdir())
    data = bytearray(names[0].read_bytes())
    one = next(row for row in message_rows(StoreDirectory(root)) if row.body_size)  # type: ignore[union-attr]
    data[one.physical_offset + 88] ^= 0xFF  # type: ignore[union-attr]
    names[0].write_bytes(data)
    shutil.move(names[2], tmp_path / "gone")
    found: list[Any] = []
    lines: list[Any] = []
    store = StoreDirectory(root)
    result = export(store, Query(body="text"), tmp_path / "p", "parquet", damaged_regions=found)
    text = export(store, Query(body="text"), tmp_path / "x", "ndjson", damaged_regions=lines)
    assert found == lines
    assert {row.kind for row in found} == {"crc", "gap"}
    table = parquet.read_table(tmp_path / "p")
    assert table.num_rows == result.rows == text.rows
    crc_flags = [row["crcOk"] for row in read(tmp_path / "x")]
    assert table.column("crc_ok").to_pylist() == crc_flags
    assert crc_flags.count(False) == 1


def test_keys_within_inner_batches_are_found_in_every_form(golden_store, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    root = golden_store("batch-cq-533") / "store"
    store = StoreDirectory(root)
    keys = {row.keys[0] for row in message_rows(store, Query()) if row.keys}  # type: ignore[union-attr]
    assert keys
    for number, key in enumerate(sorted(keys)[:5]):
        wanted = len(places(root, Query(key=key)))
        result = export(store, Query(key=key), tmp_path / str(number), "parquet")
        assert result.rows == wanted > 0
