"""The listener, over real sockets on free ports."""

import asyncio
import contextlib
import os
import random
import resource
import socket
import struct

import pytest

from broker.errors import ConfigError, ConnectError
from broker.remoting.client import RemotingClient
from broker.remoting.process.loop import loop_factory
from broker.remoting.protocol.command import RemotingCommand, request, response
from broker.remoting.protocol.framing import encode_frame
from broker.remoting.server import (
    RemotingServer,
    ServerLimits,
    connections_that_fit,
    host_address,
    raise_file_limit,
)


def echo(_, command: RemotingCommand) -> RemotingCommand:
    return response(command, ext=dict(command.ext_fields), body=command.body)


def test_it_listens_on_each_address_and_answers_on_all(run) -> None:
    async def main() -> None:
        server = RemotingServer({1: echo})
        await server.start([("127.0.0.1", 0), ("127.0.0.1", 0)])
        assert len(set(server.ports)) == 2
        assert server.addresses == [f"127.0.0.1:{port}" for port in server.ports]
        client = RemotingClient()
        for address in server.addresses:
            answer = await client.call(address, request(1, body=b"x"))
            assert answer.body == b"x"
        await client.close()
        await server.close()
        assert server.addresses == []

    run(main())


def test_a_taken_port_is_an_error_that_names_it(run) -> None:
    async def main() -> None:
        first = RemotingServer({})
        await first.start([("127.0.0.1", 0)])
        second = RemotingServer({})
        with pytest.raises(ConnectError, match=r"cannot listen on 127\.0\.0\.1") as caught:
            await second.start([("127.0.0.1", 0), ("127.0.0.1", first.ports[0])])
        assert caught.value.address == first.addresses[0]
        assert second.addresses == []
        await first.close()

    run(main())


def test_http_gets_nothing_but_the_end(run) -> None:
    async def main() -> None:
        server = RemotingServer({})
        await server.start([("127.0.0.1", 0)])
        reader, writer = await asyncio.open_connection("127.0.0.1", server.ports[0])
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        await server.close()

    run(main())


def test_a_big_pipelined_load_is_answered_whole(run) -> None:
    async def main() -> None:
        server = RemotingServer({1: echo})
        await server.start([("127.0.0.1", 0)])
        client = RemotingClient()
        body = bytes(200_000)
        answers = await asyncio.gather(
            *(client.call(server.addresses[0], request(1, body=body), 15_000) for _ in range(100))
        )
        assert {len(answer.body) for answer in answers} == {200_000}
        assert len(server.connections) == 1
        await client.close()
        await server.close()

    run(main())


def test_a_slow_reader_gets_short_and_long_answers_in_order(run) -> None:
    def blocks(_, command: RemotingCommand) -> RemotingCommand:
        number, size = int(command.ext_fields["number"]), int(command.ext_fields["size"])
        view = memoryview(number.to_bytes(4, "big") * (size // 4))
        return response(command, body=[view[at : at + 1100] for at in range(0, len(view), 1100)])

    async def main() -> None:
        server = RemotingServer({1: blocks})
        await server.start([("127.0.0.1", 0)])
        seed = random.randrange(1 << 32)
        sizes = random.Random(seed).choices((4, 2000, 36_000, 100_000, 2_000_000), k=60)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.ports[0], limit=4096)
        for number, size in enumerate(sizes):
            command = request(1, {"number": str(number), "size": str(size)})
            writer.write(encode_frame(command))
            if number % 7 == 0:
                await asyncio.sleep(0.001)
        for number, size in enumerate(sizes):
            length, word = struct.unpack(">II", await reader.readexactly(8))
            await reader.readexactly(word & 0xFFFFFF)
            body = await reader.readexactly(length - 4 - (word & 0xFFFFFF))
            assert body == number.to_bytes(4, "big") * (size // 4), f"seed {seed}, answer {number}"
        writer.close()
        await server.close()

    run(main())


def test_a_peer_that_stops_reading_is_closed_and_others_are_served(run) -> None:
    async def main() -> None:
        limits = ServerLimits(
            unsent_pause_bytes=64_000, unsent_resume_bytes=16_000, unsent_limit_bytes=8_000_000
        )
        held: list = []

        def hold(connection, _) -> None:
            held.append(connection)

        closed = asyncio.Event()
        server = RemotingServer({1: echo, 2: hold}, limits=limits, on_close=lambda _: closed.set())
        await server.start([("127.0.0.1", 0)])
        slow = RemotingClient()
        connection = await slow.connection(server.addresses[0])
        connection.oneway(request(2))
        while not held:
            await asyncio.sleep(0)
        connection.transport.pause_reading()
        while not held[0].closed:
            held[0].send(response(request(1), body=bytes(1_000_000)))
            await asyncio.sleep(0)
        await closed.wait()
        quick = RemotingClient()
        assert (await quick.call(server.addresses[0], request(1, body=b"x"))).body == b"x"
        await quick.close()
        await slow.close()
        await server.close()

    run(main())


def test_many_idle_connections_cost_little(run) -> None:
    async def main() -> None:
        server = RemotingServer({1: echo})
        await server.start([("127.0.0.1", 0)])
        writers = []
        for _ in range(300):
            _, writer = await asyncio.open_connection("127.0.0.1", server.ports[0])
            writers.append(writer)
        client = RemotingClient()
        assert (await client.call(server.addresses[0], request(1, body=b"x"))).body == b"x"
        assert len(server.connections) == 301
        server.scan_idle()
        await client.close()
        for writer in writers:
            writer.close()
        await server.close()
        assert server.connections == set()

    run(main())


def test_closing_answers_requests_in_flight(run) -> None:
    async def main() -> None:
        started = asyncio.Event()
        gate = asyncio.Event()

        async def slow(_, command: RemotingCommand) -> RemotingCommand:
            started.set()
            await gate.wait()
            return response(command, remark="done")

        server = RemotingServer({2: slow})
        await server.start([("127.0.0.1", 0)])
        address = server.addresses[0]
        client = RemotingClient()
        call = asyncio.ensure_future(client.call(address, request(2)))
        await started.wait()
        closing = asyncio.ensure_future(server.close(drain_ms=10_000))
        await asyncio.sleep(0)
        gate.set()
        assert (await call).remark == "done"
        await closing
        with pytest.raises(ConnectError):
            await RemotingClient().call(address, request(2))
        await client.close()

    run(main())


@pytest.mark.parametrize("turns", range(5))
def test_connection_being_accepted_at_the_end_is_closed_too(run, turns: int) -> None:
    """asyncio accepts in several turns of the loop; whichever is reached, the peer sees the end."""

    async def main() -> None:
        server = RemotingServer({})
        await server.start([("127.0.0.1", 0)])
        with socket.create_connection(("127.0.0.1", server.ports[0])) as peer:
            peer.setblocking(False)
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.close()
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.get_running_loop().sock_recv(peer, 1) == b""

    run(main())


def test_the_limit_of_open_files_is_lifted_but_never_lowered() -> None:
    now = raise_file_limit(1)
    assert now >= 1
    assert raise_file_limit(1) == now


def test_connections_above_the_limit_see_the_end_at_once(run) -> None:
    async def main() -> None:
        server = RemotingServer({1: echo}, limits=ServerLimits(connections=1))
        await server.start([("127.0.0.1", 0)])
        client = RemotingClient()
        await client.call(server.addresses[0], request(1))
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.ports[0])
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
        assert server.refused_connections == 3
        assert (await client.call(server.addresses[0], request(1, body=b"x"))).body == b"x"
        await client.close()
        await server.close()

    run(main())


def test_a_host_name_becomes_an_address_and_an_address_stays() -> None:
    assert host_address("localhost") == "127.0.0.1"
    assert host_address("10.1.2.3") == "10.1.2.3"
    assert host_address("::1") == "::1"
    for unknown in ("not an ip", "no.such.host.invalid", "a" * 300, ""):
        with pytest.raises(ConfigError, match="host") as raised:
            host_address(unknown)
        assert raised.value.hint


@pytest.mark.parametrize("host", ["192.0.2.77", "no.such.invalid"])
def test_a_foreign_address_is_distinguished_from_a_port_in_use(run, host: str) -> None:
    async def main() -> None:
        with pytest.raises(ConnectError, match=f"cannot listen on {host}:1234: [A-Z]") as caught:
            await RemotingServer({}).start([(host, 1234)])
        assert "address of this machine" in caught.value.hint

    run(main())


# ---- descriptors


@pytest.fixture
def limit_files():
    """``limit_files(left)``: so many descriptors are left to this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fillers: list[int] = []

    def limit(left: int) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        highest = max(map(int, os.listdir("/dev/fd")))
        # The limit is on the number, so the gaps below the highest one would be left as well.
        while not fillers or fillers[-1] < highest:
            fillers.append(os.open(os.devnull, os.O_RDONLY))
        os.close(fillers.pop())
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + left, hard))

    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for filler in fillers:
        os.close(filler)


def test_connections_leave_descriptors_to_files(limit_files) -> None:
    limit_files(400)
    assert connections_that_fit(10) == 10
    left = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - len(os.listdir("/dev/fd"))
    assert left // 2 < connections_that_fit(100_000) <= left * 3 // 4 + 1
    limit_files(0)
    assert connections_that_fit(100) >= 1


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, None])
def test_without_a_descriptor_accepting_waits_and_continues(factory, limit_files, caplog) -> None:
    async def main() -> None:
        server = RemotingServer({1: echo}, limits=ServerLimits(connections=10))
        await server.start([("127.0.0.1", 0)])
        port = server.ports[0]
        with contextlib.ExitStack() as peers:
            sockets = [peers.enter_context(socket.socket()) for _ in range(20)]
            limit_files(0)
            for sock in sockets:
                sock.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    sock.connect(("127.0.0.1", port))
            # Accepting fails now; the loop must nevertheless run some hundred times.
            for _ in range(300):
                await asyncio.sleep(0)
            attempts = sum("accept" in record.getMessage() for record in caplog.records)
            assert attempts <= 3
            limit_files(100)
        client = RemotingClient()
        answer = await client.call(server.addresses[0], request(1, body=b"x"))
        assert answer.body == b"x"
        await client.close()
        await server.close()

    caplog.set_level("ERROR", "asyncio")
    with asyncio.Runner(loop_factory=factory or loop_factory()) as runner:
        runner.run(asyncio.wait_for(main(), 30))


def test_oneway_requests_sent_before_a_reset_are_served(run) -> None:
    """A peer closes with unread responses: the next response fails before the rest is read."""

    async def main() -> None:
        served: list[int] = []
        last = asyncio.Event()
        peer = socket.socket()

        def answer(_, command: RemotingCommand) -> RemotingCommand:
            rest = [request(2, {"n": str(n)}, oneway=True) for n in range(8)]
            peer.sendall(b"".join(map(encode_frame, rest)))
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()  # with a reset
            return response(command)

        def note(_, command: RemotingCommand) -> None:
            served.append(int(command.ext_fields["n"]))
            if len(served) == 8:
                last.set()

        server = RemotingServer({1: answer, 2: note})
        await server.start([("127.0.0.1", 0)])
        peer.connect(("127.0.0.1", server.ports[0]))
        peer.sendall(encode_frame(request(1)))
        await asyncio.wait_for(last.wait(), 30)
        assert served == list(range(8))
        await server.close()

    run(main())
