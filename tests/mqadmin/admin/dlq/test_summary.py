"""Counts of dead letters, and the file for a replay."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker.errors import ConfigError
from mqadmin.admin.dlq.dead_letters import read_dead_letters
from mqadmin.admin.dlq.summary import count_dead_letters, write_dead_letters
from mqadmin.message_row import MessageRow


def row(number: int, tags: str | None, **properties: str) -> MessageRow:
    values: dict[str, Any] = {
        field.name: "" for field in msgspec.structs.fields(MessageRow) if field.type is str
    }
    values |= {field.name: 0 for field in msgspec.structs.fields(MessageRow) if field.type is int}
    return MessageRow(
        **values
        | {
            "topic": "%DLQ%g",
            "broker_name": "b",
            "crc_ok": True,
            "body": "aGk=",
            "body_encoding": "base64",
            "body_size": 2,
            "tags": tags,
            "keys": [],
            "uniq_key": None,
            "offset_msg_id": f"{number:032X}",
            "store_timestamp": 1_000 + number,
            "reconsume_times": number,
            "properties": {"RETRY_TOPIC": "orders", **properties},
        }
    )


ROWS = [row(1, "a", error="x"), row(2, "a", error="y"), row(3, "a", error="y"), row(4, None)]


def test_one_count_per_origin_and_tag_most_first() -> None:
    first, second = count_dead_letters("g", ROWS)
    assert (first.origin_topic, first.tags, first.messages, first.body_bytes) == (
        *("orders", "a"),
        3,
        6,
    )
    assert (first.max_reconsume_times, first.exceptions, first.exception) == (3, 2, "y")
    assert (first.oldest_timestamp, first.newest_timestamp) == (1_001, 1_003)
    assert (second.tags, second.messages, second.exception) == (None, 1, None)


def test_the_file_is_the_input_of_a_replay(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_dead_letters(str(path), ROWS)
    found = read_dead_letters(path.read_bytes(), "f")
    assert [one.offset_msg_id for one in found] == [one.offset_msg_id for one in ROWS]
    assert {one.body for one in found} == {b"hi"}
    with pytest.raises(ConfigError, match="File exists"):
        write_dead_letters(str(path), ROWS)
