"""Messages on the wire."""

import pytest

from broker.client.config import ProducerConfig
from broker.common import sysflag
from broker.common.message_queue import MessageQueue
from broker.errors import ClientError
from broker.message.batch import scan_batch
from broker.message.compression import decompress
from broker.message.message import Message
from broker.message.properties import decode_properties
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.header.send import decode_send_header
from broker.remoting.rpc.message_encoder import (
    encode_batch_message,
    encode_message,
    send_request,
)

CONFIG = ProducerConfig()
QUEUE = MessageQueue("T", "broker-a", 3)


def test_a_small_message_is_sent_as_it_is() -> None:
    message = Message("T", b"body", tags="A", keys=["k1", "k2"], flag=7)
    encoded = encode_message(message, CONFIG, topic="ns%T", new_key="KEY", namespace="ns")
    assert (encoded.body, encoded.sys_flag, encoded.msg_id) == (b"body", 0, "KEY")
    assert message.uniq_key == "KEY"
    command = send_request(encoded, QUEUE, "pg", CONFIG, born_timestamp_ms=5, unit_mode=True)
    header = decode_send_header(command)
    assert command.code == RequestCode.SEND_MESSAGE_V2
    assert (header.producer_group, header.topic, header.queue_id) == ("pg", "ns%T", 3)
    assert (header.flag, header.born_timestamp, header.unit_mode) == (7, 5, True)
    assert (header.default_topic, header.default_topic_queue_nums) == ("TBW102", 4)
    assert header.bname == "broker-a"
    assert decode_properties(header.properties or "") == {
        "TAGS": "A",
        "KEYS": "k1 k2",
        "WAIT": "true",
        "UNIQ_KEY": "KEY",
        "INSTANCE_ID": "ns",
    }


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("zlib", sysflag.COMPRESSION_ZLIB),
        ("lz4", sysflag.COMPRESSION_LZ4),
        ("zstd", sysflag.COMPRESSION_ZSTD),
    ],
)
def test_bodies_from_the_threshold_on_are_compressed(name: str, bits: int) -> None:
    config = ProducerConfig(compress_type=name)
    body = b"x" * 4_096
    encoded = encode_message(Message("T", body), config, topic="T", new_key="K")
    assert encoded.sys_flag == sysflag.COMPRESSED | bits
    assert len(encoded.body) < len(body)
    assert decompress(encoded.body, encoded.sys_flag, 10_000) == body
    small = encode_message(Message("T", body[1:]), config, topic="T", new_key="K")
    assert (small.sys_flag, small.body) == (0, body[1:])


def test_an_existing_key_is_kept_so_that_a_repeated_send_is_recognised() -> None:
    message = Message("T", b"x", properties={"UNIQ_KEY": "OLD"})
    assert encode_message(message, CONFIG, topic="T", new_key="NEW").msg_id == "OLD"


def test_a_half_message_is_marked() -> None:
    message = Message("T", b"x", properties={"TRAN_MSG": "true"})
    encoded = encode_message(message, CONFIG, topic="T", new_key="K")
    assert encoded.sys_flag == sysflag.TRANSACTION_PREPARED


def test_counters_of_a_retried_message_move_into_the_header() -> None:
    properties = {
        "RECONSUME_TIME": "3",
        "MAX_RECONSUME_TIMES": "16",
        "CONSUME_START_TIME": "1",
        "a": "b",
    }
    message = Message("%RETRY%g", b"x", properties=properties)
    encoded = encode_message(message, CONFIG, topic="%RETRY%g", new_key="K")
    assert (encoded.reconsume_times, encoded.max_reconsume_times) == (3, 16)
    left = decode_properties(encoded.properties)
    assert set(left) == {"a", "WAIT", "UNIQ_KEY"}


@pytest.mark.parametrize("name", ["RECONSUME_TIME", "MAX_RECONSUME_TIMES"])
@pytest.mark.parametrize("text", ["", "x", "1_0", "\u0661", "2147483648", "9" * 5_000])
def test_a_counter_that_is_not_a_number_is_refused_with_its_name(name: str, text: str) -> None:
    message = Message("%RETRY%g", b"x", properties={name: text})
    with pytest.raises(ClientError, match=f"property {name} is .*: not a 32-bit integer") as caught:
        encode_message(message, CONFIG, topic="%RETRY%g", new_key="K")
    assert len(caught.value.message) < 200
    other = Message("T", b"x", properties={name: text})
    assert encode_message(other, CONFIG, topic="T", new_key="K").reconsume_times == 0


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message("", b"x"), "blank"),
        (Message("bad topic", b"x"), "illegal character"),
        (Message("T", b""), "body"),
        (Message("T", b"x" * (4 * 1024 * 1024 + 1)), "limit"),
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), "reserved"),
    ],
)
def test_messages_that_no_broker_stores_are_refused_here(message: Message, reason: str) -> None:
    with pytest.raises(ClientError, match=reason):
        encode_message(message, CONFIG, topic=message.topic, new_key="K")


def test_a_batch_is_one_request_with_a_key_per_message() -> None:
    messages = [Message("T", b"%d" % number, tags="A") for number in range(3)]
    encoded = encode_batch_message(messages, CONFIG, topic="T", new_keys=["1", "2", "3"])
    assert encoded.msg_id == "1,2,3"
    items = list(scan_batch(encoded.body))
    assert [item.body for item in items] == [b"0", b"1", b"2"]
    assert [decode_properties(item.properties_raw)["UNIQ_KEY"] for item in items] == list("123")
    command = send_request(encoded, QUEUE, "pg", CONFIG, born_timestamp_ms=5)
    assert command.code == RequestCode.SEND_BATCH_MESSAGE
    header = decode_send_header(command)
    assert header.batch
    assert decode_properties(header.properties or "") == {"WAIT": "true"}


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "at least one"),
        ([Message("T", b"x"), Message("U", b"x")], "same topic"),
        ([Message("T", b"x"), Message("T", b"x", wait=False)], "WAIT"),
        ([Message("T", b"x", properties={"DELAY": "1"})], "delayed"),
        ([Message("%RETRY%g", b"x")], "retry topic"),
        ([Message("T", b"x" * 3_000_000)] * 2, "the batch has"),
    ],
)
def test_batches_that_brokers_refuse_are_refused_here(messages: list[Message], reason: str) -> None:
    topic = messages[0].topic if messages else "T"
    with pytest.raises(ClientError, match=reason):
        encode_batch_message(messages, CONFIG, topic=topic, new_keys=["k"] * len(messages))


@pytest.mark.parametrize("body", ["text", 42, ["x"]])
def test_a_body_that_is_not_bytes_is_refused_with_the_topic_and_the_next_step(body: object) -> None:
    message = Message("T", body)  # type: ignore[arg-type]
    reason = f"message to topic T: the body is a {type(body).__name__}, not bytes"
    for encode in (
        lambda: encode_message(message, CONFIG, topic="ns%T", new_key="K"),
        lambda: encode_batch_message([message], CONFIG, topic="ns%T", new_keys=["K"]),
    ):
        with pytest.raises(ClientError) as caught:
            encode()
        assert (caught.value.message, caught.value.hint) == (reason, "encode text: text.encode()")


@pytest.mark.parametrize("body", [bytearray(b"abc"), memoryview(b"abc")])
def test_every_kind_of_bytes_is_a_body(body: bytes) -> None:
    assert bytes(encode_message(Message("T", body), CONFIG, topic="T", new_key="K").body) == b"abc"


@pytest.mark.parametrize("properties", [{"n": 1}, {"DELAY": 3}, {1: "n"}, {"n": b"x"}, {"n": None}])
def test_a_property_that_is_not_text_is_refused_with_the_topic(properties: dict[str, str]) -> None:
    message = Message("T", b"x", properties=properties)
    ((name, value),) = properties.items()
    reason = f"message to topic T: property {name!r} is {value!r}: names and values must be text"
    for encode in (
        lambda: encode_message(message, CONFIG, topic="T", new_key="K"),
        lambda: encode_batch_message([message], CONFIG, topic="T", new_keys=["K"]),
    ):
        with pytest.raises(ClientError) as caught:
            encode()
        assert (caught.value.message, caught.value.hint) == (reason, "convert it: str(value)")
