"""Exports: the same messages in every form, resumed where they stopped."""

import csv
import errno
import json
import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ConfigError, DiskFullError, StoreLockedError
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.export.pieces import FORMATS
from mqadmin.inspector.queries.find import message_rows
from mqadmin.inspector.query import Query
from mqadmin.repair import export as export_module
from mqadmin.repair.export import export
from tests.support.made_store import NOW, MadeStore


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


# --- refusals, dry runs, states


def made(tmp_path: Path, count: int = 40) -> Path:
    """A small store of two topics."""
    store = MadeStore(tmp_path / "store")
    for number in range(count):
        store.put("TopicA" if number % 3 else "TopicB", number % 2)
    return store.write_all()


def test_an_unknown_format_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no format 'xml'") as caught:
        export(StoreDirectory(made(tmp_path)), Query(), tmp_path / "x", "xml")
    assert caught.value.hint == f"one of {', '.join(FORMATS)}"
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_a_dry_run_has_the_figures_of_the_run_and_writes_nothing(tmp_path: Path, form: str) -> None:
    store = StoreDirectory(made(tmp_path))
    path = tmp_path / "x"
    planned = export(store, Query(topic="TopicA"), path, form, dry_run=True)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["store"]
    assert planned == export(store, Query(topic="TopicA"), path, form)
    assert planned.bytes == path.stat().st_size


def test_a_dry_run_of_parquet_does_not_know_the_size(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    store = StoreDirectory(made(tmp_path))
    planned = export(store, Query(), tmp_path / "x", "parquet", dry_run=True)
    assert (planned.rows, planned.bytes, planned.files) == (40, None, None)
    assert not (tmp_path / "x").exists()


def test_a_dry_run_after_a_run_forecasts_the_new_messages_only(tmp_path: Path) -> None:
    store = StoreDirectory(made(tmp_path))
    export(store, Query(), tmp_path / "x", "ndjson")
    planned = export(store, Query(), tmp_path / "x", "ndjson", dry_run=True)
    assert (planned.resumed, planned.rows, planned.total_rows) == (True, 0, 40)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"query": 5}', '{"format": "csv"}', "null"])
def test_a_state_that_is_not_one_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    store = StoreDirectory(made(tmp_path))
    path = tmp_path / "x"
    export(store, Query(), path, "ndjson")
    state = tmp_path / "x.state"
    state.write_text(text)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="is not an export state") as caught:
        export(store, Query(), path, "ndjson")
    assert str(state) in caught.value.message
    assert path.read_bytes() == before


def test_the_same_file_in_another_format_is_another_question(tmp_path: Path) -> None:
    store = StoreDirectory(made(tmp_path))
    export(store, Query(), tmp_path / "x", "ndjson")
    with pytest.raises(ConfigError, match="another question"):
        export(store, Query(), tmp_path / "x", "csv")


@pytest.mark.parametrize(
    "other",
    [
        Query(queue_id=1),
        Query(key="key1"),
        Query(body="base64"),
        Query(from_offset=1),
        Query(to_offset=10_000),
        Query(end_ms=NOW + 1),
    ],
)
def test_every_condition_is_part_of_the_question(tmp_path: Path, other: Query) -> None:
    store = StoreDirectory(made(tmp_path))
    export(store, Query(), tmp_path / "x", "ndjson")
    with pytest.raises(ConfigError, match="another question"):
        export(store, other, tmp_path / "x", "ndjson")


def test_a_store_without_a_log_is_an_empty_export(tmp_path: Path) -> None:
    root = made(tmp_path)
    shutil.rmtree(root / "commitlog")
    (root / "commitlog").mkdir()
    result = export(StoreDirectory(root), Query(), tmp_path / "x", "ndjson")
    assert (result.rows, result.bytes, result.next_physical_offset) == (0, 0, 0)
    assert (tmp_path / "x").read_bytes() == b""


def test_an_output_that_cannot_be_created_is_an_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    path = tmp_path / "file" / "x"
    with pytest.raises(ConfigError, match="cannot write") as caught:
        export(StoreDirectory(made(tmp_path)), Query(), path, "ndjson")
    assert str(path) in caught.value.message
    assert "rerun the command to resume" in caught.value.hint


def test_a_folder_in_the_place_of_a_file_of_lines_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(ConfigError, match="no state next to it"):
        export(StoreDirectory(made(tmp_path)), Query(), tmp_path / "x", "ndjson")


def test_an_empty_file_may_be_exported_to(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    result = export(StoreDirectory(made(tmp_path)), Query(), tmp_path / "x", "ndjson")
    assert (result.rows, result.resumed) == (40, False)


def test_missing_folders_of_the_output_are_created(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "x"
    assert export(StoreDirectory(made(tmp_path)), Query(), path, "csv").rows == 40
    assert path.is_file()


@pytest.mark.parametrize("content", ["file", "folder"])
def test_parquet_is_not_written_into_foreign_content(tmp_path: Path, content: str) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "x"
    if content == "file":
        path.write_text("mine")
    else:
        path.mkdir()
        (path / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="no state next to it"):
        export(StoreDirectory(made(tmp_path)), Query(), path, "parquet")


def test_parquet_uses_a_folder_that_a_crash_left_before_the_first_state(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "x"
    path.mkdir()
    (path / "_state.json.tmp").write_text("{")
    assert export(StoreDirectory(made(tmp_path)), Query(), path, "parquet").rows == 40


def test_without_pyarrow_parquet_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ConfigError, match="needs the library pyarrow") as caught:
        export(StoreDirectory(made(tmp_path)), Query(), tmp_path / "x", "parquet")
    assert caught.value.hint == "install the extra 'arrow', or export NDJSON or CSV"
    assert not (tmp_path / "x").exists()


def test_an_error_in_the_middle_of_a_part_removes_the_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(export_module, "GROUP_ROWS", 1)
    pieces = export_module.batch_pieces

    def broken(*args: Any, **options: Any) -> Any:
        for piece in pieces(*args, **options):
            yield piece
            if piece.rows:
                raise StoreLockedError("lost", "", path="x")

    path = tmp_path / "x"
    with monkeypatch.context() as patched:
        patched.setattr(export_module, "batch_pieces", broken)
        with pytest.raises(StoreLockedError):
            export(StoreDirectory(made(tmp_path)), Query(), path, "parquet")
    assert [one.name for one in path.iterdir()] == ["_state.json"]


def test_lines_after_the_saved_length_are_written_again(tmp_path: Path) -> None:
    """A crash may leave lines that no state counts."""
    store = StoreDirectory(made(tmp_path))
    path = tmp_path / "x"
    export(store, Query(), path, "ndjson")
    whole, state = path.read_bytes(), tmp_path / "x.state"
    known = json.loads(state.read_text())
    cut = whole.index(b"\n", len(whole) // 2) + 1
    row = json.loads(whole[cut:].splitlines()[0])
    known |= {"length": cut, "rows": whole[:cut].count(b"\n"), "next_offset": row["physicalOffset"]}
    state.write_text(json.dumps(known))
    result = export(store, Query(), path, "ndjson")
    assert path.read_bytes() == whole
    assert (result.total_rows, result.resumed) == (40, True)
