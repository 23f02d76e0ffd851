"""The seam of ingest: which turns are offered, and that each connection is served in order."""

import asyncio

import pytest

from broker.remoting import ingest as seam
from broker.remoting.endpoint import Endpoint
from broker.remoting.ingest import (
    MAX_LEFT,
    SMALL_ITERATIONS,
    SMALL_TURNS,
    UNCOUNTED_ITERATIONS,
    Segment,
    count_frames,
    starts_with_send,
)
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request, response
from broker.remoting.protocol.framing import FrameDecoder, encode_frame
from tests.support.send_frames import batch_frame, items_of, send_frame

BODY = bytes(1_024)
LEAST_FRAMES = 4
SEND, OTHER = RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE


def frame(opaque: int, code: int = SEND, body: bytes = BODY) -> bytes:
    command = request(code, body=body)
    command.opaque = opaque
    return encode_frame(command)


def stream(numbers: range, code: int = SEND) -> bytes:
    return b"".join(frame(number, code) for number in numbers)


class Taking:
    """Takes the sends of a turn, ``frames`` at most; answers with 100 + their opaque."""

    least_frames = LEAST_FRAMES

    def __init__(self, frames: int = 999) -> None:
        self.frames = frames
        self.offered: list[list[bytes]] = []

    def take(self, segments: list[Segment]) -> int:
        self.offered.append([segment.rest for segment in segments])
        for segment in segments:
            while self.frames and starts_with_send(segment.rest):
                end = segment.position + segment.frame_size
                if end > len(segment.data):
                    break
                (command,) = FrameDecoder().feed(segment.data[segment.position : end])
                segment.position = end
                self.frames -= 1
                segment.peer.send(encode_frame(RemotingCommand(opaque=100 + command.opaque)))
        return len(segments)


def echo(_, command: RemotingCommand) -> RemotingCommand:
    return response(command)


class Server:
    """An endpoint with ingest and some connections, each with the opaques of its responses."""

    def __init__(self, ingest, attach, turns) -> None:
        self.endpoint = Endpoint({SEND: echo, OTHER: echo})
        self.endpoint.ingest = ingest
        self.peers = [attach(self.endpoint) for _ in range(3)]
        self.turns = turns

    async def turn(self, *reads: tuple[int, bytes]) -> list[list[int]]:
        """Receive reads in one loop iteration; the opaques answered on each connection."""
        for number, data in reads:
            self.peers[number][0].data_received(data)
        await self.turns()
        return [[one.opaque for one in transport.take()] for _, transport in self.peers]


@pytest.fixture
def serve(run, attach, turns):
    """``serve(ingest, *turns)``: the opaques answered in each turn, and the server."""

    def serve(ingest, *reads: list[tuple[int, bytes]]):
        async def main():
            server = Server(ingest, attach, turns)
            return [await server.turn(*one) for one in reads], server

        return run(main())

    return serve


def test_the_reads_of_an_iteration_are_offered_together(serve) -> None:
    ingest = Taking()
    reads = [(number, stream(range(3 * number, 3 * number + 3))) for number in range(3)]
    warm = (0, stream(range(50, 50 + LEAST_FRAMES)))
    answered, _ = serve(ingest, [warm], reads)
    assert ingest.offered[1] == [data for _, data in reads]
    assert answered[1] == [[100, 101, 102], [103, 104, 105], [106, 107, 108]]


def test_reads_of_one_connection_in_an_iteration_are_joined(serve) -> None:
    ingest = Taking()
    data = stream(range(6))
    cuts = [
        (1, data[:2_500]),
        (0, stream(range(40, 44))),
        (1, data[2_500:2_503]),
        (1, data[2_503:]),
    ]
    warm = (0, stream(range(50, 50 + LEAST_FRAMES)))
    answered, server = serve(ingest, [warm], cuts)
    assert ingest.offered[1] == [data, stream(range(40, 44))]
    assert answered[1] == [[140, 141, 142, 143], list(range(100, 106)), []]
    assert server.peers[1][0].decoder.pending_bytes == 0


def test_the_rest_of_a_read_is_served_after_the_frames_that_were_taken(serve) -> None:
    answered, _ = serve(Taking(3), [(0, stream(range(6)))])
    assert answered[0][0] == [100, 101, 102, 3, 4, 5]


def test_after_a_frame_that_was_left_the_next_ones_are_taken(serve) -> None:
    codes = [SEND, OTHER, SEND, SEND, OTHER, OTHER, SEND, SEND, SEND, SEND, SEND]
    data = b"".join(frame(n, code) for n, code in enumerate(codes))
    answered, _ = serve(Taking(), [(0, data), (1, stream(range(20, 24)))])
    assert answered[0][0] == [100, 1, 102, 103, 4, 5, 106, 107, 108, 109, 110]
    assert answered[0][1] == [120, 121, 122, 123]


def test_after_frames_in_a_row_that_were_left_the_rest_is_served_whole(serve) -> None:
    ingest = Taking()
    codes = [SEND] + [OTHER] * (MAX_LEFT + 1) + [SEND] * 9
    answered, _ = serve(ingest, [(0, b"".join(frame(n, code) for n, code in enumerate(codes)))])
    assert answered[0][0] == [100, *range(1, len(codes))]
    assert len(ingest.offered) == MAX_LEFT + 1


def test_segments_that_ingest_did_not_reach_are_offered_again(serve) -> None:
    class Stopping(Taking):
        def take(self, segments: list[Segment]) -> int:
            self.frames = 2  # then the file is full; the plain path begins the next one
            super().take(segments)
            return next((n + 1 for n, one in enumerate(segments) if one.rest), len(segments))

    answered, _ = serve(Stopping(), [(number, stream(range(4))) for number in range(3)])
    assert answered[0] == [[100, 101, 2, 103], [100, 1, 102, 103], [0, 1, 2, 3]]


def test_a_malformed_frame_closes_its_connection_after_the_frames_before_it(serve) -> None:
    bad = bytearray(frame(1))
    bad[8] ^= 0xFF
    data = stream(range(4)) + bytes(bad) + stream(range(9))
    answered, server = serve(Taking(), [(0, data), (1, stream(range(4)))])
    assert answered[0][:2] == [[100, 101, 102, 103]] * 2
    assert [peer.closed for peer, _ in server.peers] == [True, False, False]
    assert server.endpoint.refused_frames == 1


def test_an_error_of_ingest_closes_the_connections_of_its_turn_only(serve, caplog) -> None:
    class Failing(Taking):
        def take(self, segments: list[Segment]) -> int:
            raise ZeroDivisionError("a defect")

    answered, server = serve(Failing(), [(0, stream(range(5))), (1, frame(7))])
    assert answered[0] == [[], [], []]
    assert [peer.closed for peer, _ in server.peers] == [True, True, False]
    assert "a defect" in caplog.text


def test_turns_of_few_frames_are_served_where_they_arrive(serve) -> None:
    """A single request waits for nothing; responses of three are sent in the order of arrival."""
    ingest = Taking()
    few = [(number, frame(number)) for number in range(LEAST_FRAMES - 1)]
    answered, server = serve(ingest, few, few)
    assert not ingest.offered
    assert answered[1] == [[0], [1], [2]]
    assert not server.endpoint.reads.pending


def test_after_large_turns_some_small_ones_wait_for_the_end_of_the_iteration(run, attach, turns):
    async def main() -> None:
        server = Server(Taking(), attach, turns)
        await server.turn((0, stream(range(LEAST_FRAMES))))
        for _ in range(SMALL_TURNS):
            connection, transport = server.peers[1]
            connection.data_received(frame(5))
            assert not transport.writes
            await turns()
            assert [one.opaque for one in transport.take()] == [5]
        connection.data_received(frame(6))
        assert connection.out, "served where it arrived"
        assert [one.opaque for one in await transport.taken()] == [6]

    run(main())


def test_short_reads_are_counted_now_and_then(run, attach, turns, monkeypatch) -> None:
    """While iterations have few frames; a long read is counted always."""
    counted_reads = []

    def counted(data, start):
        counted_reads.append(data)
        return count_frames(data, start)

    monkeypatch.setattr(seam, "count_frames", counted)
    few, many = [(0, frame(1, body=b"few"))], [(1, stream(range(10, 10 + LEAST_FRAMES)))]

    async def main() -> None:
        server = Server(Taking(), attach, turns)
        for _ in range(SMALL_ITERATIONS):
            assert await server.turn(*few) == [[1], [], []]
        counted_reads.clear()
        for _ in range(10 * (UNCOUNTED_ITERATIONS + SMALL_TURNS)):
            assert await server.turn(*few) == [[1], [], []]
        assert 0 < len(counted_reads) <= 10 * (SMALL_TURNS + 1)
        assert not server.endpoint.ingest.offered
        await server.turn(*few, *many)
        assert server.endpoint.ingest.offered == [[many[0][1]]]
        counted_reads.clear()
        assert await server.turn(*few) == [[1], [], []]
        assert counted_reads

    run(main())


def test_many_connections_are_found_after_few(run, attach, turns) -> None:
    async def main() -> None:
        server = Server(Taking(), attach, turns)
        for _ in range(10 * SMALL_ITERATIONS):
            await server.turn((0, frame(1, body=b"few")))
        reads = [(number, 2 * frame(number, body=b"few")) for number in range(3)]
        for _ in range(UNCOUNTED_ITERATIONS + 2):
            await server.turn(*reads)
        assert server.endpoint.ingest.offered

    run(main())


def test_other_requests_do_not_wait_for_sends(run, attach, turns) -> None:
    async def main() -> None:
        server = Server(Taking(), attach, turns)
        await server.turn((0, stream(range(LEAST_FRAMES))))
        (waiting, first), (other, second) = server.peers[:2]
        for number in range(2):
            server.peers[number][0].data_received(frame(number, OTHER if number else SEND))
        assert other.out
        # On the same connection they do: they arrived later.
        waiting.data_received(frame(2, OTHER))
        assert not waiting.out
        await turns()
        assert [one.opaque for one in second.take()] == [1]
        assert [one.opaque for one in first.take()] == [0, 2]

    run(main())


def test_a_turn_of_many_bytes_is_served_at_once(run, attach, turns, monkeypatch) -> None:
    monkeypatch.setattr(seam, "TURN_BYTES", 10_000)

    async def main() -> None:
        ingest = Taking()
        server = Server(ingest, attach, turns)
        for number in range(3):
            server.peers[number][0].data_received(stream(range(4)))
            assert server.endpoint.reads.pending <= 10_000
        assert [len(one) for one in ingest.offered] == [3]
        await turns()
        assert [len(one) for one in ingest.offered] == [3]

    run(main())


@pytest.mark.parametrize("how", ["abort", "close", "lost"])
def test_reads_of_a_connection_that_was_closed_in_the_turn_are_dropped(
    run, attach, turns, how: str
) -> None:
    async def main() -> None:
        ingest = Taking()
        server = Server(ingest, attach, turns)
        (closed, transport), (open_one, other) = server.peers[:2]
        closed.data_received(stream(range(5)))
        open_one.data_received(stream(range(5)))
        if how == "lost":
            closed.connection_lost(None)
        else:
            getattr(closed, how)()
        await turns()
        assert [len(one) for one in ingest.offered] == [1]
        assert not transport.writes
        assert len(other.take()) == 5
        assert server.endpoint.memory.held_bytes(closed) == 0

    run(main())


def test_when_the_time_of_an_iteration_is_used_up_the_turn_waits(run, attach, turns, monkeypatch):
    now_s = [0.0]

    class Slow(Taking):
        def take(self, segments: list[Segment]) -> int:
            share = segments[0].peer.endpoint.share
            if share.begin(now_s[0]) >= now_s[0]:
                super().take(segments[:1])
                now_s[0] += 1
            return len(segments)

    async def main() -> None:
        server = Server(Slow(), attach, turns)
        monkeypatch.setattr("broker.remoting.connection.monotonic_s", lambda: now_s[0])
        paused: list[int] = []
        for number, (connection, transport) in enumerate(server.peers):
            monkeypatch.setattr(transport, "pause_reading", lambda one=number: paused.append(one))
            connection.data_received(stream(range(4)))
        while not paused:
            await asyncio.sleep(0)
        assert paused[:2] == [1, 2]
        await turns()
        assert [len(transport.take()) for _, transport in server.peers] == [4, 4, 4]
        assert server.endpoint.memory.total_bytes == 0

    run(main())


def test_a_read_that_waits_comes_after_those_of_the_turn(run, attach, turns, monkeypatch) -> None:
    """Between two reads of one connection, others use up the time of the iteration."""
    now_s = [0.0]

    async def main() -> None:
        ingest = Taking(2)
        server = Server(ingest, attach, turns)
        monkeypatch.setattr("broker.remoting.connection.monotonic_s", lambda: now_s[0])
        (connection, transport), share = server.peers[0], server.endpoint.share
        connection.data_received(stream(range(8)))
        share.begin(now_s[0])
        now_s[0] += 1
        connection.data_received(stream(range(8, 16)))
        assert not transport.reading
        await turns()
        opaques = [one.opaque for one in transport.take()]
        assert [opaque % 100 for opaque in opaques] == list(range(16))
        assert transport.reading
        assert server.endpoint.memory.total_bytes == 0

    run(main())


def test_sends_and_oneway_requests_of_a_lost_connection_are_served(run, attach, turns) -> None:
    """Clients send their last messages and commits right before they close."""
    served: list[int] = []

    async def main() -> None:
        server = Server(Taking(0), attach, turns)
        for code in (SEND, OTHER, RequestCode.UNREGISTER_CLIENT):
            server.endpoint.add_handler(code, lambda _, command: served.append(command.opaque))
        connection, transport = server.peers[0]
        oneway = request(RequestCode.UNREGISTER_CLIENT, oneway=True)
        oneway.opaque = 9
        data = stream(range(4)) + frame(5, OTHER) + send_frame(7, flag=2) + encode_frame(oneway)
        connection.data_received(data)
        connection.connection_lost(None)
        await turns()
        assert not transport.writes

    run(main())
    assert served == [0, 1, 2, 3, 7, 9]


def test_bytes_of_a_closed_decoder_are_not_kept(serve) -> None:
    """The first bytes after a bad frame reach the plain path, which refuses them."""
    data = stream(range(4)) + b"\x7f" * 20
    answered, server = serve(Taking(), [(0, data)], [(0, stream(range(9)))])
    assert answered == [[[100, 101, 102, 103], [], []], [[], [], []]]
    assert server.peers[0][0].closed


@pytest.mark.parametrize("cut", [1, 3, 5, 700, 1_100])
def test_an_incomplete_frame_is_completed_before_it_is_offered(serve, cut: int) -> None:
    ingest = Taking()
    first, second = stream(range(4)), stream(range(4, 9))
    answered, server = serve(ingest, [(0, first + second[:cut])], [(0, second[cut:])])
    assert ingest.offered == [[first + second[:cut]], [second]]
    assert [len(opaques) for one in answered for opaques in one[:1]] == [4, 5]
    connection = server.peers[0][0]
    assert connection.decoder.pending_bytes == connection.unfinished == 0
    assert server.endpoint.memory.total_bytes == 0


def test_an_incomplete_frame_stays_with_the_decoder_while_its_end_is_missing(serve) -> None:
    ingest = Taking()
    long = frame(1, body=bytes(200_000))
    pieces = [long[at : at + 50_000] for at in range(0, len(long), 50_000)]
    answered, _ = serve(ingest, *([(0, piece)] for piece in pieces))
    assert answered[-1][0] == [1]
    assert not ingest.offered


def test_bytes_after_taken_frames_are_not_another_protocol(serve) -> None:
    """The connection is closed with the reason of a bad frame."""
    _, server = serve(Taking(), [(0, stream(range(4)) + b"GET / HTTP/1.1")])
    connection = server.peers[0][0]
    assert connection.closed
    assert "above the limit" in str(connection.lost)


@pytest.mark.parametrize("rocketmq", [False, True])
@pytest.mark.parametrize("code", [10, 310, 320])
def test_a_send_is_known_by_its_first_bytes(code: int, rocketmq: bool) -> None:
    assert starts_with_send(send_frame(1, code=code, rocketmq=rocketmq))
    for other in (11, 34, 311, 321):
        assert not starts_with_send(send_frame(1, code=other, rocketmq=rocketmq))
    assert not starts_with_send(b"")


@pytest.mark.parametrize("rocketmq", [False, True])
def test_a_batch_counts_as_its_messages(rocketmq: bool) -> None:
    batch = batch_frame(1, items_of(1, 32, 100), rocketmq=rocketmq)
    single = send_frame(1, rocketmq=rocketmq, body=b"b" * len(batch))
    # The first message is taken as the length of all.
    assert abs(count_frames(batch, 0) - 32) <= 2
    assert count_frames(single, 0) == 1
    assert count_frames(single + batch, len(single)) == count_frames(batch, 0)
    assert count_frames(batch[:-1], 0) == 1
    for frames in (batch, single):
        assert count_frames(frames * seam.LEAST_FRAMES, 0) == seam.LEAST_FRAMES


def test_a_hostile_batch_has_a_count() -> None:
    frame = bytearray(batch_frame(1, b"\0\0\0\0rest"))
    for at in range(8):
        for value in (0, 127, 255):
            changed = frame[:at] + bytes((value,)) + frame[at + 1 :]
            for size in (4, 7, 8, 30, len(frame)):
                assert 1 <= count_frames(bytes(changed[:size]), 0) <= 1 + size
