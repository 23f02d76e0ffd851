"""Option texts: each function returns the value or raises ValueError with the reason."""

import pytest

from broker.message.message import RESERVED_PROPERTIES
from mqadmin.command.framework import values


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (values.duration_ms, "500ms", 500),
        (values.duration_ms, "2h", 7_200_000),
        (values.interval_ms, "1ms", 1),
        (values.perm, "rw", 6),
        (values.perm, "4", 4),
        (values.count, "12", 12),
        (values.count, "9223372036854775807", (1 << 63) - 1),
        (values.whole, "0x10", 16),
        (values.int32, "2147483647", (1 << 31) - 1),
        (values.positive_int32, "1", 1),
        (values.per_second, "50/s", 50.0),
        (values.per_second, "0.5", 0.5),
        (values.heap_size, "512m", "512m"),
        (values.topic_name, "orders", "orders"),
        (values.attribute, "+message.type=FIFO", "+message.type=FIFO"),
        (values.attribute, "-message.type", "-message.type"),
        (values.pair, "a=", "a="),
        (values.time_range, "-2h..", "-2h.."),
    ],
)
def test_a_valid_text_is_its_value(parse, text, value) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "reason"),
    [
        (values.duration_ms, "soon", "soon"),
        (values.interval_ms, "0s", "longer than 0"),
        (values.perm, "rwz", "not a permission"),
        (values.count, "0", "must be between 1 and 9223372036854775807, not 0"),
        (values.count, "9223372036854775808", "must be between 1 and 9223372036854775807"),
        (values.count, "abc", "not an integer"),
        (values.count, "1_0", "not an integer"),
        (values.count, " 1", "not an integer"),
        (values.count, "\u0661", "not an integer"),
        (values.whole, "-1", "must be between 0 and 9223372036854775807, not -1"),
        (values.whole, "0x8000000000000000", "must be between 0 and 9223372036854775807"),
        (values.whole, "0x1_0", "not an integer"),
        (values.int32, "-1", "must be between 0 and 2147483647, not -1"),
        (values.int32, "2147483648", "must be between 0 and 2147483647"),
        (values.positive_int32, "0", "must be between 1 and 2147483647, not 0"),
        (values.positive_int32, "9" * 5000, "not an integer"),
        (values.per_second, "abc", "not a rate"),
        (values.per_second, "1_0", "not a rate"),
        (values.per_second, "0", "must be greater than 0"),
        (values.heap_size, "big", "not a Java heap size"),
        (values.heap_size, "\u0661g", "not a Java heap size"),
        (values.topic_name, "no spaces", "illegal|allowed|character"),
        (values.attribute, "message.type=FIFO", "neither"),
        (values.pair, "a", "not name=value"),
        (values.time_range, "..", "both ends"),
    ],
)
def test_an_invalid_text_has_a_reason(parse, text, reason) -> None:
    with pytest.raises(ValueError, match=reason):
        parse(text)


def test_a_permission_is_shown_as_java_shows_it() -> None:
    assert [values.perm_text(bits) for bits in (0, 2, 4, 6)] == ["---", "-W-", "R--", "RW-"]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("1k", 1 << 10),
        ("3K", 3 << 10),
        ("2m", 2 << 20),
        ("1024M", 1 << 30),
        ("1073741824", 1 << 30),
    ],
)
def test_a_size_is_a_number_of_bytes_or_binary_units(text: str, size: int) -> None:
    assert values.byte_size(text) == size


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not an integer"),
        ("k", "not an integer"),
        ("1g", "not an integer"),
        ("1.5k", "not an integer"),
        ("0", "between 1 and"),
        ("0k", "between 1 and"),
        ("-1m", "between 1 and"),
        ("1025m", "more than 1024m"),
        ("1073741825", "more than 1024m"),
    ],
)
def test_a_size_out_of_range_has_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        values.byte_size(text)


@pytest.mark.parametrize("form", ["table", "json", "prometheus", "jsonpath=$.items", "jsonpath="])
def test_an_output_format_is_kept(form: str) -> None:
    assert values.output_form(form) == form


@pytest.mark.parametrize("form", ["", "xml", "JSON", "jsonpath", "csv=x"])
def test_an_unknown_output_format_lists_the_known_ones(form: str) -> None:
    with pytest.raises(ValueError, match=r"is not one of table, wide, json, .*jsonpath=EXPR"):
        values.output_form(form)


def test_start_positions_are_words_or_times() -> None:
    assert values.start_position("earliest") == "earliest"
    assert values.start_position("latest") == "latest"
    assert values.start_position("1700000000") == 1_700_000_000_000
    assert values.start_position("2023-11-14T22:13:20Z") == 1_700_000_000_000


def test_a_start_word_is_checked_and_resolved_later() -> None:
    assert values.start_word("-2h") == "-2h"
    with pytest.raises(ValueError, match="not a time"):
        values.start_word("first")


def test_now_and_the_past_are_reckoned_from_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values.time, "time", lambda: 1_700_000_000.5)
    assert values.time_ms("now") == 1_700_000_000_500
    assert values.time_ms("-1m") == 1_699_999_940_500


@pytest.mark.parametrize("text", ["-2h..", "..now", "1700000000..1700000001"])
def test_a_range_may_have_one_open_end(text: str) -> None:
    assert values.time_range(text) == text


@pytest.mark.parametrize("text", ["", "now", "a..b", "..", "now..now..now"])
def test_an_invalid_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        values.time_range(text)


@pytest.mark.parametrize(
    ("text", "rate"), [("50", 50.0), ("0.25/s", 0.25), ("1e3", 1000.0), ("999999999", 999999999.0)]
)
def test_a_rate_may_be_a_fraction(text: str, rate: float) -> None:
    assert values.per_second(text) == rate


@pytest.mark.parametrize("text", ["-1", "0/s", "nan", "inf", "1e9", "5/m", "", "/s"])
def test_a_rate_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"per second|not a rate"):
        values.per_second(text)


@pytest.mark.parametrize("text", ["512m", "2g", "1K", "64G"])
def test_a_heap_size_is_kept_as_java_reads_it(text: str) -> None:
    assert values.heap_size(text) == text


@pytest.mark.parametrize("text", ["", "m", "512", "0m", "-1m", "1.5g", "2t", "512 m"])
def test_an_invalid_heap_size_has_examples(text: str) -> None:
    with pytest.raises(ValueError, match=r"examples: 512m, 2g"):
        values.heap_size(text)


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("007", None), ("0x1F", 31), ("0b11", 3), ("18", 18)]
)
def test_an_offset_may_be_hexadecimal_and_has_no_leading_zeros(
    text: str, number: int | None
) -> None:
    if number is None:
        with pytest.raises(ValueError, match="not an integer"):
            values.whole(text)
    else:
        assert values.whole(text) == number


@pytest.mark.parametrize("text", ["+a", "+=b", "+a=", "-a=b", "-", "", "a=b", "+"])
def test_an_attribute_change_is_a_sign_and_a_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"neither \+name=value nor -name"):
        values.attribute(text)


def test_the_value_of_an_attribute_may_have_any_text() -> None:
    assert values.attribute("+a==b c") == "+a==b c"


@pytest.mark.parametrize("text", ["=b", "", "ab"])
def test_a_pair_has_a_name_and_an_equals_sign(text: str) -> None:
    with pytest.raises(ValueError, match="is not name=value"):
        values.pair(text)


@pytest.mark.parametrize(("text", "bits"), [("r", 4), ("w", 2), ("rw", 6), ("2", 2), ("6", 6)])
def test_permissions_by_word_and_by_number(text: str, bits: int) -> None:
    assert values.perm(text) == bits


def test_the_reserved_properties_that_are_accepted_are_those_that_senders_set() -> None:
    accepted = []
    for name in sorted(RESERVED_PROPERTIES):
        try:
            values.user_property(f"{name}=1")
        except ValueError:
            continue
        accepted.append(name)
    assert accepted == [
        *("BUYER_ID", "CHECK_IMMUNITY_TIME_IN_SECONDS", "INNER_MULTI_DISPATCH", "INSTANCE_ID"),
        *("RETRY_TOPIC", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS"),
        *("TRACE_CONTEXT", "WAIT", "__SHARDINGKEY"),
    ]
