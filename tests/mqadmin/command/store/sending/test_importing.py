"""`mqadmin store import`: options, guards, result and exit statuses; the runs are in traffic."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
Golden = Callable[..., Path]


@pytest.fixture
def export(tmp_path: Path) -> Path:
    path = tmp_path / "orders.ndjson"
    rows = [
        {
            "topic": "Imported",
            "body": f"{n}",
            "queueId": 0,
            "keys": [f"k{n}"],
            "properties": {"UNIQ_KEY": f"{tmp_path.name}.{n}"},
        }
        for n in range(5)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def topic(online: Run) -> str:
    online("topic", "create", "Imported", "--queues", "1", "--yes", "--if-not-exists")
    return "Imported"


def stored(online: Run, topic: str) -> int:
    done = online("topic", "status", topic, "-o", "json")
    return sum(row["maxOffset"] for row in json.loads(done.out)["items"])


def test_an_export_is_sent_once(online: Run, export: Path, topic: str) -> None:
    before = stored(online, topic)
    first = online("store", "import", str(export), "--yes", "-o", "json")
    assert first.status == 0, first.err
    result = json.loads(first.out)
    assert (result["schema"], result["sent"], result["topics"]) == (
        "mqadmin.store.import/1",
        5,
        {topic: 5},
    )
    assert (Path.cwd() / "orders.ndjson.ledger").exists()
    again = online("store", "import", str(export), "--yes", "-o", "json")
    assert (again.status, json.loads(again.out)["already"]) == (0, 5)
    assert stored(online, topic) == before + 5


def test_a_dry_run_counts_per_topic_and_writes_nothing(
    online: Run, export: Path, topic: str
) -> None:
    before = stored(online, topic)
    done = online("store", "import", str(export), "--dry-run")
    assert done.status == 0, done.err
    assert done.err.startswith("context -, cluster DefaultCluster, name server ")
    assert f"{topic}: 5 to send" in done.err
    assert done.out.endswith("dry run: nothing was changed\n")
    assert list(Path.cwd().glob("*.ledger")) == []
    assert stored(online, topic) == before


def test_without_a_terminal_it_needs_yes_and_sends_nothing(
    online: Run, export: Path, topic: str
) -> None:
    before = stored(online, topic)
    assert online("store", "import", str(export)).status == 2
    assert stored(online, topic) == before


def test_a_read_only_context_refuses_it_and_allows_a_dry_run(
    online: Run, running_broker: Any, export: Path, topic: str
) -> None:
    address = running_broker.namesrv_address
    online("context", "set", "guarded", "--namesrv", address, "--read-only")
    before = stored(online, topic)
    done = online("store", "import", str(export), "--yes", "--context", "guarded")
    assert (done.status, "read-only" in done.err) == (6, True)
    assert online("store", "import", str(export), "--dry-run", "--context", "guarded").status == 0
    assert stored(online, topic) == before


def test_failed_lines_are_named_and_the_others_sent_with_status_5(
    online: Run, export: Path, topic: str
) -> None:
    export.write_text(export.read_text() + "bad\n")
    done = online("store", "import", str(export), "--yes", "--ordered-by", "none", "-o", "json")
    assert done.status == 5
    result = json.loads(done.out)
    assert (result["sent"], result["failed"], result["failures"][0]["line"]) == (5, 1, 6)
    assert "line 6: the line is not JSON" in done.err
    assert "rerun to resume" in done.err
    again = online("store", "import", str(export), "--yes", "--ordered-by", "none")
    assert again.status == 5


def test_damage_of_a_store_is_status_7_and_the_rest_is_sent(
    online: Run, golden_store: Golden
) -> None:
    store = golden_store("normal-stop-533", copy=True) / "store"
    log = store / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[332 + 4 : 332 + 8] = b"\0\0\0\1"
    log.write_bytes(data)
    online("topic", "create", "Damaged", "--queues", "1", "--yes")
    done = online("store", "import", str(store), "--to", "Damaged", "--yes", "-o", "json")
    assert done.status == 7, done.err
    sent = json.loads(done.out)["sent"]
    assert sent == stored(online, "Damaged") > 0
    assert '"physicalOffset":332' in done.err


def test_nothing_to_send_is_status_1(online: Run, export: Path, topic: str) -> None:
    done = online("store", "import", str(export), "--topic", "None", "--yes")
    assert done.status == 1
    assert "no message to send" in done.err


def test_the_ledger_of_another_import_is_refused(online: Run, export: Path, topic: str) -> None:
    assert online("store", "import", str(export), "--yes", "--ledger", "led").status == 0
    done = online("store", "import", str(export), "--yes", "--ledger", "led", "--to", topic)
    assert (done.status, "another import" in done.err) == (2, True)


@pytest.mark.parametrize(
    "words",
    [
        ["/no/such/store", "--yes"],
        ["{export}", "--yes", "--to", "no topic"],
        ["{export}", "--yes", "--to", "a=b", "--to", "a=c"],
        ["{export}", "--yes", "--plan", "x.plan"],
        ["{export}", "--yes", "--since", "-1h", "--time", "-1h.."],
    ],
)
def test_options_that_cannot_be_applied_are_refused(
    online: Run, export: Path, words: list[str]
) -> None:
    done = online("store", "import", *(word.format(export=export) for word in words))
    assert done.status == 2, done.err


def test_a_broker_that_hangs_ends_the_import_and_a_rerun_sends_the_rest(
    online: Run, export: Path, topic: str, hung: list[str]
) -> None:
    before = stored(online, topic)
    done = online("store", "import", str(export), "--yes", "-o", "json", *hung)
    assert done.status == 3, done.err
    assert json.loads(done.out)["sent"] == 0
    assert "mqadmin broker status" in done.err
    again = online("store", "import", str(export), "--yes", "-o", "json", "--timeout", "20s")
    assert (again.status, json.loads(again.out)["sent"]) == (0, 5)
    assert stored(online, topic) == before + 5
