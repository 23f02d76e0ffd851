"""Bounded state per peer: unsent responses, waiting requests, turns of the loop."""

import asyncio

import pytest

from broker.remoting import connection as connection_module
from broker.remoting.endpoint import Endpoint
from broker.remoting.limits import HELD_REQUEST_BYTES, EndpointLimits, LaneLimits
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request, response

CODE = RequestCode.SEND_MESSAGE


def numbered(opaque: int, body: bytes = b"", code: int = CODE) -> RemotingCommand:
    command = request(code, body=body)
    command.opaque = opaque
    return command


def large(_, command: RemotingCommand) -> RemotingCommand:
    return response(command, body=bytes(50_000))


def test_the_peer_with_the_most_unsent_bytes_is_closed(run, attach, frames, turns, caplog) -> None:
    async def main() -> None:
        limits = EndpointLimits(held_total_bytes=400_000)
        endpoint = Endpoint({CODE: large}, limits=limits)
        peers = [attach(endpoint) for _ in range(3)]
        for (connection, transport), count in zip(peers, (1, 5, 1), strict=True):
            transport.stuck = True
            connection.data_received(frames(*(numbered(n) for n in range(count))))
        await turns()
        assert [transport.aborted for _, transport in peers] == [False] * 3
        peers[0][0].data_received(frames(*(numbered(n) for n in range(2))))
        await turns()
        assert [transport.aborted for _, transport in peers] == [False, True, False]
        assert endpoint.evicted_connections == 1
        assert 150_000 < endpoint.memory.total_bytes < 250_000

    run(main())
    assert any("kept for peers" in line for line in caplog.messages)


def test_bytes_that_left_meanwhile_save_a_peer(run, attach, frames, turns) -> None:
    async def main() -> None:
        limits = EndpointLimits(held_total_bytes=400_000)
        endpoint = Endpoint({CODE: large}, limits=limits)
        peers = [attach(endpoint) for _ in range(2)]
        for connection, transport in peers:
            transport.stuck = True
            connection.data_received(frames(*(numbered(n) for n in range(3))))
        peers[0][1].held = 0  # it has read everything; the endpoint has not measured since
        peers[1][0].data_received(frames(*(numbered(n) for n in range(3))))
        await turns()
        assert [transport.aborted for _, transport in peers] == [False, False]

    run(main())


def test_peers_that_read_at_once_are_not_counted(run, attach, frames, turns) -> None:
    async def main() -> None:
        endpoint = Endpoint({CODE: large})
        connection, _ = attach(endpoint)
        connection.data_received(frames(*(numbered(n) for n in range(50))))
        await turns()
        assert endpoint.memory.total_bytes == 0

    run(main())


def test_requests_that_wait_are_counted_until_they_are_answered(run, attach, frames, turns) -> None:
    async def main() -> None:
        gate = asyncio.Event()

        async def slow(_, command: RemotingCommand) -> RemotingCommand:
            await gate.wait()
            return response(command)

        limits = EndpointLimits(lanes={"send": LaneLimits(concurrency=1)})
        endpoint = Endpoint({CODE: slow}, limits=limits)
        connection, transport = attach(endpoint)
        connection.data_received(frames(numbered(1, bytes(3000)), numbered(2, bytes(5000))))
        assert endpoint.memory.held_bytes(connection) == 8000 + 2 * HELD_REQUEST_BYTES
        gate.set()
        await turns()
        assert [answer.opaque for answer in transport.take()] == [1, 2]
        assert endpoint.memory.total_bytes == 0

    run(main())


def test_waiting_requests_of_one_peer_have_a_limit(run, attach, frames, turns) -> None:
    async def main() -> None:
        gate = asyncio.Event()

        async def slow(_, command: RemotingCommand) -> RemotingCommand:
            await gate.wait()
            return response(command)

        limits = EndpointLimits(held_bytes=10_000, lanes={"send": LaneLimits(concurrency=1)})
        endpoint = Endpoint({CODE: slow}, limits=limits)
        connection, transport = attach(endpoint)
        connection.data_received(frames(*(numbered(n, bytes(3000)) for n in range(4))))
        answers = await transport.taken()
        assert [(a.opaque, a.code) for a in answers] == [
            (2, ResponseCode.SYSTEM_BUSY),
            (3, ResponseCode.SYSTEM_BUSY),
        ]
        connection.close()
        await turns()
        assert endpoint.memory.total_bytes == 0
        gate.set()
        await turns()
        assert endpoint.memory.total_bytes == 0

    run(main())


@pytest.fixture
def slow_clock(monkeypatch) -> list[float]:
    """A clock that handlers push on: ``[now]``."""
    now = [0.0]
    monkeypatch.setattr(connection_module, "monotonic_s", lambda: now[0])
    return now


def test_requests_of_one_read_yield_to_other_peers(run, attach, frames, turns, slow_clock) -> None:
    async def main() -> None:
        order: list[tuple[str, int]] = []

        def handler(peer, command: RemotingCommand) -> RemotingCommand:
            order.append((peer.remote_address, command.opaque))
            slow_clock[0] += 0.006
            return response(command)

        endpoint = Endpoint({CODE: handler})
        greedy, greedy_transport = attach(endpoint, ("127.0.0.1", 1))
        modest, modest_transport = attach(endpoint, ("127.0.0.1", 2))
        greedy.data_received(frames(*(numbered(n) for n in range(6))))
        assert [opaque for _, opaque in order] == [0, 1]
        assert not greedy_transport.reading
        modest.data_received(frames(numbered(100)))
        assert order[-1] == ("127.0.0.1:2", 100)
        await turns()
        assert [opaque for _, opaque in order] == [0, 1, 100, 2, 3, 4, 5]
        assert greedy_transport.reading
        assert [a.opaque for a in greedy_transport.take()] == list(range(6))
        assert [a.opaque for a in modest_transport.take()] == [100]

    run(main())


def test_frames_read_meanwhile_keep_their_order(run, attach, frames, turns, slow_clock) -> None:
    async def main() -> None:
        def handler(_, command: RemotingCommand) -> RemotingCommand:
            slow_clock[0] += 0.02
            return response(command)

        connection, transport = attach(Endpoint({CODE: handler}))
        connection.data_received(frames(numbered(0), numbered(1)))
        connection.data_received(frames(numbered(2)) + b"\xff" * 64)
        assert not transport.closing, "good frames before the broken bytes still wait"
        await turns()
        assert [a.opaque for a in transport.take()] == [0, 1, 2]
        assert transport.closing

    run(main())


@pytest.mark.parametrize("ended", [None, ConnectionResetError("reset by peer")])
@pytest.mark.parametrize("decoded", [True, False])
def test_sends_and_oneway_requests_received_before_the_peer_closed_are_served(
    run, attach, frames, turns, slow_clock, decoded: bool, ended: Exception | None
) -> None:
    async def main() -> None:
        served: list[int] = []

        def handler(_, command: RemotingCommand) -> RemotingCommand:
            served.append(command.opaque)
            slow_clock[0] += 0.02
            return response(command)

        pull = RequestCode.PULL_MESSAGE
        endpoint = Endpoint(dict.fromkeys((CODE, pull), handler))
        connection, transport = attach(endpoint)
        last = [numbered(n, code=pull) for n in range(1, 7)]
        for command in last[::2]:
            command.flag |= 2
        last.append(numbered(7))
        if decoded:
            connection.data_received(frames(numbered(0), *last))
        else:
            connection.data_received(frames(numbered(0), numbered(50, code=pull)))
            connection.undecoded.append(frames(*last) + b"\xff" * 64)
        connection.connection_lost(ended)
        assert served == [0]
        assert endpoint.memory.total_bytes > 0, "the waiting requests are counted"
        await turns()
        await turns()
        assert served == [0, 1, 3, 5, 7]
        assert (endpoint.memory.total_bytes, endpoint.share.frames) == (0, 0)
        assert not connection.backlog
        assert transport.writes == []

    run(main())


def test_the_oneway_requests_of_closed_peers_are_bounded(
    run, attach, frames, turns, slow_clock
) -> None:
    async def main() -> None:
        served: list[int] = []

        def handler(_, command: RemotingCommand) -> None:
            served.append(command.opaque)
            slow_clock[0] += 0.02

        endpoint = Endpoint({CODE: handler}, limits=EndpointLimits(held_bytes=1_000))
        connection, _ = attach(endpoint)
        commands = [numbered(n, bytes(2_000)) for n in range(3)]
        for command in commands:
            command.flag |= 2
        connection.data_received(frames(*commands))
        connection.connection_lost(None)
        await turns()
        await turns()
        assert served == [0]
        assert endpoint.memory.total_bytes == 0

    run(main())


def test_a_connection_closed_between_slices_serves_no_more(
    run, attach, frames, turns, slow_clock
) -> None:
    async def main() -> None:
        seen: list[int] = []

        def handler(_, command: RemotingCommand) -> RemotingCommand:
            seen.append(command.opaque)
            slow_clock[0] += 0.02
            return response(command)

        connection, _ = attach(Endpoint({CODE: handler}))
        connection.data_received(frames(*(numbered(n) for n in range(4))))
        connection.abort()
        await turns()
        assert seen == [0]

    run(main())


def test_a_request_above_the_lag_limit_is_reported(
    run, attach, frames, turns, slow_clock, caplog
) -> None:
    async def main() -> None:
        def handler(_, command: RemotingCommand) -> RemotingCommand:
            slow_clock[0] += command.opaque / 1000
            return response(command)

        endpoint = Endpoint({CODE: handler}, name="broker")
        connection, _ = attach(endpoint)
        connection.data_received(frames(numbered(49)))
        assert endpoint.lag.longest_ms == 0
        await turns()
        connection.data_received(frames(numbered(70)))
        assert endpoint.lag.longest_ms == pytest.approx(70)

    run(main())
    assert [line for line in caplog.messages if "held up" in line] == [
        "broker: SEND_MESSAGE (10) held up the loop for 70 ms"
    ]


def test_many_busy_peers_together_take_one_share_of_an_iteration(
    run, attach, frames, slow_clock
) -> None:
    """Ten peers of 10 ms each do not make an iteration of 100 ms, and none is passed over."""

    async def main() -> None:
        order: list[int] = []
        rounds: list[list[int]] = []

        def handler(peer, command: RemotingCommand) -> RemotingCommand:
            order.append(command.opaque)
            slow_clock[0] += 0.004
            return response(command)

        endpoint = Endpoint({CODE: handler})
        peers = [attach(endpoint, ("127.0.0.1", port))[0] for port in range(10)]
        for number, connection in enumerate(peers):
            connection.data_received(frames(*(numbered(number * 10 + n) for n in range(6))))
        while len(order) < 60:
            rounds.append(order[sum(map(len, rounds)) :])
            await asyncio.sleep(0)
        rounds.append(order[sum(map(len, rounds)) :])
        assert all(len(served) * 0.004 <= 0.015 + 2 * 0.004 for served in rounds), rounds
        first = [opaque for opaque in order if opaque % 10 == 0]
        assert first == [number * 10 for number in range(10)]
        assert max(order.index(number * 10) for number in range(10)) < 30, "before second slices"
        for number in range(10):
            mine = [opaque for opaque in order if opaque // 10 == number]
            assert mine == sorted(mine)

    run(main())


def test_the_share_of_an_iteration_is_whole_again_in_the_next_one(
    run, attach, frames, turns, slow_clock
) -> None:
    async def main() -> None:
        seen: list[int] = []

        def handler(_, command: RemotingCommand) -> RemotingCommand:
            seen.append(command.opaque)
            slow_clock[0] += 0.03
            return response(command)

        endpoint = Endpoint({CODE: handler})
        one, _ = attach(endpoint, ("127.0.0.1", 1))
        two, transport = attach(endpoint, ("127.0.0.1", 2))
        one.data_received(frames(numbered(1)))
        two.data_received(frames(numbered(2)))
        assert seen == [1]
        assert not transport.reading
        await turns()
        assert seen == [1, 2]
        assert transport.reading
        one.data_received(frames(numbered(3)))
        assert seen == [1, 2, 3]

    run(main())
