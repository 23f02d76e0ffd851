"""The seam of ingest: which reads are offered, and that the rest of a read is served in order."""

import pytest

from broker.remoting.endpoint import Endpoint
from broker.remoting.ingest import LEAST_BYTES, LEAST_FRAMES, MAX_LEFT
from broker.remoting.protocol.command import RemotingCommand, request, response
from broker.remoting.protocol.framing import FrameDecoder, encode_frame
from tests.support.remoting_peer import FakeTransport

BODY = bytes(LEAST_BYTES)


def frame(opaque: int, code: int = 1, body: bytes = BODY) -> bytes:
    command = request(code, body=body)
    command.opaque = opaque
    return encode_frame(command)


class Taking:
    """Takes the frames of code 1 of a read, ``frames`` at most; answers with 100 + their opaque."""

    least_bytes = LEAST_BYTES
    least_frames = LEAST_FRAMES

    def __init__(self, frames: int) -> None:
        self.frames = frames
        self.offered: list[bytes] = []

    def take(self, peer, data: bytes, start: int) -> int:
        self.offered.append(data[start:])
        position = start
        while self.frames:
            size = 4 + int.from_bytes(data[position : position + 4], "big")
            if position == len(data) or position + size > len(data):
                break
            if not data.startswith(b'{"code":1,', position + 8):
                break
            (command,) = FrameDecoder().feed(data[position : position + size])
            position += size
            self.frames -= 1
            peer.send(encode_frame(RemotingCommand(opaque=100 + command.opaque, flag=1)))
        return position


def echo(_, command: RemotingCommand) -> RemotingCommand:
    return response(command)


@pytest.fixture
def serve(run, attach, turns):
    """``serve(ingest, *reads)``: the opaques answered, and the connection."""

    def serve(ingest, *reads: bytes):
        async def main():
            endpoint = Endpoint({1: echo, 2: echo})
            endpoint.ingest = ingest
            connection, transport = attach(endpoint)
            assert isinstance(transport, FakeTransport)
            for data in reads:
                connection.data_received(data)
                await turns()
            return [command.opaque for command in transport.take()], connection

        return run(main())

    return serve


def test_the_rest_of_a_read_is_served_after_the_frames_that_were_taken(serve) -> None:
    ingest = Taking(3)
    answered, _ = serve(ingest, b"".join(map(frame, range(6))))
    assert answered == [100, 101, 102, 3, 4, 5]


def test_after_a_frame_that_was_left_the_next_ones_are_taken(serve) -> None:
    ingest = Taking(99)
    codes = [1, 2, 1, 1, 2, 2, 1, 1, 1, 1, 1]
    answered, _ = serve(ingest, b"".join(frame(n, code) for n, code in enumerate(codes)))
    assert answered == [100, 1, 102, 103, 4, 5, 106, 107, 108, 109, 110]


def test_after_frames_in_a_row_that_were_left_the_rest_is_served_whole(serve) -> None:
    ingest = Taking(99)
    codes = [2] * (MAX_LEFT + 1) + [1] * 9
    answered, _ = serve(ingest, b"".join(frame(n, code) for n, code in enumerate(codes)))
    assert answered == list(range(len(codes)))
    assert len(ingest.offered) == MAX_LEFT + 1


def test_a_malformed_frame_closes_after_the_frames_before_it(serve) -> None:
    bad = bytearray(frame(1))
    bad[8] ^= 0xFF
    data = b"".join(map(frame, range(4))) + bytes(bad) + b"".join(map(frame, range(9)))
    answered, connection = serve(Taking(99), data)
    assert answered == [100, 101, 102, 103]
    assert connection.closed
    assert connection.endpoint.refused_frames == 1


def test_an_error_of_ingest_closes_the_connection_only(serve, caplog) -> None:
    class Failing(Taking):
        def take(self, peer, data: bytes, start: int) -> int:
            raise ZeroDivisionError("a defect")

    answered, connection = serve(Failing(1), b"".join(map(frame, range(5))))
    assert answered == []
    assert connection.closed
    assert "a defect" in caplog.text


def test_reads_of_few_frames_are_not_offered(serve) -> None:
    ingest = Taking(9)
    few = [b"".join(frame(n) for n in range(count)) for count in range(1, LEAST_FRAMES)]
    small = b"".join(frame(n, body=b"") for n in range(4))
    assert len(small) < LEAST_BYTES
    answered, _ = serve(ingest, *few, small)
    assert not ingest.offered
    assert len(answered) == 6 + 4


@pytest.mark.parametrize("cut", [1, 3, 5, 700, 1_100])
def test_an_incomplete_frame_is_completed_before_it_is_offered(serve, cut: int) -> None:
    ingest = Taking(9)
    first, second = (b"".join(map(frame, numbers)) for numbers in (range(4), range(4, 9)))
    answered, connection = serve(ingest, first + second[:cut], second[cut:])
    assert ingest.offered == [first + second[:cut], second]
    assert len(answered) == 9
    assert connection.decoder.pending_bytes == 0
    assert connection.unfinished == 0


def test_an_incomplete_frame_stays_with_the_decoder_while_its_end_is_missing(serve) -> None:
    ingest = Taking(9)
    long = frame(1, body=bytes(200_000))
    pieces = [long[at : at + 50_000] for at in range(0, len(long), 50_000)]
    answered, _ = serve(ingest, *pieces)
    assert answered == [1]
    assert len(ingest.offered) <= 1


def test_bytes_after_taken_frames_are_not_another_protocol(serve) -> None:
    """The connection is closed with the reason of a bad frame."""
    _, connection = serve(Taking(4), b"".join(map(frame, range(4))) + b"GET / HTTP/1.1")
    assert connection.closed
    assert "above the limit" in str(connection.lost)
