import random
import sys
import tracemalloc
from contextlib import suppress

import pytest

from broker.errors import ForeignProtocolError, LocalProtocolError, RemoteProtocolError
from broker.remoting.protocol.command import RemotingCommand, request, response
from broker.remoting.protocol.framing import (
    FRAME_LIMIT_BYTES,
    FrameDecoder,
    encode_frame,
    encode_frame_parts,
    encode_reply_json,
)
from broker.remoting.protocol.serialize import MAX_HEADER_BYTES

KNOWN = bytes.fromhex(
    "00000028 01000022 0069 03 01df 00000007 00000000 00000000 0000000d 0005 746f706963"
    "00000002 5431 0102"
)


def test_the_known_frame_is_read_and_written():
    (command,) = FrameDecoder().feed(KNOWN)
    assert (command.code, command.language, command.version, command.opaque) == (
        105,
        "PYTHON",
        479,
        7,
    )
    assert command.ext_fields == {"topic": "T1"}
    assert command.body == b"\x01\x02"
    assert encode_frame(command) == KNOWN


def test_the_known_json_frame_is_134_bytes():
    command = RemotingCommand(
        code=105, language="PYTHON", version=479, opaque=7, ext_fields={"topic": "T1"}
    )
    frame = encode_frame(command)
    assert len(frame) == 134
    assert frame.startswith(bytes.fromhex("000000820000007e7b22636f"))
    assert FrameDecoder().feed(frame) == [command]


def test_every_cut_of_every_kind_of_frame(sample_frames):
    """Whole, with a tail, in two parts at every byte, byte by byte."""
    tail = KNOWN[:6]
    for frame in sample_frames:
        data = frame.data
        (whole,) = FrameDecoder().feed(data)
        with_tail = FrameDecoder()
        assert with_tail.feed(data + tail) == [whole], frame.name
        assert with_tail.pending_bytes == len(tail)
        assert len(with_tail.feed(KNOWN[6:])) == 1
        cuts = range(1, len(data)) if len(data) < 700 else range(1, len(data), 7)
        decoder = FrameDecoder()
        for cut in cuts:
            assert decoder.feed(data[:cut]) == [], frame.name
            assert decoder.feed(data[cut:]) == [whole], frame.name
        single = FrameDecoder()
        got = [command for byte in data for command in single.feed(bytes([byte]))]
        assert got == [whole], frame.name
        assert single.pending_bytes == 0


def test_a_stream_cut_at_random_gives_the_same_commands(sample_frames):
    choose = random.Random(7)
    stream = b"".join(frame.data for frame in sample_frames)
    expected = FrameDecoder().feed(stream)
    assert len(expected) == len(sample_frames)
    for most in (3, 100, 5000):
        decoder, got, position = FrameDecoder(), [], 0
        while position < len(stream):
            size = choose.randrange(1, most)
            got += decoder.feed(stream[position : position + size])
            position += size
        assert got == expected


def test_flipped_bits_end_in_a_value_or_a_precise_error(sample_frames, survives):
    def decode(data):
        decoder = FrameDecoder()
        try:
            return decoder.feed(data)
        finally:
            assert decoder.pending_bytes <= len(data)

    for frame in sample_frames:
        data = frame.data
        for bit in range(64):  # the two length words: every bit
            place = bit // 8
            flipped = data[:place] + bytes([data[place] ^ (1 << bit % 8)]) + data[place + 1 :]
            with suppress(RemoteProtocolError):
                decode(flipped)
        survives(decode, data, tries=20)


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", "HTTP"),
        (b"POST /", "HTTP"),
        (b"HTTP/1.1 400 Bad Request", "HTTP"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "gRPC"),
        (bytes.fromhex("16030100c8010000c4"), "TLS"),
        (b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", "PROXY protocol"),
        (b"\r\n\r\n\x00\r\nQUIT\n", "PROXY protocol"),
    ],
)
def test_other_protocols_are_named_after_four_bytes(start, kind):
    with pytest.raises(ForeignProtocolError) as caught:
        FrameDecoder().feed(start)
    assert caught.value.kind == kind
    decoder = FrameDecoder()
    for byte in start[:3]:
        assert decoder.feed(bytes([byte])) == []
    with pytest.raises(ForeignProtocolError):
        decoder.feed(start[3:4])


def test_http_after_a_valid_frame_is_a_broken_frame():
    decoder = FrameDecoder()
    assert len(decoder.feed(KNOWN + b"GET / HTTP/1.1")) == 1
    assert decoder.failure is not None
    assert not isinstance(decoder.failure, ForeignProtocolError)
    with pytest.raises(RemoteProtocolError, match="above the limit"):
        decoder.feed(b"")


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        ("01000001 00000000", "above the limit of 16777216"),
        ("00fffffd 00000000", "above the limit of 16777216"),
        ("7fffffff", "above the limit"),
        ("ffffffff", "above the limit"),
        ("00000000", "no room"),
        ("00000003", "no room"),
        ("00000010 00000011", "header of 17 bytes does not fit"),
        ("00000010 0200000c", "unknown serialize type 2"),
        ("00000010 ff00000c", "unknown serialize type 255"),
        ("00000004 00000000", "JSON|object"),
    ],
)
def test_a_broken_envelope_is_refused_at_once(frame, reason):
    with pytest.raises(RemoteProtocolError, match=reason):
        FrameDecoder().feed(bytes.fromhex(frame))


def test_the_longest_frame_is_accepted_and_one_byte_more_is_not():
    decoder = FrameDecoder(frame_limit=1024)
    header = b'{"code":1}'
    body = bytes(1024 - 8 - len(header))
    length = 4 + len(header) + len(body)
    frame = length.to_bytes(4) + len(header).to_bytes(4) + header + body
    assert len(frame) == 1024
    assert len(decoder.feed(frame)) == 1
    with pytest.raises(RemoteProtocolError, match="1025 bytes is above the limit of 1024"):
        decoder.feed((length + 1).to_bytes(4))


def test_a_decoder_that_failed_stays_failed():
    decoder = FrameDecoder()
    with pytest.raises(RemoteProtocolError) as first:
        decoder.feed(bytes(8))
    with pytest.raises(RemoteProtocolError) as second:
        decoder.feed(KNOWN)
    assert first.value is second.value is decoder.failure


@pytest.mark.parametrize("kind", [0, 1])
def test_a_header_above_the_limit_is_refused_before_it_arrives(kind):
    size = MAX_HEADER_BYTES + 1
    start = (size + 4).to_bytes(4) + bytes([kind]) + size.to_bytes(3)
    with pytest.raises(RemoteProtocolError, match="header of 262145 bytes is above the limit"):
        FrameDecoder().feed(start)


def test_a_header_at_the_limit_is_read():
    command = request(10, {"i": "x" * (MAX_HEADER_BYTES - 200)})
    data = encode_frame(command)
    assert FrameDecoder().feed(data) == [command]
    with pytest.raises(LocalProtocolError, match=r"header of \d+ above 262144"):
        encode_frame(request(10, {"i": "x" * MAX_HEADER_BYTES}))


def test_whatever_a_reader_raises_is_a_protocol_error(monkeypatch):
    def fail(_):
        raise TypeError("unorderable")

    monkeypatch.setattr("broker.remoting.protocol.framing.decode_json_header", fail)
    decoder = FrameDecoder()
    for _ in range(2):  # and the stream stays unreadable
        with pytest.raises(RemoteProtocolError, match="TypeError: unorderable"):
            decoder.feed(encode_frame(request(10)))


def test_a_promised_length_costs_no_memory():
    decoder = FrameDecoder()
    tracemalloc.start()
    decoder.feed((FRAME_LIMIT_BYTES - 4).to_bytes(4) + b"\x00\x00\xff\xf0")
    decoder.feed(b"x" * 1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
    assert decoder.pending_bytes == 1008


def test_a_large_frame_in_small_pieces_is_copied_a_bounded_number_of_times():
    body = bytes(8 * 1024 * 1024)
    data = encode_frame(request(310, body=body))
    decoder = FrameDecoder()
    tracemalloc.start()
    got = []
    for position in range(0, len(data), 16384):
        got += decoder.feed(data[position : position + 16384])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [command.body for command in got] == [body]
    assert peak < 4 * len(data)


def test_parts_leave_body_buffers_uncopied():
    records = [memoryview(b"abc"), memoryview(b"defg")]
    command = response(request(11), body=records)
    parts = encode_frame_parts(command)
    assert parts[1] is records[0]
    assert parts[2] is records[1]
    assert b"".join(parts) == encode_frame(command)
    (again,) = FrameDecoder().feed(b"".join(parts))
    assert again.body == b"abcdefg"
    assert len(encode_frame_parts(request(34))) == 1


def test_a_frame_above_the_limit_is_ours_to_refuse():
    with pytest.raises(LocalProtocolError, match="above the limit"):
        encode_frame(request(310, body=bytes(FRAME_LIMIT_BYTES)))
    with pytest.raises(LocalProtocolError, match="above the limit"):
        encode_frame_parts(request(310, body=[bytes(FRAME_LIMIT_BYTES // 2)] * 2))


def test_the_hot_reply_reads_like_any_other():
    head = encode_reply_json(77, 0, b'{"queueId":"1"}', remark_json=b'"FOUND"', body_size=3)
    (command,) = FrameDecoder().feed(head + b"xyz")
    expected = response(RemotingCommand(opaque=77), 0, "FOUND", {"queueId": "1"}, b"xyz")
    assert command == expected
    assert head + b"xyz" == encode_frame(expected)
    assert encode_reply_json(-1, 17, b"{}") != head


def test_importing_the_framing_is_cheap():
    import subprocess

    code = (
        "import sys; import broker.remoting.protocol.framing as f, broker.remoting.protocol.codes;"
        "bad = {'enum', 'dataclasses', 'asyncio', 'socket', 'ssl', 'json', 'logging', 'inspect'};"
        "import msgspec; own = {m for m in sys.modules if m.startswith('broker')};"
        "print(sorted(own)); print(sorted(bad & set(sys.modules)))"
    )
    out = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert out[0] == str(
        sorted(
            [
                "broker",
                "broker.common",
                "broker.common.java",
                "broker.errors",
                "broker.remoting",
                "broker.remoting.protocol",
                "broker.remoting.protocol.codes",
                "broker.remoting.protocol.command",
                "broker.remoting.protocol.framing",
                "broker.remoting.protocol.serialize",
            ]
        )
    )
    assert set(eval(out[1])) <= {"enum", "dataclasses", "inspect", "json"}  # msgspec's own
