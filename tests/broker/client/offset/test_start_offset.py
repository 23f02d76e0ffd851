"""Where a group without stored offset starts."""

import pytest

from broker.client.offset.start_offset import ConsumeFromWhere, StartFrom, start_without_offset


@pytest.mark.parametrize(
    ("where", "topic", "expected"),
    [
        ("CONSUME_FROM_LAST_OFFSET", "T", StartFrom.MAX_OFFSET),
        ("CONSUME_FROM_LAST_OFFSET", "%RETRY%g", StartFrom.ZERO),
        ("CONSUME_FROM_FIRST_OFFSET", "T", StartFrom.ZERO),
        ("CONSUME_FROM_FIRST_OFFSET", "%RETRY%g", StartFrom.ZERO),
        ("CONSUME_FROM_TIMESTAMP", "T", StartFrom.TIMESTAMP),
        ("CONSUME_FROM_TIMESTAMP", "%RETRY%g", StartFrom.MAX_OFFSET),
    ],
)
def test_start_by_rule_and_topic(where: str, topic: str, expected: StartFrom) -> None:
    assert start_without_offset(ConsumeFromWhere(where), topic) is expected
