"""dlq stats, export and the filters of replay on a running broker."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqadmin.command.dead_letters import verbs

Run = Callable[..., Any]


def items(done: Any) -> list[dict[str, Any]]:
    assert done.out, done.err
    return json.loads(done.out)["items"]  # type: ignore[no-any-return]


@pytest.fixture
def dead(online: Run) -> Run:
    """Three dead letters of the group dl: two of orders (tags a, b), one of bills."""
    online("topic", "delete", "%DLQ%dl", "--yes")
    online("topic", "create", "%DLQ%dl", "--queues", "1", "--yes")
    online("topic", "create", "dl-target", "--queues", "1", "--yes", "--if-not-exists")
    for tag, key, origin in (("a", "1", "orders"), ("b", "2", "orders"), ("a", "3", "bills")):
        words = ("--tag", tag, "--key", key, "--property", f"RETRY_TOPIC={origin}")
        cause = ("--property", f"errorText=boom-{key}")
        done = online("msg", "send", "%DLQ%dl", "--body", f"m{key}", *words, *cause)
        assert done.status == 0, done.err
    return online


def test_stats_count_by_origin_and_tag(dead: Run) -> None:
    rows = items(dead("dlq", "stats", "dl", "-o", "json"))
    found = {(row["originTopic"], row["tags"]): row["messages"] for row in rows}
    assert found == {("orders", "a"): 1, ("orders", "b"): 1, ("bills", "a"): 1}
    assert dead("dlq", "stats", "nosuch").status == 1


def test_an_export_is_the_input_of_a_replay(dead: Run, tmp_path: Path) -> None:
    done = dead("dlq", "export", "dl", "--out", "f.ndjson", "--origin", "orders")
    assert (done.status, done.out) == (0, "")
    assert "2 dead letters of group dl are in f.ndjson" in done.err
    assert len((tmp_path / "f.ndjson").read_text().splitlines()) == 2
    assert dead("dlq", "export", "dl", "--out", "f.ndjson").status == 2  # never overwritten
    assert dead("dlq", "export", "dl", "--out", "g", "--tag", "none").status == 1
    assert not (tmp_path / "g").exists()
    words = ("dlq", "replay", "--from", "f.ndjson", "--to", "dl-target", "--key", "2", "--yes")
    done = dead(*words, "-o", "json")
    assert (done.status, [row["status"] for row in items(done)]) == (0, ["sent"])
    assert "1 of 2 dead letters match" in done.err


def test_a_limit_cuts_as_asked_and_the_default_is_reported(
    dead: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = dead("dlq", "stats", "dl", "--limit", "1", "-o", "json")
    (row,) = items(done)
    assert (row["messages"], done.status) == (1, 0)
    cut = "only the first 1 dead letters of the group were read"
    for words in (("stats",), ("export", "--out", "one"), ("export", "--out", "two", "-o", "json")):
        verb, *options = words
        limited = dead("dlq", verb, "dl", *options, "--limit", "1")
        assert (limited.status, cut in limited.err) == (0, True), words
    assert json.loads(limited.out)["truncated"]
    monkeypatch.setattr(verbs, "REPLAY_LIMIT", 1)
    for words in (("stats",), ("export", "--out", "three")):
        verb, *options = words
        done = dead("dlq", verb, "dl", *options)
        assert (done.status, cut in done.err, "raise --limit" in done.err) == (5, True, True)


def test_the_hint_of_an_empty_window_names_options_of_the_command(dead: Run) -> None:
    done = dead("dlq", "show", "dl", "--until", "-1d")
    assert done.status == 1
    assert done.err.splitlines()[-1] == "hint: widen it with --since and --until"


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (("--tag", "a"), ["1", "3"]),
        (("--tag", "a", "--origin", "bills"), ["3"]),
        (("--key", "1", "--key", "2"), ["1", "2"]),
        (("--property", "errorText=boom-2"), ["2"]),
        (("--exception", "BOOM-3"), ["3"]),
        (("--since", "-1h"), ["1", "2", "3"]),
        (("--until", "-1h"), None),
        (("--tag", "c"), None),
    ],
)
def test_a_replay_sends_the_chosen_ones(
    dead: Run, words: tuple[str, ...], keys: list[str] | None
) -> None:
    done = dead("dlq", "replay", "dl", "--to", "dl-target", "--dry-run", "-o", "json", *words)
    if keys is None:
        assert done.status == 1
        return
    assert sorted(key for row in items(done) for key in row["keys"]) == keys


def test_a_window_is_not_for_a_file(dead: Run) -> None:
    dead("dlq", "export", "dl", "--out", "f.ndjson")
    words = ("dlq", "replay", "--from", "f.ndjson", "--since", "-1h", "--dry-run")
    assert dead(*words).status == 2


def test_a_hung_broker_is_status_3(dead: Run, hung: list[str]) -> None:
    for words in (("stats", "dl"), ("export", "dl", "--out", "x"), ("replay", "dl", "--yes")):
        done = dead("dlq", *words, *hung)
        assert done.status == 3, (words, done.err)


def test_a_closed_pipe_is_not_an_error(dead: Run, closed_pipe: Run) -> None:
    assert closed_pipe("dlq", "stats", "dl", "-o", "json")[0] == 0
