"""HAService: the master's side of replication: listener, connections, waiting puts.

All methods are called on the event loop; the threads of the connections report through
``call_soon_threadsafe``.

**Source:** RocketMQ DefaultHAService, AutoSwitchHAService#getRuntimeInfo.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Hashable
from typing import Final, cast

from broker.common.address import parse_address
from broker.common.clock import Clock
from broker.errors import StoreError
from broker.remoting.protocol.body.ha import HAConnectionRuntimeInfo, HARuntimeInfo
from broker.remoting.protocol.rpc import Access
from broker.remoting.security.access import AccessRules
from broker.server.ha.config import HaConfig
from broker.server.ha.connection import FlowControl, HAConnection
from broker.server.ha.tls import make_context
from broker.server.longpolling.deadline_timer import DeadlineTimer
from broker.store.ha.acknowledgements import Acknowledgements, ReplicaCallback
from broker.store.ha.slave_table import SlaveReport
from broker.store.message_store import MessageStore

log = logging.getLogger("broker.server")

MAX_SLAVES: Final = 32


class _Accepted(asyncio.Protocol):
    """A new connection: its socket is handed to ``admit``, the event loop gives it up."""

    def __init__(self, admit: Callable[[socket.socket, tuple[str, int]], None]) -> None:
        self._admit = admit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Duplicate the socket before the event loop closes its own descriptor."""
        peer = transport.get_extra_info("peername")
        sock = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        cast(asyncio.Transport, transport).abort()
        self._admit(sock, (peer[0], peer[1]))


class HAService:
    """Listen for slaves, send them the log, and complete the puts that wait for copies."""

    def __init__(
        self, store: MessageStore, config: HaConfig, clock: Clock, access: AccessRules
    ) -> None:
        self.address = ""
        self._store = store
        self._config = config
        self._clock = clock
        self._access = access
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: asyncio.AbstractServer | None = None
        self.connections: list[HAConnection] = []
        self._acknowledgements = Acknowledgements()
        # Address of an HA connection at the slave → broker address of the slave.
        self._names: dict[str, str] = {}
        self._timer = DeadlineTimer(clock, self._expire)
        limit = config.max_ha_transfer_byte_in_second
        self._tls = make_context(config, server=True)
        self._flow = FlowControl(limit) if config.ha_flow_control_enable else None

    async def start(self, host: str, port: int) -> None:
        """Listen on ``host`` and ``port`` (0: any free port); StoreError if that is impossible."""
        self._loop = asyncio.get_running_loop()
        try:
            self._server = await self._loop.create_server(
                lambda: _Accepted(self._admit), host, port, backlog=MAX_SLAVES
            )
        except OSError as error:
            raise StoreError(
                f"HA address {host}:{port}: {error.strerror or error}", "set haListenPort"
            ) from error
        self.port = int(self._server.sockets[0].getsockname()[1])
        self._store.scheduler.on_appended = self._appended

    async def stop(self) -> None:
        """Close the listener and all connections; waiting puts get FLUSH_SLAVE_TIMEOUT."""
        if self._loop is None:
            return
        self._store.scheduler.on_appended = None
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            await self._loop.run_in_executor(None, connection.stop)
        self._timer.cancel()
        self._acknowledgements.expire(float("inf"))

    def _admit(self, sock: socket.socket, peer: tuple[str, int]) -> None:
        if self._access.level_of(peer[0]) < Access.MEMBER:
            log.warning("HA connection of %s refused: not in adminHosts or clusterMembers", peer[0])
            sock.close()
            return
        if len(self.connections) >= MAX_SLAVES:
            log.warning("HA connection of %s refused: %d slaves are connected", peer[0], MAX_SLAVES)
            sock.close()
            return
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = HAConnection(
            sock,
            peer,
            self._store.log,
            self._config,
            self._flow,
            on_report=self._reported,
            on_closed=self._closed,
            tls=self._tls,
            mark_bytes=self._free_mark(),
        )
        self._enter(connection)
        connection.start()

    def _enter(self, connection: HAConnection) -> None:
        """Add an accepted connection; those of one host mark a transfer."""
        host = parse_address(connection.address)[0]
        sent: dict[Hashable, int] = {one: one.sent for one in self.connections}
        self.connections.append(connection)
        self._acknowledgements.connected(connection, host, sent)
        same_host = [one for one in self.connections if parse_address(one.address)[0] == host]
        if len(same_host) > 1:
            for one in same_host:
                one.mark_transfer()

    def _free_mark(self) -> int:
        used = {one.mark_bytes for one in self.connections}
        return next(size for size in range(1, MAX_SLAVES + 1) if size not in used)

    # ---- called in the threads of the connections

    def _reported(self, connection: HAConnection) -> None:
        self._call_soon_threadsafe(connection, self._acknowledged)

    def _closed(self, connection: HAConnection) -> None:
        self._call_soon_threadsafe(connection, self._forget)

    def _call_soon_threadsafe(
        self, connection: HAConnection, call: Callable[[HAConnection], None]
    ) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(call, connection)
        except RuntimeError:
            pass  # the event loop is closed: the broker has stopped

    # ---- event loop

    def _appended(self) -> None:
        for connection in self.connections:
            connection.wake()

    def _acknowledged(self, connection: HAConnection) -> None:
        if connection in self.connections:
            if connection.skipped_to:
                self._acknowledgements.skip(connection.skipped_to)
                connection.skipped_to = 0
            report = SlaveReport(
                connection.acknowledged,
                connection.start_offset,
                connection.mark_acknowledged,
                self._names.get(connection.address, ""),
            )
            self._acknowledgements.report(connection, report)

    def _forget(self, connection: HAConnection) -> None:
        if connection in self.connections:
            self.connections.remove(connection)
            self._names.pop(connection.address, None)
        self._acknowledgements.disconnected(connection)

    def name_replica(self, connection: str, address: str) -> None:
        """Note the broker address of the slave whose HA connection has this address.

        The name may arrive before the connection; the newest names are kept, twice MAX_SLAVES.
        """
        self._names.pop(connection, None)
        self._names[connection] = address
        while len(self._names) > 2 * MAX_SLAVES:
            self._names.pop(next(iter(self._names)))
        for one in self.connections:
            if one.address == connection and one.acknowledged >= 0:
                self._acknowledged(one)

    def await_replicas(
        self,
        physical_end: int,
        needed: int,
        callback: ReplicaCallback,
        first_end: int | None = None,
    ) -> None:
        """Call ``callback(status)`` once ``needed`` replicas have the log up to ``physical_end``.

        ``first_end`` is the end of the first of several records. ``status`` is PUT_OK, or
        FLUSH_SLAVE_TIMEOUT after slaveTimeout.
        """
        deadline = self._clock.monotonic_ms() + self._config.slave_timeout
        if self._acknowledgements.wait(physical_end, needed, deadline, callback, first_end):
            self._timer.arm(deadline)

    def in_sync(self, max_gap_bytes: int) -> int:
        """Return the replicas in that gap from the end of the log, the master included."""
        return self._acknowledgements.in_sync(self._store.max_physical_offset, max_gap_bytes)

    def is_copied(self, physical_end: int, needed: int, first_end: int | None = None) -> bool:
        """Whether ``needed`` replicas, the master included, have the log up to there."""
        return self._acknowledgements.is_copied(physical_end, needed, first_end)

    def _expire(self) -> None:
        self._acknowledgements.expire(self._clock.monotonic_ms())
        deadline = self._acknowledgements.next_deadline()
        if deadline is not None:
            self._timer.arm(deadline)

    def runtime_info(self) -> HARuntimeInfo:
        """Return the state of all slaves, as GET_BROKER_HA_STATUS answers it."""
        end = self._store.max_physical_offset
        gap = self._config.ha_max_gap_not_in_sync
        infos = [
            HAConnectionRuntimeInfo(
                addr=one.address,
                slave_ack_offset=one.acknowledged,
                diff=end - one.acknowledged,
                in_sync=end - one.acknowledged < gap,
                transferred_byte_in_second=one.transferred_per_second,
                transfer_from_where=one.transfer_from,
            )
            for one in self.connections
            if one.acknowledged >= 0
        ]
        return HARuntimeInfo(
            master=True,
            master_commit_log_max_offset=end,
            in_sync_slave_nums=sum(info.in_sync for info in infos),
            ha_connection_info=infos,
        )
