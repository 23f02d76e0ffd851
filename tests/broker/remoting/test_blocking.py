"""The blocking client against real servers in threads of their own."""

import contextlib
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.errors import (
    BrokerError,
    ConnectError,
    ForeignProtocolError,
    RemoteProtocolError,
    RequestTimeoutError,
    SendRequestError,
)
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request, response
from broker.remoting.protocol.framing import FrameDecoder, encode_frame
from tests.support.certificates import write_certificate


def echo_code(_, command: RemotingCommand) -> RemotingCommand:
    return response(command, remark=str(command.code))


@contextlib.contextmanager
def listener() -> Iterator[tuple[socket.socket, str]]:
    """A listening socket without a server until the test accepts."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock, f"127.0.0.1:{sock.getsockname()[1]}"


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return f"127.0.0.1:{sock.getsockname()[1]}"


def test_a_call_gets_its_answer_and_reuses_the_connection(peer) -> None:
    server = peer()
    with BlockingClient() as client:
        for n in range(5):
            answer = client.call(server.address, request(1, {"n": str(n)}, b"body"))
            assert answer.ext_fields == {"n": str(n)}
            assert answer.body == b"body"
    assert len(server.server.connections) <= 1


def test_a_body_of_many_reads_comes_whole(peer) -> None:
    server = peer()
    body = bytes(range(256)) * 40_000
    with BlockingClient() as client:
        assert client.call(server.address, request(1, body=body)).body == body


def test_call_all_sends_all_requests_at_once_and_keeps_the_order(peer) -> None:
    async def slow(_, command: RemotingCommand) -> RemotingCommand:
        import asyncio

        await asyncio.sleep(0.05)
        return response(command, remark=command.ext_fields["caller"])

    servers = [peer({2: slow}) for _ in range(3)]
    calls = [
        (server.address, request(2, {"caller": f"{place}-{n}"}))
        for place, server in enumerate(servers)
        for n in range(4)
    ]
    with BlockingClient() as client:
        results = client.call_all(calls)
    assert [r.remark for r in results] == [f"{p}-{n}" for p in range(3) for n in range(4)]


def test_one_dead_peer_does_not_hurt_the_others(peer) -> None:
    server = peer({3: lambda _, c: response(c, ResponseCode.TOPIC_NOT_EXIST, "none")})
    dead = free_address()
    with BlockingClient() as client:
        good, bad, no = client.call_all(
            [(server.address, request(1)), (dead, request(1)), (server.address, request(3))]
        )
    assert good.code == 0
    assert isinstance(bad, ConnectError)
    assert bad.address == dead
    assert no.code == ResponseCode.TOPIC_NOT_EXIST


def test_nothing_to_ask_gives_nothing() -> None:
    assert BlockingClient().call_all([]) == []


def test_a_closed_port_is_a_connect_error_with_a_hint() -> None:
    address = free_address()
    with pytest.raises(ConnectError, match="Connection refused") as caught:
        BlockingClient().call(address, request(1))
    assert caught.value.address == address
    assert "port" in caught.value.hint


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:99999", "::1:80"])
def test_an_invalid_address_is_a_connect_error(address: str) -> None:
    with pytest.raises(ConnectError):
        BlockingClient().call(address, request(1))


def test_an_answer_that_does_not_come_is_a_timeout_at_the_deadline(peer) -> None:
    server = peer({2: lambda *_: None})
    with BlockingClient(timeout_ms=10_000) as client:
        began = time.monotonic()
        with pytest.raises(RequestTimeoutError) as caught:
            client.call(server.address, request(2), timeout_ms=30)
        assert 0.025 < time.monotonic() - began < 5
        assert caught.value.address == server.address
        assert caught.value.request_code == 2
        assert client.call(server.address, request(1, body=b"x")).body == b"x"


def test_the_total_time_bounds_all_calls_together(peer) -> None:
    server = peer({2: lambda *_: None})
    with BlockingClient(timeout_ms=60_000, total_ms=40) as client:
        with pytest.raises(RequestTimeoutError):
            client.call(server.address, request(2))
        with pytest.raises((RequestTimeoutError, ConnectError)):
            client.call(server.address, request(2))


def test_connecting_is_bounded_too() -> None:
    with listener() as (sock, address):
        sock.listen(0)
        hogs = []
        for _ in range(3):  # fill the kernel's queue, so that connecting gets no answer
            hog = socket.socket()
            hog.setblocking(False)
            hog.connect_ex(sock.getsockname())
            hogs.append(hog)
        client = BlockingClient(connect_timeout_ms=30)
        results = client.call_all([(address, request(1))], timeout_ms=60)
        for hog in hogs:
            hog.close()
        client.close()
    assert isinstance(results[0], ConnectError | RequestTimeoutError)


def test_a_peer_that_hangs_up_is_a_send_request_error_and_nothing_is_repeated(peer) -> None:
    asked = []

    def hang_up(connection, command: RemotingCommand) -> None:
        asked.append(command.opaque)
        connection.abort()

    server = peer({2: hang_up})
    with BlockingClient() as client, pytest.raises(SendRequestError) as caught:
        client.call(server.address, request(2))
    assert caught.value.address == server.address
    assert caught.value.request_code == 2
    assert len(asked) == 1


def test_a_connection_the_peer_left_idle_is_replaced_before_asking(peer) -> None:
    server = peer()
    with BlockingClient() as client:
        client.call(server.address, request(1))
        server.drop_connections()
        assert client.call(server.address, request(1, body=b"x")).body == b"x"


def test_check_turns_an_error_code_into_a_broker_error(peer) -> None:
    server = peer({2: lambda _, c: response(c, ResponseCode.TOPIC_NOT_EXIST, "no topic T")})
    with BlockingClient() as client:
        assert client.check(server.address, request(1)).code == 0
        with pytest.raises(BrokerError) as caught:
            client.check(server.address, request(2))
    error = caught.value
    assert (error.code, error.remark) == (ResponseCode.TOPIC_NOT_EXIST, "no topic T")
    assert (error.address, error.request_code) == (server.address, 2)


def test_a_mapped_address_is_dialled_and_the_advertised_one_is_named(peer) -> None:
    server = peer()
    dead = free_address()
    address_map = {"10.0.0.1:10911": server.address, "10.0.0.2:10911": dead}
    with BlockingClient(address_map=address_map) as client:
        assert client.call("10.0.0.1:10911", request(1)).code == 0
        with pytest.raises(ConnectError, match=dead) as caught:
            client.call("10.0.0.2:10911", request(1))
    assert caught.value.address == "10.0.0.2:10911"


def test_each_finished_call_is_traced(peer) -> None:
    lines: list[tuple] = []
    server = peer({RequestCode.GET_BROKER_CLUSTER_INFO: echo_code})
    dead = free_address()
    with BlockingClient(trace=lambda *line: lines.append(line)) as client:
        client.call(server.address, request(RequestCode.GET_BROKER_CLUSTER_INFO))
        client.call_all([(dead, request(RequestCode.GET_BROKER_CLUSTER_INFO))])
    (name, code, address, ms), (_, no_code, dead_address, _) = lines
    assert (name, code, address) == ("GET_BROKER_CLUSTER_INFO", 0, server.address)
    assert ms > 0
    assert (no_code, dead_address) == (None, dead)


def test_each_request_is_signed_before_it_is_sent(peer) -> None:
    server = peer()
    with BlockingClient(signer=lambda c: c.ext_fields.update(AccessKey="k")) as client:
        assert client.call(server.address, request(1)).ext_fields == {"AccessKey": "k"}


def test_a_oneway_returns_when_it_is_sent(peer) -> None:
    arrived = threading.Event()
    server = peer({2: lambda *_: arrived.set()})
    with BlockingClient() as client:
        client.oneway(server.address, request(2))
        assert arrived.wait(10)
        assert client.call(server.address, request(1)).code == 0


def test_go_away_is_followed_once_on_a_new_connection(peer) -> None:
    seen = []

    def going(connection, command: RemotingCommand) -> RemotingCommand:
        seen.append(connection)
        return response(command, ResponseCode.GO_AWAY if len(seen) < 2 else 0)

    def gone(_, command: RemotingCommand) -> RemotingCommand:
        return response(command, ResponseCode.GO_AWAY)

    server = peer({2: going, 3: gone})
    with BlockingClient() as client:
        assert client.call(server.address, request(2)).code == 0
        assert client.call(server.address, request(3)).code == ResponseCode.GO_AWAY
    assert seen[0] is not seen[1]


def serve_raw(sock: socket.socket, answer) -> threading.Thread:
    """Accept one connection and pass it to ``answer(connection)``."""

    def serve() -> None:
        connection, _ = sock.accept()
        with connection:
            answer(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def read_request(connection: socket.socket) -> RemotingCommand:
    decoder = FrameDecoder()
    while not (frames := decoder.feed(connection.recv(65536))):
        pass
    return frames[0]


def test_another_protocol_in_the_answer_is_named_with_the_address() -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with listener() as (sock, address):
        thread = serve_raw(sock, answer)
        with BlockingClient() as client, pytest.raises(ForeignProtocolError, match="HTTP") as got:
            client.call(address, request(1))
        thread.join()
    assert address in str(got.value)


def test_broken_frames_are_a_protocol_error() -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"\x00\x00\x00\x10\x05" + bytes(20))

    with listener() as (sock, address):
        thread = serve_raw(sock, answer)
        with BlockingClient() as client, pytest.raises(RemoteProtocolError):
            client.call(address, request(1))
        thread.join()


def test_an_answer_cut_at_every_byte_is_read(peer) -> None:
    def answer(connection: socket.socket) -> None:
        command = read_request(connection)
        for byte in encode_frame(response(command, remark="in pieces")):
            connection.sendall(bytes([byte]))

    with listener() as (sock, address):
        thread = serve_raw(sock, answer)
        with BlockingClient() as client:
            assert client.call(address, request(1)).remark == "in pieces"
        thread.join()


def test_a_request_of_the_server_is_answered_as_not_supported() -> None:
    answers: list[RemotingCommand] = []

    def answer(connection: socket.socket) -> None:
        command = read_request(connection)
        oneway = request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, oneway=True)
        ask = request(RequestCode.GET_CONSUMER_RUNNING_INFO)
        connection.sendall(encode_frame(oneway) + encode_frame(ask))
        answers.append(read_request(connection))
        connection.sendall(encode_frame(response(command)))

    with listener() as (sock, address):
        thread = serve_raw(sock, answer)
        with BlockingClient() as client:
            assert client.call(address, request(1)).code == 0
        thread.join()
    assert [a.code for a in answers] == [ResponseCode.REQUEST_CODE_NOT_SUPPORTED]


def test_an_interrupt_drops_the_connections_in_use(peer) -> None:
    def interrupt(*_) -> None:
        raise KeyboardInterrupt

    server = peer()
    client = BlockingClient(trace=interrupt)
    with pytest.raises(KeyboardInterrupt):
        client.call(server.address, request(1))
    client.trace = None
    assert client.call(server.address, request(1)).code == 0
    client.close()


# ---- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key, as PEM files."""
    return write_certificate(tmp_path_factory.mktemp("tls"))


def test_the_same_frames_travel_inside_tls(certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    def answer(plain: socket.socket) -> None:
        with context.wrap_socket(plain, server_side=True) as connection:
            for _ in range(2):
                command = read_request(connection)
                connection.sendall(encode_frame(response(command, body=command.body)))

    body = bytes(50_000)
    client_context = ssl.create_default_context(cafile=str(certificate[0]))
    with listener() as (sock, address):
        thread = serve_raw(sock, answer)
        with BlockingClient(tls=client_context) as client:
            for _ in range(2):
                assert client.call(address, request(1, body=body[:20_000])).code == 0
        thread.join()


def test_an_untrusted_certificate_is_a_connect_error(certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    def answer(plain: socket.socket) -> None:
        with contextlib.suppress(OSError), context.wrap_socket(plain, server_side=True):
            pass

    with listener() as (sock, address):
        thread = serve_raw(sock, answer)
        with (
            BlockingClient(tls=ssl.create_default_context()) as client,
            pytest.raises(ConnectError, match="TLS handshake failed"),
        ):
            client.call(address, request(1))
        thread.join()


def test_a_connection_without_a_certificate_that_the_peer_requires_has_a_hint(
    certificate: tuple[Path, Path],
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    context.load_verify_locations(certificate[0])
    context.verify_mode = ssl.CERT_REQUIRED

    def answer(plain: socket.socket) -> None:
        with contextlib.suppress(OSError), context.wrap_socket(plain, server_side=True):
            pass

    client_context = ssl.create_default_context(cafile=str(certificate[0]))
    with listener() as (sock, address):
        thread = serve_raw(sock, answer)
        with BlockingClient(tls=client_context) as client, pytest.raises(SendRequestError) as lost:
            client.call(address, request(1))
        thread.join()
    assert (
        lost.value.hint == "does the peer require a client certificate that it trusts (--tls-cert)?"
    )


def test_a_peer_that_closes_a_connection_without_tls_has_a_hint() -> None:
    def answer_first(connection: socket.socket) -> None:
        with connection:
            connection.sendall(encode_frame(response(read_request(connection))))
            read_request(connection)

    with listener() as (sock, address):
        thread = serve_raw(sock, lambda connection: connection.close())
        with BlockingClient() as client, pytest.raises(SendRequestError) as lost:
            client.call(address, request(1))
        thread.join()
    assert lost.value.hint == "does the peer accept TLS only (--tls)?"
    with listener() as (sock, address):
        thread = serve_raw(sock, answer_first)
        with BlockingClient() as client:
            client.call(address, request(1))
            with pytest.raises(SendRequestError) as lost:
                client.call(address, request(1))
        thread.join()
    assert lost.value.hint == ""


def test_a_peer_without_tls_is_refused(peer) -> None:
    server = peer()
    with (
        BlockingClient(tls=ssl.create_default_context(), timeout_ms=5_000) as client,
        pytest.raises(ConnectError, match="TLS"),
    ):
        client.call(server.address, request(1))


# ---- start-up cost


def test_the_blocking_client_loads_no_loop_no_threads_no_tls() -> None:
    code = (
        "import sys, broker.remoting.blocking;"
        "print([m for m in ('asyncio', 'ssl', 'threading', 'concurrent.futures', 'logging',"
        " 'broker.remoting.protocol.rpc') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
