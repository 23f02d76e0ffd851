"""Flow control: SYSTEM_BUSY for requests that waited too long, for a full lane, a stalled disk."""

import asyncio

import pytest

from broker.remoting import connection as connection_module
from broker.remoting.endpoint import Endpoint
from broker.remoting.limits import EndpointLimits, LaneLimits
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request, response

SEND = RequestCode.SEND_MESSAGE
QUERY = RequestCode.QUERY_MESSAGE


def numbered(opaque: int, code: int = SEND, *, oneway: bool = False) -> RemotingCommand:
    command = request(code, {}, b"x" * 100, oneway=oneway)
    command.opaque = opaque
    return command


@pytest.fixture
def slow_clock(monkeypatch) -> list[float]:
    """A clock that handlers push on: ``[now]``."""
    now = [1.0]
    monkeypatch.setattr(connection_module, "monotonic_s", lambda: now[0])
    return now


@pytest.fixture
def busy(slow_clock):
    """``busy(seconds, **lane limits)``: an endpoint whose requests take that long."""

    def make(seconds: float, **limits: LaneLimits) -> Endpoint:
        def handler(_, command: RemotingCommand) -> RemotingCommand:
            slow_clock[0] += seconds
            return response(command)

        lanes = {"send": LaneLimits(wait_ms=200), **limits}
        return Endpoint({SEND: handler, QUERY: handler}, limits=EndpointLimits(lanes=lanes))

    return make


def outcome(transport) -> list[tuple[int, int, str]]:
    return [
        (answer.opaque, answer.code, (answer.remark or "").partition("]")[0])
        for answer in transport.take()
    ]


def test_sends_that_waited_too_long_for_their_turn_are_busy(
    run, attach, frames, turns, slow_clock, busy
) -> None:
    async def main() -> None:
        endpoint = busy(0.15)
        _, transport = peer = attach(endpoint)
        peer[0].data_received(frames(*(numbered(n) for n in range(4)), numbered(4, QUERY)))
        await turns()
        assert outcome(transport) == [
            (0, 0, ""),
            (1, 0, ""),
            (2, 0, ""),
            (3, ResponseCode.SYSTEM_BUSY, "[TIMEOUT_CLEAN_QUEUE"),
            (4, 0, ""),
        ], "1 waited 0 ms, 2 150 ms, 3 300 ms; queries do not age"
        assert endpoint.lanes["send"].expired == 1
        assert endpoint.share.frames == 0

    run(main())


def test_without_an_age_limit_everything_is_served(run, attach, frames, turns, busy) -> None:
    async def main() -> None:
        connection, transport = attach(busy(0.15, send=LaneLimits(wait_ms=0)))
        connection.data_received(frames(*(numbered(n) for n in range(5))))
        await turns()
        assert [code for _, code, _ in outcome(transport)] == [0] * 5

    run(main())


def test_a_full_lane_is_overloaded_and_keeps_its_requests(run, attach, frames, turns, busy) -> None:
    async def main() -> None:
        endpoint = busy(0.03, send=LaneLimits(queue_limit=3))
        connection, transport = attach(endpoint)
        connection.data_received(
            frames(*(numbered(n) for n in range(6)), numbered(6, QUERY), numbered(7, oneway=True))
        )
        await turns()
        answers = outcome(transport)
        refused = [(opaque, kind) for opaque, code, kind in answers if code]
        assert refused == [(4, "[OVERLOAD"), (5, "[OVERLOAD")]
        served = [opaque for opaque, code, _ in answers if not code]
        assert served == [0, 1, 2, 3, 6], "the query lane is not full; one-way is dropped silently"
        assert endpoint.lanes["send"].overloaded == 3
        assert endpoint.share.frames == 0

    run(main())


def test_waiting_requests_are_in_the_memory_budget_until_they_are_served(
    run, attach, frames, turns, busy
) -> None:
    async def main() -> None:
        endpoint = busy(0.03)
        one, _ = attach(endpoint)
        data = frames(*(numbered(n) for n in range(4)))
        one.data_received(data)
        assert endpoint.memory.held_bytes(one) == len(data)
        assert endpoint.share.frames == 3
        await turns()
        assert endpoint.memory.total_bytes == 0
        one.data_received(data)
        one.abort()
        assert endpoint.memory.total_bytes == 0
        assert endpoint.share.frames == 0
        await turns()

    run(main())


def test_a_rejected_lane_answers_at_once_and_only_to_requests_received_so_far(
    run, attach, frames, turns, busy
) -> None:
    """Waiting sends fail, new ones are served."""

    async def main() -> None:
        endpoint = busy(0.03)
        connection, transport = attach(endpoint)
        other, other_transport = attach(endpoint, ("127.0.0.1", 2))
        connection.data_received(frames(numbered(0), numbered(1), numbered(2, QUERY)))
        endpoint.reject_lane("send", "the disk is busy")
        endpoint.share.begin(0)
        await asyncio.sleep(0)  # the next iteration: waiting requests, and those read meanwhile
        other.data_received(frames(numbered(9)))
        await turns()
        assert outcome(transport) == [
            (0, 0, ""),
            (1, ResponseCode.SYSTEM_BUSY, "[PCBUSY_CLEAN_QUEUE"),
            (2, 0, ""),
        ]
        assert outcome(other_transport)[0][0] == 9
        other.data_received(frames(numbered(10)))
        await turns()
        assert outcome(other_transport) == [(10, 0, "")]

    run(main())


def test_sends_read_while_a_lane_rejects_are_rejected(run, attach, frames, turns, busy) -> None:
    async def main() -> None:
        endpoint = busy(0.001)
        connection, transport = attach(endpoint)
        endpoint.reject_lane("send", "the disk is busy")
        connection.data_received(frames(numbered(0), numbered(1, QUERY)))
        await turns()
        connection.data_received(frames(numbered(2)))
        await turns()
        assert outcome(transport) == [
            (0, ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST"),
            (1, 0, ""),
            (2, 0, ""),
        ]

    run(main())


def test_a_slow_request_is_reported_with_its_code_and_time(run, attach, frames, busy) -> None:
    async def main() -> None:
        endpoint = busy(1.5)
        seen: list[tuple[int, float]] = []
        endpoint.on_slow = lambda code, ms: seen.append((code, ms))
        connection, _ = attach(endpoint)
        connection.data_received(frames(numbered(0, QUERY)))
        assert seen == [(QUERY, pytest.approx(1500))]

    run(main())


def test_requests_of_a_peer_that_does_not_read_its_responses_do_not_age(
    run, attach, frames, turns, slow_clock, busy
) -> None:
    async def main() -> None:
        endpoint = busy(0.03)
        connection, transport = attach(endpoint)
        connection.data_received(frames(*(numbered(n) for n in range(3))))
        connection.pause_writing()
        await turns()
        assert endpoint.share.frames == 0
        slow_clock[0] += 10
        connection.resume_writing()
        await turns()
        assert [code for _, code, _ in outcome(transport)] == [0, 0, 0]
        assert endpoint.memory.total_bytes == 0

    run(main())


def test_bytes_are_not_decoded_while_the_share_of_the_iteration_is_used_up(
    run, attach, frames, turns, slow_clock, busy
) -> None:
    async def main() -> None:
        endpoint = busy(0.03)
        one, _ = attach(endpoint, ("127.0.0.1", 1))
        two, transport = attach(endpoint, ("127.0.0.1", 2))
        one.data_received(frames(numbered(0)))
        data = frames(numbered(1), numbered(2))
        two.data_received(data[:50])
        two.data_received(data[50:])
        assert two.decoder.pending_bytes == 0
        assert not transport.reading
        assert endpoint.memory.held_bytes(two) == len(data)
        await turns()
        assert [opaque for opaque, _, _ in outcome(transport)] == [1, 2]
        assert transport.reading
        assert endpoint.memory.total_bytes == 0
        one.data_received(frames(numbered(3)))
        two.data_received(data)
        two.abort()
        assert endpoint.memory.total_bytes == 0
        await turns()

    run(main())
