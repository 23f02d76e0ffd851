"""Exported messages: a CSV holds no formula, no text form holds an escape."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.export import pieces as pieces_module
from mqadmin.inspector.export.pieces import (
    CSV,
    NDJSON,
    Piece,
    batch_pieces,
    batch_schema,
    fields,
    text_pieces,
)
from mqadmin.inspector.query import Query
from tests.support.made_store import NOW

Run = Callable[..., Any]


def test_a_csv_holds_neither_formulas_nor_escapes(
    mqadmin: Run, make_store: Any, tmp_path: Path
) -> None:
    bodies = ["=1+1", "+1", "-2", "@a", "\t=1", "a\x1b[31mb", "x\x9b\u202ey", "line\nline", "-1+1"]
    made = make_store()
    for body in bodies:
        made.put("TopicA", 0, body=body.encode())
    made.write()
    out = tmp_path / "out.csv"
    words = ("store", "export", str(made.root), "--body", "text")
    assert mqadmin(*words, "--out", str(out)).status == 0
    texts = [out.read_text("utf-8"), mqadmin(*words, "-o", "csv").out]
    for text in texts:
        assert text.isascii()
        assert not any(ord(character) < 32 for line in text.split("\n") for character in line)
        shown = [row["body"] for row in csv.DictReader(text.splitlines())]
        assert shown == [
            *("'=1+1", "+1", "-2", "'@a", "'\\t=1", "a\\u001b[31mb", "x\\u009b\\u202ey"),
            *("line\\nline", "'-1+1"),
        ]
    lines = mqadmin(*words, "-o", "ndjson").out
    assert lines.isascii()
    assert [json.loads(line)["body"] for line in lines.splitlines()] == bodies


# ---- pieces


@pytest.fixture
def store(make_store: Any) -> Any:
    """60 messages of two topics, with several keys."""
    made = make_store()
    for number in range(60):
        made.put(
            "TopicA" if number % 3 else "TopicB",
            number % 2,
            properties={"KEYS": f"k{number % 5} shared", "UNIQ_KEY": f"u{number}"},
        )
    made.write()
    return made


def lines_of(store: Any, **conditions: Any) -> tuple[list[dict[str, Any]], list[Piece]]:
    pieces = list(text_pieces(StoreDirectory(store.root), Query(**conditions), NDJSON))
    text = b"".join(piece.data for piece in pieces)
    return [json.loads(line) for line in text.splitlines()], pieces


def batches_of(store: Any, **conditions: Any) -> list[int]:
    pytest.importorskip("pyarrow")
    pieces = batch_pieces(StoreDirectory(store.root), Query(**conditions), bodies=True)
    found: list[int] = []
    for piece in pieces:
        if piece.data is not None:
            found += piece.data.column("physical_offset").to_pylist()
    return found


def test_text_pieces_contain_every_message_with_times_in_both_forms(store: Any) -> None:
    rows, pieces = lines_of(store)
    assert [row["physicalOffset"] for row in rows] == [place for place, _ in store.places]
    assert list(rows[0]) == list(fields())
    assert rows[0]["storeTime"] == "2023-11-14T22:13:20.000Z"
    assert (sum(piece.rows for piece in pieces), pieces[-1].next_offset) == (60, store.end)


@pytest.mark.parametrize("rows", [1, 7, 60])
def test_an_export_resumes_after_any_piece(store: Any, monkeypatch, rows: int) -> None:
    monkeypatch.setattr(pieces_module, "PIECE_ROWS", rows)
    whole, pieces = lines_of(store)
    assert len(pieces) == 60 // rows + 1
    for number, piece in enumerate(pieces):
        before = sum(one.rows for one in pieces[: number + 1])
        rest, _ = lines_of(store, from_offset=piece.next_offset)
        assert rest == whole[before:]


def test_a_piece_ends_after_a_bounded_number_of_records(store: Any, monkeypatch) -> None:
    monkeypatch.setattr(pieces_module, "PIECE_RECORDS", 10)
    rows, pieces = lines_of(store, topic="TopicB")
    assert len(rows) == 20
    assert [piece.rows for piece in pieces[:-1]] == [4, 3, 3, 4, 3, 3]


def test_a_csv_starts_with_its_header_unless_it_resumes(store: Any) -> None:
    directory = StoreDirectory(store.root)
    (head, *rest) = text_pieces(directory, Query(), CSV)
    assert head.data.decode().strip().split(",") == list(fields())
    assert head.rows == 0
    (resumed,) = text_pieces(directory, Query(from_offset=store.places[50][0]), CSV)
    assert resumed.rows == 10
    assert not resumed.data.startswith(b"topic,")
    assert sum(piece.rows for piece in rest) == 60


@pytest.mark.parametrize(
    "conditions",
    [
        {},
        {"topic": "TopicB"},
        {"queue_id": 1},
        {"begin_ms": NOW + 10_000},
        {"end_ms": NOW + 20_000},
        {"begin_ms": NOW + 10_000, "end_ms": NOW + 20_000, "topic": "TopicA"},
        {"key": "k3"},
        {"key": "shared"},
        {"key": "u17"},
        {"key": "missing"},
        {"topic": "Missing"},
    ],
    ids=str,
)
def test_batches_and_lines_select_the_same_messages(store: Any, conditions) -> None:
    rows, _ = lines_of(store, **conditions)
    assert batches_of(store, **conditions) == [row["physicalOffset"] for row in rows]


@pytest.mark.parametrize("part", [(0, 30), (30, 60), (7, 8), (60, 60)])
def test_batches_and_lines_select_the_same_extent(store: Any, part: tuple[int, int]) -> None:
    ends = [place for place, _ in store.places] + [store.end]
    conditions = {"from_offset": ends[part[0]], "to_offset": ends[part[1]]}
    rows, _ = lines_of(store, **conditions)
    expected = ends[part[0] : part[1]]
    assert [row["physicalOffset"] for row in rows] == expected
    assert batches_of(store, **conditions) == expected


def test_damaged_records_are_reported_and_the_rest_exported(store: Any) -> None:
    place, size = store.places[20]
    store.poke(place + 4, b"????")
    rows, pieces = lines_of(store)
    assert len(rows) == 59
    (damage,) = [row for piece in pieces for row in piece.damaged_regions]
    assert (damage.physical_offset, damage.length) == (place, size)
    found = list(batch_pieces(StoreDirectory(store.root), Query(), bodies=False))
    assert [row for piece in found for row in piece.damaged_regions] == [damage]
    assert sum(piece.rows for piece in found) == 59


def test_a_record_at_another_offset_than_its_own_is_not_trusted(store: Any) -> None:
    pytest.importorskip("pyarrow")
    place, _ = store.places[20]
    store.poke(place + 28, (77).to_bytes(8, "big"))
    marks: dict[int, bool] = {}
    for piece in batch_pieces(StoreDirectory(store.root), Query(), bodies=False):
        if piece.data is not None:
            rows = piece.data.to_pylist()
            marks |= {row["physical_offset"]: row["crc_ok"] for row in rows}
    assert [at for at, ok in marks.items() if not ok] == [place]


def test_bodies_are_a_column_on_request() -> None:
    pytest.importorskip("pyarrow")
    assert "body" in batch_schema(bodies=True).names
    assert "body" not in batch_schema(bodies=False).names
    assert "damage" not in batch_schema(bodies=True).names
