"""``mqadmin timer``: lists of a store, recalls that are asked for."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqadmin.admin.delayed.timers import RecallItem
from mqadmin.admin.result import Listing, TargetError

Run = Callable[..., Any]

ITEM = RecallItem(
    topic="T",
    broker_name="broker-a",
    address="a:1",
    uniq_key="U",
    due_timestamp=1,
    recall_handle="H",
    status="planned",
)


@pytest.fixture
def store(golden_store: Callable[..., Path]) -> str:
    return str(golden_store("delay-533") / "store")


def test_list_of_a_store_needs_no_cluster(mqadmin: Run, store: str) -> None:
    done = mqadmin("timer", "list", "--store", store, "-o", "json")
    rows = json.loads(done.out)["items"]
    assert (done.status, len(rows)) == (0, 8)
    one = rows[0]["uniqKey"].lower()
    done = mqadmin("timer", "list", "--store", store, "--key", one, "-o", "json")
    assert [row["uniqKey"] for row in json.loads(done.out)["items"]] == [rows[0]["uniqKey"]]


def test_check_points_are_listed_on_request(mqadmin: Run, golden_store: Any) -> None:
    words = ("timer", "list", "--store", str(golden_store("pop-533") / "store"), "-o", "json")
    assert json.loads(mqadmin(*words).out)["items"] == []
    assert json.loads(mqadmin(*words, "--system").out)["items"]


@pytest.mark.parametrize("option", [("--scan", "5"), ("--broker", "a"), ("--cluster", "c")])
def test_options_of_running_brokers_are_refused_for_a_store(
    mqadmin: Run, store: str, option: tuple[str, str]
) -> None:
    done = mqadmin("timer", "list", "--store", store, *option)
    assert (done.status, done.out) == (2, "")
    assert f"{option[0]} is an option for running brokers" in done.err


def test_a_recall_needs_consent(mqadmin: Run, admin: Any) -> None:
    assert mqadmin("timer", "recall", "H").status == 2
    assert admin.calls == []


def test_a_dry_run_recalls_nothing(mqadmin: Run, admin: Any) -> None:
    admin.answers["timer.plan_recall"] = [ITEM]
    done = mqadmin("timer", "recall", "H", "--dry-run", "-o", "json")
    assert done.status == 0
    assert json.loads(done.out)["items"][0]["status"] == "planned"
    assert [name for name, _, _ in admin.calls] == ["timer.plan_recall"]


def test_a_refused_recall_has_status_4(mqadmin: Run, admin: Any) -> None:
    error = TargetError(kind="refused", message="no", response_code=16)
    failed = type(ITEM)(**{**_fields(ITEM), "status": "failed", "note": "no", "error": error})
    admin.answers["timer.plan_recall"] = [ITEM]
    admin.answers["timer.recall"] = failed
    assert mqadmin("timer", "recall", "H", "--yes").status in (4, 6)


def _fields(item: RecallItem) -> dict[str, Any]:
    return {name: getattr(item, name) for name in item.__struct_fields__}


def test_list_of_running_brokers(mqadmin: Run, admin: Any) -> None:
    admin.answers["timer.list"] = Listing(items=[])
    assert mqadmin("timer", "list", "--topic", "t", "--scan", "7").status == 0
    assert admin.calls[-1][2]["scan"] == 7


@pytest.mark.parametrize(
    ("words", "notes", "status"),
    [
        ((), [], 5),
        (("--limit", "1"), [], 0),
        (("--limit", "1"), ["a: 9 older records were not read (--scan)"], 5),
        (("--limit", "2"), ["a: 9 older records were not read (--scan)"], 5),
    ],
)
def test_a_list_is_partial_unless_only_the_given_limit_truncates_it(
    mqadmin: Run, admin: Any, words: tuple[str, ...], notes: list[str], status: int
) -> None:
    admin.answers["timer.list"] = Listing(items=[{"topic": "T"}], truncated=True, notes=notes)
    done = mqadmin("timer", "list", *words, "-o", "json")
    assert (done.status, json.loads(done.out)["truncated"]) == (status, True)
