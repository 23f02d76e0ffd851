"""Endpoint, the base class of server and client: routes, lanes, responses, the idle scan.

An endpoint owns a set of connections and handles the requests that arrive on them, regardless of
which side connected.

**Source:** RocketMQ NettyRemotingAbstract (processorTable, processRequestCommand, responseTable).
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, cast

from broker.common.clock import Clock, SystemClock
from broker.common.text import truncate
from broker.errors import BrokerError, LocalProtocolError, RocketMQError
from broker.remoting.budget import MemoryBudget
from broker.remoting.connection import Connection, now_s
from broker.remoting.direct import DirectAnswer, DirectRequest
from broker.remoting.ingest import TurnIngest, TurnReads
from broker.remoting.lag import LoopLag
from broker.remoting.lane import Lane, ServingShare
from broker.remoting.limits import (
    HELD_FIELD_BYTES,
    HELD_REQUEST_BYTES,
    REMARK_LIMIT_CHARS,
    EndpointLimits,
    LaneLimits,
)
from broker.remoting.peer_log import PeerLog
from broker.remoting.process.socket_bytes import Buffer
from broker.remoting.protocol.codes import ResponseCode, request_name
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.framing import encode_frame_parts
from broker.remoting.protocol.rpc import RPC, Access
from broker.remoting.security.access import AccessRules

Answer = RemotingCommand | bytes | list[Buffer] | None
Handler = Callable[[Connection, RemotingCommand], Answer | Awaitable[Answer]]
Authorize = Callable[[Connection, RemotingCommand], RemotingCommand | None]
CheckMember = Callable[[Connection, RemotingCommand], str | None]
Encoded = bytes | list[Buffer]

log = logging.getLogger("broker.remoting")

FLAG_ONEWAY = 2


class Route:
    """The dispatch entry of a request code: handler, lane, required access level."""

    __slots__ = ("access", "code", "handler", "lane")

    def __init__(self, code: int, handler: Handler, lane: Lane[Suspended], access: Access) -> None:
        self.code = code
        self.handler = handler
        self.lane = lane
        self.access = access


Suspended = tuple[Connection, RemotingCommand, Route]


class Endpoint:
    """A set of connections and the dispatch of their requests.

    ``handlers``: request code → handler. ``default_handler`` handles every other code; without it
    the response is REQUEST_CODE_NOT_SUPPORTED. ``authorize(connection, command)`` runs before each
    handler and may return a refusal. A request is refused if the peer's level (``access``) is below
    the level in the RPC table; for a request of MEMBER level ``check_member(connection, command)``
    then returns None to admit it or the reason for the refusal. ``turn_end`` runs once per loop
    iteration in which requests were handled. ``on_connect`` and ``on_close`` receive the
    connection. ``memory`` counts the bytes kept for peers; handlers of the role may share it.
    """

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        *,
        limits: EndpointLimits | None = None,
        clock: Clock | None = None,
        name: str = "remoting",
        default_handler: Handler | None = None,
        on_connect: Callable[[Connection], None] | None = None,
        on_close: Callable[[Connection], None] | None = None,
        turn_end: Callable[[], None] | None = None,
        authorize: Authorize | None = None,
        access: AccessRules | None = None,
        check_member: CheckMember | None = None,
        memory: MemoryBudget[Connection] | None = None,
    ) -> None:
        self.limits = limits or EndpointLimits()
        self.clock = clock or SystemClock()
        self.name = name
        self.lanes: dict[str, Lane[Suspended]] = {
            lane: Lane(lane, lane_limits) for lane, lane_limits in self.limits.lanes.items()
        }
        self.routes: dict[int, Route] = {}
        for code, handler in handlers.items():
            self.add_handler(code, handler)
        self.default_route = (
            Route(-1, default_handler, self._lane("admin"), Access.ADMINISTRATOR)
            if default_handler
            else None
        )
        self.authorize = authorize
        self.access = access or AccessRules()
        self.check_member = check_member
        self.peer_log = PeerLog(name)
        self.on_connect = on_connect
        self.on_close = on_close
        self.turn_end = turn_end
        self.connections: set[Connection] = set()
        if memory is None:
            memory = peer_memory(self.limits)
        self.memory = memory
        self.memory.on_over = self._over_limit
        self._evicting = False
        self.lag = LoopLag(name, now_s)
        self.share = ServingShare(lambda call: self.loop.call_soon(call), now_s)
        self.evicted_connections = 0
        self.tick = 0
        self.refused_connections = 0
        self.refused_frames = 0
        self._tasks: set[asyncio.Future[Any]] = set()
        self._turn_due = False
        self._scan_timer: asyncio.TimerHandle | None = None
        self._lane_timers: dict[str, asyncio.TimerHandle] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._smallest_queue = min(
            (lane.limits.queue_limit for lane in self.lanes.values()), default=1
        )
        self.on_slow: Callable[[int, float], None] | None = None
        self.direct: dict[bytes, DirectRequest] = {}
        self.ingest: TurnIngest | None = None
        self.reads = TurnReads(self)
        self._drained: asyncio.Future[None] | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running event loop, looked up once."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    def add_handler(self, code: int, handler: Handler) -> None:
        """Register ``handler`` for ``code``; the RPC table defines lane and access level."""
        rpc = RPC.get(code)
        lane = self._lane(rpc.lane if rpc else "admin")
        self.routes[code] = Route(code, handler, lane, rpc.access if rpc else Access.ADMINISTRATOR)

    def add_direct(self, code: int, answer: DirectAnswer) -> None:
        """Let ``answer`` serve reads that are one request of ``code``; see DirectRequest."""
        request = DirectRequest(self, self.routes[code], answer)
        self.direct[request.start] = request

    def _lane(self, name: str) -> Lane[Suspended]:
        lane = self.lanes.get(name)
        if lane is None:
            lane = self.lanes[name] = Lane(name, LaneLimits())
        return lane

    @property
    def in_flight(self) -> int:
        """Number of requests in execution or queued, over all lanes."""
        return sum(lane.running + len(lane.queue) for lane in self.lanes.values())

    # ---- dispatch

    def answer(self, connection: Connection, command: RemotingCommand) -> Encoded | None:
        """Handle a request; returns the encoded response, None if there is none yet.

        Never raises: an error in a handler becomes a SYSTEM_ERROR response. One-way requests are
        never answered.
        """
        route = self.routes.get(command.code, self.default_route)
        if route is None:
            return self._encode(command, self._unsupported(command))
        if route.access > connection.access:
            refusal = self._check_access(connection, command, route)
            if refusal is not None:
                return self._encode(command, refusal)
        if self.authorize is not None:
            refusal = self.authorize(connection, command)
            if refusal is not None:
                return self._encode(command, refusal)
        lane = route.lane
        if lane.rejecting:
            return self._busy(command, f"[REJECTREQUEST]{lane.rejecting}")
        if lane.queue or lane.running >= lane.limits.concurrency:
            return self._enqueue(connection, command, route)
        return self._begin(connection, command, route)

    def answer_late(
        self, connection: Connection, command: RemotingCommand, waited_ms: float
    ) -> Encoded | None:
        """Handle a request that waited for its turn; SYSTEM_BUSY if its lane allows less.

        **Source:** RocketMQ BrokerFastFailure#cleanExpiredRequestInQueue
        """
        route = self.routes.get(command.code)
        if route is not None and route.lane.rejecting:
            return self._busy(command, f"[PCBUSY_CLEAN_QUEUE]{route.lane.rejecting}")
        if route is None or not 0 < route.lane.limits.wait_ms <= waited_ms:
            return self.answer(connection, command)
        route.lane.expired += 1
        return self._busy(command, _waited_too_long(route.lane, waited_ms, self.share.frames))

    def defer(
        self, connection: Connection, commands: list[RemotingCommand]
    ) -> list[RemotingCommand]:
        """Count requests that wait for their turn; answer and drop those that find a full lane.

        **Source:** RocketMQ NettyRemotingAbstract#processRequestCommand (RejectedExecution)
        """
        share = self.share
        if share.frames + len(commands) <= self._smallest_queue:
            share.frames += len(commands)
            return commands
        kept = []
        for command in commands:
            route = self.routes.get(command.code)
            if route is None or share.frames < route.lane.limits.queue_limit:
                share.frames += 1
                kept.append(command)
                continue
            route.lane.overloaded += 1
            reason = f"[OVERLOAD]the {route.lane.name} lane is full: {share.frames} requests wait"
            busy = self._busy(command, reason)
            if busy is not None:
                connection.send(busy)
        return kept

    def slow(self, code: int, seconds: float) -> None:
        """Record a request that held up the loop for longer than the limit."""
        self.lag.ran(code, seconds)
        if self.on_slow is not None:
            self.on_slow(code, seconds * 1000)

    def reject_lane(self, name: str, reason: str) -> None:
        """Answer SYSTEM_BUSY to the requests of a lane that have been received so far.

        That is, to those read in this iteration of the loop and in the next one.

        **Source:** RocketMQ NettyRequestProcessor#rejectRequest
        """
        lane = self._lane(name)

        def end() -> None:
            lane.rejecting = ""

        if not lane.rejecting:
            # The second call_soon runs after the sockets have been read once more.
            self.loop.call_soon(self.loop.call_soon, end)
        lane.rejecting = reason

    def _busy(self, command: RemotingCommand, remark: str) -> Encoded | None:
        return self._encode(command, response(command, ResponseCode.SYSTEM_BUSY, remark))

    def _begin(
        self, connection: Connection, command: RemotingCommand, route: Route
    ) -> Encoded | None:
        try:
            answer = route.handler(connection, command)
        except Exception as error:
            answer = self.failure(connection, command, error)
        kind = type(answer)
        if kind is bytes or kind is list:
            return None if command.flag & FLAG_ONEWAY else cast(Encoded, answer)
        if answer is None or kind is RemotingCommand:
            return self._encode(command, cast(RemotingCommand | None, answer))
        future = asyncio.ensure_future(cast(Awaitable[Answer], answer))
        if future.done():
            return self._result(connection, command, future)
        route.lane.running += 1
        self._tasks.add(future)
        self.lag.began(command.code)
        held = _held_bytes(command)
        self.memory.charge(connection, held)
        future.add_done_callback(partial(self._finished, connection, command, route, held))
        return None

    def _encode(
        self, command: RemotingCommand, answer: RemotingCommand | None
    ) -> list[Buffer] | None:
        if answer is None or command.flag & FLAG_ONEWAY:
            return None
        answer.opaque = command.opaque
        answer.flag |= 1
        try:
            return encode_frame_parts(answer)
        except LocalProtocolError as error:
            log.warning("%s: answer not sendable: %s", _title(command), error.message)
            remark = f"the answer cannot be sent: {error.message}"
            return encode_frame_parts(response(command, ResponseCode.SYSTEM_ERROR, remark))

    def _result(
        self, connection: Connection, command: RemotingCommand, future: asyncio.Future[Answer]
    ) -> Encoded | None:
        if future.cancelled():
            answer: Answer = response(command, ResponseCode.SYSTEM_ERROR, "the request was dropped")
        else:
            error = future.exception()
            if error is None:
                answer = future.result()
            elif isinstance(error, Exception):
                answer = self.failure(connection, command, error)
            else:
                raise error
        if answer is None or command.flag & FLAG_ONEWAY:
            return None
        if isinstance(answer, RemotingCommand):
            return self._encode(command, answer)
        return answer

    def _finished(
        self,
        connection: Connection,
        command: RemotingCommand,
        route: Route,
        held: int,
        future: asyncio.Future[Answer],
    ) -> None:
        """Send the response of a finished request and start the next ones of the lane."""
        self._tasks.discard(future)
        self.memory.release(connection, held)
        lane = route.lane
        lane.running -= 1
        answer = self._result(connection, command, future)
        if answer is not None:
            connection.send(answer)
        while (job := lane.next_job()) is not None:
            peer, request, its_route = job
            self.memory.release(peer, _held_bytes(request))
            if not peer.closed or request.is_served_after_close:
                pending = self._begin(peer, request, its_route)
                if pending is not None:
                    peer.send(pending)
        self.turn()
        if self._drained is not None and not self._drained.done() and not self.in_flight:
            self._drained.set_result(None)

    def failure(
        self, connection: Connection, command: RemotingCommand, error: Exception
    ) -> RemotingCommand:
        """Return the response to a request whose handler raised.

        A BrokerError supplies code and remark; the message of another RocketMQError becomes the
        remark; any other exception is logged with its trace.

        **Source:** RocketMQ NettyRemotingAbstract#processRequestCommand (SYSTEM_ERROR)
        """
        address, title = connection.remote_address, _title(command)
        if isinstance(error, BrokerError):
            return response(command, error.code, truncate(error.remark, REMARK_LIMIT_CHARS))
        if isinstance(error, RocketMQError):
            text = truncate(error.message, REMARK_LIMIT_CHARS)
            self.peer_log.warning(address, f"{title}: {text}")
            remark = f"{type(error).__name__}: {text}"
        else:
            self.peer_log.warning(address, f"{title} failed", error=error)
            remark = f"{type(error).__name__}: {truncate(str(error), REMARK_LIMIT_CHARS)}"
            frames = traceback.extract_tb(error.__traceback__)
            if frames:
                last = frames[-1]
                remark += f", {last.name} ({last.filename.rpartition('/')[2]}:{last.lineno})"
        return response(command, ResponseCode.SYSTEM_ERROR, remark)

    def _unsupported(self, command: RemotingCommand) -> RemotingCommand:
        return response(
            command,
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            f"request code {command.code} is not supported by this {self.name}",
        )

    def _check_access(
        self, connection: Connection, command: RemotingCommand, route: Route
    ) -> RemotingCommand | None:
        """Return the refusal of a request above the peer's level; None if admitted."""
        reason = (
            "administrator access is given to loopback peers only; adminHosts or "
            f"allowRemoteAdmin=true in the {self.name}'s configuration file gives it to other hosts"
        )
        if route.access == Access.MEMBER:
            try:
                reject_reason = self.check_member(connection, command) if self.check_member else ""
            except RocketMQError as error:
                return self.failure(connection, command, error)
            if reject_reason is None:
                return None
            reason = (
                f"{reject_reason or 'this host is not a cluster member'}; clusterMembers in the "
                f"{self.name}'s configuration file names the hosts that may ask"
            )
        reason = truncate(reason, REMARK_LIMIT_CHARS)
        self.peer_log.warning(connection.remote_address, f"{_title(command)} refused: {reason}")
        return response(
            command, ResponseCode.NO_PERMISSION, f"{_title(command)} is refused: {reason}"
        )

    # ---- lanes

    def _enqueue(
        self, connection: Connection, command: RemotingCommand, route: Route
    ) -> Encoded | None:
        lane = route.lane
        held = _held_bytes(command)
        if not self.memory.reserve(connection, held):
            reason = f"{self.memory.total_bytes} bytes are held for peers"
        elif not lane.enqueue((connection, command, route), self.clock.monotonic_ms()):
            self.memory.release(connection, held)
            reason = f"the {lane.name} lane is full: {len(lane.queue)} requests wait"
        else:
            self._watch(lane)
            return None
        return self._busy(command, f"[OVERLOAD]{reason}")

    def _watch(self, lane: Lane[Suspended]) -> None:
        """Set a timer for the time at which the lane's oldest queued request expires."""
        deadline_ms = lane.next_deadline_ms()
        if deadline_ms is None or lane.name in self._lane_timers:
            return
        delay_s = max(0.0, deadline_ms - self.clock.monotonic_ms()) / 1000
        self._lane_timers[lane.name] = self.loop.call_later(delay_s, self.expire_lane, lane)

    def expire_lane(self, lane: Lane[Suspended]) -> None:
        """Respond SYSTEM_BUSY to requests that were queued longer than the lane allows."""
        timer = self._lane_timers.pop(lane.name, None)
        if timer is not None:
            timer.cancel()
        lane.expire(self.clock.monotonic_ms(), partial(self._drop_aged, lane))
        self._watch(lane)

    def _drop_aged(self, lane: Lane[Suspended], job: Suspended, waited_ms: float) -> None:
        connection, command, _ = job
        self.memory.release(connection, _held_bytes(command))
        answer = self._busy(command, _waited_too_long(lane, waited_ms, len(lane.queue)))
        if answer is not None:
            connection.send(answer)

    # ---- turn end

    def turn(self) -> None:
        """Schedule ``turn_end`` once for this loop iteration."""
        if self.turn_end is not None and not self._turn_due:
            self._turn_due = True
            self.loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._turn_due = False
        if self.turn_end is not None:
            self.turn_end()

    # ---- connections

    def connected(self, connection: Connection) -> None:
        """Admit a new connection or, at the limit, close it."""
        if len(self.connections) >= self.limits.connections:
            self.refused_connections += 1
            self.report_refused(
                connection.remote_address,
                f"refused: {self.limits.connections} connections are open, the limit",
            )
            connection.abort()
            return
        self.connections.add(connection)
        if self._scan_timer is None:
            self._arm_scan()
        if self.on_connect is not None:
            self.on_connect(connection)

    def disconnected(self, connection: Connection) -> None:
        """Remove a connection and call ``on_close`` once."""
        if connection in self.connections:
            self.connections.remove(connection)
            if self.on_close is not None:
                self.on_close(connection)
        self.memory.forget(connection)

    def _over_limit(self) -> None:
        """Schedule ``evict`` for the end of this loop iteration."""
        if not self._evicting:
            self._evicting = True
            self.loop.call_soon(self.evict)

    def evict(self) -> None:
        """Close the connections that use the most memory until the limits are met."""
        self._evicting = False
        memory = self.memory
        for connection in self.connections:
            connection.count_unsent()  # some bytes may have been sent since the last count
        for connection in memory.over_limit():
            self.evicted_connections += 1
            self.report_refused(
                connection.remote_address,
                f"holds {memory.held_bytes(connection)} of {memory.total_bytes} bytes kept for "
                f"peers, limits {memory.owner_limit_bytes} and {memory.total_limit_bytes}: closing",
            )
            memory.forget(connection)
            connection.abort()

    def report_refused(self, address: str, text: str) -> None:
        """Log a refused connection or frame; PeerLog limits the lines per host and idle scan."""
        self.refused_frames += 1
        self.peer_log.warning(address, text)
        if self._scan_timer is None:
            self._arm_scan()

    def _arm_scan(self) -> None:
        delay_s = self.limits.idle_scan_ms / 1000
        self._scan_timer = self.loop.call_later(delay_s, self._scan)

    def _scan(self) -> None:
        self._scan_timer = None
        self.scan_idle()
        if self.connections:
            self._arm_scan()

    def scan_idle(self) -> None:
        """Advance the tick and close connections that were idle for the idle time.

        Time is counted in scans: a connection stores the tick of its last byte, so a request needs
        no clock reading. A connection is closed between the idle time and one scan period later.

        **Source:** RocketMQ NettyRemotingServer (IdleStateHandler, 120 s without read and write)
        """
        self.tick += 1
        self.peer_log.next_period()
        limits = self.limits
        oldest = self.tick - 1 - -(-limits.idle_ms // limits.idle_scan_ms)
        for connection in [peer for peer in self.connections if peer.active_tick <= oldest]:
            if connection.paused or connection.closed:
                log.warning("%s: takes no bytes: closing", connection.remote_address)
                connection.abort()
            else:
                connection.close(f"idle for {limits.idle_ms / 1000:g} s")

    # ---- closing

    async def drain(self, drain_ms: float) -> None:
        """Wait until no request is in flight, at most ``drain_ms``."""
        if self.in_flight and drain_ms > 0:
            self._drained = self.loop.create_future()
            await asyncio.wait({self._drained}, timeout=drain_ms / 1000)
            self._drained = None

    async def close_connections(self, wait_ms: float = 1_000) -> None:
        """Flush and close every connection; abort those still open after ``wait_ms``."""
        for timer in (*self._lane_timers.values(), self._scan_timer):
            if timer is not None:
                timer.cancel()
        self._lane_timers.clear()
        for task in self._tasks:
            task.cancel()
        for connection in list(self.connections):
            connection.close()
        deadline = self.loop.time() + wait_ms / 1000
        pause_s = 0.0
        while self.connections and self.loop.time() < deadline:
            await asyncio.sleep(pause_s)
            pause_s = 0.01
        for connection in list(self.connections):
            connection.abort()
        if self.connections:
            await asyncio.sleep(0)
        if self._scan_timer is not None:
            self._scan_timer.cancel()
            self._scan_timer = None


def peer_memory(limits: EndpointLimits) -> MemoryBudget[Connection]:
    """Return the budget of an endpoint's connections, grouped by the peer's host."""
    return MemoryBudget(
        limits.held_bytes, limits.held_total_bytes, lambda connection: connection.remote_host[:-4]
    )


def _held_bytes(command: RemotingCommand) -> int:
    """Return the memory cost of a queued request in bytes."""
    ext = command.ext_fields
    text = sum(len(name) + len(value) for name, value in ext.items())
    return HELD_REQUEST_BYTES + len(command.body) + HELD_FIELD_BYTES * len(ext) + text


def _waited_too_long(lane: Lane[Suspended], waited_ms: float, queued: int) -> str:
    return (
        f"[TIMEOUT_CLEAN_QUEUE]waited {waited_ms:.0f} ms in the {lane.name} lane, "
        f"size of queue: {queued}"
    )


def _title(command: RemotingCommand) -> str:
    """Return name and code of a request for messages."""
    return f"{request_name(command.code)} ({command.code})"
