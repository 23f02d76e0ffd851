"""`mqadmin store stats`: rows, limits and exit statuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
Golden = Callable[..., Path]


@pytest.fixture
def store(golden_store: Golden) -> Path:
    return golden_store("retry-dlq-533") / "store"


def test_shares_of_topics_sum_to_one(mqadmin: Run, store: Path) -> None:
    done = mqadmin("store", "stats", str(store), "-o", "json")
    assert done.status == 0, done.err
    found = json.loads(done.out)
    assert found["schema"] == "mqadmin.store.stats/1"
    assert sum(row["share"] for row in found["items"]) == pytest.approx(1, abs=1e-4)
    summary = json.loads(mqadmin("store", "inspect", str(store), "--summary", "-o", "json").out)
    assert {row["value"]: (row["messages"], row["bytes"]) for row in found["items"]} == {
        topic["topic"]: (topic["messages"], topic["bytes"]) for topic in summary["topics"]
    }


def test_a_requested_limit_is_status_0_and_the_default_one_status_5(
    mqadmin: Run, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = mqadmin("store", "stats", str(store), "--limit", "1", "-o", "json")
    found = json.loads(done.out)
    assert (done.status, len(found["items"]), found["truncated"]) == (0, 1, True)
    monkeypatch.setattr("mqadmin.command.store.directory.stats.DEFAULT_ROWS", 1)
    assert mqadmin("store", "stats", str(store)).status == 5


def test_the_table_shows_percentages_and_the_totals(mqadmin: Run, store: Path) -> None:
    done = mqadmin("store", "stats", str(store), "--by", "host")
    assert done.status == 0, done.err
    assert "100.00%" in done.out
    assert "messages, " in done.err


def test_an_empty_selection_is_status_1(mqadmin: Run, store: Path) -> None:
    done = mqadmin("store", "stats", str(store), "--by", "tag", "--topic", "absent")
    assert (done.status, "matches" in done.err) == (1, True)


def test_a_path_without_a_store_is_status_2(mqadmin: Run, tmp_path: Path) -> None:
    assert mqadmin("store", "stats", str(tmp_path / "absent")).status == 2


def test_damage_is_reported_and_the_rest_is_counted(mqadmin: Run, golden_store: Golden) -> None:
    store = golden_store("normal-stop-533", copy=True) / "store"
    log = store / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[332 + 4 : 332 + 8] = b"\0\0\0\1"
    log.write_bytes(data)
    whole = mqadmin("store", "stats", str(golden_store("normal-stop-533") / "store"), "-o", "json")
    done = mqadmin("store", "stats", str(store), "-o", "json")
    assert (whole.status, done.status) == (0, 7)
    counts = [
        sum(row["messages"] for row in json.loads(text)["items"]) for text in (whole.out, done.out)
    ]
    assert counts[1] == counts[0] - 1
    assert json.loads(done.out)["errors"][0]["physicalOffset"] == 332


def test_bars_are_relative_to_the_largest_row(mqadmin: Run, store: Path) -> None:
    done = mqadmin("store", "stats", str(store), "--by", "size", "--bars")
    assert done.status == 0, done.err
    head, *lines = done.out.splitlines()
    assert head.split()[-1] == "BAR"
    cells = {int(line.split()[1]): line.count("█") for line in lines}
    assert max(cells.values()) == cells[max(cells)] == 30
    assert sorted(cells, key=lambda count: cells[count]) == sorted(cells)


def test_bars_are_refused_where_there_is_none_to_draw(mqadmin: Run, store: Path) -> None:
    assert mqadmin("store", "stats", str(store), "--bars", "-o", "json").status == 2


def test_a_plot_has_a_bar_per_row(mqadmin: Run, store: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "sizes.svg"
    words = ("--by", "size", "--plot", str(path), "-o", "json")
    done = mqadmin("store", "stats", str(store), *words)
    assert done.status == 0, done.err
    rows = json.loads(done.out)["items"]
    text = path.read_text()
    assert "Messages by size" in text
    assert text.count('id="bar-0-') == len(rows)
    assert mqadmin("store", "stats", str(store), "--plot", "x.gif").status == 2
