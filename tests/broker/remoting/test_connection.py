"""One peer: bytes in, answers out, calls, back-pressure, over a transport that is a list."""

import asyncio
import logging

import pytest

from broker.errors import (
    BrokerError,
    ClientError,
    RequestTimeoutError,
    SendRequestError,
    TooMuchRequestError,
)
from broker.remoting.endpoint import Endpoint
from broker.remoting.limits import FLUSH_BYTES, JOIN_LIMIT_BYTES, EndpointLimits
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request, response
from broker.remoting.protocol.framing import encode_frame
from broker.remoting.protocol.rpc import Access

ADMIN = Access.ADMINISTRATOR


def echo(_, command: RemotingCommand) -> RemotingCommand:
    return response(command, ext=dict(command.ext_fields), body=command.body)


def request_with(opaque: int, code: int = 1, **fields) -> RemotingCommand:
    command = request(code, **fields)
    command.opaque = opaque
    return command


def test_all_requests_of_a_read_are_answered_with_one_write_in_order(run, attach, frames) -> None:
    async def main() -> None:
        connection, transport = attach(Endpoint({1: echo}))
        commands = [request_with(n, body=b"%d" % n) for n in range(50)]
        connection.data_received(frames(*commands))
        await asyncio.sleep(0)
        assert len(transport.writes) == 1
        answers = await transport.taken()
        assert [a.opaque for a in answers] == list(range(50))
        assert [a.body for a in answers] == [b"%d" % n for n in range(50)]
        assert all(a.flag == 1 and a.code == 0 for a in answers)

    run(main())


@pytest.mark.parametrize("sizes", [[5], [5, 5], [JOIN_LIMIT_BYTES, 5], [FLUSH_BYTES, FLUSH_BYTES]])
def test_before_write_is_called_before_each_write(run, attach, frames, sizes) -> None:
    async def main() -> None:
        endpoint = Endpoint({1: echo})
        connection, transport = attach(endpoint)
        written_before: list[int] = []
        endpoint.share.before_write = lambda: written_before.append(len(transport.writes))
        commands = [request_with(n, body=bytes(size)) for n, size in enumerate(sizes)]
        connection.data_received(frames(*commands))
        assert len(await transport.taken()) == len(sizes)
        assert written_before == list(range(len(written_before))) != []

    run(main())


@pytest.mark.parametrize(
    "wrong", [b'\0\0\0\x08\0\0\0\x04{"a"', b"\0\0\0\x08\0\0\0\x04null", b"GET / HTTP/1.1\r\n\r\n"]
)
@pytest.mark.parametrize("valid_before", [False, True])
def test_a_refused_connection_keeps_no_frames_of_the_calls(
    run, attach, frames, wrong: bytes, valid_before: bool
) -> None:
    """Through a traceback a closed connection kept all bytes of its loop iteration."""

    async def main() -> None:
        connection, _ = attach(Endpoint({1: echo}))
        connection.data_received(frames(request_with(1)) * valid_before + wrong)
        assert connection.closed
        error: BaseException | None = connection.lost
        assert error is not None
        while error is not None:
            assert error.__traceback__ is None, repr(error)
            error = error.__cause__ or error.__context__

    run(main())


def test_a_frame_cut_at_every_byte_is_answered_once_after_its_last(run, attach, frames) -> None:
    async def main() -> None:
        connection, transport = attach(Endpoint({1: echo}))
        data = frames(request_with(7, ext={"topic": "T"}, body=b"hello"))
        for cut in range(len(data) - 1):
            connection.data_received(data[cut : cut + 1])
            assert transport.writes == []
        connection.data_received(data[-1:])
        (answer,) = await transport.taken()
        assert (answer.opaque, answer.body) == (7, b"hello")

    run(main())


@pytest.mark.parametrize("opaque", [0, 1, 2**31 - 1, -1, -(2**31)])
def test_the_opaque_comes_back_unchanged(run, attach, frames, opaque: int) -> None:
    async def main() -> None:
        connection, transport = attach(Endpoint({1: echo}))
        connection.data_received(frames(request_with(opaque)))
        assert (await transport.taken())[0].opaque == opaque

    run(main())


def test_awaited_answers_come_out_of_order_each_once(run, attach, frames, turns) -> None:
    gates: dict[str, asyncio.Future] = {}

    async def main() -> None:
        running = asyncio.get_running_loop()

        async def slow(_, command: RemotingCommand) -> RemotingCommand:
            gate = gates[command.ext_fields["gate"]] = running.create_future()
            await gate
            return response(command)

        connection, transport = attach(Endpoint({1: echo, 2: slow}))
        connection.data_received(
            frames(
                request_with(1, 2, ext={"gate": "a"}),
                request_with(2, 2, ext={"gate": "b"}),
                request_with(3),
            )
        )
        assert [a.opaque for a in await transport.taken()] == [3]
        await turns()
        gates["b"].set_result(None)
        await turns()
        assert [a.opaque for a in await transport.taken()] == [2]
        gates["a"].set_result(None)
        await turns()
        assert [a.opaque for a in await transport.taken()] == [1]

    run(main())


def test_answers_that_come_together_leave_in_one_write(run, attach, frames, turns) -> None:
    async def main() -> None:
        gate = asyncio.get_running_loop().create_future()

        async def slow(_, command: RemotingCommand) -> RemotingCommand:
            await gate
            return response(command)

        connection, transport = attach(Endpoint({2: slow}))
        connection.data_received(frames(*(request_with(n, 2) for n in range(20))))
        await turns()
        gate.set_result(None)
        await turns()
        assert len(transport.writes) == 1
        assert len(await transport.taken()) == 20

    run(main())


def test_oneway_is_never_answered_whatever_happens(run, attach, frames, turns) -> None:
    def boom(*_) -> RemotingCommand:
        raise ValueError("no")

    async def later(_, command: RemotingCommand) -> RemotingCommand:
        return response(command)

    async def main() -> None:
        handlers = {1: echo, 2: boom, 3: later, 4: lambda _, c: encode_frame(response(c))}
        connection, transport = attach(Endpoint(handlers))
        for code in (1, 2, 3, 4, 99):
            connection.data_received(frames(request(code, oneway=True)))
        await turns()
        assert transport.writes == []

    run(main())


def test_a_handler_may_give_ready_bytes_buffers_or_nothing(run, attach, frames) -> None:
    def ready(_, command: RemotingCommand) -> bytes:
        return encode_frame(response(command, remark="ready"))

    def buffers(_, command: RemotingCommand) -> list:
        frame = encode_frame(response(command, body=b"x" * 10))
        return [frame[:-10], memoryview(frame)[-10:]]

    async def main() -> None:
        handlers = {1: ready, 2: buffers, 3: lambda *_: None}
        connection, transport = attach(Endpoint(handlers))
        connection.data_received(frames(request_with(1, 3), request_with(2, 2), request_with(3, 1)))
        first, second = await transport.taken()
        assert (first.opaque, first.body) == (2, b"x" * 10)
        assert (second.opaque, second.remark) == (3, "ready")

    run(main())


def test_an_unknown_code_is_answered_with_3_naming_it(run, attach, frames) -> None:
    async def main() -> None:
        connection, transport = attach(Endpoint({}))
        connection.data_received(frames(request_with(5, 12345)))
        (answer,) = await transport.taken()
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert answer.opaque == 5
        assert "12345" in answer.remark

    run(main())


def test_an_error_in_a_handler_becomes_system_error_with_its_place(run, attach, frames) -> None:
    def boom(*_) -> RemotingCommand:
        raise ValueError("the cause")

    async def later(*_) -> RemotingCommand:
        raise ClientError("no route")

    async def main() -> None:
        connection, transport = attach(Endpoint({1: boom, 2: later}))
        connection.data_received(frames(request_with(1), request_with(2, 2)))
        for _ in range(5):
            await asyncio.sleep(0)
        first, second = await transport.taken()
        assert first.code == second.code == ResponseCode.SYSTEM_ERROR
        assert first.remark.startswith("ValueError: the cause, boom (test_connection.py:")
        assert second.remark == "ClientError: no route"

    run(main())


def test_a_broker_error_carries_its_own_code_and_remark(run, attach, frames) -> None:
    def no(*_) -> RemotingCommand:
        raise BrokerError(ResponseCode.TOPIC_NOT_EXIST, "no such topic")

    async def main() -> None:
        connection, transport = attach(Endpoint({1: no}))
        connection.data_received(frames(request_with(1)))
        (answer,) = await transport.taken()
        assert (answer.code, answer.remark) == (ResponseCode.TOPIC_NOT_EXIST, "no such topic")

    run(main())


def test_an_answer_above_the_frame_limit_becomes_an_error_answer(run, attach, frames) -> None:
    async def main() -> None:
        huge = bytes(17 * 1024 * 1024)
        connection, transport = attach(Endpoint({1: lambda _, c: response(c, body=huge)}))
        connection.data_received(frames(request_with(1)))
        (answer,) = await transport.taken()
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "cannot be sent" in answer.remark

    run(main())


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "gRPC"),
    ],
)
def test_another_protocol_gets_one_log_line_and_a_quiet_close(
    run, attach, turns, caplog, data: bytes, kind: str
) -> None:
    async def main() -> None:
        connection, transport = attach(Endpoint({}))
        connection.data_received(data)
        assert transport.closing
        assert transport.writes == []
        connection.data_received(data)
        await turns()
        assert connection.closed

    with caplog.at_level(logging.WARNING):
        run(main())
    lines = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len([line for line in lines if kind in line and "127.0.0.1:50000" in line]) == 1


def test_good_frames_before_broken_bytes_are_answered_then_it_closes(run, attach, frames) -> None:
    async def main() -> None:
        connection, transport = attach(Endpoint({1: echo}))
        connection.data_received(frames(request_with(3)) + b"\xff" * 64)
        assert [a.opaque for a in await transport.taken()] == [3]
        assert transport.closing

    run(main())


def test_a_peer_that_ends_its_stream_after_a_request_gets_the_response(run, attach, frames) -> None:
    async def main() -> None:
        connection, transport = attach(Endpoint({1: echo}))
        connection.data_received(frames(request_with(3)))
        assert not connection.eof_received()
        assert [a.opaque for a in transport.take()] == [3]

    run(main())


def test_a_frame_above_the_limit_closes_before_it_is_buffered(run, attach) -> None:
    async def main() -> None:
        endpoint = Endpoint({}, limits=EndpointLimits(frame_bytes=1024))
        connection, transport = attach(endpoint)
        connection.data_received((5000).to_bytes(4, "big") + bytes(4))
        assert transport.closing
        assert connection.decoder.pending_bytes == 0

    run(main())


def test_partial_frames_are_bounded_over_all_peers(run, attach, frames, turns) -> None:
    async def main() -> None:
        endpoint = Endpoint({1: echo}, limits=EndpointLimits(held_total_bytes=2500))
        data = frames(request_with(1, body=bytes(1500)))
        peers = [attach(endpoint) for _ in range(3)]
        for connection, transport in peers[:2]:
            connection.data_received(data[:1000])
            connection.data_received(data[1000:1200])
            assert not transport.closing
        assert endpoint.memory.total_bytes == 2400
        peers[0][0].data_received(data[1200:1300])
        assert endpoint.memory.total_bytes == 2500
        peers[2][0].data_received(data[:200])
        await turns()
        assert peers[0][1].aborted  # it held most
        assert endpoint.memory.total_bytes == 1400
        peers[1][0].data_received(data[1200:])
        peers[2][0].data_received(data[200:])
        assert [a.opaque for a in await peers[1][1].taken()] == [1]
        assert [a.opaque for a in await peers[2][1].taken()] == [1]
        assert endpoint.memory.total_bytes == 0

    run(main())


def test_many_small_holders_of_one_host_are_one_large_holder(run, attach, frames, turns) -> None:
    async def main() -> None:
        endpoint = Endpoint({1: echo}, limits=EndpointLimits(held_total_bytes=5000))
        data = frames(request_with(1, body=bytes(1500)))
        sender, sent = attach(endpoint, peer=("10.0.0.1", 1))
        sender.data_received(data[:1400])  # more than any other single connection holds
        crowd = [attach(endpoint, peer=("10.0.0.2", port)) for port in range(1, 51)]
        for connection, _ in crowd:
            connection.data_received(data[:200])
        await turns()
        assert not sent.closing
        assert len([1 for _, transport in crowd if transport.aborted]) == 32
        assert endpoint.memory.total_bytes == 1400 + 18 * 200
        sender.data_received(data[1400:])
        assert len(await sent.taken()) == 1
        for connection, _ in crowd:
            connection.close()
        await turns()
        assert endpoint.memory.total_bytes == 0

    run(main())


def test_no_bytes_raise_out_of_data_received(run, attach, frames, monkeypatch, caplog) -> None:
    def fail(_: bytes) -> None:
        raise TypeError("unorderable")

    async def main() -> None:
        endpoint = Endpoint({1: echo})
        mixed, mixed_transport = attach(endpoint)
        header = b'{"code":1,"extFields":{"x":{1:1,"1":"a"}},"opaque":7}'
        size = len(header)
        mixed.data_received((size + 4).to_bytes(4) + size.to_bytes(4) + header)
        if not mixed_transport.closing:
            assert [a.opaque for a in await mixed_transport.taken()] == [7]
        for target, method in (
            ("broker.remoting.protocol.framing.decode_json_header", None),
            (endpoint, "turn"),
        ):
            with monkeypatch.context() as patch:
                if method is None:
                    patch.setattr(target, fail)
                else:
                    patch.setattr(target, method, lambda: fail(b""))
                connection, transport = attach(endpoint)
                connection.data_received(frames(request(1)))
                assert transport.closing
        await endpoint.close_connections()

    with caplog.at_level("WARNING"):
        run(main())
    assert [r for r in caplog.records if "127.0.0.1:50000" in r.getMessage()]


# ---- back-pressure


LIMITS = EndpointLimits(unsent_pause_bytes=1000, unsent_resume_bytes=100, unsent_limit_bytes=10_000)


def test_a_peer_that_does_not_read_is_not_read_either(run, attach, frames, turns) -> None:
    async def main() -> None:
        connection, transport = attach(Endpoint({1: echo}, limits=LIMITS))
        transport.stuck = True
        connection.data_received(frames(request_with(1, body=bytes(1100))))
        await turns()
        assert connection.paused
        assert not transport.reading
        transport.drain()
        assert transport.reading

    run(main())


def test_requests_already_read_wait_until_the_peer_reads(run, attach, frames, monkeypatch) -> None:
    monkeypatch.setattr("broker.remoting.connection.FLUSH_BYTES", 500)

    async def main() -> None:
        seen: list[int] = []

        def handler(_, command: RemotingCommand) -> RemotingCommand:
            seen.append(command.opaque)
            return response(command, body=bytes(600))

        connection, transport = attach(Endpoint({1: handler}, limits=LIMITS))
        transport.stuck = True
        connection.data_received(frames(*(request_with(n) for n in range(6))))
        assert seen == [0, 1]
        connection.data_received(frames(request_with(6)))
        assert seen == [0, 1]
        transport.drain()
        assert seen == [0, 1, 2, 3, 4, 5, 6]
        assert transport.reading
        assert [a.opaque for a in await transport.taken()] == list(range(7))

    run(main())


def test_a_slow_reader_is_closed_at_the_limit_with_a_log_line(
    run, attach, frames, turns, caplog
) -> None:
    async def main() -> None:
        closed = []
        endpoint = Endpoint({1: echo}, limits=LIMITS, on_close=closed.append)
        connection, transport = attach(endpoint)
        transport.stuck = True
        for n in range(4):
            connection.send(request_with(n, body=bytes(3000)))
            await turns()
        assert transport.aborted
        await turns()
        assert closed == [connection]
        assert not connection.send(request_with(9))

    with caplog.at_level(logging.WARNING):
        run(main())
    assert [r for r in caplog.records if "over the limit of 10000" in r.getMessage()]


def test_big_answers_are_written_uncopied(run, attach, frames, monkeypatch) -> None:
    parts: list = []
    monkeypatch.setattr(
        "broker.remoting.connection.write_parts", lambda _, fd, given, size: parts.extend(given)
    )

    async def main() -> None:
        body = memoryview(bytes(300_000))
        connection, _ = attach(Endpoint({1: lambda _, c: response(c, body=[body, body])}))
        connection.data_received(frames(request_with(1)))
        views = [part for part in parts if isinstance(part, memoryview)]
        assert [view.obj is body.obj for view in views] == [True, True]

    run(main())


# ---- calls to the peer


def test_a_call_gets_the_answer_with_its_opaque(run, attach, frames, turns) -> None:
    async def main() -> None:
        connection, transport = attach(Endpoint({}))
        first = asyncio.ensure_future(connection.call(request(40)))
        second = asyncio.ensure_future(connection.call(request(41)))
        await turns()
        asked = await transport.taken()
        assert len({command.opaque for command in asked}) == 2
        connection.data_received(
            frames(*(response(c, remark=str(c.code)) for c in reversed(asked)))
        )
        assert (await first).remark == "40"
        assert (await second).remark == "41"
        assert connection.calls == {}

    run(main())


def test_peer_and_we_may_use_the_same_opaque(run, attach, frames, turns) -> None:
    async def main() -> None:
        connection, transport = attach(Endpoint({1: echo}))
        command = request(40)
        call = asyncio.ensure_future(connection.call(command))
        await turns()
        (await transport.taken())
        connection.data_received(frames(request_with(command.opaque, body=b"theirs")))
        assert (await transport.taken())[0].body == b"theirs"
        assert not call.done()
        connection.data_received(frames(response(command, remark="ours")))
        assert (await call).remark == "ours"

    run(main())


def test_a_call_ends_after_its_time_and_a_late_answer_is_dropped(run, attach, frames) -> None:
    async def main() -> None:
        connection, transport = attach(Endpoint({}))
        command = request(40)
        with pytest.raises(RequestTimeoutError) as caught:
            await connection.call(command, timeout_ms=1)
        assert caught.value.address == "127.0.0.1:50000"
        assert caught.value.request_code == 40
        connection.data_received(frames(response(command)))
        assert not transport.closing

    run(main())


def test_calls_fail_when_the_connection_is_lost(run, attach, turns) -> None:
    async def main() -> None:
        connection, _ = attach(Endpoint({}))
        call = asyncio.ensure_future(connection.call(request(40)))
        await turns()
        connection.connection_lost(ConnectionResetError("reset by peer"))
        with pytest.raises(SendRequestError, match="reset by peer"):
            await call
        with pytest.raises(SendRequestError):
            await connection.call(request(41))
        assert not connection.oneway(request(42))

    run(main())


def test_calls_that_wait_are_bounded(run, attach, turns) -> None:
    async def main() -> None:
        connection, _ = attach(Endpoint({}, limits=EndpointLimits(calls_per_connection=2)))
        waiting = [asyncio.ensure_future(connection.call(request(40))) for _ in range(2)]
        await turns()
        with pytest.raises(TooMuchRequestError):
            await connection.call(request(40))
        connection.connection_lost(None)
        await asyncio.gather(*waiting, return_exceptions=True)

    run(main())


def test_a_oneway_of_ours_carries_the_flag(run, attach, turns) -> None:
    async def main() -> None:
        connection, transport = attach(Endpoint({}))
        assert connection.oneway(request(40))
        await turns()
        (sent,) = await transport.taken()
        assert sent.is_oneway

    run(main())


# ---- identity of the peer


@pytest.mark.parametrize(
    ("peer", "address", "host_bytes", "access"),
    [
        (("10.1.2.3", 80), "10.1.2.3:80", bytes([10, 1, 2, 3, 0, 0, 0, 80]), Access.CLIENT),
        (("127.0.0.9", 80), "127.0.0.9:80", bytes([127, 0, 0, 9, 0, 0, 0, 80]), ADMIN),
        (("::1", 80, 0, 0), "[::1]:80", bytes(15) + b"\1" + bytes([0, 0, 0, 80]), ADMIN),
        (
            ("::ffff:10.1.2.3", 80, 0, 0),
            "10.1.2.3:80",
            bytes([10, 1, 2, 3, 0, 0, 0, 80]),
            Access.CLIENT,
        ),
    ],
)
def test_the_peers_address_is_known_in_every_form(
    run, attach, peer: tuple, address: str, host_bytes: bytes, access: Access
) -> None:
    async def main() -> None:
        connection, _ = attach(Endpoint({}), peer=peer)
        assert connection.remote_address == address
        assert connection.remote_host == host_bytes
        assert connection.access is access

    run(main())


def test_close_writes_queued_bytes_first(run, attach) -> None:
    async def main() -> None:
        connection, transport = attach(Endpoint({}))
        connection.send(request(40))
        connection.close("test")
        assert len(await transport.taken()) == 1
        assert transport.closing
        connection.close("again")

    run(main())
