"""``mqadmin msg track``: by id or by place, one row per group."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.admin.message.result import QueryResult
from mqadmin.admin.result import Listing
from mqadmin.admin.tracing.track import TrackRecord
from mqadmin.message_row import MessageRow

Run = Callable[..., Any]

MESSAGE = MessageRow(
    **{  # type: ignore[arg-type]
        **dict.fromkeys(MessageRow.__struct_fields__, None),
        "topic": "t",
        "queue_id": 0,
        "queue_offset": 5,
        "keys": [],
        "properties": {},
    }
)
TRACK = TrackRecord(
    group="g",
    track_type="CONSUMED",
    topic="t",
    broker_name="b",
    queue_id=0,
    queue_offset=5,
    consumer_offset=6,
    clients=1,
    detail="",
)


def test_the_groups_of_a_message_are_shown(mqadmin: Run, admin: Any) -> None:
    admin.answers["message.query_id"] = QueryResult(kind="found", items=[MESSAGE])
    admin.answers["tracker.track"] = Listing(items=[TRACK])
    done = mqadmin("msg", "track", "0" * 32, "-o", "json")
    assert (done.status, json.loads(done.out)["items"][0]["trackType"]) == (0, "CONSUMED")
    admin.answers["message.query_offset"] = QueryResult(kind="found", items=[MESSAGE])
    assert mqadmin("msg", "track", "--topic", "t", "--queue", "0", "--offset", "5").status == 0


def test_a_message_that_is_not_found_names_the_reason(mqadmin: Run, admin: Any) -> None:
    admin.answers["message.query_id"] = QueryResult(kind="notFound", detail="no such message")
    done = mqadmin("msg", "track", "0" * 32)
    assert done.status == 1
    assert "no such message" in done.err


def test_a_topic_without_groups_has_status_1(mqadmin: Run, admin: Any) -> None:
    admin.answers["message.query_id"] = QueryResult(kind="found", items=[MESSAGE])
    admin.answers["tracker.track"] = Listing(items=[])
    assert mqadmin("msg", "track", "0" * 32).status == 1


@pytest.mark.parametrize(
    "words", [(), ("--topic", "t"), ("0" * 32, "--queue", "1"), ("--queue", "1", "--offset", "2")]
)
def test_a_message_is_named_in_one_way(mqadmin: Run, admin: Any, words: tuple[str, ...]) -> None:
    assert mqadmin("msg", "track", *words).status == 2
