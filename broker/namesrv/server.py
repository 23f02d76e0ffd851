"""NameServer: listener, tables and expiry scan of a name server in one object.

::

    server = NameServer(NamesrvConfig(listen_port=0))
    await server.start()
    server.addresses        # ["127.0.0.1:41234"]
    await server.close()

**Source:** RocketMQ NamesrvController, BrokerHousekeepingService.
"""

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from broker.common.clock import Clock, SystemClock
from broker.errors import RemotingError
from broker.namesrv import config as keys
from broker.namesrv.brokers import MinBrokerIdChange
from broker.namesrv.config import NamesrvConfig
from broker.namesrv.kv import KVConfig
from broker.namesrv.membership import MembershipCheck
from broker.namesrv.processor import NamesrvProcessor
from broker.namesrv.route import RouteInfoManager
from broker.namesrv.settings import LiveSettings
from broker.remoting.client import RemotingClient
from broker.remoting.limits import LaneLimits
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from broker.remoting.protocol.header.broker import NotifyMinBrokerIdChangeRequestHeader
from broker.remoting.protocol.header.fields import encode_header_fields
from broker.remoting.security.tls import client_context, server_tls
from broker.remoting.server import Connection, RemotingServer, ServerLimits

DRAIN_MS = 1_000
"""Time that ``close`` waits for requests in flight."""

NOTIFY_TIMEOUT_MS = 300
"""Timeout of notifying a broker of a changed lowest id; Java's value."""

log = logging.getLogger("broker.namesrv")


class NameServer:
    """A name server that can be started and closed once.

    ``startup`` passes ``settings``, which includes unknown keys and origins, instead of ``config``.
    ``start`` raises StoreError for a corrupt KV file, ConnectError for an address that cannot
    be bound.
    """

    def __init__(
        self,
        config: NamesrvConfig | None = None,
        *,
        clock: Clock | None = None,
        settings: LiveSettings | None = None,
    ) -> None:
        self.settings = settings or LiveSettings(config or NamesrvConfig())
        self.settings.on_change = self._reconfigured
        config = self.settings.config
        clock = clock or SystemClock()
        self.routes = RouteInfoManager(clock, config, self._min_id_changed)
        self.kv = KVConfig(config.kv_path)
        self.processor = NamesrvProcessor(self.routes, self.kv, self.settings, clock)
        self.server = RemotingServer(
            self.processor.handlers(),
            limits=_limits(config),
            clock=clock,
            name="name server",
            on_close=self._connection_closed,
            access=keys.access_rules(config),
            check_member=MembershipCheck(self.routes, listed_only=bool(config.cluster_members)),
        )
        self._tls = server_tls(config)
        self._client_tls = client_context(config)
        self.client: RemotingClient | None = None
        self._scan: asyncio.TimerHandle | None = None
        self._notifications: set[asyncio.Task[None]] = set()

    @property
    def addresses(self) -> list[str]:
        """The listening addresses as "host:port"."""
        return self.server.addresses

    async def start(self, listen: Sequence[tuple[str, int]] | None = None) -> None:
        """Load the KV file, listen and start the expiry scan."""
        config = self.settings.config
        self.kv.load()
        self.processor.started()
        await self.server.start(
            listen or [(config.bind_address, config.listen_port)], tls=self._tls
        )
        if config.listen_port == 0:
            self.settings.config = msgspec.structs.replace(config, listen_port=self.server.ports[0])
        self._arm()

    async def close(self) -> None:
        """Stop listening and close every connection."""
        if self._scan is not None:
            self._scan.cancel()
            self._scan = None
        for notification in self._notifications:
            notification.cancel()
        await self.server.close(DRAIN_MS)
        if self.client is not None:
            await self.client.close()

    def _arm(self) -> None:
        delay_s = self.settings.config.scan_not_active_broker_interval / 1000
        self._scan = asyncio.get_running_loop().call_later(delay_s, self._scan_brokers)

    def _scan_brokers(self) -> None:
        for channel in self.routes.expire():
            if isinstance(channel, Connection):
                channel.close("heartbeat timeout of its broker")
        self._arm()

    def _connection_closed(self, connection: Connection) -> None:
        for address in self.routes.channel_closed(connection):
            log.info("broker %s: its connection %s closed", address, connection.remote_address)

    def _reconfigured(self, config: NamesrvConfig) -> None:
        self.routes.config = config

    def _min_id_changed(self, change: MinBrokerIdChange) -> None:
        if self.client is None:
            self.client = RemotingClient(name="name server", tls=self._client_tls)
        for address in change.notify:
            task = asyncio.get_running_loop().create_task(self._notify(address, change))
            self._notifications.add(task)
            task.add_done_callback(self._notifications.discard)

    async def _notify(self, address: str, change: MinBrokerIdChange) -> None:
        assert self.client is not None
        header = NotifyMinBrokerIdChangeRequestHeader(
            min_broker_id=change.min_broker_id,
            broker_name=change.broker_name,
            min_broker_addr=change.min_address,
            offline_broker_addr=change.offline_address,
            ha_broker_addr=change.ha_address,
        )
        command = request(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, encode_header_fields(header))
        try:
            await self.client.oneway(address, command, NOTIFY_TIMEOUT_MS)
        except RemotingError as error:
            log.warning(
                "broker %s was not notified of the lowest id of its group: %s", address, error
            )


def _limits(config: NamesrvConfig) -> ServerLimits:
    return ServerLimits(
        connections=config.max_connections,
        idle_ms=config.server_channel_max_idle_time_seconds * 1000,
        lanes={
            "route": LaneLimits(queue_limit=config.client_request_thread_pool_queue_capacity),
            "namesrv": LaneLimits(queue_limit=config.default_thread_pool_queue_capacity),
        },
    )
