"""The end of a transaction: the clients that may end it, and the message that a commit stores."""

import msgspec
import pytest

from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.header.transaction import EndTransactionRequestHeader
from broker.server.transaction.end import check_end, committed, is_decision

HEADER = EndTransactionRequestHeader(
    producer_group="P1",
    tran_state_table_offset=7,
    commit_log_offset=700,
    commit_or_rollback=8,
    msg_id="U1",
)


def refusal(half, now_ms: int = 1_000_100, **changes):
    return check_end(half, msgspec.structs.replace(HEADER, **changes), now_ms, 6_000)


@pytest.mark.parametrize(
    ("value", "decides"), [(8, True), (12, True), (0, False), (4, False), (-1, False)]
)
def test_only_commit_and_rollback_decide(value: int, decides: bool) -> None:
    header = msgspec.structs.replace(HEADER, commit_or_rollback=value)
    assert is_decision(header) is decides


def test_the_producer_of_the_half_may_end_it(half_message) -> None:
    assert refusal(half_message()) is None


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"producer_group": "Foreign"}, "The producer group wrong"),
        ({"tran_state_table_offset": 8}, "The transaction state table offset wrong"),
        ({"commit_log_offset": 701}, "The commit log offset wrong"),
    ],
)
def test_wrong_group_or_position_is_a_system_error(half_message, changes, remark: str) -> None:
    assert refusal(half_message(), **changes) == (ResponseCode.SYSTEM_ERROR, remark)


def test_a_record_outside_the_half_topic_is_not_a_half_message(half_message) -> None:
    found = refusal(half_message(topic="Orders"))
    assert found == (ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")


def test_a_half_without_a_group_belongs_to_none(half_message) -> None:
    assert refusal(half_message({"PGROUP": ""})).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    ("seconds", "age_ms", "refused"),
    [
        ("10", 10_000, False),
        ("10", 10_001, True),
        ("1", 6_000, False),
        ("1", 6_001, True),
        ("x", 6_001, True),
    ],
)
def test_after_its_own_immunity_time_only_a_check_ends_a_half(
    half_message, seconds: str, age_ms: int, refused: bool
) -> None:
    half = half_message({"CHECK_IMMUNITY_TIME_IN_SECONDS": seconds})
    now_ms = half.born_timestamp + age_ms
    found = refusal(half, now_ms)
    assert (found is not None and found.code == ResponseCode.ILLEGAL_OPERATION) is refused
    assert refusal(half, now_ms, from_transaction_check=True) is None


def test_without_an_immunity_time_a_half_can_be_ended_at_any_age(half_message) -> None:
    assert refusal(half_message(), 1 << 60) is None


def test_committed_message_is_the_half_in_its_real_place(half_message) -> None:
    half = half_message({"KEYS": "k"}, flag=5, sys_flag=1)
    inner = committed(half)
    assert (inner.topic, inner.queue_id, inner.body) == ("Orders", 1, half.body)
    assert inner.properties == half.properties_raw
    assert (inner.flag, inner.sys_flag) == (5, 0x9)
    assert inner.prepared_transaction_offset == half.physical_offset
    assert inner.born_timestamp == half.born_timestamp
