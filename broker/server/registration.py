"""The broker at its name servers: registration at start, every half minute, on every change.

Every name server is told separately, all at once; one that does not answer is only logged and
gets the whole table with the next round. A change announces the changed topics alone;
changes within one turn of the loop travel together.

**Source:** RocketMQ BrokerController#registerBrokerAll, #registerIncrementBrokerData,
BrokerOuterAPI.
"""

import asyncio
import contextlib
import logging
import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

from broker.common import java_json
from broker.common.address import format_address, parse_address
from broker.common.topic import TopicConfig, topic_config_to_wire
from broker.errors import BrokerError, RocketMQError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.server.config import name_servers, register_period_ms

if TYPE_CHECKING:
    from broker.server.context import BrokerContext

log = logging.getLogger("broker.server")

FIRST_REPEAT_MS: Final = 10_000
RETRY_MS: Final = (1_000, 30_000)  # first and longest pause while a name server is away
UNREGISTER_TIMEOUT_MS: Final = 3_000
ANNOUNCE_WAIT_MS: Final = 3_000  # a topic change waits no longer than this for name servers


class Caller(Protocol):
    """The part of RemotingClient that registration needs."""

    async def call(
        self, address: str, command: RemotingCommand, timeout_ms: float
    ) -> RemotingCommand:
        """Ask a peer and return its answer."""
        ...


class Registrar:
    """Keeps this broker known at every configured name server."""

    def __init__(self, context: "BrokerContext", client: Caller) -> None:
        self._context = context
        self._client = client
        self._pending: set[str] = set()
        self._flight: asyncio.Task[None] | None = None
        self._loop_task: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self._failing: set[str] = set()
        self._stopped = False

    async def start(self) -> None:
        """Register everywhere, then keep doing so; returns after the first round."""
        await self.register_all()
        self._loop_task = asyncio.create_task(self._repeat())

    async def stop(self) -> None:
        """Leave every name server; nothing is registered afterwards."""
        self._stopped = True
        for task in (self._loop_task, self._flight):
            if task is not None:
                task.cancel()
        await self._ask_everywhere(
            lambda: request(RequestCode.UNREGISTER_BROKER, self._identity()),
            UNREGISTER_TIMEOUT_MS,
        )

    async def announce(self, topics: Iterable[str]) -> None:
        """Tell every name server about changed topics; waits a bounded time for their answers."""
        if self._stopped:
            return
        self._pending.update(topics)
        if self._flight is None or self._flight.done():
            self._flight = asyncio.create_task(self._announce_pending())
        await asyncio.wait({self._flight}, timeout=ANNOUNCE_WAIT_MS / 1000)

    async def register_all(self) -> list[str]:
        """Send the whole table everywhere; the addresses that took it."""
        topics = list(self._context.topics.configs.values())
        return await self._register(topics)

    async def _announce_pending(self) -> None:
        while self._pending:
            topics = [
                config
                for name in sorted(self._pending)
                if (config := self._context.topics.get(name)) is not None
            ]
            self._pending.clear()
            if topics:
                await self._register(topics)

    def connection_lost(self) -> None:
        """A name server's connection broke: register again soon instead of at the next round."""
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
            await self.register_all()
            if self._failing:
                pause_ms, retry_ms = retry_ms, min(retry_ms * 2, RETRY_MS[1])
            else:
                pause_ms, retry_ms = period_ms, RETRY_MS[0]

    async def _register(self, topics: list[TopicConfig]) -> list[str]:
        body = self.body(topics)
        ext = {
            **self._identity(),
            "haServerAddr": self._ha_address(),
            "compressed": "false",
            "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF),
            "enableActingMaster": "false",
        }
        return await self._ask_everywhere(
            lambda: request(RequestCode.REGISTER_BROKER, dict(ext), body),
            self._context.config.register_broker_timeout_mills,
        )

    def _identity(self) -> dict[str, str]:
        config = self._context.config
        return {
            "brokerName": config.broker_name,
            "brokerAddr": self._context.address,
            "clusterName": config.broker_cluster_name,
            "brokerId": str(config.broker_id),
        }

    def _ha_address(self) -> str:
        host, port = parse_address(self._context.address)
        return format_address(host, port + 1)

    def body(self, topics: Iterable[TopicConfig]) -> bytes:
        """The RegisterBrokerBody with these topics, as a 5.x broker writes it."""
        table = self._context.topics
        empty_version = {"counter": 0, "stateVersion": 0, "timestamp": self._context.boot_ms}
        wrapper = {
            "dataVersion": table.data_version.to_wire(),
            "mappingDataVersion": empty_version,
            "topicConfigTable": {
                config.topic_name: topic_config_to_wire(table.registered(config))
                for config in topics
            },
            "topicQueueMappingDetailMap": {},
            "topicQueueMappingInfoMap": {},
        }
        text = java_json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})
        return text.encode()

    async def _ask_everywhere(self, make: "MakeRequest", timeout_ms: float) -> list[str]:
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
            if address not in self._failing:
                self._failing.add(address)
                log.warning("name server %s: %s", address, error.message)
            return False
        if address in self._failing:
            self._failing.discard(address)
            log.info("name server %s: answers again", address)
        return True


class MakeRequest(Protocol):
    """Makes a fresh request: each name server gets its own opaque."""

    def __call__(self) -> RemotingCommand:
        """The request."""
        ...
