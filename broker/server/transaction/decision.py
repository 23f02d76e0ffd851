"""The decision of a check round about one half message that no op record lists.

**Source:** RocketMQ TransactionalMessageServiceImpl#check.
"""

from enum import Enum
from typing import NamedTuple

from broker.common.java import INT64_MAX, INT64_MIN, parse_number
from broker.message import message as props
from broker.message.message import MessageExt
from broker.message.transaction import check_times


class Verdict(Enum):
    """The treatment of a half message by a round."""

    DISCARD = "DISCARD"  # move it to TRANS_CHECK_MAX_TIME_TOPIC
    STOP = "STOP"  # it and the ones after it are too young: end the round
    RENEW = "RENEW"  # immune: append a newer copy, ask no producer
    CHECK = "CHECK"  # append a newer copy and ask a producer
    READ_OPS = "READ_OPS"  # an unread op record may list it


class CheckRules(NamedTuple):
    """The settings of a round: times in ms."""

    timeout_ms: int
    check_max: int
    reserved_ms: int


class OpsRead(NamedTuple):
    """The last read of the op queue: whether it returned records, born time of the last one."""

    found: bool
    last_born_ms: int = 0


def decide(
    half: MessageExt, ops: OpsRead, now_ms: int, started_ms: int, rules: CheckRules
) -> Verdict:
    """Return the verdict about a half message at ``now_ms`` in a round started at ``started_ms``.

    The caller ends the round at the queue's end of its start: Java compares store timestamps with
    the start instead, so that a clock set back stops its rounds.
    """
    times = check_times(half)
    age_ms = now_ms - half.born_timestamp
    if (times is not None and times >= rules.check_max) or age_ms > rules.reserved_ms:
        return Verdict.DISCARD
    immunity_ms = rules.timeout_ms
    text = half.get_property(props.PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS)
    if text is not None:
        seconds = parse_number(text, INT64_MIN, INT64_MAX)
        if seconds is not None and seconds != -1:
            immunity_ms = seconds * 1000
        if age_ms <= immunity_ms and prepared_offset(half) != -1:
            return Verdict.RENEW
    elif 0 <= age_ms <= immunity_ms:
        return Verdict.STOP
    if not ops.found:
        # An invalid prepared offset leaves an immune message here: Java waits for op records until
        # the round's time is over, which ends in the same state.
        return Verdict.CHECK if age_ms > immunity_ms or age_ms < 0 else Verdict.STOP
    if ops.last_born_ms - started_ms > rules.timeout_ms or age_ms < 0:
        return Verdict.CHECK
    return Verdict.READ_OPS


def prepared_offset(half: MessageExt) -> int | None:
    """Return the queue offset of the first copy of an immune half message.

    None for the first copy itself, -1 if the property is invalid.
    """
    text = half.get_property(props.PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET)
    if text is None:
        return None
    offset = parse_number(text, INT64_MIN, INT64_MAX)
    return -1 if offset is None else offset
