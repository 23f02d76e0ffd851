import io
import json
import random
from collections.abc import Iterator

import pytest

from broker.errors import ConfigError
from mqadmin.traffic.input import (
    FORMATS,
    LINE_LIMIT_BYTES,
    PAUSE,
    Found,
    Line,
    read_bodies,
    read_csv,
    read_lines,
    read_ndjson,
)
from mqadmin.traffic.outgoing import BadInput, InputMessage


def lines(data: bytes) -> Iterator[Line]:
    return read_lines(io.BytesIO(data))


def messages(found: Iterator[Found]) -> list[InputMessage]:
    kept = [one for one in found if one is not PAUSE]
    assert all(isinstance(one, InputMessage) for one in kept), kept
    return kept  # type: ignore[return-value]


def bad(found: Iterator[Found]) -> BadInput:
    (one,) = (one for one in found if one is not PAUSE)
    assert isinstance(one, BadInput)
    return one


def test_lines_are_the_same_however_the_stream_is_cut(rng: random.Random) -> None:
    for _ in range(200):
        parts = [bytes(rng.choices(b"ab\r", k=rng.randrange(5))) for _ in range(rng.randrange(6))]
        data = b"\n".join(parts)
        cuts = [*sorted(rng.randrange(len(data) + 1) for _ in range(4)), len(data)]
        blocks = [data[a:b] for a, b in zip([0, *cuts], cuts, strict=False) if a < b]
        found = list(read_lines(io.BytesIO(), read=lambda left=[*blocks, b""]: left.pop(0)))
        wanted = [part.removesuffix(b"\r") for part in data.split(b"\n")]
        if data.endswith(b"\n") or not data:
            wanted.pop()
        assert [one.raw for one in found] == wanted
        assert [one.number for one in found] == list(range(1, len(wanted) + 1))


def test_the_last_line_that_has_arrived_is_marked() -> None:
    blocks = [b"a\nb\nc", b"d\n", b"e", b""]
    found = list(read_lines(io.BytesIO(), read=lambda: blocks.pop(0)))
    assert [(one.raw, one.last) for one in found] == [
        (b"a", False),
        (b"b", True),
        (b"cd", True),
        (b"e", True),
    ]


def test_a_line_above_the_limit_is_reported_and_not_kept() -> None:
    blocks = [b"x" * 50] * 10 + [b"\nshort\n", b""]
    found = list(read_lines(io.BytesIO(), limit_bytes=100, read=lambda: blocks.pop(0)))
    assert [one.raw for one in found] == [None, b"short"]
    assert "longer than" in bad(read_bodies(iter([Line(1, None, True)]), 1)).reason


def test_each_line_is_a_body_and_empty_lines_are_skipped() -> None:
    found = messages(read_bodies(lines(b"one\n\ntwo\r\n"), 1))
    assert [(one.line, one.body) for one in found] == [(1, b"one"), (3, b"two")]


@pytest.mark.parametrize("form", FORMATS)
def test_lines_before_the_first_one_are_skipped(form: str) -> None:
    data = {
        "lines": b"a\nb\nc\n",
        "ndjson": b"".join(b'{"body":"%c"}\n' % char for char in b"abc"),
        "csv": b"body\nb\nc\n",
    }[form]
    found = messages(FORMATS[form](lines(data), 3))
    assert [(one.line, one.body) for one in found] == [(3, b"c")]


def test_a_pause_follows_the_last_message_of_each_block() -> None:
    blocks = [b"a\nb\n", b"c\n", b""]
    stream = read_lines(io.BytesIO(), read=lambda: blocks.pop(0))
    assert [one is PAUSE for one in read_bodies(stream, 1)] == [False, False, True, False, True]


def test_a_csv_row_is_returned_before_the_next_block_is_read() -> None:
    taken: list[int] = []

    def read() -> bytes:
        taken.append(1)
        return [b"body\nx\n", b"y\n", b""][len(taken) - 1]

    found = read_csv(read_lines(io.BytesIO(), read=read), 1)
    next(found)
    assert next(found) is PAUSE
    assert len(taken) == 1


def test_ndjson_has_the_form_that_queries_print() -> None:
    row = {
        "topic": "orders",
        "body": "aGk=",
        "bodyEncoding": "base64",
        "tags": "t",
        "keys": ["k1", "k2"],
        "properties": {"p": "1"},
        "flag": 7,
        "queueId": 2,
        "brokerName": "b",
        "storeTimestamp": 1,
        "unknown": [],
    }
    (one,) = messages(read_ndjson(lines(json.dumps(row).encode()), 1))
    assert (one.topic, one.body, one.tags, one.keys) == ("orders", b"hi", "t", ["k1", "k2"])
    assert (one.flag, one.queue_id, one.broker_name, one.properties) == (7, 2, "b", {"p": "1"})


def test_stored_bytes_are_decompressed() -> None:
    import zlib

    stored = zlib.compress(b"long" * 100)
    row = {"body": stored.hex(), "bodyEncoding": "hex", "sysFlag": 1, "bodySize": len(stored)}
    (one,) = messages(read_ndjson(lines(json.dumps(row).encode()), 1))
    assert one.body == b"long" * 100


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"hello", "not JSON"),
        (b'{"tags":"t"}', "no body"),
        (b'{"body":"zz","bodyEncoding":"hex"}', "field body: it is not valid hex"),
        (b'{"body":"z","bodyEncoding":"base64"}', "field body: it is not valid base64"),
        (b'{"body":"zz","bodyEncoding":"rot13"}', 'field bodyEncoding: "rot13" is not utf-8, hex'),
        (b'{"body":5}', "field body: 5 is not a text"),
        (b'{"body":"\xff"}', "not valid UTF-8 (byte 10)"),
    ],
)
def test_an_invalid_line_has_a_reason(line: bytes, reason: str) -> None:
    one = bad(read_ndjson(lines(line), 1))
    assert one.line == 1
    assert reason in one.reason


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_json_document_is_refused_with_the_right_option(mark: bytes) -> None:
    with pytest.raises(ConfigError, match="not NDJSON") as error:
        list(read_ndjson(lines(mark + b'{"schema":"mqadmin.msg.query/1","items":[\n'), 1))
    assert "-o ndjson" in error.value.hint


def test_a_byte_order_mark_before_the_first_line_is_skipped() -> None:
    mark = b"\xef\xbb\xbf"
    (one,) = messages(read_ndjson(lines(mark + b'{"body":"a"}\n'), 1))
    assert one.body == b"a"
    found = list(read_ndjson(lines(b'{"body":"a"}\n' + mark + b'{"body":"b"}'), 1))
    assert [type(one) for one in found if one is not PAUSE] == [InputMessage, BadInput]


def test_csv_columns_have_their_meaning_and_others_are_properties() -> None:
    data = (
        b"\xef\xbb\xbfbody,keys,tags,region,storeTimestamp,properties\r\n"
        b'"two\nlines",k1 k2,t,eu,17,"{""p"":""1""}"\r\n'
        b"x,,,,,\r\n"
    )
    first, second = messages(read_csv(lines(data), 1))
    assert (first.body, first.keys, first.tags) == (b"two\nlines", ["k1", "k2"], "t")
    assert first.properties == {"p": "1", "region": "eu"}
    assert (first.line, second.line) == (2, 4)
    assert (second.keys, second.tags, second.properties) == ([], None, {})


def test_csv_without_a_body_column_sends_the_row_as_json() -> None:
    (one,) = messages(read_csv(lines("id,name\n5,Zoë\n".encode()), 1))
    assert json.loads(one.body) == {"id": "5", "name": "Zoë"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"body,tags\nx\n", "1 cells, the header 2"),
        (b"body\n\xff\n", "not valid UTF-8"),
        (b"body,flag\nx,seven\n", 'field flag: "seven" is not an integer'),
        (b"body,delayMs\nx,-1\n", "field delayMs: -1 is not a number of milliseconds"),
        (b'body,properties\nx,"{"\n', "field properties: { is not JSON"),
        (b'body,properties\nx,"{""a"":1}"\n', "the value of a is 1, not a text"),
        (b'body,keys\nx,"[1]"\n', "field keys: [1] is not a text or a list of texts"),
        (b"body,bodyEncoding\nx,rot13\n", 'field bodyEncoding: "rot13"'),
        (b'body\n"x"y\n', "CSV"),
    ],
)
def test_an_invalid_csv_row_has_a_reason(data: bytes, reason: str) -> None:
    assert reason in bad(read_csv(lines(data), 1)).reason


def test_a_missing_quote_does_not_read_the_rest_of_the_input() -> None:
    line = b"x" * (1 << 20) + b"\n"
    data = b'body\n"' + line * (LINE_LIMIT_BYTES // len(line) + 2)
    with pytest.raises(ConfigError, match="longer than") as error:
        list(read_csv(lines(data), 1))
    assert "quote" in error.value.hint


def test_a_column_named_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="twice"):
        list(read_csv(lines(b"body,body\n1,2\n"), 1))
