"""Parts of server and client: lanes, refusals, turns, the idle scan, limits on connections."""

import asyncio
import logging

import pytest

from broker.errors import RemoteProtocolError
from broker.remoting.endpoint import Endpoint
from broker.remoting.limits import PEER_LOG_LIMIT, EndpointLimits, LaneLimits
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request, response
from broker.remoting.protocol.rpc import RPC, Access
from broker.remoting.security.access import AccessRules

FAR = ("10.9.8.7", 40000)


def ok(_, command: RemotingCommand) -> RemotingCommand:
    return response(command)


class Gate:
    """A handler whose answers wait until the test opens it."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.waiting: list[asyncio.Future] = []

    async def __call__(self, _, command: RemotingCommand) -> RemotingCommand:
        self.started.append(command.opaque)
        future = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        await future
        return response(command)

    def open_one(self) -> None:
        self.waiting.pop(0).set_result(None)


def numbered(opaque: int, code: int, **fields) -> RemotingCommand:
    command = request(code, **fields)
    command.opaque = opaque
    return command


def send_lane(concurrency: int = 1, queue_limit: int = 2, wait_ms: int = 200) -> EndpointLimits:
    lane = LaneLimits(concurrency=concurrency, queue_limit=queue_limit, wait_ms=wait_ms)
    return EndpointLimits(lanes={"send": lane})


# ---- lanes


def test_a_full_lane_refuses_its_own_codes_and_no_others(run, attach, frames, turns, clock) -> None:
    async def main() -> None:
        gate = Gate()
        handlers = {RequestCode.SEND_MESSAGE: gate, RequestCode.HEART_BEAT: ok}
        endpoint = Endpoint(handlers, limits=send_lane(), clock=clock)
        connection, transport = attach(endpoint)
        for opaque in range(5):
            connection.data_received(frames(numbered(opaque, RequestCode.SEND_MESSAGE)))
            await turns()
        assert gate.started == [0]
        refused = await transport.taken()
        assert [a.opaque for a in refused] == [3, 4]
        assert {a.code for a in refused} == {ResponseCode.SYSTEM_BUSY}
        assert all(a.remark.startswith("[OVERLOAD]") for a in refused)
        connection.data_received(frames(numbered(9, RequestCode.HEART_BEAT)))
        assert [a.opaque for a in await transport.taken()] == [9]
        for _ in range(3):
            gate.open_one()
            await turns()
        assert [a.opaque for a in await transport.taken()] == [0, 1, 2]
        assert endpoint.lanes["send"].overloaded == 2
        assert endpoint.in_flight == 0

    run(main())


def test_a_request_that_waited_too_long_is_answered_with_a_timeout(
    run, attach, frames, turns, clock
) -> None:
    async def main() -> None:
        gate = Gate()
        endpoint = Endpoint({RequestCode.SEND_MESSAGE: gate}, limits=send_lane(), clock=clock)
        connection, transport = attach(endpoint)
        connection.data_received(frames(*(numbered(n, RequestCode.SEND_MESSAGE) for n in range(3))))
        await turns()
        clock.advance(199)
        endpoint.expire_lane(endpoint.lanes["send"])
        await turns()
        assert await transport.taken() == []
        clock.advance(1)
        endpoint.expire_lane(endpoint.lanes["send"])
        await turns()
        answers = await transport.taken()
        assert [a.opaque for a in answers] == [1, 2]
        assert {a.code for a in answers} == {ResponseCode.SYSTEM_BUSY}
        assert answers[0].remark.startswith("[TIMEOUT_CLEAN_QUEUE]waited 200 ms")
        gate.open_one()
        await turns()
        assert [a.opaque for a in await transport.taken()] == [0]
        await endpoint.close_connections()

    run(main())


def test_the_age_limit_is_kept_by_a_timer(run, attach, frames) -> None:
    async def main() -> None:
        gate = Gate()
        limits = send_lane(wait_ms=5)
        endpoint = Endpoint({RequestCode.SEND_MESSAGE: gate}, limits=limits)
        connection, transport = attach(endpoint)
        answered = asyncio.Event()
        write = transport.write
        transport.write = lambda data: (write(data), answered.set())
        connection.data_received(frames(*(numbered(n, RequestCode.SEND_MESSAGE) for n in range(2))))
        await answered.wait()
        assert (await transport.taken())[0].remark.startswith("[TIMEOUT_CLEAN_QUEUE]")
        gate.open_one()
        await endpoint.close_connections()

    run(main())


def test_a_full_lane_drops_oneways_silently(run, attach, frames, turns) -> None:
    async def main() -> None:
        gate = Gate()
        endpoint = Endpoint({RequestCode.SEND_MESSAGE: gate}, limits=send_lane(queue_limit=0))
        connection, transport = attach(endpoint)
        connection.data_received(
            frames(
                numbered(1, RequestCode.SEND_MESSAGE),
                numbered(2, RequestCode.SEND_MESSAGE, oneway=True),
            )
        )
        await turns()
        assert await transport.taken() == []
        assert endpoint.lanes["send"].overloaded == 1
        gate.open_one()
        await turns()

    run(main())


@pytest.mark.parametrize(
    ("code", "oneway", "begins"),
    [
        (RequestCode.PULL_MESSAGE, False, False),
        (RequestCode.HEART_BEAT, False, False),
        (RequestCode.PULL_MESSAGE, True, True),
        # The Go client sends these one-way, without the flag, and closes its connection.
        (RequestCode.SEND_MESSAGE, False, True),
        (RequestCode.END_TRANSACTION, False, True),
        (RequestCode.UPDATE_CONSUMER_OFFSET, False, True),
    ],
)
def test_which_requests_of_a_closed_peer_begin(
    run, attach, frames, turns, code: int, oneway: bool, begins: bool
) -> None:
    async def main() -> None:
        gate = Gate()
        limits = EndpointLimits(lanes={RPC[code].lane: LaneLimits(concurrency=1)})
        endpoint = Endpoint({code: gate}, limits=limits)
        first, _ = attach(endpoint)
        second, transport = attach(endpoint)
        first.data_received(frames(numbered(1, code)))
        await turns()
        second.data_received(frames(numbered(2, code, oneway=oneway)))
        second.connection_lost(None)
        gate.open_one()
        await turns()
        assert gate.started == ([1, 2] if begins else [1])
        if begins:
            gate.open_one()
            await turns()
        assert await transport.taken() == []

    run(main())


def test_handlers_that_answer_at_once_never_wait(run, attach, frames) -> None:
    async def main() -> None:
        limits = send_lane(concurrency=1, queue_limit=0)
        connection, transport = attach(Endpoint({RequestCode.SEND_MESSAGE: ok}, limits=limits))
        connection.data_received(
            frames(*(numbered(n, RequestCode.SEND_MESSAGE) for n in range(100)))
        )
        assert {a.code for a in await transport.taken()} == {0}

    run(main())


# ---- access levels of requests


ADMINISTRATION = sorted(code for code, rpc in RPC.items() if rpc.access == Access.ADMINISTRATOR)
MEMBERSHIP = sorted(code for code, rpc in RPC.items() if rpc.access == Access.MEMBER)


def test_administration_is_refused_for_other_hosts(run, attach, frames) -> None:
    asked: list[int] = []

    def handler(_, command: RemotingCommand) -> RemotingCommand:
        asked.append(command.code)
        return response(command)

    async def main() -> None:
        endpoint = Endpoint(dict.fromkeys(RPC, handler))
        far, far_transport = attach(endpoint, peer=FAR)
        for code in ADMINISTRATION:
            far.data_received(frames(request(code)))
        answers = await far_transport.taken()
        assert {a.code for a in answers} == {ResponseCode.NO_PERMISSION}
        assert all("allowRemoteAdmin" in a.remark for a in answers)
        assert all("to loopback peers only" in a.remark for a in answers)
        for code in MEMBERSHIP:
            far.data_received(frames(request(code)))
        answers = await far_transport.taken()
        assert {a.code for a in answers} == {ResponseCode.NO_PERMISSION}
        assert all("clusterMembers" in a.remark for a in answers)
        assert asked == []
        far.data_received(frames(request(RequestCode.GET_ROUTEINFO_BY_TOPIC)))
        assert (await far_transport.taken())[0].code == 0
        near, near_transport = attach(endpoint)
        for code in (*ADMINISTRATION, *MEMBERSHIP):
            near.data_received(frames(request(code)))
        assert {a.code for a in await near_transport.taken()} == {0}
        assert asked[1:] == ADMINISTRATION + MEMBERSHIP

    run(main())


@pytest.mark.parametrize(
    ("rules", "admitted"),
    [
        ({"allow_remote_admin": True}, ADMINISTRATION + MEMBERSHIP),
        ({"admin_hosts": "10.9.8.7"}, ADMINISTRATION + MEMBERSHIP),
        ({"admin_hosts": "192.0.2.1; 10.9.0.0/16"}, ADMINISTRATION + MEMBERSHIP),
        ({"cluster_members": "10.9.8.0/24"}, MEMBERSHIP),
        ({"admin_hosts": "192.0.2.1", "cluster_members": "::1"}, []),
    ],
)
def test_other_hosts_can_be_admitted(run, attach, frames, rules: dict, admitted: list) -> None:
    async def main() -> None:
        endpoint = Endpoint(dict.fromkeys(RPC, ok), access=AccessRules(**rules))
        far, transport = attach(endpoint, peer=FAR)
        codes = ADMINISTRATION + MEMBERSHIP
        far.data_received(frames(*(request(code) for code in codes)))
        answers = [a.code for a in await transport.taken()]
        assert [code for code, answer in zip(codes, answers, strict=True) if not answer] == admitted

    run(main())


def test_a_role_may_admit_single_requests_of_members(run, attach, frames) -> None:
    def check(_, command: RemotingCommand) -> str | None:
        if command.body == b"broken":
            raise RemoteProtocolError("unreadable")
        return None if command.body == b"mine" else "not its own"

    async def main() -> None:
        endpoint = Endpoint(dict.fromkeys(RPC, ok), check_member=check)
        far, transport = attach(endpoint, peer=FAR)
        for body in (b"mine", b"theirs", b"broken"):
            far.data_received(frames(request(RequestCode.REGISTER_BROKER, body=body)))
        mine, theirs, broken = await transport.taken()
        assert mine.code == 0
        assert theirs.code == ResponseCode.NO_PERMISSION
        assert "not its own" in theirs.remark
        assert broken.code == ResponseCode.SYSTEM_ERROR
        far.data_received(frames(request(RequestCode.DELETE_KV_CONFIG, body=b"mine")))
        assert (await transport.taken())[0].code == ResponseCode.NO_PERMISSION

    run(main())


def test_a_request_the_table_does_not_know_is_for_administrators(run, attach, frames) -> None:
    async def main() -> None:
        far, transport = attach(Endpoint({31_999: ok}), peer=FAR)
        far.data_received(frames(request(31_999)))
        assert (await transport.taken())[0].code == ResponseCode.NO_PERMISSION

    run(main())


def test_the_authorize_hook_may_refuse_any_request(run, attach, frames) -> None:
    def authorize(connection, command: RemotingCommand) -> RemotingCommand | None:
        if command.ext_fields.get("AccessKey") == "good":
            return None
        return response(command, ResponseCode.NO_PERMISSION, f"no key, {connection.remote_host!r}")

    async def main() -> None:
        connection, transport = attach(Endpoint({1: ok}, authorize=authorize))
        connection.data_received(frames(numbered(1, 1), numbered(2, 1, ext={"AccessKey": "good"})))
        assert [(a.opaque, a.code) for a in await transport.taken()] == [
            (1, ResponseCode.NO_PERMISSION),
            (2, 0),
        ]

    run(main())


def test_a_default_handler_takes_every_other_code(run, attach, frames) -> None:
    async def main() -> None:
        endpoint = Endpoint({}, default_handler=lambda _, c: response(c, remark=f"got {c.code}"))
        connection, transport = attach(endpoint)
        connection.data_received(frames(request(4711)))
        assert (await transport.taken())[0].remark == "got 4711"

    run(main())


# ---- turns


def test_the_turn_ends_once_per_pass_after_the_writes(run, attach, frames, turns) -> None:
    async def main() -> None:
        order: list[str] = []
        endpoint = Endpoint({1: ok}, turn_end=lambda: order.append("turn"))
        pairs = [attach(endpoint) for _ in range(3)]
        for _, transport in pairs:
            transport.write = lambda data: order.append("write")
        for connection, _ in pairs:
            connection.data_received(frames(request(1), request(1)))
        assert order == []
        await turns()
        assert order == ["write"] * 3 + ["turn"]

    run(main())


def test_without_requests_no_turn_ends(run, attach, turns) -> None:
    async def main() -> None:
        ended: list[int] = []
        endpoint = Endpoint({1: ok}, turn_end=lambda: ended.append(1))
        connection, _ = attach(endpoint)
        connection.data_received(b"\0\0")
        await turns()
        assert ended == []

    run(main())


# ---- connections


def test_roles_hear_of_each_connection_once(run, attach, turns) -> None:
    async def main() -> None:
        events: list[tuple[str, str]] = []
        endpoint = Endpoint(
            {},
            on_connect=lambda c: events.append(("open", c.remote_address)),
            on_close=lambda c: events.append(("close", c.remote_address)),
        )
        connection, _ = attach(endpoint, peer=FAR)
        connection.close()
        connection.abort()
        await turns()
        connection.connection_lost(None)
        assert events == [("open", "10.9.8.7:40000"), ("close", "10.9.8.7:40000")]
        assert endpoint.connections == set()

    run(main())


def test_connections_are_bounded(run, attach, turns, caplog) -> None:
    async def main() -> None:
        events: list[str] = []
        limits = EndpointLimits(connections=2)
        endpoint = Endpoint({}, limits=limits, on_close=lambda _: events.append("close"))
        kept = [attach(endpoint) for _ in range(2)]
        _, refused = attach(endpoint)
        await turns()
        assert refused.aborted
        assert events == []
        assert endpoint.refused_connections == 1
        kept[0][0].close()
        await turns()
        _, admitted = attach(endpoint)
        assert not admitted.closing
        await endpoint.close_connections()

    with caplog.at_level(logging.WARNING):
        run(main())
    assert any("the limit" in r.getMessage() for r in caplog.records)


def test_silence_for_the_idle_time_closes(run, attach, frames, turns) -> None:
    async def main() -> None:
        limits = EndpointLimits(idle_ms=120_000, idle_scan_ms=5_000)
        endpoint = Endpoint({1: ok}, limits=limits)
        silent, silent_transport = attach(endpoint)
        busy, busy_transport = attach(endpoint)
        notified, notified_transport = attach(endpoint)
        for scan in range(24):
            endpoint.scan_idle()
            if scan == 12:
                busy.data_received(frames(request(1)))
                notified.send(request(40))
                await turns()
        assert not silent_transport.closing
        endpoint.scan_idle()
        assert silent_transport.closing
        assert not silent_transport.aborted
        assert not busy_transport.closing
        assert not notified_transport.closing
        await turns()
        await endpoint.close_connections()
        assert (busy.closed, notified.closed, silent.closed) == (True, True, True)

    run(main())


def test_a_peer_that_takes_no_bytes_is_aborted_when_idle(run, attach, frames, turns) -> None:
    async def main() -> None:
        limits = EndpointLimits(unsent_pause_bytes=10, idle_ms=5_000, idle_scan_ms=5_000)
        endpoint = Endpoint({}, limits=limits)
        connection, transport = attach(endpoint)
        transport.stuck = True
        connection.send(request(40, body=bytes(100)))
        await turns()
        for _ in range(3):
            endpoint.scan_idle()
        assert transport.aborted
        await turns()

    run(main())


def test_log_lines_about_refusals_are_bounded_and_counted(run, attach, turns, caplog) -> None:
    async def main() -> None:
        endpoint = Endpoint({})
        for _ in range(PEER_LOG_LIMIT + 30):
            connection, _ = attach(endpoint)
            connection.data_received(b"GET / HTTP/1.1\r\n\r\n")
            await turns()
        endpoint.scan_idle()
        await endpoint.close_connections()

    with caplog.at_level(logging.WARNING):
        run(main())
    lines = [r.getMessage() for r in caplog.records]
    assert len([line for line in lines if "HTTP" in line]) == PEER_LOG_LIMIT
    assert [line for line in lines if "30 more lines not logged" in line]


def test_log_lines_about_failed_requests_are_bounded_and_short(run, attach, frames, caplog) -> None:
    def refuse(_, command: RemotingCommand) -> RemotingCommand:
        raise RemoteProtocolError("x" * 1_000_000)

    def fail(_, command: RemotingCommand) -> RemotingCommand:
        raise ValueError("x" * 1_000_000)

    async def main() -> None:
        endpoint = Endpoint({RequestCode.SEND_MESSAGE: refuse, RequestCode.PULL_MESSAGE: fail})
        far, transport = attach(endpoint, peer=FAR)
        codes = (RequestCode.SEND_MESSAGE, RequestCode.PULL_MESSAGE, RequestCode.PUT_KV_CONFIG)
        for _ in range(100):
            far.data_received(frames(*(request(code) for code in codes)))
        assert all(len(a.remark) < 2_200 for a in await transport.taken())
        other, _ = attach(endpoint, peer=("10.9.8.6", 1))
        other.data_received(frames(request(RequestCode.SEND_MESSAGE)))
        endpoint.scan_idle()
        await endpoint.close_connections()

    with caplog.at_level(logging.WARNING):
        run(main())
    # A busy machine adds a line about loop lag.
    lines = [line for r in caplog.records if "10.9.8" in (line := r.getMessage())]
    assert len(lines) == PEER_LOG_LIMIT + 2  # the other host's line and the count of the rest
    assert max(map(len, lines)) < 2_200
    assert "10.9.8.6:1" in lines[-2]
    assert "10.9.8.7 2" in lines[-1]  # 200: an unserved code is not logged


# ---- the end


def test_draining_waits_for_answers_under_way(run, attach, frames, turns) -> None:
    async def main() -> None:
        gate = Gate()
        endpoint = Endpoint({RequestCode.SEND_MESSAGE: gate})
        connection, transport = attach(endpoint)
        connection.data_received(frames(numbered(1, RequestCode.SEND_MESSAGE)))
        await turns()
        drained = asyncio.ensure_future(endpoint.drain(60_000))
        await turns()
        assert not drained.done()
        gate.open_one()
        await drained
        assert [a.opaque for a in await transport.taken()] == [1]
        await endpoint.close_connections()

    run(main())


def test_draining_ends_at_its_limit(run, attach, frames, turns) -> None:
    async def main() -> None:
        endpoint = Endpoint({RequestCode.SEND_MESSAGE: Gate()})
        connection, transport = attach(endpoint)
        connection.data_received(frames(numbered(1, RequestCode.SEND_MESSAGE)))
        await turns()
        await endpoint.drain(1)
        await endpoint.close_connections()
        await turns()
        assert transport.closing
        assert endpoint.connections == set()

    run(main())


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE, RequestCode.PULL_MESSAGE])
def test_routes_know_lane_and_access_from_the_rpc_table(code: int) -> None:
    endpoint = Endpoint({code: ok})
    assert endpoint.routes[code].lane.name == RPC[code].lane
    assert endpoint.routes[code].access == RPC[code].access
