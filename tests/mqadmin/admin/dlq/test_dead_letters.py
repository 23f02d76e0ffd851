"""Dead letters read from files, in every format that commands write."""

import base64
import json
import zlib

import pytest

from broker.common import sysflag
from broker.errors import ConfigError
from mqadmin.admin.dlq.dead_letters import read_dead_letters

ROW = {
    "topic": "%DLQ%billing",
    "offsetMsgId": "7F00000100002A9F0000000000000000",
    "uniqKey": "A" * 32,
    "keys": ["42"],
    "flag": 7,
    "bornTimestamp": 1_700_000_000_000,
    "reconsumeTimes": 3,
    "properties": {"KEYS": "42", "RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "B" * 32},
    "body": base64.b64encode(b"\x00body").decode(),
    "bodyEncoding": "base64",
    "bodySize": 5,
    "somethingNew": 1,
}


def lines(*rows: dict) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def test_a_line_is_a_letter() -> None:
    (letter,) = read_dead_letters(b"\n" + lines(ROW), "f")
    assert (letter.group, letter.origin_topic, letter.origin_id) == ("billing", "orders", "B" * 32)
    assert (letter.body, letter.flag, letter.keys) == (b"\x00body", 7, ["42"])
    assert (letter.born_timestamp, letter.reconsume_times) == (1_700_000_000_000, 3)


def test_a_document_of_json_is_read_like_lines() -> None:
    document = {"schema": "mqadmin.dlq.show/1", "items": [ROW, ROW], "truncated": False}
    assert read_dead_letters(json.dumps(document, indent=2).encode(), "f") == read_dead_letters(
        lines(ROW, ROW), "f"
    )


@pytest.mark.parametrize(
    ("encoding", "text"), [("utf-8", "\0body"), ("hex", "00626f6479"), ("base64", "AGJvZHk=")]
)
def test_bodies_in_every_encoding(encoding: str, text: str) -> None:
    (letter,) = read_dead_letters(lines({**ROW, "body": text, "bodyEncoding": encoding}), "f")
    assert letter.body == b"\x00body"


def test_stored_bytes_of_a_compressed_body_are_unpacked() -> None:
    packed = zlib.compress(b"long " * 1000)
    for body in (packed, b"long " * 1000):
        row = {
            **ROW,
            "sysFlag": sysflag.COMPRESSED,
            "bodySize": len(packed),
            "body": base64.b64encode(body).decode(),
        }
        (letter,) = read_dead_letters(lines(row), "f")
        assert letter.body == b"long " * 1000


def test_the_origin_named_for_dead_letters_comes_before_that_of_retries() -> None:
    own = {**ROW["properties"], "DLQ_ORIGIN_TOPIC": "first", "DLQ_ORIGIN_MESSAGE_ID": "C" * 32}
    (letter,) = read_dead_letters(lines({**ROW, "properties": own}), "f")
    assert (letter.origin_topic, letter.origin_id) == ("first", "C" * 32)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({**ROW, "topic": "orders"}, "topic orders is not a dead letter"),
        ({**ROW, "topic": "%DLQ%"}, "is not a dead letter"),
        ({**ROW, "body": None}, "has no body to send"),
        ({**ROW, "body": "not base64!"}, "the body of message"),
        ({**ROW, "properties": None}, "no message"),
        ({"topic": "%DLQ%g"}, "no message"),
        ([1], "no message"),
    ],
)
def test_an_invalid_dead_letter_is_reported_with_its_line(row: object, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"file, line 2: .*{reason}"):
        read_dead_letters(lines(ROW) + json.dumps(row).encode(), "file")


def test_bytes_that_cannot_be_decoded_are_not_a_message() -> None:
    with pytest.raises(ConfigError, match="line 1: no message"):
        read_dead_letters(b"\xff\xfe\x00", "file")
    assert read_dead_letters(b"", "file") == []


def test_a_file_may_begin_with_a_byte_order_mark() -> None:
    """Editors and shells on Windows write one."""
    assert read_dead_letters(b"\xef\xbb\xbf" + lines(ROW), "f") == read_dead_letters(
        lines(ROW), "f"
    )
