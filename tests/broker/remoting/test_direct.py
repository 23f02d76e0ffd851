"""The direct path: which reads are answered by it, and that all others find nothing changed."""

import asyncio

import pytest

from broker.remoting import direct
from broker.remoting.endpoint import Endpoint
from broker.remoting.limits import EndpointLimits, LaneLimits
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import ROCKETMQ, RemotingCommand, request, response
from broker.remoting.protocol.framing import FrameDecoder, encode_frame
from broker.remoting.protocol.rpc import Access
from broker.remoting.protocol.serialize import decode_json_header

PULL = RequestCode.PULL_MESSAGE
SEND = RequestCode.SEND_MESSAGE_V2


def frame(
    opaque: int, code: int = PULL, body: bytes = b"", kind: str = "JSON", **ext: str
) -> bytes:
    command = request(code, ext, body)
    command.opaque = opaque
    command.serialize_type = kind
    return encode_frame(command)


class Direct:
    """An endpoint whose pulls are answered with the remark of their path, and one connection."""

    def __init__(self, attach, turns, **parameters) -> None:
        self.headers: list[bytes] = []
        self.fails = self.leaves = False
        handler = self.ordinary
        self.endpoint = Endpoint({PULL: handler, SEND: handler}, **parameters)
        self.endpoint.add_direct(PULL, self.answer)
        self.attach = attach
        self.connection, self.transport = attach(self.endpoint)
        self.turns = turns

    def ordinary(self, _, command: RemotingCommand) -> RemotingCommand:
        return response(command, 0, "ordinary")

    def answer(self, _, header: bytes) -> tuple[int, list] | None:
        self.headers.append(header)
        if self.fails:
            raise OSError("no such file")
        if self.leaves:
            return None
        command = response(decode_json_header(header), 0, "direct")
        frame = encode_frame(command)
        return len(frame), [frame[:5], memoryview(frame)[5:]]

    async def receive(self, *reads: bytes) -> list[tuple[int, str]]:
        """Receive reads in one loop iteration; opaque and path of each response."""
        for data in reads:
            self.connection.data_received(data)
        await self.turns()
        return [(one.opaque, one.remark) for one in self.transport.take()]


@pytest.fixture
def run(attach, turns):
    """``run(test, …)``: call ``test`` with an endpoint in a loop."""

    def call(test, **parameters):
        async def main():
            await test(Direct(attach, turns, **parameters))

        asyncio.run(main())

    return call


def test_a_read_that_is_one_request_is_answered_directly(run) -> None:
    async def check(server: Direct) -> None:
        assert await server.receive(frame(1)) == [(1, "direct")]
        assert await server.receive(frame(2, key="a" * 900)) == [(2, "direct")]
        assert server.headers[0] == frame(1)[8:]
        assert server.endpoint.share.iteration > 0

    run(check)


@pytest.mark.parametrize(
    "data",
    [
        frame(1) + frame(1),
        frame(1, body=b"x"),
        frame(1, kind=ROCKETMQ),
        frame(1, SEND),
        frame(1, key="a" * direct.DIRECT_BYTES),
    ],
)
def test_other_reads_take_the_ordinary_path(run, data) -> None:
    async def check(server: Direct) -> None:
        assert {path for _, path in await server.receive(data)} == {"ordinary"}
        assert server.headers == []

    run(check)


def test_a_frame_in_two_reads_takes_the_ordinary_path(run) -> None:
    async def check(server: Direct) -> None:
        data = frame(1)
        for cut in range(1, len(data)):
            assert await server.receive(data[:cut], data[cut:]) == [(1, "ordinary")]
        # The rest of a frame may look like a whole one.
        inner = frame(2)
        outer = frame(3, SEND, body=inner)
        assert await server.receive(outer[: -len(inner)], inner) == [(3, "ordinary")]
        assert server.headers == []
        assert await server.receive(frame(4)) == [(4, "direct")]

    run(check)


class Peers:
    """Further connections of a server, each with one direct request received."""

    def __init__(self, server: Direct, count: int) -> None:
        self.made = [server.attach(server.endpoint, ("127.0.0.1", n)) for n in range(1, count + 1)]
        for opaque, (connection, _) in enumerate(self.made):
            connection.data_received(frame(opaque))

    def taken(self) -> list[list[int]]:
        """Per connection, the opaques of the responses written since the last call."""
        return [[one.opaque for one in transport.take()] for _, transport in self.made]


def test_responses_to_several_peers_wait_for_one_more_iteration(run) -> None:
    async def check(server: Direct) -> None:
        peers = Peers(server, 2)
        await asyncio.sleep(0)
        assert peers.taken() == [[], []]
        assert await server.receive(frame(7)) == [(7, "direct")]
        assert peers.taken() == [[0], [1]]

    run(check)


def test_responses_that_wait_are_written_before_a_close_and_dropped_after_a_loss(run) -> None:
    async def check(server: Direct) -> None:
        peers = Peers(server, 4)
        await asyncio.sleep(0)
        peers.made[0][0].close()
        assert peers.taken() == [[0], [], [], []]
        peers.made[1][0].connection_lost(None)
        peers.made[2][0].data_received(frame(8, SEND))
        await server.turns()
        assert peers.taken() == [[], [], [2, 8], [3]]
        assert peers.made[1][1].writes == []

    run(check)


def test_a_request_that_is_left_or_fails_takes_the_ordinary_path(run) -> None:
    async def check(server: Direct) -> None:
        server.leaves = True
        assert await server.receive(frame(1)) == [(1, "ordinary")]
        server.leaves, server.fails = False, True
        assert await server.receive(frame(2)) == [(2, "ordinary")]
        assert not server.connection.closed

    run(check)


def test_responses_are_in_the_order_of_the_reads(run) -> None:
    async def check(server: Direct) -> None:
        found = await server.receive(frame(1), frame(2, SEND), frame(3), frame(4) + frame(5))
        assert found == [
            (1, "direct"),
            (2, "ordinary"),
            (3, "direct"),
            (4, "ordinary"),
            (5, "ordinary"),
        ]

    run(check)


def test_requests_that_wait_come_first(run) -> None:
    """Frames in the backlog of a connection are not overtaken."""

    async def check(server: Direct) -> None:
        connection = server.connection
        (first,) = FrameDecoder().feed(frame(1))
        connection.backlog.append(first)
        assert await server.receive(frame(2)) == []
        connection.resume_writing()
        assert await server.receive() == [(1, "ordinary"), (2, "ordinary")]
        assert server.headers == []
        assert await server.receive(frame(3)) == [(3, "direct")]

    run(check)


def test_an_iteration_without_time_left_defers_the_request(run, monkeypatch) -> None:
    async def check(server: Direct) -> None:
        server.endpoint.share.begin(0.0)
        for module in ("connection", "direct"):
            monkeypatch.setattr(f"broker.remoting.{module}.monotonic_s", lambda: 99.0)
        server.connection.data_received(frame(1))
        assert server.headers == []
        assert server.connection.yielding
        assert await server.receive() == [(1, "ordinary")]

    run(check)


def test_a_broker_that_authorizes_requests_uses_the_ordinary_path(run) -> None:
    async def check(server: Direct) -> None:
        assert await server.receive(frame(1)) == [(1, "refused")]
        assert server.headers == []

    run(check, authorize=lambda _, command: response(command, 16, "refused"))


def test_a_peer_without_access_is_refused_as_before(run) -> None:
    async def check(server: Direct) -> None:
        server.endpoint.routes[PULL].access = Access.ADMINISTRATOR
        server.connection.access = Access.PUBLIC
        ((_, remark),) = await server.receive(frame(1))
        assert remark != "direct"
        assert server.headers == []

    run(check)


def test_a_full_or_rejecting_lane_uses_the_ordinary_path(run) -> None:
    async def check(server: Direct) -> None:
        lane = server.endpoint.routes[PULL].lane
        lane.rejecting = "no space"
        ((_, remark),) = await server.receive(frame(1))
        assert "no space" in remark
        lane.rejecting = ""
        lane.running = lane.limits.concurrency
        assert await server.receive(frame(2)) == []
        assert server.headers == []

    lanes = {"pull": LaneLimits(concurrency=1)}
    run(check, limits=EndpointLimits(lanes=lanes))


def test_a_slow_request_is_reported(run, monkeypatch) -> None:
    async def check(server: Direct) -> None:
        slow: list[tuple[int, float]] = []
        server.endpoint.on_slow = lambda code, ms: slow.append((code, ms))
        monkeypatch.setattr("broker.remoting.direct.monotonic_s", lambda: 5.0 * len(server.headers))
        assert await server.receive(frame(1)) == [(1, "direct")]
        assert slow == [(PULL, 5_000.0)]

    run(check)


def test_only_codes_of_two_digits_can_be_direct() -> None:
    endpoint = Endpoint({SEND: lambda *_: None})
    with pytest.raises(AssertionError):
        endpoint.add_direct(SEND, lambda *_: None)
