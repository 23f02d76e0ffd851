"""The seam of ingest: which reads are offered, and that the rest of a read is served in order."""

import pytest

from broker.remoting.endpoint import Endpoint
from broker.remoting.ingest import INGEST_LEAST_BYTES, INGEST_LEAST_FRAMES
from broker.remoting.protocol.command import RemotingCommand, request, response
from broker.remoting.protocol.framing import encode_frame
from tests.support.remoting_peer import FakeTransport

BODY = bytes(INGEST_LEAST_BYTES)


def frame(opaque: int, code: int = 1, body: bytes = BODY) -> bytes:
    command = request(code, body=body)
    command.opaque = opaque
    return encode_frame(command)


class Taking:
    """Takes the first frames of a read and answers each with its number."""

    def __init__(self, frames: int) -> None:
        self.frames = frames
        self.offered: list[bytes] = []

    def take(self, peer, data: bytes) -> int:
        self.offered.append(data)
        position = 0
        for number in range(self.frames):
            size = 4 + int.from_bytes(data[position : position + 4], "big")
            if position + size > len(data):
                break
            position += size
            peer.send(encode_frame(RemotingCommand(opaque=100 + number, flag=1)))
        return position


def echo(_, command: RemotingCommand) -> RemotingCommand:
    return response(command)


@pytest.fixture
def serve(run, attach, turns):
    """``serve(ingest, *reads)``: the opaques answered, and the connection."""

    def serve(ingest, *reads: bytes):
        async def main():
            endpoint = Endpoint({1: echo})
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


def test_a_read_of_which_nothing_is_taken_is_served_whole(serve) -> None:
    ingest = Taking(0)
    answered, _ = serve(ingest, b"".join(map(frame, range(5))))
    assert answered == list(range(5))
    assert len(ingest.offered) == 1


def test_reads_of_few_frames_are_not_offered(serve) -> None:
    ingest = Taking(9)
    few = [b"".join(frame(n) for n in range(count)) for count in range(1, INGEST_LEAST_FRAMES)]
    small = b"".join(frame(n, body=b"") for n in range(4))
    assert len(small) < INGEST_LEAST_BYTES
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
