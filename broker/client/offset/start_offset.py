"""Where the consumption of a queue starts.

===============  ==============  =========================================
rule             offset stored   nothing stored
===============  ==============  =========================================
last offset      stored          retry topic 0, else the max offset
first offset     stored          0
timestamp        stored          retry topic max offset, else by the time
===============  ==============  =========================================

**Source:** RocketMQ ``RebalancePushImpl#computePullFromWhereWithException``.
"""

from enum import Enum, StrEnum

from broker.common.topic import is_retry_topic


class ConsumeFromWhere(StrEnum):
    """Where a group without stored offset starts."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class StartFrom(Enum):
    """The source of a start offset."""

    ZERO = "offset 0"
    MAX_OFFSET = "the max offset"
    TIMESTAMP = "the offset at a time"


def start_without_offset(where: ConsumeFromWhere, topic: str) -> StartFrom:
    """Return the start of a queue for which no offset is stored."""
    retry = is_retry_topic(topic)
    if where is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET:
        return StartFrom.ZERO if retry else StartFrom.MAX_OFFSET
    if where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
        return StartFrom.ZERO
    return StartFrom.MAX_OFFSET if retry else StartFrom.TIMESTAMP
