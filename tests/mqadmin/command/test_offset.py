import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mqadmin.admin.offset.reset import ResetItem, ResetPlan
from mqadmin.admin.result import TargetError

Run = Callable[..., Any]

RESET = ("offset", "reset", "g", "--topic", "t", "--to", "earliest")


def item(queue_id: int, **fields: Any) -> ResetItem:
    values: dict[str, Any] = {
        "group": "g",
        "topic": "t",
        "broker_name": "broker-a",
        "address": "127.0.0.1:10911",
        "queue_id": queue_id,
        "min_offset": 0,
        "max_offset": 10,
        "current_offset": 7,
        "new_offset": 0,
        "skipped": 0,
        "repeated": 7,
        **fields,
    }
    return ResetItem(**values)


PLAN = ResetPlan(
    group="g",
    topic="t",
    to="earliest",
    online=1,
    items=(item(0), item(1, current_offset=None, repeated=0)),
    warnings=("1 client is online and is notified",),
)
DONE = msgspec.structs.replace(
    PLAN,
    items=(item(0, status="done", read_back=0), item(1, status="done", read_back=0)),
    undo_path="undo.json",
)


def test_the_plan_is_shown_and_nothing_is_done(mqadmin: Run, admin: Any, screen: Any) -> None:
    admin.answers["offset.plan_reset"] = PLAN
    done = mqadmin(*RESET, "--dry-run")
    assert done.status == 0
    header, warning = done.err.splitlines()
    assert header.startswith("context -, cluster DefaultCluster, name server ns:9876, broker ")
    assert "127.0.0.1:10911" in header
    assert warning == "warning: 1 client is online and is notified"
    assert admin.calls[0] == (
        "offset.plan_reset",
        ("g", "t", "earliest"),
        {"queue_id": None, "broker": None},
    )
    assert len(admin.calls) == 1
    screen("offset-reset-dry-run.txt", done.out)


def test_applied_read_back_and_undo_named(mqadmin: Run, admin: Any, screen: Any) -> None:
    admin.answers.update({"offset.plan_reset": PLAN, "offset.apply_reset": DONE})
    done = mqadmin(*RESET, "--yes")
    assert done.status == 0
    assert "undo: mqadmin offset undo undo.json" in done.err
    screen("offset-reset.txt", done.out)


def test_the_time_that_was_meant_is_printed_back(mqadmin: Run, admin: Any) -> None:
    meant = msgspec.structs.replace(
        PLAN,
        to_timestamp=1_700_000_000_000,
        items=(item(0, to_timestamp=1_700_000_000_000, clamped=True),),
    )
    admin.answers["offset.plan_reset"] = meant
    done = mqadmin(*RESET[:-1], "@1700000000", "--dry-run", "-o", "json")
    assert "stored at 2023-11-14T22:13:20.000+00:00 or later" in done.err
    (row,) = json.loads(done.out)["items"]
    assert (row["toTimestamp"], row["toTime"]) == (1_700_000_000_000, "2023-11-14T22:13:20.000Z")
    assert row["clamped"] is True


def test_the_undo_line_can_be_pasted(mqadmin: Run, admin: Any) -> None:
    done_plan = msgspec.structs.replace(DONE, undo_path="my undo.json")
    admin.answers.update({"offset.plan_reset": PLAN, "offset.apply_reset": done_plan})
    done = mqadmin(*RESET, "--yes")
    assert "offset undo 'my undo.json'" in done.err


def test_without_consent_nothing_is_asked_of_anybody(mqadmin: Run, admin: Any) -> None:
    done = mqadmin(*RESET)
    assert (done.status, admin.calls) == (2, [])


def test_a_person_sees_every_queue_before_the_question(
    mqadmin: Run, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.answers["offset.plan_reset"] = PLAN
    monkeypatch.setattr("mqadmin.command.execution.session.stdin_is_terminal", lambda: True)
    done = mqadmin(*RESET, stdin="n\n")
    assert done.status == 1
    assert "broker-a queue 0: 7 -> 0, 0 skipped, 7 repeated" in done.err
    assert "broker-a queue 1: - -> 0" in done.err


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        (("done", "unchanged"), 0),
        (("done", "failed"), 5),
        (("done", "differs"), 8),
        (("failed", "failed"), 3),
        (("failed", "unchanged"), 3),
    ],
)
def test_the_exit_status_follows_the_result(
    mqadmin: Run, admin: Any, statuses: tuple[str, ...], status: int
) -> None:
    error = TargetError(kind="timeout", message="no answer")
    items = tuple(
        item(n, status=word, error=error if word == "failed" else None)
        for n, word in enumerate(statuses)
    )
    admin.answers.update(
        {
            "offset.plan_reset": PLAN,
            "offset.apply_reset": msgspec.structs.replace(PLAN, items=items),
        }
    )
    assert mqadmin(*RESET, "-y", "-o", "json").status == status


def test_current_and_new_are_in_the_json(mqadmin: Run, admin: Any) -> None:
    admin.answers["offset.plan_reset"] = PLAN
    items = json.loads(mqadmin(*RESET, "--dry-run", "-o", "json").out)["items"]
    assert [(i["currentOffset"], i["newOffset"], i["repeated"]) for i in items] == [
        (7, 0, 7),
        (None, 0, 0),
    ]


def test_a_plan_of_errors_alone_is_not_nothing_to_do(mqadmin: Run, admin: Any) -> None:
    silent = TargetError(kind="timeout", message="no answer", address="127.0.0.1:10911")
    admin.answers["offset.plan_reset"] = msgspec.structs.replace(
        PLAN, items=(), errors=(silent,), warnings=()
    )
    done = mqadmin(*RESET, "--yes")
    assert done.status == 3
    assert "nothing to do" not in done.err
    assert len(admin.calls) == 1


def test_clients_that_have_not_applied_the_change_are_listed(mqadmin: Run, admin: Any) -> None:
    reported = msgspec.structs.replace(
        PLAN,
        items=(item(0, status="pending", via="clients"),),
        warnings=(*PLAN.warnings, "the clients were notified"),
        undo_path="undo.json",
    )
    admin.answers.update({"offset.plan_reset": PLAN, "offset.apply_reset": reported})
    done = mqadmin(*RESET, "--yes")
    assert done.status == 5
    assert done.err.count("1 client is online") == 1
    assert "warning: the clients were notified\n" in done.err
    assert "undo: mqadmin offset undo" in done.err
