"""queryMsgTraceById prints one table of sends and one per consumer group."""

from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.admin.result import Listing
from mqadmin.command.java.message import trace
from mqadmin.system_topics.trace import TraceRow

Run = Callable[..., Any]


def row(kind: str, group: str, status: str) -> TraceRow:
    return TraceRow(
        trace_type=kind,
        timestamp=1_700_000_000_000,
        group=group,
        topic="T",
        msg_id="id",
        status=status,
        cost_ms=65,
        client_host="127.0.0.1",
    )


def test_the_steps_are_in_tables_of_producers_and_groups(
    java: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row("Pub", "P", "success"), row("SubBefore", "g", ""), row("SubAfter", "g", "failed")]
    monkeypatch.setattr(trace, "message_trace", lambda *words, **more: Listing(items=rows))
    lines = java("queryMsgTraceById -i id").out.splitlines()
    assert lines == [
        (
            "#Type      #ProducerGroup       #ClientHost          #SendTime            #CostTimes "
            "#Status   "
        ),
        (
            "Pub        P                    127.0.0.1            2023-11-14 22:13:20  65ms       "
            "success   "
        ),
        "",
        (
            "#Type      #ConsumerGroup       #ClientHost          #ConsumerTime        #CostTimes "
            "#Status   "
        ),
        (
            "Sub        g                    127.0.0.1            2023-11-14 22:13:20  65ms       "
            "failed    "
        ),
        "",
    ]


def test_a_message_without_a_trace_has_status_1(java: Run, topic: str) -> None:
    done = java(f"queryMsgTraceById -i id -t {topic}")
    assert done.status == 1
    assert "no trace of id" in done.err
