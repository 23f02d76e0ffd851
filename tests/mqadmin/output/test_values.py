import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from mqadmin.output.values import (
    byte_rate_text,
    cell,
    heading,
    plain,
    printable,
    quantity_text,
    rate_text,
    rfc3339,
    seconds_text,
    share_text,
    size_text,
    time_name,
)


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


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("dueInMs", "DUE-IN"),
        ("lagSeconds", "LAG-TIME"),
        ("timeDiffSeconds", "TIME-DIFF"),
        ("bytesPerSecond", "BYTES-PER-SECOND"),
    ],
)
def test_headings_omit_the_unit_that_a_cell_contains(name: str, shown: str) -> None:
    assert heading(name) == shown


def test_only_times_have_text_fields() -> None:
    assert time_name("storeTimestamp") == "storeTime"
    assert time_name("timestamp") == "time"
    assert time_name("lastTime") is None


@pytest.mark.parametrize(
    ("epoch_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (999, "1970-01-01T00:00:00.999Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_a_moment_is_shown_in_utc_with_milliseconds(epoch_ms: int, text: str) -> None:
    assert rfc3339(epoch_ms) == text


def test_moments_are_shown_as_the_calendar_of_python_does(rng: random.Random) -> None:
    for _ in range(300):
        epoch_ms = rng.randrange(253_402_300_800_000)
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=epoch_ms)
        shown = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        assert rfc3339(epoch_ms) == shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (False, "false"),
        (0.0, "0"),
        (1.0005, "1"),
        (12.3456, "12.346"),
        (100.0, "100"),
        (-1, "-1"),
        ([None, True], "-,true"),
        (("a",), "a"),
        ([["a", "b"], []], "a,b,-"),
        ({"a": None, "b": [1, 2]}, "a=-,b=1,2"),
        ({1: "x\ty"}, "1=x\\ty"),
    ],
)
def test_nested_values_are_one_cell(value: Any, text: str) -> None:
    assert cell(value) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", "a\\nb"),
        ("\x00", "\\x00"),
        ("\x7f", "\\x7f"),
        ("\u202e", "\\u202e"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
        ("ok\r", "ok\\r"),
    ],
)
def test_characters_that_a_terminal_obeys_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_any_text_becomes_printable(rng: random.Random) -> None:
    for _ in range(300):
        text = "".join(chr(rng.randrange(0x300)) for _ in range(rng.randrange(30)))
        assert printable(text).isprintable()
        assert printable(printable(text)) == printable(text)


def test_a_time_that_is_not_a_number_has_no_text() -> None:
    assert plain({"lastTimestamp": "1"})["lastTime"] is None
    assert plain({"lastTimestamp": True})["lastTime"] is None


def test_the_time_of_a_field_named_timestamp_is_time() -> None:
    assert plain({"timestamp": 0}) == {"timestamp": 0, "time": "1970-01-01T00:00:00.000Z"}


@pytest.mark.parametrize(
    ("name", "shown"),
    [("", ""), ("a", "A"), ("QPS", "QPS"), ("bodyCRC", "BODY-CRC"), ("p99MS", "P99-MS")],
)
def test_capitals_in_a_row_are_one_word(name: str, shown: str) -> None:
    assert heading(name) == shown


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (size_text, 0, "0 B"),
        (size_text, 1023, "1023 B"),
        (size_text, 1536, "1.5 KiB"),
        (size_text, 3 << 60, "3072.0 PiB"),
        (seconds_text, 0, "0s"),
        (seconds_text, 0.00042, "0.4ms"),
        (seconds_text, 0.25, "250ms"),
        (seconds_text, 1.5, "1.5s"),
        (seconds_text, -61, "-61s"),
        (seconds_text, 60, "1m"),
        (seconds_text, 180, "3m"),
        (seconds_text, 3600, "1h"),
        (seconds_text, 9000, "2.5h"),
        (seconds_text, 40 * 86_400, "40d"),
        (rate_text, 12.34, "12.3/s"),
        (byte_rate_text, 2048, "2.0 KiB/s"),
        (share_text, 0.617, "62%"),
    ],
)
def test_a_quantity_has_its_unit(write: Callable[[float], str], value: float, text: str) -> None:
    assert write(value) == text


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("ageMs", 90_000, "90s"),
        ("lagSeconds", 1.5, "1.5s"),
        ("bytes", 2048, "2.0 KiB"),
        ("averageBytes", 2048.0, "2.0 KiB"),
        ("bodySize", 5, "5 B"),
        ("bytesPerSecond", 2048, "2.0 KiB/s"),
        ("megabytesPerSecond", 0.941, "0.941 MB/s"),
        ("megabytesPerSecond", 1234.5, "1234 MB/s"),
        ("bytesPerHour", 2048, "2.0 KiB/h"),
        ("commitLogDiskRatio", 0.471, "47%"),
    ],
)
def test_the_name_of_a_field_implies_its_unit(field: str, value: float, text: str) -> None:
    formatter = quantity_text(field)
    assert formatter is not None
    assert formatter(value) == text


@pytest.mark.parametrize("field", ["lag", "queueId", "physicalOffset", "storeSize", "batchSize"])
def test_counts_and_positions_in_a_file_are_exact(field: str) -> None:
    assert quantity_text(field) is None
