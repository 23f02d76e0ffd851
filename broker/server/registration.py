"""Registration at the name servers: at start, periodically, and after every topic change.

All name servers are notified in parallel. A failure is logged, and that name server gets the whole
table in the next round (``registerNameServerPeriod``, 30 s by default; 1 to 30 s while one fails).
With ``forceRegister=false`` a round of a master asks each name server first (QUERY_DATA_VERSION,
which counts as a heartbeat), and sends the table only to those that have another version.
A change announces only the changed topics; changes made during an announcement are sent together
in the next one to that name server. Requests wait for announcements, but never for a name server
that is known to fail.

**Source:** RocketMQ BrokerController#registerBrokerAll, #needRegister,
#registerIncrementBrokerData, BrokerOuterAPI.
"""

import asyncio
import contextlib
import logging
import zlib
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from broker.common.address import format_address, parse_address
from broker.common.config.settings import format_value
from broker.common.encoding import java_json
from broker.common.topic import TopicConfig, topic_config_to_wire
from broker.errors import BrokerError, RocketMQError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.server.configuration.config import name_servers, register_period_ms

if TYPE_CHECKING:
    from broker.server.context import BrokerContext

log = logging.getLogger("broker.server")

FIRST_REPEAT_MS: Final = 10_000  # as in Java
RETRY_MS: Final = (1_000, 30_000)  # first and longest pause while a name server fails
UNREGISTER_TIMEOUT_MS: Final = 3_000
NOT_ACTIVE_MS: Final = 10_000  # without the heartbeats of enableSlaveActingMaster, as in Java
ANNOUNCE_WAIT_MS: Final = 500  # longest wait of a topic change for name servers
ENCODED_AT_ONCE: Final = 1_000  # topics; larger tables are encoded in a thread


class Caller(Protocol):
    """The part of RemotingClient that registration needs."""

    async def call(
        self, address: str, command: RemotingCommand, timeout_ms: float
    ) -> RemotingCommand:
        """Send a request and return its response."""
        ...


class Announcement:
    """Topics to announce at one name server, and the running task."""

    __slots__ = ("task", "topics")

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self.task: asyncio.Task[None] | None = None


class Registrar:
    """Keep this broker registered at every configured name server."""

    def __init__(self, context: "BrokerContext", client: Caller) -> None:
        self._context = context
        self._client = client
        self._announcements: dict[str, Announcement] = {}
        self._loop_task: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self._failing: set[str] = set()
        self._stopped = False
        # A fenced master is not registered: clients would find it in place of the new one.
        self.suspended = False
        # Called before each round; may set ``suspended``.
        self.before_round: Callable[[], Awaitable[None]] | None = None
        # Port of the HA listener; 0 without one.
        self.ha_port = 0
        # Slave: addresses of the master from the last response that had them, empty before.
        self.master_address = ""
        self.master_ha_address = ""

    async def start(self) -> None:
        """Register everywhere, then periodically; return after the first round."""
        await self.register_all()
        self._loop_task = asyncio.create_task(self._repeat())

    async def stop(self, *, unregister: bool = True) -> None:
        """Stop all registrations; with ``unregister`` remove this broker from every name server.

        Without it the entry stays until the same address is registered with another brokerId.
        """
        self._stopped = True
        for task in (self._loop_task, *(entry.task for entry in self._announcements.values())):
            if task is not None:
                task.cancel()
        if not unregister or self.suspended:
            return
        await self._ask_everywhere(
            lambda: request(RequestCode.UNREGISTER_BROKER, self._identity()),
            UNREGISTER_TIMEOUT_MS,
        )

    async def announce(self, topics: Iterable[str]) -> None:
        """Announce changed topics to every name server; wait for the responses for a bounded time.

        A late name server counts as failing: later calls do not wait for it until it responds.
        """
        if self._stopped or self.suspended:
            return
        changed = set(topics)
        awaited: dict[asyncio.Task[None], str] = {}
        for address in name_servers(self._context.config):
            entry = self._announcements.setdefault(address, Announcement())
            entry.topics |= changed
            if entry.task is None or entry.task.done():
                entry.task = asyncio.create_task(self._announce_at(address, entry))
            if address not in self._failing:
                awaited[entry.task] = address
        if not awaited:
            return
        _, late = await asyncio.wait(awaited, timeout=ANNOUNCE_WAIT_MS / 1000)
        for task in late:
            self._note_failing(awaited[task], f"no answer within {ANNOUNCE_WAIT_MS} ms")

    async def register_all(self, *, force: bool = True) -> list[str]:
        """Send the whole table everywhere; return the addresses that accepted it.

        Without ``force`` only to the name servers that have another version of it.
        """
        if self.before_round is not None:
            await self.before_round()
        if self.suspended:
            return []
        addresses = name_servers(self._context.config)
        if not force:
            changed = await asyncio.gather(*map(self._is_changed, addresses))
            addresses = [one for one, sent in zip(addresses, changed, strict=True) if sent]
            if not addresses:
                return []
        topics = list(self._context.topics.configs.values())
        return await self.register_topics(topics, addresses)

    async def _is_changed(self, address: str) -> bool:
        """Whether a name server needs the table; its failure is reported by the registration."""
        if address in self._failing:
            return True
        version = java_json.dumps(self._context.topics.data_version.to_wire()).encode()
        command = request(RequestCode.QUERY_DATA_VERSION, self._identity(), version)
        try:
            timeout_ms = self._context.config.register_broker_timeout_mills
            answer = await self._client.call(address, command, timeout_ms)
        except RocketMQError:
            return True
        return answer.code != 0 or answer.ext_fields.get("changed") != "false"

    async def _announce_at(self, address: str, entry: Announcement) -> None:
        while entry.topics:
            topics = [
                config
                for name in sorted(entry.topics)
                if (config := self._context.topics.get(name)) is not None
            ]
            entry.topics.clear()
            if topics:
                make = await self._registration(topics)
                await self._ask(address, make(), self._context.config.register_broker_timeout_mills)

    def connection_lost(self) -> None:
        """Register again soon, because the connection to a name server was lost."""
        self._lost.set()

    async def _repeat(self) -> None:
        period_ms = register_period_ms(self._context.config)
        pause_ms, retry_ms = FIRST_REPEAT_MS, RETRY_MS[0]
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_ms / 1000):
                    await self._lost.wait()
            if self._lost.is_set():
                self._lost.clear()
                await asyncio.sleep(RETRY_MS[0] / 1000)
            registered = True
            try:
                # A slave gets the master's address with the response to its registration.
                config = self._context.config
                await self.register_all(force=config.force_register or config.is_slave)
            except Exception:
                # Only this task renews the registration: one failed round must not end it.
                registered = False
                log.exception("registration failed, will be tried again")
            if self._failing or self.suspended or not registered:
                pause_ms, retry_ms = retry_ms, min(retry_ms * 2, RETRY_MS[1])
            else:
                pause_ms, retry_ms = period_ms, RETRY_MS[0]

    async def register_topics(
        self, topics: list[TopicConfig], addresses: list[str] | None = None
    ) -> list[str]:
        """Register the broker with these topics at the name servers, by default at every one.

        Returns the addresses that answered.
        """
        make = await self._registration(topics)
        timeout_ms = self._context.config.register_broker_timeout_mills
        return await self._ask_everywhere(make, timeout_ms, addresses)

    async def _registration(self, topics: list[TopicConfig]) -> "MakeRequest":
        if len(topics) > ENCODED_AT_ONCE:
            body = await asyncio.get_running_loop().run_in_executor(None, self.body, topics)
        else:
            body = self.body(topics)
        acting = self._context.settings.ha.enable_slave_acting_master
        ext = {
            **self._identity(),
            "haServerAddr": self.ha_address(),
            "compressed": "false",
            # Java masks the CRC to a positive int.
            "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF),
            "enableActingMaster": format_value(acting),
        }
        if acting:
            ext["heartbeatTimeoutMillis"] = str(NOT_ACTIVE_MS)
        return lambda: request(RequestCode.REGISTER_BROKER, dict(ext), body)

    def _identity(self) -> dict[str, str]:
        config = self._context.config
        return {
            "brokerName": config.broker_name,
            "brokerAddr": self._context.address,
            "clusterName": config.broker_cluster_name,
            "brokerId": str(config.broker_id),
        }

    def ha_address(self) -> str:
        """Return the registered HA address."""
        # Java always registers an HA address, also a slave's, which has no listener here.
        host, port = parse_address(self._context.address)
        return format_address(host, self.ha_port or port + 1)

    def body(self, topics: Iterable[TopicConfig]) -> bytes:
        """Return the RegisterBrokerBody with these topics, as a 5.x broker encodes it."""
        table = self._context.topics
        topics = list(topics)
        mappings = self._context.mappings
        infos = mappings.infos([config.topic_name for config in topics])
        wrapper = {
            "dataVersion": table.data_version.to_wire(),
            "mappingDataVersion": mappings.data_version.to_wire(),
            "topicConfigTable": {
                config.topic_name: topic_config_to_wire(table.registered(config))
                for config in topics
            },
            "topicQueueMappingDetailMap": {},
            "topicQueueMappingInfoMap": {name: info.to_wire() for name, info in infos.items()},
        }
        text = java_json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})
        return text.encode()

    async def _ask_everywhere(
        self, make: "MakeRequest", timeout_ms: float, addresses: list[str] | None = None
    ) -> list[str]:
        if addresses is None:
            addresses = name_servers(self._context.config)
        results = await asyncio.gather(
            *(self._ask(address, make(), timeout_ms) for address in addresses)
        )
        return [address for address, done in zip(addresses, results, strict=True) if done]

    async def _ask(self, address: str, command: RemotingCommand, timeout_ms: float) -> bool:
        try:
            answer = await self._client.call(address, command, timeout_ms)
            if answer.code != 0:
                raise BrokerError(answer.code, answer.remark or "", address)
        except RocketMQError as error:
            self._note_failing(address, error.message)
            return False
        self._note_master(answer)
        if address in self._failing:
            self._failing.discard(address)
            log.info("name server %s: answers again", address)
        return True

    def _note_master(self, answer: RemotingCommand) -> None:
        fields = answer.ext_fields
        if fields.get("masterAddr"):
            self.master_address = fields["masterAddr"]
            self.master_ha_address = fields.get("haServerAddr") or ""

    def _note_failing(self, address: str, reason: str) -> None:
        if address not in self._failing:
            self._failing.add(address)
            log.warning("name server %s: %s", address, reason)


class MakeRequest(Protocol):
    """Makes a new request per name server, because each needs its own opaque."""

    def __call__(self) -> RemotingCommand:
        """Return a new request."""
        ...
