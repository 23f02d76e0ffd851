"""Half messages: properties kept and changed, the record a producer is asked with."""

import pytest

from broker.message.properties import decode_properties
from broker.message.record import decode_record
from broker.message.transaction import check_times, real_place
from broker.server.transaction.half import (
    check_request,
    discard,
    is_prepared,
    prepare,
    renew,
    resume,
)
from broker.store.results import MessageExtBrokerInner


@pytest.mark.parametrize("text", ["true", "TRUE", "True"])
def test_tran_msg_makes_a_half_message_in_any_case(text: str) -> None:
    assert is_prepared({"TRAN_MSG": text}, 0, 0)


@pytest.mark.parametrize("properties", [{}, {"TRAN_MSG": "false"}, {"TRAN_MSG": "1"}])
def test_without_tran_msg_true_it_is_a_plain_message(properties: dict[str, str]) -> None:
    assert not is_prepared(properties, 0, 0)


def test_a_retried_message_with_a_delay_is_not_a_half_message() -> None:
    assert not is_prepared({"TRAN_MSG": "true"}, 1, 3)
    assert is_prepared({"TRAN_MSG": "true"}, 1, 0)
    assert is_prepared({"TRAN_MSG": "true"}, 0, 3)


def test_prepare_saves_the_real_place_and_clears_the_transaction_bits() -> None:
    inner = MessageExtBrokerInner("Orders", 3, b"b", sys_flag=0x5)
    properties = {"UNIQ_KEY": "U1", "TRAN_MSG": "true"}
    prepare(inner, properties)
    assert (inner.topic, inner.queue_id, inner.sys_flag) == ("RMQ_SYS_TRANS_HALF_TOPIC", 0, 1)
    assert properties == {
        "UNIQ_KEY": "U1",
        "TRAN_MSG": "true",
        "__transactionId__": "U1",
        "REAL_TOPIC": "Orders",
        "REAL_QID": "3",
    }


@pytest.mark.parametrize(
    "properties",
    [
        {"REAL_TOPIC": ""},
        {"REAL_QID": ""},
        {"REAL_QID": "-1"},
        {"REAL_QID": "x"},
        {"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC"},
    ],
)
def test_a_half_message_without_a_usable_real_place_has_none(half_message, properties) -> None:
    assert real_place(half_message(properties)) is None


def test_renewed_copy_counts_its_check_and_keeps_everything_else(half_message) -> None:
    half = half_message({"KEYS": "k"}, flag=9, reconsume_times=2, sys_flag=1)
    copy = renew(half)
    assert decode_properties(copy.properties) == half.properties | {"TRANSACTION_CHECK_TIMES": "1"}
    assert (copy.topic, copy.queue_id, copy.body) == (half.topic, 0, half.body)
    assert (copy.flag, copy.reconsume_times, copy.sys_flag) == (9, 2, 1)
    assert copy.born_timestamp == half.born_timestamp


@pytest.mark.parametrize(
    ("before", "after"), [("1", "2"), ("14", "15"), ("abc", "0"), ("-3", "-2")]
)
def test_checks_are_counted_as_java_counts_them(half_message, before: str, after: str) -> None:
    copy = renew(half_message({"TRANSACTION_CHECK_TIMES": before}))
    assert decode_properties(copy.properties)["TRANSACTION_CHECK_TIMES"] == after


def test_an_immune_copy_keeps_the_queue_offset_of_the_first_copy(half_message) -> None:
    first = decode_properties(renew(half_message(), immune=True).properties)
    assert first["TRAN_PREPARED_QUEUE_OFFSET"] == "7"
    half = half_message({"TRAN_PREPARED_QUEUE_OFFSET": "3"})
    assert (
        decode_properties(renew(half, immune=True).properties)["TRAN_PREPARED_QUEUE_OFFSET"] == "3"
    )


@pytest.mark.parametrize("times", [None, "3"])
def test_an_immune_copy_counts_no_check(half_message, times: str | None) -> None:
    half = half_message({"TRANSACTION_CHECK_TIMES": times} if times else None)
    copied = decode_properties(renew(half, immune=True).properties)
    assert copied.get("TRANSACTION_CHECK_TIMES") == times


def test_a_copy_drops_the_queue_offsets_drawn_for_its_original(half_message) -> None:
    half = half_message({"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "5"})
    for copy in (renew(half), discard(half), resume(half)):
        assert "INNER_MULTI_QUEUE_OFFSET" not in decode_properties(copy.properties)


def test_discarded_copy_has_body_and_properties_of_the_half(half_message) -> None:
    half = half_message({"TRANSACTION_CHECK_TIMES": "15"})
    copy = discard(half)
    assert (copy.topic, copy.queue_id) == ("TRANS_CHECK_MAX_TIME_TOPIC", 0)
    assert (copy.body, decode_properties(copy.properties)) == (half.body, half.properties)


def test_resumed_half_is_counted_from_zero(half_message) -> None:
    copy = resume(
        half_message({"TRANSACTION_CHECK_TIMES": "15"}, topic="TRANS_CHECK_MAX_TIME_TOPIC")
    )
    assert (copy.topic, copy.queue_id) == ("RMQ_SYS_TRANS_HALF_TOPIC", 0)
    assert decode_properties(copy.properties)["TRANSACTION_CHECK_TIMES"] == "0"


def test_check_request_names_the_copy_and_shows_the_real_place(half_message) -> None:
    half = half_message()
    fields, body = check_request(half, 12, 1_200, 1_000_100)
    shown = decode_record(body, check_crc=True)
    assert fields == {
        "topic": "RMQ_SYS_TRANS_HALF_TOPIC",
        "tranStateTableOffset": "12",
        "commitLogOffset": "1200",
        "offsetMsgId": shown.offset_msg_id,
        "msgId": "U1",
        "transactionId": "U1",
    }
    assert (shown.topic, shown.queue_id, shown.queue_offset) == ("Orders", 1, 12)
    assert (shown.physical_offset, shown.store_timestamp) == (1_200, 1_000_100)
    assert (shown.body, shown.properties_raw) == (half.body, half.properties_raw)


def test_a_half_without_a_real_topic_is_not_checked(half_message) -> None:
    assert check_request(half_message({"REAL_TOPIC": ""}), 1, 2, 3) is None


def test_check_times_are_absent_until_the_first_check(half_message) -> None:
    assert check_times(half_message()) is None
    assert check_times(half_message({"TRANSACTION_CHECK_TIMES": "4"})) == 4
