"""The message record: bodies as asked, inner batches taken apart."""

import zlib

import msgspec
import pytest

from broker.common import sysflag
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import MAGIC_V1, body_crc
from mqadmin.admin.message.record import BodyView, MessageRow, record_of, unwrapped

FIELDS = [
    "topic",
    "brokerName",
    "queueId",
    "queueOffset",
    "physicalOffset",
    "storeSize",
    "magic",
    "bodyCrc",
    "crcOk",
    "flag",
    "sysFlag",
    "bornTimestamp",
    "bornHost",
    "storeTimestamp",
    "storeHost",
    "reconsumeTimes",
    "preparedTransactionOffset",
    "bodySize",
    "body",
    "bodyEncoding",
    "tags",
    "keys",
    "uniqKey",
    "offsetMsgId",
    "properties",
]


def message(body=b"hi", **fields):
    return MessageExt(
        "t",
        body,
        encode_properties({"KEYS": "a b", "TAGS": "T", "UNIQ_KEY": "U", "x": "1"}),
        body_crc=body_crc(body),
        magic=MAGIC_V1,
        **fields,
    )


def test_the_fields_are_the_contract() -> None:
    assert list(MessageRow.__struct_encode_fields__) == FIELDS


def test_keys_tags_and_ids() -> None:
    record = record_of(message(physical_offset=7), "broker-a")
    assert (record.keys, record.tags, record.uniq_key) == (["a", "b"], "T", "U")
    assert record.properties["x"] == "1"
    assert record.offset_msg_id.endswith("0007")
    assert record.crc_ok
    assert record.magic == "DAA320A7"
    assert (record.body, record.body_encoding) == (None, None)
    assert msgspec.to_builtins(record)["brokerName"] == "broker-a"


def test_a_wrong_crc_is_reported() -> None:
    broken = message()
    broken.body = b"ho"
    assert not record_of(broken, None).crc_ok


@pytest.mark.parametrize(
    ("view", "body", "shown"),
    [
        (BodyView(encoding="text"), b"hi", ("hi", "utf-8")),
        (BodyView(encoding="text"), b"\xff\xfe", ("fffe", "hex")),
        (BodyView(encoding="hex"), b"hi", ("6869", "hex")),
        (BodyView(encoding="base64"), b"hi!", ("aGkh", "base64")),
        (BodyView(), b"hi", (None, None)),
    ],
)
def test_bodies(view, body, shown) -> None:
    record = record_of(message(body), None, view)
    assert (record.body, record.body_encoding) == shown


def test_compressed_bodies_are_expanded_unless_raw() -> None:
    packed = zlib.compress(b"long " * 100)
    one = message(packed, sys_flag=sysflag.COMPRESSED | sysflag.COMPRESSION_ZLIB)
    shown = record_of(one, None, BodyView(encoding="text"))
    assert shown.body == "long " * 100
    assert shown.body_size == len(packed)
    raw = record_of(one, None, BodyView(encoding="hex", raw=True))
    assert raw.body == packed.hex()


def test_a_body_that_does_not_expand_is_shown_as_it_is() -> None:
    one = message(b"no zlib", sys_flag=sysflag.COMPRESSED | sysflag.COMPRESSION_ZLIB)
    assert record_of(one, None, BodyView(encoding="text")).body_encoding == "hex"


def test_messages_outside_batches_pass_through() -> None:
    one = message()
    assert list(unwrapped([one])) == [one]
