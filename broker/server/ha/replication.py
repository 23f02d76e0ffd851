"""Replication: the parts of one broker's role, started and stopped by the controller.

A master listens for slaves; a slave follows its master and copies its tables. The master's
addresses come from ``haMasterAddress`` or from the name server's response to a registration. A
slave that has voted in a switch (``mqadmin broker promote``) uses the latter.

**Source:** RocketMQ BrokerController#start, #handleSlaveSynchronize.
"""

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from broker.common.clock import Clock
from broker.errors import RocketMQError, StoreError
from broker.remoting.protocol.body.ha import HARuntimeInfo
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from broker.remoting.protocol.header.broker import (
    ExchangeHAInfoHeader,
    NotifyMinBrokerIdChangeRequestHeader,
)
from broker.remoting.protocol.header.fields import encode_header_fields
from broker.server.ha.client import HAClient
from broker.server.ha.config import access_rules
from broker.server.ha.durability import PutDurability
from broker.server.ha.member_group import Client, MemberGroup
from broker.server.ha.replica_policy import policy_of
from broker.server.ha.service import HAService
from broker.server.ha.slave_synchronize import SlaveSynchronize
from broker.server.ha.tasks import cancel

if TYPE_CHECKING:
    from broker.server.context import BrokerContext
    from broker.server.registration import Registrar

log = logging.getLogger("broker.server")

NAME_ATTEMPTS: Final = 5
NAME_TIMEOUT_MS: Final = 3_000
FIRST_COPY_S: Final = 2.0  # longest wait for the topics before the log is followed


class Replication:
    """The HA side of a broker, master or slave."""

    def __init__(
        self, context: "BrokerContext", clock: Clock, client: Client, registrar: "Registrar"
    ) -> None:
        settings = context.settings
        self._config = settings.ha
        self._broker = settings.broker
        self._registrar = registrar
        self.service: HAService | None = None
        self._client: HAClient | None = None
        self._synchronize: SlaveSynchronize | None = None
        self._asked = False
        self._following: asyncio.Task[None] | None = None
        self._naming: asyncio.Task[None] | None = None
        self._caller = client
        self._context = context
        if settings.broker.is_slave:
            context.store.flags.make_replica()
            self._synchronize = SlaveSynchronize(context, client, lambda: registrar.master_address)
            self._client = HAClient(
                *(context.store, settings.ha, clock, self._master_ha_address),
                topics=self._synchronize,
                on_connected=self._connected,
            )
        else:
            rules = access_rules(settings.broker, settings.ha)
            self.service = HAService(context.store, settings.ha, clock, rules)
            context.durability = PutDurability(
                context.store,
                self.service,
                policy_of(settings.ha, sync_master=settings.broker.broker_role == "SYNC_MASTER"),
            )
        self.members = MemberGroup(context, client, registrar)
        context.replication = self
        context.ha_status = self.runtime_info

    async def listen(self, host: str, port: int) -> None:
        """Master: listen for slaves; ``port`` is the first remoting port.

        StoreError if haListenPort is set and cannot be used. Without it, any free port replaces a
        port that is in use: slaves get the actual one from name servers.
        """
        if self.service is None:
            return
        wanted = self._config.ha_listen_port or (port + 1 if port < 65_535 else 0)
        try:
            await self.service.start(host, wanted)
        except StoreError as error:
            if self._config.ha_listen_port:
                raise
            log.info("%s; another port is used for slaves", error.message)
            await self.service.start(host, 0)
        self._registrar.ha_port = self.service.port
        await self.members.copy_back()

    def follow(self) -> None:
        """Slave: start following the master; with an acting master watch the group."""
        self.members.start()
        if self._synchronize is not None:
            self._synchronize.start()
            self._following = asyncio.get_running_loop().create_task(self._follow_log())

    async def _follow_log(self) -> None:
        """Connect after the first copy of the topics: their type decides the kind of a queue.

        A slave whose master is known by its HA address only connects without them.
        """
        assert self._synchronize is not None
        assert self._client is not None
        with suppress(TimeoutError):
            await asyncio.wait_for(self._synchronize.topics_tried.wait(), FIRST_COPY_S)
        self._client.start()

    async def stop(self) -> None:
        """Stop everything; safe before the start."""
        await self.members.stop()
        await cancel(self._following, self._naming)
        if self._synchronize is not None:
            await self._synchronize.stop()
        if self._client is not None:
            await self._client.stop()
        if self.service is not None:
            await self.service.stop()

    @property
    def problem(self) -> str:
        """Why this slave does not follow its master; empty while it does, and on a master."""
        return "" if self._client is None else self._client.problem

    @property
    def diverged_at(self) -> int | None:
        """The first physical offset that differs from the master's log; None without one."""
        return None if self._client is None else self._client.diverged_at

    async def synchronize(self) -> str:
        """Slave: copy the master's tables now; return the problem, empty without one."""
        synchronize, master = self._synchronize, self._registrar.master_address
        if synchronize is None or not master:
            return "the master is not known"
        await synchronize.synchronize(master)
        return synchronize.problem

    def _master_ha_address(self) -> str:
        if self._asked:
            # The master is lost, or was never found: a new one may be registered by now.
            self._registrar.connection_lost()
        self._asked = True
        configured, found = self._config.ha_master_address, self._registrar.master_ha_address
        role = self._context.role
        if configured and found and role is not None and role.state.voted_epoch:
            # This slave has voted for another master than the configured one.
            return found
        return configured or found

    def member_changed(self, change: NotifyMinBrokerIdChangeRequestHeader) -> None:
        """Note the lowest id of the group."""
        self.members.changed(change)

    def timer_copy(self, code: int) -> bytes | None:
        """Return the master's last response to a request about timers; None without one."""
        return None if self._synchronize is None else self._synchronize.timer_copies.get(code)

    def ha_address(self) -> str:
        """Return the address at which this master listens for slaves."""
        return self._registrar.ha_address()

    def adopt_master(self, address: str, ha_address: str) -> None:
        """Slave: follow the master at these addresses from the next connection on."""
        self._registrar.master_address = address or self._registrar.master_address
        self._registrar.master_ha_address = ha_address

    def name_replica(self, connection: str, address: str) -> None:
        """Master: note the broker address of the slave at the other end of an HA connection."""
        if self.service is not None:
            self.service.name_replica(connection, address)

    def _connected(self, connection: str) -> None:
        if self._naming is not None:
            self._naming.cancel()
        self._naming = asyncio.get_running_loop().create_task(self._name_connection(connection))

    async def _name_connection(self, connection: str) -> None:
        """Send the master the address of this slave: it counts copies by slave."""
        header = ExchangeHAInfoHeader(
            replica_connection=connection, replica_address=self._context.address
        )
        command = request(RequestCode.EXCHANGE_BROKER_HA_INFO, encode_header_fields(header))
        for _ in range(NAME_ATTEMPTS):
            try:
                await self._caller.call(self._registrar.master_address, command, NAME_TIMEOUT_MS)
            except RocketMQError as error:
                log.debug("HA connection not named at the master: %s", error.message)
            else:
                return
            await asyncio.sleep(NAME_TIMEOUT_MS / 1000)

    def runtime_info(self) -> HARuntimeInfo:
        """Return the state of replication."""
        part = self._client or self.service
        return HARuntimeInfo() if part is None else part.runtime_info()
