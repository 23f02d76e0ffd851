import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mqadmin.admin.dlq.library import DlqRecord
from mqadmin.admin.dlq.replay import ReplayItem, ReplayPlan
from mqadmin.admin.message.result import QueryResult
from mqadmin.admin.result import Listing, TargetError

Run = Callable[..., Any]

RECORD = DlqRecord(
    group="billing",
    topic="%DLQ%billing",
    messages=3,
    oldest_timestamp=1_700_000_000_000,
    newest_timestamp=1_700_000_060_000,
    growth_per_hour=2,
)


def test_list(mqadmin: Run, admin: Any, screen: Any) -> None:
    admin.answers["dlq.list"] = Listing(items=[RECORD])
    done = mqadmin("dlq", "list")
    assert done.status == 0
    screen("dlq-list.txt", done.out)


def test_no_dead_letters_of_one_group_is_an_error_and_of_all_is_not(
    mqadmin: Run, admin: Any
) -> None:
    admin.answers["dlq.list"] = Listing(items=[])
    assert mqadmin("dlq", "list").status == 0
    done = mqadmin("dlq", "list", "billing", "-o", "json")
    assert done.status == 1
    assert json.loads(done.err)["error"]["message"] == "group billing has no dead letters"


def test_show_asks_for_the_window_and_the_body(mqadmin: Run, admin: Any) -> None:
    admin.answers["dlq.show"] = QueryResult(kind="found", items=(), truncated=False)
    mqadmin("dlq", "show", "billing", "--begin", "1000", "--max", "5", "--body", "hex", "--raw")
    name, args, kwargs = admin.calls[0]
    assert (name, args) == ("dlq.show", ("billing",))
    assert (kwargs["begin_ms"], kwargs["end_ms"], kwargs["max_items"]) == (1_000_000, None, 5)
    assert (kwargs["body"].encoding, kwargs["body"].raw) == ("hex", True)


LETTER = {
    "topic": "%DLQ%billing",
    "offsetMsgId": "7F00000100002A9F0000000000000000",
    "properties": {"RETRY_TOPIC": "orders", "UNIQ_KEY": "A" * 32, "KEYS": "42"},
    "keys": ["42"],
    "body": "aGVsbG8=",
    "bodyEncoding": "base64",
}


def item(status: str, number: int = 0, error: TargetError | None = None) -> ReplayItem:
    return ReplayItem(
        group="billing",
        offset_msg_id=f"{number:032X}",
        uniq_key=None,
        keys=["42"],
        target_topic="orders",
        status=status,
        note=error.message if error else None,
        error=error,
    )


@pytest.fixture
def dead_letters(tmp_path: Path) -> str:
    path = tmp_path / "letters.ndjson"
    path.write_text(json.dumps(LETTER) + "\n")
    return str(path)


def lay_out(admin: Any, planned: list[ReplayItem], done: list[ReplayItem]) -> None:
    admin.answers["dlq.plan_replay"] = lambda letters, to, ledger: ReplayPlan(
        dead_letters=letters, items=planned, ledger=ledger, addresses=["h:1"]
    )
    admin.answers["dlq.apply_replay"] = lambda plan, rate: iter(done)


def test_a_replay_reports_sources_and_targets(
    mqadmin: Run, admin: Any, dead_letters: str, screen: Any
) -> None:
    lay_out(admin, [item("planned"), item("alreadySent", 1)], [item("sent"), item("sent", 1)])
    done = mqadmin(
        "dlq", "replay", "--from", dead_letters, "--to", "retry", "--rate", "50/s", "--yes"
    )
    assert done.status == 0
    screen("dlq-replay.txt", done.out)
    assert done.err.splitlines() == [
        "context -, cluster DefaultCluster, name server ns:9876, broker name-of-h:1 (h:1)",
        "orders: 1 to send, 1 sent before",
        f"2 sent, recorded in {dead_letters}.ledger",
    ]
    (_, (plan_dead_letters,), planned), (_, _, applied) = admin.calls
    assert (planned["to"], planned["ledger"]) == ("retry", f"{dead_letters}.ledger")
    assert (plan_dead_letters[0].body, applied["rate"]) == (b"hello", 50.0)


def test_a_dry_run_of_a_replay_sends_nothing(mqadmin: Run, admin: Any, dead_letters: str) -> None:
    lay_out(admin, [item("planned")], [])
    done = mqadmin("dlq", "replay", "--from", dead_letters, "--dry-run", "--ledger", "/x/l")
    assert done.status == 0
    assert done.out.endswith("dry run: nothing was changed\n")
    assert [name for name, _, _ in admin.calls] == ["dlq.plan_replay"]
    assert admin.calls[0][2]["ledger"] == "/x/l"


def test_a_replay_without_yes_is_refused_without_a_terminal(
    mqadmin: Run, admin: Any, dead_letters: str
) -> None:
    done = mqadmin("dlq", "replay", "--from", dead_letters)
    assert (done.status, admin.calls) == (2, [])
    assert "needs --yes" in done.err


def test_a_finished_replay_is_reported_as_finished(
    mqadmin: Run, admin: Any, dead_letters: str
) -> None:
    lay_out(admin, [item("alreadySent")], [])
    done = mqadmin("dlq", "replay", "--from", dead_letters, "--yes")
    assert done.status == 0
    assert "nothing to do" in done.err
    assert [name for name, _, _ in admin.calls] == ["dlq.plan_replay"]


def test_a_failed_send_is_reported_with_its_status(
    mqadmin: Run, admin: Any, dead_letters: str
) -> None:
    error = TargetError(kind="unreachable", message="not reachable", hint="start it")
    lay_out(admin, [item("planned"), item("planned", 1)], [item("sent"), item("failed", 1, error)])
    done = mqadmin("dlq", "replay", "--from", dead_letters, "--yes", "-o", "json")
    assert done.status == 5
    printed = json.loads(done.err.splitlines()[-1])["error"]
    assert printed["message"].startswith("1 of 2 messages cannot be sent; the first (0000")
    lay_out(admin, [item("planned")], [item("failed", 0, error)])
    assert mqadmin("dlq", "replay", "--from", dead_letters, "--yes").status == 3
    gone = TargetError(kind="client", message="topic orders is not there")
    lay_out(admin, [item("noTarget", 0, gone)], [])
    assert mqadmin("dlq", "replay", "--from", dead_letters, "--yes").status == 1


def test_ctrl_c_reports_the_progress_of_a_replay(
    mqadmin: Run, admin: Any, dead_letters: str
) -> None:
    def sending() -> Iterator[ReplayItem]:
        yield item("sent")
        raise KeyboardInterrupt

    lay_out(admin, [item("planned"), item("planned", 1)], [])
    admin.answers["dlq.apply_replay"] = lambda plan, rate: sending()
    done = mqadmin("dlq", "replay", "--from", dead_letters, "--yes", "-o", "ndjson")
    assert done.status == 130
    assert json.loads(done.out)["status"] == "sent"
    assert f"1 sent, recorded in {dead_letters}.ledger" in done.err


def test_dead_letters_are_read_from_stdin_or_from_the_dlq(
    mqadmin: Run, admin: Any, dead_letters: str
) -> None:
    lay_out(admin, [item("planned")], [item("sent")])
    text = Path(dead_letters).read_text()
    assert mqadmin("dlq", "replay", "--from", "-", "--yes", stdin=text).status == 0
    assert admin.calls[0][2]["ledger"] == "dlq.ledger"
    admin.answers["dlq.show"] = QueryResult(kind="found", items=(), truncated=False)
    mqadmin("dlq", "replay", "billing", "--max", "7", "--yes")
    name, args, kwargs = admin.calls[2]
    assert (name, args, kwargs["max_items"]) == ("dlq.show", ("billing",), 7)
    assert kwargs["body"].encoding == "base64"
    done = mqadmin("dlq", "replay", "--yes")
    assert (done.status, "name a GROUP" in done.err) == (2, True)
    done = mqadmin("dlq", "replay", "shipping", "--from", dead_letters, "--yes")
    assert (done.status, "no dead letters of group shipping" in done.err) == (1, True)
    done = mqadmin("dlq", "replay", "--from", "/nowhere/f", "--yes")
    assert (done.status, "/nowhere/f" in done.err) == (2, True)
    done = mqadmin("dlq", "replay", "--from", dead_letters, "--rate", "fast", "--yes")
    assert (done.status, "'fast' is not a rate" in done.err) == (2, True)


def test_dead_letters_of_an_unreachable_broker_are_reported_after_a_replay(
    mqadmin: Run, admin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    silent = TargetError(kind="timeout", message="no answer of broker-b", address="h:2")
    admin.answers["dlq.show"] = QueryResult(kind="found", items=(), errors=(silent,))
    lay_out(admin, [item("planned")], [item("sent")])
    done = mqadmin("dlq", "replay", "billing", "--yes")
    assert (done.status, "no answer of broker-b" in done.err) == (5, True)


def test_a_replay_that_ends_at_the_default_limit_is_partly(
    mqadmin: Run, admin: Any, dead_letters: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    admin.answers["dlq.show"] = QueryResult(kind="found", items=(), truncated=True)
    lay_out(admin, [item("planned")], [item("sent")])
    done = mqadmin("dlq", "replay", "billing", "--yes")
    assert (done.status, "raise --limit" in done.err) == (5, True)
    assert mqadmin("dlq", "replay", "billing", "--yes", "--limit", "3").status == 0
    assert mqadmin("dlq", "replay", "--from", dead_letters, "--yes", "--limit", "3").status == 2
