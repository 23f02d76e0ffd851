"""The asyncio client: one connection per address, timeouts, reconnecting, requests both ways."""

import asyncio

import pytest

from broker.errors import ConnectError, RequestTimeoutError, SendRequestError
from broker.remoting.client import RemotingClient
from broker.remoting.limits import EndpointLimits
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request, response
from broker.remoting.server import RemotingServer


def echo(_, command: RemotingCommand) -> RemotingCommand:
    return response(command, ext=dict(command.ext_fields), body=command.body)


async def serve(handlers: dict, **options) -> tuple[RemotingServer, str]:
    server = RemotingServer(handlers, **options)
    await server.start([("127.0.0.1", 0)])
    return server, server.addresses[0]


def test_many_calls_at_once_share_one_connection(run) -> None:
    async def main() -> None:
        server, address = await serve({1: echo})
        client = RemotingClient()
        answers = await asyncio.gather(
            *(client.call(address, request(1, body=b"%d" % n)) for n in range(50))
        )
        assert [a.body for a in answers] == [b"%d" % n for n in range(50)]
        assert len(server.connections) == len(client.connections) == 1
        await client.close()
        await server.close()

    run(main())


def test_a_closed_port_is_a_connect_error_for_every_caller(run) -> None:
    async def main() -> None:
        server, address = await serve({})
        await server.close()
        client = RemotingClient()
        results = await asyncio.gather(
            *(client.call(address, request(1)) for _ in range(3)), return_exceptions=True
        )
        assert [type(result) for result in results] == [ConnectError] * 3
        assert {result.address for result in results} == {address}
        with pytest.raises(ConnectError, match="nonsense"):
            await client.call("nonsense", request(1))
        await client.close()

    run(main())


def test_a_lost_connection_is_reopened_by_the_next_call(run) -> None:
    async def main() -> None:
        server, address = await serve({1: echo})
        client = RemotingClient()
        await client.call(address, request(1))
        first = await client.connection(address)
        for connection in list(server.connections):
            connection.close()
        while not first.closed:
            await asyncio.sleep(0)
        assert (await client.call(address, request(1, body=b"again"))).body == b"again"
        assert await client.connection(address) is not first
        await client.close()
        await server.close()

    run(main())


def test_a_call_on_a_connection_that_breaks_fails_and_is_not_repeated(run) -> None:
    async def main() -> None:
        asked = []

        def hang_up(connection, command) -> None:
            asked.append(command.opaque)
            connection.abort()

        server, address = await serve({1: hang_up})
        client = RemotingClient()
        with pytest.raises(SendRequestError) as caught:
            await client.call(address, request(1))
        assert caught.value.address == address
        assert len(asked) == 1
        await client.close()
        await server.close()

    run(main())


def test_a_peer_that_closes_before_its_first_answer_may_accept_tls_only(run) -> None:
    async def main() -> None:
        server, address = await serve({1: echo, 2: lambda peer, _: peer.abort()})
        for asked, hint in (((2,), "does the peer accept TLS only?"), ((1, 2), "")):
            client = RemotingClient()
            with pytest.raises(SendRequestError) as caught:
                for code in asked:
                    await client.call(address, request(code))
            assert caught.value.hint == hint
            await client.close()
        await server.close()

    run(main())


def test_a_timeout_closes_a_silent_peers_connection_but_not_a_busy_ones(run) -> None:
    async def main() -> None:
        server, address = await serve({1: echo, 2: lambda *_: None})
        client = RemotingClient()
        first = await client.connection(address)
        with pytest.raises(RequestTimeoutError, match="within"):
            await client.call(address, request(2), 5)
        assert first.closed
        second = await client.connection(address)
        waiting = asyncio.ensure_future(client.call(address, request(2), 100))
        await asyncio.sleep(0)
        await client.call(address, request(1))
        with pytest.raises(RequestTimeoutError):
            await waiting
        assert not second.closed
        await client.close()
        await server.close()

    run(main())


def test_a_timed_out_call_leaves_the_others_on_its_connection_untouched(run) -> None:
    async def main() -> None:
        gate = asyncio.Event()

        async def late(_, command: RemotingCommand) -> RemotingCommand:
            await gate.wait()
            return response(command, body=command.body)

        server, address = await serve({1: echo, 2: late})
        client = RemotingClient()
        first = await client.connection(address)
        waiting = asyncio.ensure_future(client.call(address, request(2, body=b"a"), 60_000))
        await asyncio.sleep(0)
        with pytest.raises(RequestTimeoutError, match="within 20 ms"):
            await client.call(address, request(2, body=b"b"), 19.996)  # left of a larger budget
        assert not first.closed
        # the peer may be gone without a sign: further calls use a new connection
        assert (await client.call(address, request(1, body=b"c"))).body == b"c"
        assert await client.connection(address) is not first
        gate.set()
        assert (await waiting).body == b"a"
        assert first.closed  # after its last call
        await client.close()
        await server.close()

    run(main())


def test_the_server_may_ask_the_client_over_its_connection(run) -> None:
    async def main() -> None:
        async def ask_back(connection, command: RemotingCommand) -> RemotingCommand:
            answer = await connection.call(request(RequestCode.GET_CONSUMER_RUNNING_INFO))
            return response(command, remark=answer.remark)

        server, address = await serve({1: ask_back})
        client = RemotingClient(
            {RequestCode.GET_CONSUMER_RUNNING_INFO: lambda _, c: response(c, remark="running")}
        )
        assert (await client.call(address, request(1))).remark == "running"
        await client.close()
        await server.close()

    run(main())


def test_a_oneway_arrives_and_leaves_no_state(run) -> None:
    async def main() -> None:
        arrived = asyncio.Event()
        server, address = await serve({1: lambda *_: arrived.set()})
        client = RemotingClient()
        await client.oneway(address, request(1))
        await arrived.wait()
        assert (await client.connection(address)).calls == {}
        await client.close()
        await server.close()

    run(main())


def test_go_away_repeats_once_on_a_new_connection(run) -> None:
    async def main() -> None:
        seen = []

        def going(connection, command: RemotingCommand) -> RemotingCommand:
            seen.append((connection, command.opaque))
            return response(command, ResponseCode.GO_AWAY if len(seen) < 2 else 0)

        server, address = await serve({1: going})
        client = RemotingClient()
        assert (await client.call(address, request(1))).code == 0
        assert len({id(connection) for connection, _ in seen}) == 2
        assert len({opaque for _, opaque in seen}) == 2
        await client.close()
        await server.close()

    run(main())


def test_requests_can_be_signed(run) -> None:
    async def main() -> None:
        server, address = await serve({1: echo})
        client = RemotingClient(signer=lambda c: c.ext_fields.update(AccessKey="k"))
        assert (await client.call(address, request(1))).ext_fields == {"AccessKey": "k"}
        await client.close()
        await server.close()

    run(main())


def test_a_closed_client_refuses_calls_and_fails_pending_ones(run) -> None:
    async def main() -> None:
        server, address = await serve({2: lambda *_: None})
        client = RemotingClient()
        connection = await client.connection(address)
        waiting = asyncio.ensure_future(client.call(address, request(2), 10_000))
        while not connection.calls:
            await asyncio.sleep(0)
        await client.close()
        with pytest.raises(SendRequestError):
            await waiting
        with pytest.raises(ConnectError, match="closed"):
            await client.call(address, request(2))
        await server.close()

    run(main())


@pytest.mark.parametrize("passes", range(10))
def test_closing_while_connecting_leaves_no_connection(run, passes: int) -> None:
    async def main() -> None:
        server, address = await serve({2: lambda *_: None})
        client = RemotingClient()
        waiting = asyncio.ensure_future(client.call(address, request(2), 10_000))
        for _ in range(passes):
            await asyncio.sleep(0)
        await client.close()
        with pytest.raises((ConnectError, SendRequestError)):
            await waiting
        assert client.connections == set()
        await server.close()
        assert server.connections == set()

    run(main())


def test_calls_are_refused_while_too_much_is_unsent(run) -> None:
    async def main() -> None:
        server, address = await serve({1: echo})
        limits = EndpointLimits(
            unsent_pause_bytes=1000, unsent_resume_bytes=100, unsent_limit_bytes=10_000_000
        )
        client = RemotingClient(limits=limits)
        connection = await client.connection(address)
        for accepted in server.connections:
            accepted.transport.pause_reading()
        calls: list[asyncio.Future] = []
        while not any(call.done() for call in calls):
            command = request(1, body=bytes(4_000_000))
            calls.append(asyncio.ensure_future(client.call(address, command, 9_000)))
            for _ in range(5):
                await asyncio.sleep(0)
        for accepted in server.connections:
            accepted.transport.resume_reading()
        results = await asyncio.gather(*calls, return_exceptions=True)
        kinds = {type(result).__name__ for result in results}
        assert kinds == {"RemotingCommand", "TooMuchRequestError"}
        assert not connection.closed
        await client.close()
        await server.close()

    run(main())
