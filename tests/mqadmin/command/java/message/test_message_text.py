"""A message as the Java tool prints it."""

from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import MAGIC_V1, decode_record, encode_record
from mqadmin.command.java.message.message_text import (
    decoded,
    message_line,
    properties_text,
    stamp,
)


def stored(body: bytes) -> MessageExt:
    properties = encode_properties({"KEYS": "k", "TAGS": "A"})
    return decode_record(encode_record(MessageExt("T", body, properties, magic=MAGIC_V1)))


def test_the_line_has_every_field_in_the_order_of_java() -> None:
    message = stored(b"\xff-")
    line = message_line(message, "broker-a", "text")
    names = [word.split("=")[0] for word in line.partition("MessageExt [")[2].split(", ")]
    assert names[:14] == [
        *("brokerName", "queueId", "storeSize", "queueOffset", "sysFlag", "bornTimestamp"),
        *("bornHost", "storeTimestamp", "storeHost", "msgId", "commitLogOffset", "bodyCRC"),
        *("reconsumeTimes", "preparedTransactionOffset"),
    ]
    assert "body=[-1, 45], transactionId='null'}] BODY: text" in line
    assert message_line(message, "broker-a", None).endswith(" BODY: ")


def test_invalid_bytes_of_a_body_are_replaced() -> None:
    assert decoded(stored(b"a\xff"), "UTF-8") == "a\N{REPLACEMENT CHARACTER}"


def test_maps_and_times_are_printed_as_java_does() -> None:
    assert properties_text({"a": "1", "b": "2"}) == "{a=1, b=2}"
    assert properties_text({}) == "{}"
    assert stamp(1_700_000_000_007) == "2023-11-14 22:13:20,007"
