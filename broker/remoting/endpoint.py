"""What a server and a client share: routes, lanes, answers, the idle scan.

An endpoint owns a set of connections and answers the requests that arrive on them; it makes no
difference who dialled.

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
from broker.errors import BrokerError, LocalProtocolError, RocketMQError
from broker.remoting.connection import Buffer, Connection
from broker.remoting.lane import Lane
from broker.remoting.limits import FOREIGN_LOG_LIMIT, EndpointLimits, LaneLimits
from broker.remoting.protocol.codes import ResponseCode, request_name
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.framing import encode_frame_parts
from broker.remoting.protocol.rpc import RPC

Answer = RemotingCommand | bytes | list[Buffer] | None
Handler = Callable[[Connection, RemotingCommand], Answer | Awaitable[Answer]]
Authorize = Callable[[Connection, RemotingCommand], RemotingCommand | None]
Encoded = bytes | list[Buffer]

log = logging.getLogger("broker.remoting")

FLAG_ONEWAY = 2


class Route:
    """Where a request code goes: its handler, its lane, and whether only near peers may ask."""

    __slots__ = ("code", "dangerous", "handler", "lane")

    def __init__(self, code: int, handler: Handler, lane: Lane[Parked], dangerous: str) -> None:
        self.code = code
        self.handler = handler
        self.lane = lane
        self.dangerous = dangerous


Parked = tuple[Connection, RemotingCommand, Route]


class Endpoint:
    """Connections of one kind and the answering of their requests.

    ``handlers``: request code → handler. ``default_handler`` takes every other code; without it
    they are answered REQUEST_CODE_NOT_SUPPORTED. ``authorize(connection, command)`` is asked before
    each handler and may return a refusal. Codes the switchboard marks dangerous are refused from
    peers that are not on loopback unless ``allow_remote_admin``. ``turn_end`` runs once per pass of
    the loop in which requests were handled. ``on_connect`` and ``on_close`` get the connection.
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
        allow_remote_admin: bool = False,
    ) -> None:
        self.limits = limits or EndpointLimits()
        self.clock = clock or SystemClock()
        self.name = name
        self.lanes: dict[str, Lane[Parked]] = {
            lane: Lane(lane, lane_limits) for lane, lane_limits in self.limits.lanes.items()
        }
        self.routes: dict[int, Route] = {}
        for code, handler in handlers.items():
            self.add_handler(code, handler)
        self.default_route = (
            Route(-1, default_handler, self._lane("admin"), "") if default_handler else None
        )
        self.authorize = authorize
        self.allow_remote_admin = allow_remote_admin
        self.on_connect = on_connect
        self.on_close = on_close
        self.turn_end = turn_end
        self.connections: set[Connection] = set()
        self.tick = 0
        self.unfinished_bytes = 0
        self.refused_connections = 0
        self.refused_frames = 0
        self._refused_this_tick = 0
        self._tasks: set[asyncio.Future[Any]] = set()
        self._dirty: list[Connection] = []
        self._turn_due = False
        self._scan_timer: asyncio.TimerHandle | None = None
        self._lane_timers: dict[str, asyncio.TimerHandle] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._drained: asyncio.Future[None] | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop, looked up once."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    def add_handler(self, code: int, handler: Handler) -> None:
        """Answer ``code`` with ``handler``; its lane and danger come from the switchboard."""
        rpc = RPC.get(code)
        lane = self._lane(rpc.lane if rpc else "admin")
        self.routes[code] = Route(code, handler, lane, rpc.dangerous if rpc else "")

    def _lane(self, name: str) -> Lane[Parked]:
        lane = self.lanes.get(name)
        if lane is None:
            lane = self.lanes[name] = Lane(name, LaneLimits())
        return lane

    @property
    def in_flight(self) -> int:
        """Requests whose answer is awaited or that wait to begin, over all lanes."""
        return sum(lane.running + len(lane.queue) for lane in self.lanes.values())

    # ---- answering

    def answer(self, connection: Connection, command: RemotingCommand) -> Encoded | None:
        """Let the request be handled; returns its answer as encoded buffers, None if not yet.

        Never raises: an error in a handler becomes a SYSTEM_ERROR answer. Oneway requests are
        never answered.
        """
        route = self.routes.get(command.code, self.default_route)
        if route is None:
            return self._encode(command, self._unsupported(command))
        if route.dangerous and not connection.is_loopback and not self.allow_remote_admin:
            return self._encode(command, self._refuse_dangerous(connection, command, route))
        if self.authorize is not None:
            refusal = self.authorize(connection, command)
            if refusal is not None:
                return self._encode(command, refusal)
        lane = route.lane
        if lane.queue or lane.running >= lane.limits.concurrency:
            return self._park(connection, command, route)
        return self._begin(connection, command, route)

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
        future.add_done_callback(partial(self._finished, connection, command, route))
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
        future: asyncio.Future[Answer],
    ) -> None:
        """An awaited answer has come: send it and let the lane's next request begin."""
        self._tasks.discard(future)
        lane = route.lane
        lane.running -= 1
        answer = self._result(connection, command, future)
        if answer is not None:
            connection.send(answer)
        while (job := lane.next_job()) is not None:
            peer, request, its_route = job
            if not peer.closed:
                begun = self._begin(peer, request, its_route)
                if begun is not None:
                    peer.send(begun)
        self.turn()
        if self._drained is not None and not self._drained.done() and not self.in_flight:
            self._drained.set_result(None)

    def failure(
        self, connection: Connection, command: RemotingCommand, error: Exception
    ) -> RemotingCommand:
        """The answer to a request whose handler raised.

        A BrokerError carries its own code and remark; other project errors are told in their own
        words; everything else is logged with its trace.

        **Source:** RocketMQ NettyRemotingAbstract#processRequestCommand (SYSTEM_ERROR)
        """
        if isinstance(error, BrokerError):
            return response(command, error.code, error.remark)
        if isinstance(error, RocketMQError):
            log.warning("%s: %s: %s", connection.remote_address, _title(command), error.message)
            remark = f"{type(error).__name__}: {error.message}"
        else:
            log.error("%s: %s failed", connection.remote_address, _title(command), exc_info=error)
            remark = f"{type(error).__name__}: {error}"
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

    def _refuse_dangerous(
        self, connection: Connection, command: RemotingCommand, route: Route
    ) -> RemotingCommand:
        log.warning(
            "%s: %s refused: it %s and the peer is not on loopback",
            connection.remote_address,
            _title(command),
            route.dangerous,
        )
        return response(
            command,
            ResponseCode.NO_PERMISSION,
            f"{_title(command)} {route.dangerous} and is answered to loopback peers only; "
            "allowRemoteAdmin=true lets other hosts ask",
        )

    # ---- lanes

    def _park(
        self, connection: Connection, command: RemotingCommand, route: Route
    ) -> Encoded | None:
        lane = route.lane
        if not lane.park((connection, command, route), self.clock.monotonic_ms()):
            return self._encode(
                command,
                response(
                    command,
                    ResponseCode.SYSTEM_BUSY,
                    f"[OVERLOAD]the {lane.name} lane is full: {len(lane.queue)} requests wait",
                ),
            )
        self._watch(lane)
        return None

    def _watch(self, lane: Lane[Parked]) -> None:
        """Keep one timer at the moment the lane's oldest waiting request is too old."""
        deadline_ms = lane.next_deadline_ms()
        if deadline_ms is None or lane.name in self._lane_timers:
            return
        delay_s = max(0.0, deadline_ms - self.clock.monotonic_ms()) / 1000
        self._lane_timers[lane.name] = self.loop.call_later(delay_s, self.expire_lane, lane)

    def expire_lane(self, lane: Lane[Parked]) -> None:
        """Answer SYSTEM_BUSY to the requests of a lane that waited too long to begin."""
        timer = self._lane_timers.pop(lane.name, None)
        if timer is not None:
            timer.cancel()
        lane.expire(self.clock.monotonic_ms(), partial(self._drop_aged, lane))
        self._watch(lane)

    def _drop_aged(self, lane: Lane[Parked], job: Parked, waited_ms: float) -> None:
        connection, command, _ = job
        remark = (
            f"[TIMEOUT_CLEAN_QUEUE]waited {waited_ms:.0f} ms in the {lane.name} lane, "
            f"size of queue: {len(lane.queue)}"
        )
        answer = self._encode(command, response(command, ResponseCode.SYSTEM_BUSY, remark))
        if answer is not None:
            connection.send(answer)

    # ---- turns and writes

    def turn(self) -> None:
        """Ask for ``turn_end`` once in this pass of the loop."""
        if self.turn_end is not None and not self._turn_due:
            self._turn_due = True
            self.loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._turn_due = False
        if self.turn_end is not None:
            self.turn_end()

    def flush_soon(self, connection: Connection) -> None:
        """Write what a connection has queued at the end of this pass of the loop."""
        if not self._dirty:
            self.loop.call_soon(self._flush_dirty)
        self._dirty.append(connection)

    def _flush_dirty(self) -> None:
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            connection.flush()

    # ---- connections

    def connected(self, connection: Connection) -> None:
        """Admit a new connection or, at the limit, close it."""
        if len(self.connections) >= self.limits.connections:
            self.refused_connections += 1
            self.report_refused(
                f"{connection.remote_address}: refused: "
                f"{self.limits.connections} connections are open, the limit"
            )
            connection.abort()
            return
        self.connections.add(connection)
        if self._scan_timer is None:
            self._arm_scan()
        if self.on_connect is not None:
            self.on_connect(connection)

    def disconnected(self, connection: Connection) -> None:
        """Forget a connection and tell the role, once."""
        if connection in self.connections:
            self.connections.remove(connection)
            if self.on_close is not None:
                self.on_close(connection)

    def report_refused(self, text: str) -> None:
        """Log one line about refused bytes; at most a few lines per idle scan."""
        self.refused_frames += 1
        self._refused_this_tick += 1
        if self._refused_this_tick <= FOREIGN_LOG_LIMIT:
            log.warning("%s: %s", self.name, text)
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
        """Advance the tick and close connections that were silent for the idle time.

        Time is counted in scans: a connection keeps the tick of its last byte, so a request costs
        no clock reading. Closing happens between the idle time and one scan later.

        **Source:** RocketMQ NettyRemotingServer (IdleStateHandler, 120 s without read and write)
        """
        self.tick += 1
        suppressed = self._refused_this_tick - FOREIGN_LOG_LIMIT
        self._refused_this_tick = 0
        if suppressed > 0:
            log.warning("%s: %d more refusals not logged", self.name, suppressed)
        limits = self.limits
        oldest = self.tick - 1 - -(-limits.idle_ms // limits.idle_scan_ms)
        for connection in [peer for peer in self.connections if peer.active_tick <= oldest]:
            if connection.paused or connection.closed:
                log.warning("%s: takes no bytes: closing", connection.remote_address)
                connection.abort()
            else:
                connection.close(f"idle for {limits.idle_ms / 1000:g} s")

    # ---- the end

    async def drain(self, drain_ms: float) -> None:
        """Wait until no answer is awaited any more, at most ``drain_ms``."""
        if self.in_flight and drain_ms > 0:
            self._drained = self.loop.create_future()
            await asyncio.wait({self._drained}, timeout=drain_ms / 1000)
            self._drained = None

    async def close_connections(self, wait_ms: float = 1_000) -> None:
        """Close every connection after its queued bytes; what does not close in time is aborted."""
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


def _title(command: RemotingCommand) -> str:
    """A request as people call it: name and code."""
    return f"{request_name(command.code)} ({command.code})"
