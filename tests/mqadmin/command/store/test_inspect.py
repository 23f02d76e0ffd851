import hashlib
import json
import lzma
import shutil
import tarfile
from collections.abc import Callable
from inspect import currentframe
from pathlib import Path
from typing import Any

import pytest

from mqadmin.command.store.inspect import inspect
from mqadmin.inspector.queries import messages
from mqadmin.message_row import MessageRow, row_of

MODULE_OF_ROWS = row_of.__module__

Run = Callable[..., Any]

GOLDEN = Path(__file__).parents[3] / "golden" / "stores"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store a Java broker 5.3.3 wrote and stopped cleanly."""
    folder = tmp_path_factory.mktemp("recorded")
    with tarfile.open(GOLDEN / "normal-stop-533.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "store"


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    with lzma.open(GOLDEN / "normal-stop-533.expect.json.xz") as file:
        return json.load(file)  # type: ignore[no-any-return]


@pytest.fixture
def damaged(recorded: Path, tmp_path: Path) -> Path:
    """A copy of the store with one record whose magic is gone."""
    store = tmp_path / "store"
    shutil.copytree(recorded, store)
    log = store / "commitlog" / "00000000000000000000"
    data = bytearray(log.read_bytes())
    data[332 + 4 : 332 + 8] = b"\0\0\0\1"
    log.write_bytes(data)
    return store


def fingerprint(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path.relative_to(folder)): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mtime_ns,
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def items(done: Any) -> list[dict[str, Any]]:
    return json.loads(done.out)["items"]  # type: ignore[no-any-return]


def test_the_summary_counts_the_messages_of_java(
    mqadmin: Run, recorded: Path, expected: Any
) -> None:
    done = mqadmin("store", "inspect", str(recorded), "--summary", "-o", "json")
    assert done.status == 0
    summary = json.loads(done.out)
    assert summary["schema"] == "mqadmin.store.inspect.summary/1"
    counted = {topic["topic"]: topic["messages"] for topic in summary["topics"]}
    seen: dict[str, int] = {}
    for message in expected["messages"]:
        seen[message["topic"]] = seen.get(message["topic"], 0) + 1
    assert {topic: counted[topic] for topic in seen} == seen
    assert (summary["damages"], summary["cleanStop"]) == (0, True)


def test_messages_equal_those_of_java(mqadmin: Run, recorded: Path, expected: Any) -> None:
    done = mqadmin("store", "inspect", str(recorded), "-o", "ndjson")
    assert done.status == 0
    found = {row["physicalOffset"]: row for row in map(json.loads, done.out.splitlines())}
    names = ("topic", "queueId", "queueOffset", "storeTimestamp", "flag", "offsetMsgId")
    for message in expected["messages"]:
        row = found[message["physicalOffset"]]
        assert {name: row[name] for name in names} == {name: message[name] for name in names}
        assert row["keys"] == (message.get("keys") or "").split()


def test_a_screen_of_messages(mqadmin: Run, recorded: Path, screen: Any) -> None:
    done = mqadmin("store", "inspect", str(recorded), "--limit", "3")
    assert done.status == 0  # the limit was asked for
    assert done.err == "truncated: --limit 3 is reached, more rows match\n"
    screen("store-inspect.txt", done.out)


@pytest.mark.parametrize("kind", ["consumequeue", "index", "checkpoint", "config", "state"])
def test_every_kind_in_every_form(mqadmin: Run, recorded: Path, kind: str) -> None:
    for form in ("table", "wide", "json", "ndjson", "yaml", "csv", "markdown"):
        done = mqadmin("store", "inspect", str(recorded), "--kind", kind, "-o", form)
        assert done.status == 0, done.err
        assert done.out


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["--topic", "BigA"], 4),
        (["--topic", "OrdersA", "--queue", "0", "--to", "1000"], 1),
        (["--from", "332", "--to", "740"], 1),
        (["--begin", "2026-11-20T12:37:30Z", "--end", "2026-11-20T12:37:30.400Z"], 1),
        (["--key", "o-1"], 1),
    ],
)
def test_conditions_narrow(mqadmin: Run, recorded: Path, words: list[str], count: int) -> None:
    done = mqadmin("store", "inspect", str(recorded), *words, "-o", "json")
    assert (done.status, len(items(done))) == (0, count)


@pytest.mark.parametrize(
    ("form", "words", "named"),
    [
        ("--summary", "--topic OrdersA", "--topic"),
        ("--summary", "--key o-1 --queue 0 --limit 1", "--key, --limit, --queue"),
        ("--summary", "--since -1h", "--since"),
        ("--summary", "--time 2000-01-01..", "--time"),
        ("--summary", "--body text", "--body"),
        ("--kind index", "--queue 0", "--queue"),
        ("--kind index", "--id 7F00000100002A9F0000000000000000", "--id"),
        ("--kind index", "--key o-1 --no-crc", "--no-crc"),
        ("--kind consumequeue", "--body text --raw", "--body, --raw"),
        ("--kind config", "--topic OrdersA --queue 0", "--queue"),
        ("--kind config", "--until now", "--until"),
        ("--kind checkpoint", "--topic OrdersA", "--topic"),
        ("--kind checkpoint", "--limit 1", "--limit"),
        ("--kind state", "--from 0 --to 9", "--from, --to"),
        ("--kind static", "--crc", "--crc"),
    ],
)
def test_an_option_that_cannot_be_applied_is_refused(
    mqadmin: Run, recorded: Path, form: str, words: str, named: str
) -> None:
    done = mqadmin("store", "inspect", str(recorded), *form.split(), *words.split())
    assert (done.status, done.out) == (2, "")
    assert f"{named} cannot be applied with {form}\n" in done.err


def test_a_detected_kind_refuses_as_a_typed_one(mqadmin: Run, recorded: Path) -> None:
    done = mqadmin("store", "inspect", str(recorded / "checkpoint"), "--topic", "OrdersA")
    assert (done.status, done.out) == (2, "")
    assert "--topic cannot be applied with --kind checkpoint" in done.err


def test_the_topic_of_index_entries_needs_a_key(mqadmin: Run, recorded: Path) -> None:
    words = ("store", "inspect", str(recorded), "--kind", "index", "--topic", "OrdersA")
    done = mqadmin(*words)
    assert (done.status, done.out) == (2, "")
    assert "--topic cannot be applied with --kind index without --key" in done.err
    rows = items(mqadmin(*words, "--key", "o-1", "-o", "json"))
    assert [row["record"] for row in rows].count("entry") == 1


def test_a_summary_is_of_the_log_only(mqadmin: Run, recorded: Path) -> None:
    words = ("store", "inspect", str(recorded), "--summary", "--no-crc", "--kind")
    assert mqadmin(*words, "commitlog").status == 0
    done = mqadmin(*words, "index")
    assert (done.status, done.out) == (2, "")
    assert "--summary cannot be applied with --kind index" in done.err


def test_an_id_and_a_key_exclude_each_other(mqadmin: Run, recorded: Path) -> None:
    (row,) = items(mqadmin("store", "inspect", str(recorded), "--key", "o-1", "-o", "json"))
    done = mqadmin("store", "inspect", str(recorded), "--id", row["uniqKey"], "--key", "nosuch")
    assert (done.status, done.out) == (2, "")
    assert "--id and --key exclude each other" in done.err


def test_nothing_that_matches_is_a_no(mqadmin: Run, recorded: Path) -> None:
    done = mqadmin("store", "inspect", str(recorded), "--topic", "nosuch")
    assert (done.status, done.out) == (1, "")
    found = mqadmin("store", "find", str(recorded), "--key", "nosuch")
    assert found.status == 1
    assert "the rest of the log" in found.err


def test_find_by_key_and_by_both_ids(mqadmin: Run, recorded: Path) -> None:
    (row,) = items(mqadmin("store", "find", str(recorded), "--key", "o-1", "-o", "json"))
    for message_id in (row["offsetMsgId"], row["uniqKey"]):
        again = mqadmin("store", "find", str(recorded), "--id", message_id, "-o", "json")
        assert items(again) == [row]
    assert mqadmin("store", "find", str(recorded)).status == 2


def test_damage_is_named_passed_over_and_status_7(
    mqadmin: Run, recorded: Path, damaged: Path
) -> None:
    before = fingerprint(damaged)
    whole = items(mqadmin("store", "inspect", str(recorded), "-o", "json"))
    done = mqadmin("store", "inspect", str(damaged), "-o", "json")
    assert done.status == 7
    document = json.loads(done.out)
    offsets = [row["physicalOffset"] for row in document["items"]]
    assert offsets == [row["physicalOffset"] for row in whole if row["physicalOffset"] != 332]
    (damage,) = document["errors"]
    assert set(damage) == {
        "kind",
        "severity",
        "path",
        "physicalOffset",
        "length",
        "detail",
        "suggestion",
    }
    assert (damage["physicalOffset"], damage["length"]) == (332, 408)
    assert damage["path"].endswith("00000000000000000000")
    error = json.loads(done.err)["error"]
    assert (error["kind"], error["physicalOffset"]) == (damage["kind"], 332)

    text = mqadmin("store", "inspect", str(damaged))
    assert text.status == 7
    assert "at physical offset 332, 408 bytes" in text.err
    summary = mqadmin("store", "inspect", str(damaged), "--summary", "-o", "json")
    assert (summary.status, json.loads(summary.out)["damages"]) == (7, 1)
    assert fingerprint(damaged) == before


def test_looking_changes_nothing(mqadmin: Run, recorded: Path) -> None:
    before = fingerprint(recorded)
    mqadmin("store", "inspect", str(recorded), "--summary")
    for kind in ("commitlog", "consumequeue", "index", "checkpoint", "config", "state"):
        mqadmin("store", "inspect", str(recorded), "--kind", kind, "-o", "ndjson")
    mqadmin("store", "find", str(recorded), "--key", "o-1", "--scan", "always")
    mqadmin("dlq", "list", "--store", str(recorded))
    assert fingerprint(recorded) == before


def test_a_folder_without_a_store_is_an_error_with_its_path(mqadmin: Run, tmp_path: Path) -> None:
    done = mqadmin("store", "inspect", str(tmp_path / "nosuch"), "-o", "json")
    assert (done.status, done.out) == (2, "")
    error = json.loads(done.err)["error"]
    assert error["path"] == str(tmp_path / "nosuch")
    assert mqadmin("store", "inspect", str(tmp_path)).status == 2


def test_dead_letters_of_a_directory(mqadmin: Run, tmp_path: Path, screen: Any) -> None:
    with tarfile.open(GOLDEN / "retry-dlq-533.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    done = mqadmin("dlq", "list", "--store", str(tmp_path / "store"))
    assert done.status == 0
    screen("dlq-list-store.txt", done.out)
    (row, *_) = items(mqadmin("dlq", "list", "--store", str(tmp_path / "store"), "-o", "json"))
    assert row["topic"] == f"%DLQ%{row['group']}"


NO_STORE = [
    "inspect {}",
    "inspect {} --summary",
    "find {} --key k",
    "queue {}",
    "index {}",
    "config {}",
    "watch {}",
    "verify {}",
    "repair {}",
    "repair {} --out {out}",
    "recover {}",
    "recover {} --out {out}",
    "recover {} --out {out} --dry-run",
    "export {}",
    "export {} --out {out}",
]


@pytest.mark.parametrize("line", NO_STORE)
@pytest.mark.parametrize("face", [False, True])
def test_a_path_that_does_not_exist_is_a_usage_error(
    mqadmin: Run, tmp_path: Path, line: str, face: bool
) -> None:
    out = tmp_path / "out"
    words = [word.format(tmp_path / "tpyo", out=out) for word in line.split()]
    done = mqadmin("store", *words, face=face)
    assert done.status == 2
    assert "no such file or directory" in done.err
    assert "tpyo" in done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("line", ["inspect {}", "verify {}", "repair {}", "export {}"])
def test_a_folder_without_a_store_is_a_usage_error(mqadmin: Run, tmp_path: Path, line: str) -> None:
    done = mqadmin("store", *line.format(tmp_path).split())
    assert (done.status, "no store" in done.err) == (2, True)


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "--id", "zz"),
        ("inspect", "--id", "7F00000100002A9F"),
        ("find", "--id", "7F00000100002A9F00000000000000xx"),
        ("find", "--key", "k\udcff"),
        ("inspect", "--topic", "t\udcff"),
        ("verify", "--topic", "\udcfe\udcff"),
        ("export", "--key", "\udc80"),
        ("find", "--offset", "-1"),
        ("find", "--key", "k", "--limit", "0"),
    ],
)
@pytest.mark.parametrize("face", [False, True])
def test_a_bad_id_and_text_that_is_not_utf_8_are_usage_errors(
    mqadmin: Run, recorded: Path, words: tuple[str, ...], face: bool
) -> None:
    done = mqadmin("store", words[0], str(recorded), *words[1:], face=face)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: ")


def test_names_in_any_encoding_are_paths(mqadmin: Run, recorded: Path, tmp_path: Path) -> None:
    store = tmp_path / "st\udcffre"
    shutil.copytree(recorded, store)
    for form in ("table", "json", "ndjson", "yaml", "csv"):
        done = mqadmin("store", "verify", str(store), "-o", form)
        assert done.status == 0, done.err
    (store / "checkpoint").write_bytes(b"")
    done = mqadmin("store", "verify", str(store), "-o", "json")
    assert done.status == 7
    assert json.loads(done.out)["items"][0]["path"].endswith("st\udcffre/checkpoint")


@pytest.mark.parametrize("form", ["table", "json", "ndjson", "csv"])
def test_a_limit_that_was_typed_is_status_0(mqadmin: Run, recorded: Path, form: str) -> None:
    for words in (("inspect",), ("queue", "--units"), ("find", "--time", "2000-01-01..")):
        done = mqadmin("store", words[0], str(recorded), *words[1:], "--limit", "2", "-o", form)
        assert done.status == 0, done.err
        assert "truncated" in done.err
        if form == "json":
            document = json.loads(done.out)
            assert (len(document["items"]), document["truncated"]) == (2, True)


def test_a_default_limit_that_is_reached_is_a_partial_result(
    mqadmin: Run, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqadmin.command.store.find.MAX_SEEDS", 3)
    for words in ((), ("--limit", "5")):
        done = mqadmin("store", "find", str(recorded), "--time", "2000-01-01..", *words)
        assert done.status == 5
        assert "narrow the search" in done.err


@pytest.mark.parametrize(("form", "frames"), [("ndjson", 8), ("table", 8), ("json", 9)])
def test_a_row_is_three_hops_below_the_command(
    mqadmin: Run, recorded: Path, monkeypatch: pytest.MonkeyPatch, form: str, frames: int
) -> None:
    """Command to printer, printer to scan, scan to the pure row; few frames within each."""
    seen: list[list[str]] = []

    def recording(*args: Any, **fields: Any) -> MessageRow:
        stack = [MODULE_OF_ROWS]
        own = currentframe()
        frame = own.f_back if own is not None else None
        while frame is not None and frame.f_code is not inspect.__code__:
            stack.append(frame.f_globals["__name__"])
            frame = frame.f_back
        seen.append([*stack, inspect.__module__])
        return row_of(*args, **fields)

    monkeypatch.setattr(messages, "row_of", recording)
    assert mqadmin("store", "inspect", str(recorded), "--limit", "5", "-o", form).status == 0
    assert seen
    for stack in seen:
        packages = [name.split(".")[1] for name in reversed(stack)]
        assert list(dict.fromkeys(packages)) == ["command", "output", "inspector", "message_row"]
        assert len(stack) <= frames, stack
