"""The row of a message: every field from the record, bodies in each encoding."""

import msgspec
import pytest

from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import decode_record, encode_record
from mqadmin.message_row import MessageRow, body_text, row_of


def stored() -> MessageExt:
    """A record as read back from a log."""
    properties = {"KEYS": "k1 k2", "TAGS": "TagA", "UNIQ_KEY": "U1", "x": "y"}
    message = MessageExt(
        "Topic",
        b"body",
        encode_properties(properties),
        queue_id=3,
        queue_offset=17,
        physical_offset=4096,
        flag=5,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        store_timestamp=1_700_000_000_005,
        born_host_raw=bytes((10, 1, 2, 3, 0, 0, 0xD4, 0x31)),
        store_host_raw=bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F)),
        reconsume_times=2,
        prepared_transaction_offset=9,
    )
    return decode_record(encode_record(message))


def test_a_row_contains_every_field_of_the_record() -> None:
    message = stored()
    row = row_of(message, "broker-a", crc_ok=True)
    assert (row.topic, row.broker_name, row.queue_id, row.queue_offset) == (
        "Topic",
        "broker-a",
        3,
        17,
    )
    assert (row.physical_offset, row.store_size) == (4096, message.total_size)
    assert (row.flag, row.reconsume_times, row.prepared_transaction_offset) == (5, 2, 9)
    assert (row.born_host, row.store_host) == ("10.1.2.3:54321", "127.0.0.1:10911")
    assert (row.tags, row.keys, row.uniq_key) == ("TagA", ["k1", "k2"], "U1")
    assert row.properties["x"] == "y"
    assert (row.body, row.body_encoding, row.body_size) == (None, None, 4)
    assert row.magic == "DAA320A7"
    assert row.offset_msg_id == "7F00000100002A9F0000000000001000"


def test_json_names_are_camel_case_and_all_fields_are_present() -> None:
    row = row_of(stored(), None, crc_ok=False, body="x", body_encoding="utf-8")
    fields = msgspec.to_builtins(row)
    assert list(fields) == list(MessageRow.__struct_encode_fields__)
    assert fields["brokerName"] is None
    assert fields["crcOk"] is False
    assert fields["bodyEncoding"] == "utf-8"


@pytest.mark.parametrize(
    ("data", "form", "expected"),
    [
        ("größe".encode(), "text", ("größe", "utf-8")),
        (b"\xff\x00", "text", ("ff00", "hex")),
        (b"\xff\x00", "hex", ("ff00", "hex")),
        (b"\xff\x00", "base64", ("/wA=", "base64")),
        (b"", "text", ("", "utf-8")),
        (b"", "base64", ("", "base64")),
    ],
)
def test_a_body_is_text_where_it_can_be(data: bytes, form: str, expected) -> None:
    assert body_text(data, form) == expected
