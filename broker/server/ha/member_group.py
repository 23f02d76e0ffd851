"""MemberGroup: the live brokers of this broker's name, for enableSlaveActingMaster.

While the master is gone, name servers with supportActingMaster present the slave of the lowest id
as master: consumers read, lock queues and keep offsets there. It stores nothing: delays, timers,
transactions and revived pops wait for the master, as in Java without enableRemoteEscape. When the
master starts again, it takes over the offsets that were committed meanwhile, before it registers.

The members are known from NOTIFY_MIN_BROKER_ID_CHANGE, and from a question every second. So that a
master that hangs is missed soon, each broker sends a heartbeat every second, and name servers
remove it after 10 s without one, else after 120 s without a registration.

**Source:** RocketMQ BrokerController#updateMinBroker, #onMinBrokerChange, #syncBrokerMemberGroup,
#sendHeartbeat, BrokerPreOnlineService#syncMetadataReverse.
"""

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final, Protocol

from broker.errors import BrokerError, RocketMQError
from broker.remoting.protocol.body.base import RESPONSE_LIMITS
from broker.remoting.protocol.body.consumer.offset import ConsumerOffsetSerializeWrapper
from broker.remoting.protocol.body.namesrv.cluster import GetBrokerMemberGroupResponseBody
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.remoting.protocol.header.broker import NotifyMinBrokerIdChangeRequestHeader
from broker.remoting.protocol.header.fields import encode_header_fields
from broker.remoting.protocol.header.namesrv.route import (
    BrokerHeartbeatRequestHeader,
    GetBrokerMemberGroupRequestHeader,
)
from broker.server.configuration.config import name_servers
from broker.server.ha.slave_synchronize import Caller
from broker.server.ha.tasks import cancel

if TYPE_CHECKING:
    from broker.server.context import BrokerContext

log = logging.getLogger("broker.server")

PERIOD_MS: Final = 1_000
TIMEOUT_MS: Final = 3_000
MASTER_ID: Final = 0


class Client(Caller, Protocol):
    """The part of RemotingClient that is needed."""

    async def oneway(self, address: str, command: RemotingCommand, timeout_ms: float) -> None:
        """Send a one-way request."""
        ...


class MasterAddresses(Protocol):
    """Where a slave finds its master; Registrar keeps it.

    ``suspended``: this broker is a fenced master, which name servers shall forget.
    """

    master_address: str
    master_ha_address: str
    suspended: bool


class MemberGroup:
    """The members of one broker name, as this broker knows them."""

    def __init__(
        self, context: "BrokerContext", client: Client, addresses: MasterAddresses
    ) -> None:
        self.min_broker_id: int | None = None
        self._context = context
        self._client = client
        self._addresses = addresses
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def enabled(self) -> bool:
        """Whether enableSlaveActingMaster is set."""
        return self._context.settings.ha.enable_slave_acting_master

    @property
    def acting(self) -> bool:
        """Whether this slave acts for a master that is gone."""
        config = self._context.config
        return self.enabled and config.is_slave and self.min_broker_id == config.broker_id

    def start(self) -> None:
        """Send heartbeats and ask for the members periodically."""
        if self.enabled:
            loop = asyncio.get_running_loop()
            self._tasks = [loop.create_task(self._run()), loop.create_task(self._heartbeats())]

    async def stop(self) -> None:
        """Stop both."""
        for task in self._tasks:
            await cancel(task)

    async def _run(self) -> None:
        while True:
            members = await self._members()
            if members:
                lowest = min(members)
                self.changed(
                    NotifyMinBrokerIdChangeRequestHeader(
                        min_broker_id=lowest, min_broker_addr=members[lowest]
                    )
                )
            await asyncio.sleep(PERIOD_MS / 1000)

    async def _heartbeats(self) -> None:
        while True:
            if not self._addresses.suspended:
                addresses = name_servers(self._context.config)
                await asyncio.gather(*map(self._send_heartbeat, addresses))
            await asyncio.sleep(PERIOD_MS / 1000)

    async def _send_heartbeat(self, address: str) -> None:
        config = self._context.config
        header = BrokerHeartbeatRequestHeader(
            cluster_name=config.broker_cluster_name,
            broker_addr=self._context.address,
            broker_name=config.broker_name,
            broker_id=config.broker_id,
        )
        command = request(RequestCode.BROKER_HEARTBEAT, encode_header_fields(header))
        with contextlib.suppress(RocketMQError):  # the registration reports it
            await self._client.oneway(address, command, PERIOD_MS)

    async def _members(self) -> dict[int, str]:
        """Return broker id → address from the first name server that answers, {} without one."""
        config = self._context.config
        header = GetBrokerMemberGroupRequestHeader(
            cluster_name=config.broker_cluster_name, broker_name=config.broker_name
        )
        for address in name_servers(config):
            command = request(RequestCode.GET_BROKER_MEMBER_GROUP, encode_header_fields(header))
            try:
                data = await self._ask(address, command)
                group = GetBrokerMemberGroupResponseBody.from_bytes(data, RESPONSE_LIMITS)
            except RocketMQError:
                continue
            if group.broker_member_group is not None:
                return group.broker_member_group.broker_addrs
        return {}

    async def _ask(self, address: str, command: RemotingCommand) -> bytes:
        answer = await self._client.call(address, command, TIMEOUT_MS)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark or "", address)
        return answer.body_bytes()

    def changed(self, change: NotifyMinBrokerIdChangeRequestHeader) -> None:
        """Note the lowest id of the group; a slave adopts or drops its master."""
        if not self.enabled or change.broker_name not in (None, self._context.config.broker_name):
            return
        was_acting, before = self.acting, self.min_broker_id
        self.min_broker_id = change.min_broker_id
        if self.min_broker_id != before:
            log.info("lowest broker id of this group: %s, before: %s", self.min_broker_id, before)
        if not self._context.config.is_slave:
            return
        addresses = self._addresses
        if change.offline_broker_addr and change.offline_broker_addr == addresses.master_address:
            addresses.master_address = addresses.master_ha_address = ""
        if self.min_broker_id == MASTER_ID and change.min_broker_addr:
            addresses.master_address = change.min_broker_addr
            if change.ha_broker_addr:
                addresses.master_ha_address = change.ha_broker_addr
        if self.acting and not was_acting:
            log.warning("the master is gone: this slave acts for it, without writes")
        elif was_acting and not self.acting:
            log.warning("this slave does not act for its master any more")

    async def copy_back(self) -> None:
        """Master: take over newer consumer offsets from the slaves that acted for it.

        An offset is taken only if it is greater than the own one and the queue here reaches it: a
        slave's log is a part of the master's, but not of one that lost its disk.
        """
        if not self.enabled or self._context.config.is_slave:
            return
        own = self._context.address
        members = [one for one in (await self._members()).values() if one != own]
        for member in members:
            try:
                data = await self._ask(member, request(RequestCode.GET_ALL_CONSUMER_OFFSET))
                table = ConsumerOffsetSerializeWrapper.from_bytes(data, RESPONSE_LIMITS)
            except RocketMQError as error:
                log.warning("offsets of slave %s not taken over: %s", member, error.message)
                continue
            newer = self._newer(table.offset_table)
            if newer:
                self._context.offsets.merge(newer)
                log.info("slave %s: newer offsets of %d groups taken over", member, len(newer))

    def _newer(self, table: dict[str, dict[int, int]]) -> dict[str, dict[int, int]]:
        offsets, store = self._context.offsets.table, self._context.store
        newer: dict[str, dict[int, int]] = {}
        for key, queues in table.items():
            topic = key.partition("@")[0]
            own = offsets.get(key, {})
            found = {
                queue_id: offset
                for queue_id, offset in queues.items()
                if own.get(queue_id, -1) < offset <= store.get_max_offset(topic, queue_id)
            }
            if found:
                newer[key] = found
        return newer
