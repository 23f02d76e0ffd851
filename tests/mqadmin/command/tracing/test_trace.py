"""``mqadmin msg trace``: the steps of a message in order."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.admin.result import Listing
from mqadmin.system_topics.trace import TraceRow

Run = Callable[..., Any]

ROW = TraceRow(
    trace_type="Pub",
    timestamp=1_700_000_000_000,
    group="p",
    topic="t",
    msg_id="ID",
    status="success",
    cost_ms=3,
    client_host="c",
)


@pytest.mark.parametrize(
    ("words", "topic"), [((), "RMQ_SYS_TRACE_TOPIC"), (("--trace-topic", "x"), "x")]
)
def test_the_steps_are_read_from_the_trace_topic(
    mqadmin: Run, admin: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], topic: str
) -> None:
    asked: list[str] = []

    def trace(session: object, text: str, **options: Any) -> Listing[TraceRow]:
        asked.append(options["topic"])
        return Listing(items=[ROW] if text == "ID" else [])

    monkeypatch.setattr("mqadmin.command.tracing.trace.message_trace", trace)
    done = mqadmin("msg", "trace", "ID", *words, "-o", "json")
    assert (done.status, json.loads(done.out)["items"][0]["traceType"]) == (0, "Pub")
    assert asked == [topic]
    assert mqadmin("msg", "trace", "OTHER", *words).status == 1
