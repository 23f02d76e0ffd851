"""`mqadmin store export`: a dry run writes nothing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def store(golden_store) -> Path:
    return golden_store("normal-stop-533") / "store"


@pytest.mark.parametrize("form", ["ndjson", "csv", "parquet"])
def test_a_dry_run_writes_nothing_and_counts_the_rows(
    mqadmin: Run, store: Path, tmp_path: Path, form: str
) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow")
    out = tmp_path / "deep" / "out"
    words = ("store", "export", str(store), "--out", str(out), "--format", form, "-o", "json")
    dry = mqadmin(*words, "--dry-run")
    assert dry.status == 0, dry.err
    assert "nothing was changed" in dry.err
    assert not out.parent.exists()
    planned, made = json.loads(dry.out), json.loads(mqadmin(*words).out)
    if form == "parquet":
        assert (planned.pop("bytes"), planned.pop("files")) == (None, None)
        del made["bytes"], made["files"]
    assert planned == made
    written = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    again = json.loads(mqadmin(*words, "--dry-run").out)
    assert (again["rows"], again["resumed"]) == (0, True)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == written


def test_a_dry_run_refuses_the_same_input_as_the_run(
    mqadmin: Run, store: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    out.write_text("mine")
    done = mqadmin("store", "export", str(store), "--out", str(out), "--dry-run")
    assert (done.status, out.read_text()) == (2, "mine")
    alone = mqadmin("store", "export", str(store), "--dry-run")
    assert (alone.status, "--out" in alone.err) == (2, True)
