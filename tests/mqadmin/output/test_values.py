from typing import Any

import msgspec
import pytest

from mqadmin.output.values import cell, heading, plain, printable, rfc3339, time_name


class Row(msgspec.Struct, rename="camel"):
    topic: str
    store_timestamp: int | None
    properties: dict[str, str]


def test_a_timestamp_is_followed_by_its_text_field() -> None:
    row = plain(Row("t", 1_700_000_000_123, {}))
    assert list(row) == ["topic", "storeTimestamp", "storeTime", "properties"]
    assert row["storeTime"] == "2023-11-14T22:13:20.123Z"


def test_an_absent_timestamp_has_an_absent_text_field() -> None:
    assert plain(Row("t", None, {}))["storeTime"] is None


def test_properties_are_the_applications_words_and_stay_as_they_are() -> None:
    row = plain(Row("t", 1, {"someTimestamp": "1"}))
    assert row["properties"] == {"someTimestamp": "1"}


def test_an_existing_text_field_is_kept() -> None:
    assert plain({"bornTimestamp": 1, "bornTime": "mine"})["bornTime"] == "mine"


class Outer(msgspec.Struct, rename="camel"):
    rows: list[Row]
    inner: Row | None
    table: dict[int, int]


def test_nested_records_have_text_fields_and_maps_do_not() -> None:
    built = plain(Outer([Row("a", 0, {})], Row("b", 1000, {}), {0: 5}))
    assert built["rows"][0]["storeTime"] == "1970-01-01T00:00:00.000Z"
    assert built["inner"]["storeTime"] == "1970-01-01T00:00:01.000Z"
    assert built["table"] == {"0": 5}


@pytest.mark.parametrize("epoch_ms", [-1, 2**63 - 1, 253_402_300_800_000])
def test_a_moment_no_calendar_shows_has_no_text(epoch_ms: int) -> None:
    assert rfc3339(epoch_ms) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        ("", "-"),
        ([], "-"),
        ({}, "-"),
        (0, "0"),
        (True, "true"),
        (9_223_372_036_854_775_807, "9223372036854775807"),
        (0.5, "0.5"),
        (2.0, "2"),
        (["a", "b"], "a,b"),
        ({"k": 1}, "k=1"),
        ("ü", "ü"),
        ("a\x1b[31mb\n", "a\\x1b[31mb\\n"),
    ],
)
def test_a_cell_is_one_line_of_visible_text(value: Any, text: str) -> None:
    assert cell(value) == text


def test_printable_leaves_printable_text_alone() -> None:
    text = "plain – text"
    assert printable(text) is text


@pytest.mark.parametrize(
    ("name", "shown"),
    [("topic", "TOPIC"), ("readQueueNums", "READ-QUEUE-NUMS"), ("offsetMsgId", "OFFSET-MSG-ID")],
)
def test_headings_are_the_field_names_in_capitals(name: str, shown: str) -> None:
    assert heading(name) == shown


def test_only_times_have_text_fields() -> None:
    assert time_name("storeTimestamp") == "storeTime"
    assert time_name("timestamp") == "time"
    assert time_name("lastTime") is None
