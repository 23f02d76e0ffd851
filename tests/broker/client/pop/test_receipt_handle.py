"""Receipt handles, built as the Java client builds them."""

import pytest

from broker.client.pop.receipt_handle import (
    ReceiptHandle,
    attach_handles,
    handle_of,
    parse_offset_info,
    retry_flag_of,
)
from broker.errors import ClientError, RemoteProtocolError
from broker.message.message import MessageExt
from broker.remoting.protocol.header.consumer.pop import PopMessageResponseHeader

TEXT = "120 1700000000000 60000 3 0 broker-a 1 121"


def header(**fields: object) -> PopMessageResponseHeader:
    values = {"pop_time": 1_000, "invisible_time": 60_000, "revive_qid": 3, "rest_num": 0}
    return PopMessageResponseHeader(**{**values, **fields})  # type: ignore[arg-type]


def popped(*places: tuple[str, int, int]) -> list[MessageExt]:
    return [MessageExt(topic, b"x", queue_id=q, queue_offset=offset) for topic, q, offset in places]


def attach(messages: list[MessageExt], **fields: object) -> list[str]:
    attach_handles(messages, header(**fields), topic="T", group="g", broker_name="broker-a")
    return [handle_of(message).text for message in messages]


def test_a_handle_survives_a_round_trip() -> None:
    assert ReceiptHandle.parse(TEXT).text == TEXT


@pytest.mark.parametrize("text", ["", TEXT[:-4], TEXT + " 7", TEXT.replace("60000", "x"), "1 " * 8])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ClientError, match="receipt handle"):
        ReceiptHandle.parse(text)


def test_each_message_gets_the_entry_of_its_place_in_the_queue() -> None:
    messages = popped(("T", 1, 125), ("T", 1, 120), ("T", 0, 7))
    assert attach(
        messages, start_offset_info="0 1 118;0 0 7", msg_offset_info="0 1 120,125;0 0 7"
    ) == [
        "118 1000 60000 3 0 broker-a 1 125",
        "118 1000 60000 3 0 broker-a 1 120",
        "7 1000 60000 3 0 broker-a 0 7",
    ]
    assert messages[0].get_property("1ST_POP_TIME") == "1000"


def test_without_offset_information_the_first_message_is_the_start() -> None:
    assert attach(popped(("T", 1, 125), ("T", 1, 120))) == [
        "120 1000 60000 3 0 broker-a 1 125",
        "120 1000 60000 3 0 broker-a 1 120",
    ]


def test_messages_of_the_retry_topic_are_acknowledged_there() -> None:
    for retry_topic, flag in (("%RETRY%g_T", "1"), ("%RETRY%g+T", "2")):
        messages = popped((retry_topic, 0, 5))
        attach(messages, start_offset_info=f"{flag} 0 5", msg_offset_info=f"{flag} 0 5")
        handle = handle_of(messages[0])
        assert (handle.retry_flag, handle.topic("T", "g")) == (flag, retry_topic)
        assert messages[0].topic == "T"
    assert retry_flag_of("T", "T", "g") == "0"


def test_a_handle_that_the_broker_attached_is_kept() -> None:
    message = MessageExt("T", b"x", f"POP_CK\x01{TEXT}\x02".encode())
    assert attach([message], start_offset_info="1 0 5") == [TEXT]


@pytest.mark.parametrize(
    "fields",
    [
        {"start_offset_info": "0 9 5", "msg_offset_info": "0 1 120,125"},
        {"start_offset_info": "0 1 5", "msg_offset_info": "0 1 120"},
        {"start_offset_info": "nonsense"},
        {"start_offset_info": "0 1 x"},
    ],
)
def test_a_header_that_does_not_fit_the_messages_is_an_error(fields: dict[str, str]) -> None:
    with pytest.raises(RemoteProtocolError, match="pop response"):
        attach(popped(("T", 1, 125), ("T", 1, 120)), **fields)


def test_offset_information_is_read_per_queue() -> None:
    assert parse_offset_info("0 3 120,121;1 0 7;") == {("0", 3): [120, 121], ("1", 0): [7]}
    assert parse_offset_info(None) == {}
