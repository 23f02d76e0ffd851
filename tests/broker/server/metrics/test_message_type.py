"""The message type of metrics follows the sender's properties, in Java's order."""

import pytest

from broker.server.metrics.message_type import DELAY, FIFO, NORMAL, TRANSACTION, message_type


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({}, NORMAL),
        ({"TAGS": "DELAY"}, NORMAL),
        ({"TRAN_MSG": "false"}, NORMAL),
        ({"TRAN_MSG": "true", "DELAY": "1", "__SHARDINGKEY": "k"}, TRANSACTION),
        ({"__SHARDINGKEY": "k", "DELAY": "1"}, FIFO),
        ({"DELAY": "3"}, DELAY),
        ({"__STARTDELIVERTIME": "1"}, DELAY),
        ({"TIMER_DELIVER_MS": "1"}, DELAY),
        ({"TIMER_DELAY_SEC": "1"}, DELAY),
        ({"TIMER_DELAY_MS": "1"}, DELAY),
    ],
)
def test_the_first_property_that_matches_decides(properties: dict[str, str], kind: str) -> None:
    assert message_type(properties) == kind
