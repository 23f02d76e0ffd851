"""``mqadmin msg resend``: consent, target and statuses."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from broker.message.message import Message
from mqadmin.admin.dlq.resend import ResendPlan
from mqadmin.admin.message.result import QueryResult
from mqadmin.admin.message.send import SendRecord
from mqadmin.message_row import MessageRow

Run = Callable[..., Any]

RECORD = SendRecord(
    topic="orders",
    broker_name=None,
    queue_id=None,
    queue_offset=None,
    offset_msg_id=None,
    uniq_key="u",
    send_status="planned",
)
LINE = ("msg", "resend", "0" * 32)


@pytest.fixture(autouse=True)
def found(admin: Any, message_row: MessageRow) -> None:
    admin.answers["message.query_id"] = QueryResult(kind="found", items=[message_row])
    admin.answers["resend.plan"] = ResendPlan(
        message=Message("orders", b"x"), record=RECORD, addresses=["a:1"]
    )
    admin.answers["resend.send"] = msgspec.structs.replace(
        RECORD, send_status="SEND_OK", offset_msg_id="1" * 32
    )


def test_the_new_message_is_shown(mqadmin: Run, admin: Any) -> None:
    done = mqadmin(*LINE, "--to", "other", "--yes", "-o", "json")
    assert (done.status, json.loads(done.out)["offsetMsgId"]) == (0, "1" * 32)
    (call,) = [kwargs for name, _, kwargs in admin.calls if name == "resend.plan"]
    assert call == {"to": "other"}


def test_a_dry_run_sends_nothing(mqadmin: Run, admin: Any) -> None:
    done = mqadmin(*LINE, "--dry-run")
    assert done.status == 0
    assert "planned" in done.out
    assert "resend.send" not in [name for name, _, _ in admin.calls]


def test_without_a_terminal_it_needs_yes(mqadmin: Run, admin: Any) -> None:
    assert mqadmin(*LINE).status == 2
    assert admin.calls == []


def test_an_unknown_message_has_status_1(mqadmin: Run, admin: Any) -> None:
    admin.answers["message.query_id"] = QueryResult(kind="notFound", detail="no message")
    assert mqadmin(*LINE, "--yes").status == 1
