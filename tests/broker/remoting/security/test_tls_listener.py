"""One port for TLS and plain connections, over real sockets, on both event loops."""

import asyncio
import contextlib
import socket
import ssl

import msgspec
import pytest

from broker.errors import RocketMQError
from broker.remoting.client import RemotingClient
from broker.remoting.protocol.command import RemotingCommand, request, response
from broker.remoting.protocol.framing import encode_frame
from broker.remoting.security.tls import ServerTls
from broker.remoting.security.tls_settings import TlsConfig
from broker.remoting.server import RemotingServer, ServerLimits
from tests.support.certificates import write_certificate


def echo(_, command: RemotingCommand) -> RemotingCommand:
    return response(command, body=command.body)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> TlsConfig:
    certificate, key = write_certificate(tmp_path_factory.mktemp("tls"))
    return TlsConfig(tls_server_cert_path=str(certificate), tls_server_key_path=str(key))


@contextlib.asynccontextmanager
async def serving(config: TlsConfig, **limits: int):
    server = RemotingServer({1: echo}, limits=ServerLimits(**limits))
    await server.start([("127.0.0.1", 0)], tls=ServerTls(config))
    try:
        yield server
    finally:
        await server.close()


def trusting(config: TlsConfig) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=config.tls_server_cert_path)


async def call(address: str, context: ssl.SSLContext | None, body: bytes) -> bytes:
    client = RemotingClient(tls=context)
    try:
        answer = await client.call(address, request(1, body=body), timeout_ms=10_000)
        return bytes(answer.body or b"")
    finally:
        await client.close()


async def ends(sock: socket.socket) -> bool:
    """Whether the peer closes the connection without an answer."""
    try:
        return await asyncio.get_running_loop().sock_recv(sock, 100) == b""
    except ConnectionResetError:
        return True


def opened(server: RemotingServer) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", server.ports[0]))
    sock.setblocking(False)
    return sock


def test_tls_and_plain_clients_are_served_at_one_port(run, config: TlsConfig) -> None:
    async def main() -> None:
        async with serving(config) as server:
            address = server.addresses[0]
            body = bytes(range(256)) * 4_000
            for context in (trusting(config), None, trusting(config)):
                assert await call(address, context, body) == body

    run(main())


def test_the_peer_of_a_tls_connection_has_its_address_and_many_are_served(run, config) -> None:
    async def main() -> None:
        async with serving(config) as server:
            clients = [RemotingClient(tls=trusting(config)) for _ in range(20)]
            calls = [one.call(server.addresses[0], request(1, body=b"x")) for one in clients]
            assert {bytes(one.body or b"") for one in await asyncio.gather(*calls)} == {b"x"}
            peers = {connection.remote_address for connection in server.connections}
            assert len(peers) == 20
            assert all(peer.startswith("127.0.0.1:") for peer in peers)
            for one in clients:
                await one.close()

    run(main())


def test_enforcing_closes_plain_connections_and_serves_tls(run, config, caplog) -> None:
    async def main() -> None:
        strict = msgspec.structs.replace(config, tls_server_mode="enforcing")
        async with serving(strict) as server:
            with opened(server) as sock:
                await asyncio.get_running_loop().sock_sendall(sock, encode_frame(request(1)))
                assert await ends(sock)
            assert await call(server.addresses[0], trusting(config), b"x") == b"x"

    run(main())
    assert "no TLS, tls.server.mode=enforcing: closing" in caplog.text


def test_a_client_needs_a_trusted_certificate_if_one_is_required(run, config, tmp_path) -> None:
    strict = msgspec.structs.replace(
        config,
        tls_server_need_client_auth="require",
        tls_server_auth_client=True,
        tls_server_trust_cert_path=config.tls_server_cert_path,
    )
    known, unknown = trusting(config), trusting(config)
    known.load_cert_chain(config.tls_server_cert_path, config.tls_server_key_path)
    unknown.load_cert_chain(*write_certificate(tmp_path))

    async def main() -> None:
        async with serving(strict) as server:
            address = server.addresses[0]
            for refused in (trusting(config), unknown):
                with pytest.raises(RocketMQError):
                    await call(address, refused, b"x")
            assert await call(address, known, b"x") == b"x"

    run(main())


def test_bytes_that_begin_like_tls_and_are_not_end_with_one_log_line(run, config, caplog) -> None:
    async def main() -> None:
        async with serving(config) as server:
            with opened(server) as sock:
                await asyncio.get_running_loop().sock_sendall(sock, b"\x16" + bytes(2_000))
                while await asyncio.get_running_loop().sock_recv(sock, 100):
                    pass  # the alert
            assert await call(server.addresses[0], None, b"x") == b"x"

    run(main())
    assert caplog.text.count("TLS handshake failed") == 1


@pytest.mark.parametrize("with_tls", [False, True])
def test_a_first_byte_that_comes_alone_decides(run, config: TlsConfig, with_tls: bool) -> None:
    """The rest of the first message follows byte by byte."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        frame = encode_frame(request(1, body=b"x"))
        async with serving(config) as server:
            with opened(server) as sock:
                if not with_tls:
                    for byte in frame:
                        await loop.sock_sendall(sock, bytes([byte]))
                    assert (await loop.sock_recv(sock, 1_000)).endswith(b"x")
                    return
                session = trusting(config).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
                while True:
                    try:
                        session.do_handshake()
                        break
                    except ssl.SSLWantReadError:
                        for byte in outgoing.read():
                            await loop.sock_sendall(sock, bytes([byte]))
                        incoming.write(await loop.sock_recv(sock, 10_000))
                session.write(frame)
                await loop.sock_sendall(sock, outgoing.read())
                answer = b""
                while not answer.endswith(b"x"):
                    incoming.write(await loop.sock_recv(sock, 10_000))
                    with contextlib.suppress(ssl.SSLWantReadError):
                        answer += session.read(1_000)

    run(main())


def test_connections_without_a_byte_are_bounded_the_oldest_one_goes(run, config) -> None:
    async def main() -> None:
        async with serving(config, connections=2) as server:
            socks = []
            for _ in range(3):
                socks.append(opened(server))
                await asyncio.sleep(0.02)  # accepted before the next one
            assert await ends(socks[0])
            assert await call(server.addresses[0], None, b"x") == b"x"
            for sock in socks:
                sock.close()

    run(main())


def test_a_connection_that_stays_silent_is_closed_after_the_idle_time(run, config) -> None:
    async def main() -> None:
        async with serving(config, idle_ms=50) as server:
            with opened(server) as sock:
                assert await ends(sock)

    run(main())


def test_a_close_ends_silent_connections_and_handshakes(run, config: TlsConfig) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving(config) as server:
            silent, half = opened(server), opened(server)
            await loop.sock_sendall(half, b"\x16\x03\x01")
            await asyncio.sleep(0.05)
        for sock in (silent, half):
            assert await ends(sock)
            sock.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(address[0]))).close()

    address: list[str] = []

    async def around() -> None:
        async with serving(config) as server:
            address.append(server.addresses[0].rpartition(":")[2])
        await main()

    run(around())
