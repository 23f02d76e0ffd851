"""Delay levels and the rows of messages that wait."""

import pytest

from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from mqadmin.system_topics.delay_levels import (
    DELAY_LEVELS,
    DelayFilter,
    delayed_row,
    level_row,
    parse_levels,
)


@pytest.mark.parametrize(
    ("text", "delays"),
    [("1s 2m", [1000, 120_000]), ("3h 1d", [10_800_000, 86_400_000]), ("x 1s 5", [0, 1000, 0])],
)
def test_delays_of_the_levels(text: str, delays: list[int]) -> None:
    assert parse_levels(text) == delays


def test_the_default_has_18_levels() -> None:
    assert len(parse_levels(DELAY_LEVELS)) == 18


def test_a_backlog_is_never_negative() -> None:
    row = level_row("b", 3, 10_000, (7, 5), None, 0)
    assert (row.backlog, row.queue_id, row.next_due_in_ms) == (0, 2, None)


def test_a_waiting_message_has_its_real_topic() -> None:
    properties = encode_properties({"REAL_TOPIC": "T", "REAL_QID": "4", "KEYS": "a b"})
    message = MessageExt("SCHEDULE_TOPIC_XXXX", b"", properties, queue_id=2)
    row = delayed_row(message, "b", 5_000, 6_000)
    assert (row.level, row.topic, row.queue_id, row.keys) == (3, "T", 4, ["a", "b"])
    assert row.due_in_ms == -1_000
    assert DelayFilter(topic="T").accepts(row)
    assert not DelayFilter(topic="U").accepts(row)


@pytest.mark.parametrize("word", ["²s", "1²s", "s", "-1s", "+1s", "1S", "1w", "1.5s", "1 s"])
def test_an_invalid_word_is_a_level_without_delay_and_never_an_error(word: str) -> None:
    assert set(parse_levels(word)) == {0}


def test_the_number_of_levels_is_the_number_of_words(rng) -> None:
    for _ in range(300):
        words = ["".join(rng.choices("0123456789smhdx²٣.-", k=rng.randint(1, 4)))
                 for _ in range(rng.randint(0, 20))]  # fmt: skip
        delays = parse_levels(" ".join(words))
        assert len(delays) == len(words)
        assert all(delay >= 0 for delay in delays)
