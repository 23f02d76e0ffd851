"""Receipt handles and the offset strings of pop responses."""

import pytest

from broker.errors import RemoteProtocolError
from broker.message.receipt_handle import (
    ReceiptHandle,
    decode_handle,
    encode_handle,
    message_offset_item,
    offset_count_item,
    queue_count_item,
    real_topic,
    retry_flag,
    start_offset_item,
)

TEXT = "5 1795180584783 4000 1 0 broker-a5 0 6"


def test_a_recorded_handle_has_eight_fields() -> None:
    handle = decode_handle(TEXT)
    assert handle == ReceiptHandle(5, 1795180584783, 4000, 1, "0", "broker-a5", 0, 6)
    assert (handle.due_ms, handle.ordered) == (1795180588783, False)
    assert encode_handle(handle) == TEXT


def test_recorded_handles_encode_to_the_same_text(golden_expect) -> None:
    handles = [pop["popCk"] for pop in golden_expect("pop-533")["notes"]["pops"]]
    assert handles
    assert [encode_handle(decode_handle(text)) for text in handles] == handles


def test_a_handle_without_queue_offset_has_seven_fields() -> None:
    handle = decode_handle(TEXT.rpartition(" ")[0])
    assert handle.queue_offset == -1
    assert encode_handle(handle) == TEXT.rpartition(" ")[0]


def test_queue_999_marks_an_ordered_pop() -> None:
    assert decode_handle("5 1 2 999 0 b 0 5").ordered


@pytest.mark.parametrize(
    "text",
    ["", " ", "1 2 3", "a 1 2 3 0 b 0 1", "1 2 3 x 0 b 0 1", "1 2 3 99999999999 0 b 0 1",
     "1 2 3 4 0 b q 1", "1 2 3 4 0 b 0 z", "1" * 2000, "1 99999999999999999999 3 4 0 b 0 1"],
)  # fmt: skip
def test_an_invalid_handle_is_refused(text) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_handle(text)


def test_a_cut_handle_is_refused_or_has_fewer_digits() -> None:
    for length in range(len(TEXT)):
        try:
            assert decode_handle(TEXT[:length]).start_offset == 5
        except RemoteProtocolError:
            continue


def test_the_flag_names_the_kind_of_the_topic() -> None:
    assert retry_flag("T", "G", "T") == "0"
    assert retry_flag("%RETRY%G_T", "G", "T") == "1"
    assert retry_flag("%RETRY%G+T", "G", "T") == "2"
    for flag, topic in (("0", "T"), ("1", "%RETRY%G_T"), ("2", "%RETRY%G+T"), (None, "T")):
        assert real_topic("T", "G", flag) == topic


def test_items_of_the_offset_strings() -> None:
    assert start_offset_item("0", 3, 120) == "0 3 120"
    assert message_offset_item("0", 3, [120, 121, 125]) == "0 3 120,121,125"
    assert queue_count_item("0", 3, 1) == "0 3 1"
    assert offset_count_item("0", 3, 120, 2) == "0 qo3%120 2"
