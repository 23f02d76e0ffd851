import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker.common.sysflag import COMPRESSED
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.find import message_rows
from mqadmin.inspector.query import Query
from mqadmin.message_row import MessageRow
from mqadmin.traffic.imports.messages import (
    BAD_CRC,
    TopicMap,
    exported_messages,
    store_messages,
)
from mqadmin.traffic.options import Selection
from mqadmin.traffic.outgoing import BadInput, InputMessage


@pytest.fixture
def row(message_row: MessageRow) -> MessageRow:
    return msgspec.structs.replace(message_row, body="aGVsbG8=", body_encoding="base64")


def lines(*rows: MessageRow | dict[str, Any] | bytes) -> io.BytesIO:
    encoded = [one if isinstance(one, bytes) else msgspec.json.encode(one) for one in rows]
    return io.BytesIO(b"\n".join(encoded) + b"\n")


def exported(stream: io.BytesIO, **wanted: Any) -> Iterator[InputMessage | BadInput]:
    return exported_messages(stream, Selection(**wanted), TopicMap())


def test_a_stored_message_keeps_the_fields_of_its_application(row: MessageRow) -> None:
    (found,) = store_messages([row], TopicMap())
    assert isinstance(found, InputMessage)
    assert (found.topic, found.body, found.tags, list(found.keys)) == (
        "orders",
        b"hello",
        "A",
        ["k1"],
    )
    assert (found.line, found.part, found.original_id) == (1000, 0, row.offset_msg_id)


def test_the_messages_of_one_record_have_different_parts(row: MessageRow) -> None:
    later = msgspec.structs.replace(row, physical_offset=2000)
    found = list(store_messages([row, row, later], TopicMap()))
    assert [(one.line, one.part) for one in found] == [(1000, 0), (1000, 1), (2000, 0)]


@pytest.mark.parametrize(
    "changed",
    [{"crc_ok": False}, {"sys_flag": COMPRESSED, "body": "00", "body_encoding": "hex"}],
)
def test_a_body_that_is_not_the_one_sent_is_not_imported(
    row: MessageRow, changed: dict[str, Any]
) -> None:
    (found,) = store_messages([msgspec.structs.replace(row, **changed)], TopicMap())
    assert isinstance(found, BadInput)


def test_topics_of_brokers_and_groups_are_left_out_unless_named() -> None:
    own = ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "%RETRY%g", "%DLQ%g")
    topics = TopicMap()
    assert [topics.target(name) for name in (*own, "orders")] == [None, None, None, None, "orders"]
    assert topics.excluded == dict.fromkeys(own, 1)
    assert TopicMap(asked="%DLQ%g").target("%DLQ%g") == "%DLQ%g"
    assert TopicMap(default="all").target("%DLQ%g") is None
    renamed = TopicMap(default="all", by_topic={"%DLQ%g": "repair"})
    assert (renamed.target("%DLQ%g"), renamed.target("orders")) == ("repair", "all")


def test_an_export_of_a_store_gives_the_messages_of_the_store(
    golden_store: Callable[..., Path],
) -> None:
    store = StoreDirectory(golden_store("normal-stop-533") / "store")
    rows = [one for one in message_rows(store, Query(body="base64")) if isinstance(one, MessageRow)]
    assert rows
    direct = list(store_messages(rows, TopicMap()))
    read = list(exported(lines(*rows)))
    assert len(read) == len(direct)

    def content(one: InputMessage | BadInput) -> Any:
        assert isinstance(one, InputMessage)
        fields = msgspec.structs.asdict(one)
        return {name: fields[name] for name in fields if name not in ("line", "part", "raw")}

    assert [content(one) for one in read] == [content(one) for one in direct]


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        ({}, 3),
        ({"topic": "orders"}, 2),
        ({"topic": "none"}, 0),
        ({"queue_id": 1}, 1),
        ({"key": "k1"}, 2),
        ({"key": "own"}, 1),
        ({"begin_ms": 1_700_000_000_001}, 2),
        ({"end_ms": 1_700_000_000_001}, 0),
    ],
)
def test_filters_select_lines_as_an_export_selects_messages(
    row: MessageRow, wanted: dict[str, Any], count: int
) -> None:
    one = msgspec.structs.replace(row, queue_id=1)
    bare = {"topic": "bare", "body": "x", "properties": {"KEYS": "other own"}}
    found = list(exported(lines(row, one, bare), **wanted))
    assert len(found) == count


def test_invalid_lines_are_named_with_their_number(row: MessageRow) -> None:
    damaged = {**msgspec.to_builtins(row), "crcOk": False}
    without_body = {**json.loads(msgspec.json.encode(row)), "body": None}
    found = list(exported(lines(b"bad", row, b"", damaged, without_body, {"body": "x"})))
    bad = [(one.line, one.reason) for one in found if isinstance(one, BadInput)]
    assert [line for line, _ in bad] == [1, 4, 5, 6]
    assert bad[1][1] == BAD_CRC
    assert "no body" in bad[2][1]
    assert "no topic" in bad[3][1]


def test_reading_starts_at_the_given_line(row: MessageRow) -> None:
    found = exported_messages(lines(row, row, row), Selection(), TopicMap(), from_line=3)
    assert [one.line for one in found] == [3]
