"""Exports: the same messages in every form, gone on with where they stopped."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ConfigError
from mqadmin.inspector.directory import Query, StoreDirectory
from mqadmin.surgery.export import export


def places(root: Path, query: Query | None = None) -> list[tuple[int, int]]:
    rows = StoreDirectory(root).messages(query or Query())
    return [(row.physical_offset, row.queue_offset) for row in rows]  # type: ignore[union-attr]


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_lines_hold_what_the_log_holds(golden_store, tmp_path: Path) -> None:
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


def test_a_second_run_goes_on_where_the_first_stopped(base_store, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    last = sorted((root / "commitlog").iterdir())[-1]
    kept = last.read_bytes()
    last.write_bytes(bytes(len(kept)))
    path = tmp_path / "x.ndjson"
    first = export(StoreDirectory(root), Query(), path, "ndjson")
    assert not first.resumed
    last.write_bytes(kept)
    # A crash left half a line behind the last state.
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


def test_damages_are_handed_on(base_store, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    path = sorted((root / "commitlog").iterdir())[0]
    data = bytearray(path.read_bytes())
    data[336] ^= 0xFF
    path.write_bytes(data)
    found: list[Any] = []
    result = export(StoreDirectory(root), Query(), tmp_path / "x", "ndjson", damages=found)
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
