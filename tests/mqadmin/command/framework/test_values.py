"""Option texts: each function returns the value or raises ValueError with the reason."""

import pytest

from mqadmin.command.framework import values


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (values.duration_ms, "500ms", 500),
        (values.duration_ms, "2h", 7_200_000),
        (values.perm, "rw", 6),
        (values.perm, "4", 4),
        (values.count, "12", 12),
        (values.whole, "0x10", 16),
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
        (values.perm, "rwz", "not a permission"),
        (values.count, "0", "must be greater than 0"),
        (values.count, "abc", "not an integer"),
        (values.whole, "-1", "must not be negative"),
        (values.per_second, "abc", "not a rate"),
        (values.per_second, "0", "must be greater than 0"),
        (values.heap_size, "big", "not a Java heap size"),
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
