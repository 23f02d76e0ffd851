"""``mqadmin msg consume-directly``: consent, result and statuses."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mqadmin.admin.clients.directly import DirectResult
from mqadmin.admin.message.result import QueryResult
from mqadmin.message_row import MessageRow

Run = Callable[..., Any]

PLAN = DirectResult(
    group="billing",
    client_id="c1",
    topic="orders",
    offset_msg_id="0" * 32,
    broker_name="broker-a",
    consume_result=None,
)
LINE = ("msg", "consume-directly", "0" * 32, "--group", "billing")


@pytest.fixture(autouse=True)
def found(admin: Any, message_row: MessageRow) -> None:
    admin.answers["message.query_id"] = QueryResult(kind="found", items=[message_row])
    admin.answers["direct.plan"] = ("a:1", PLAN)


def test_the_result_of_the_listener_is_shown(mqadmin: Run, admin: Any) -> None:
    done_plan = msgspec.structs.replace(PLAN, consume_result="CR_SUCCESS", spent_time_mills=3)
    admin.answers["direct.consume"] = done_plan
    done = mqadmin(*LINE, "--yes", "-o", "json")
    assert (done.status, json.loads(done.out)["consumeResult"]) == (0, "CR_SUCCESS")


def test_a_message_that_is_not_consumed_has_status_1(mqadmin: Run, admin: Any) -> None:
    admin.answers["direct.consume"] = msgspec.structs.replace(PLAN, consume_result="CR_LATER")
    done = mqadmin(*LINE, "--yes")
    assert done.status == 1
    assert "CR_LATER" in done.err


def test_a_dry_run_passes_nothing_to_the_client(mqadmin: Run, admin: Any) -> None:
    done = mqadmin(*LINE, "--dry-run")
    assert done.status == 0
    assert done.out.endswith("dry run: nothing was changed\n")
    assert "direct.consume" not in [name for name, _, _ in admin.calls]


def test_without_a_terminal_it_needs_yes(mqadmin: Run, admin: Any) -> None:
    assert mqadmin(*LINE).status == 2
    assert admin.calls == []


def test_an_unknown_message_has_status_1(mqadmin: Run, admin: Any) -> None:
    admin.answers["message.query_id"] = QueryResult(kind="notFound", detail="no message")
    assert mqadmin(*LINE, "--yes").status == 1
