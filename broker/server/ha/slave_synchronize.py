"""SlaveSynchronize: copies the master's tables to a slave: topics, groups, offsets, modes, timers.

Topics and groups are copied when the master's version differs from the last copied one. Consumer
and delay offsets are merged: the slave keeps entries that the master does not have, except those of
topics whose deletion its dispatch has noticed by the first message of the recreated topic. They are
applied only when the slave's log has reached the end that the master's log had after they were
read: otherwise a slave that becomes the master could skip messages that it never stored.

A record of a topic that is not on this disk waits for a copy of the topics (``add_topic``): their
attributes decide the kind of the queues. Java dispatches it, as a plain queue.

Checkpoint and metrics of the timers are kept in memory for tools that ask the slave. They are not
written: a slave that becomes the master builds its timers from the log, and finds there which of
them were delivered.

**Source:** RocketMQ SlaveSynchronize. Java 5 copies every 60 s, 4.9 every 10 s, and applies
offsets at once.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from broker.common.java import parse_number
from broker.errors import BrokerError, RocketMQError
from broker.remoting.protocol.body.base import RESPONSE_LIMITS, Body
from broker.remoting.protocol.body.consumer.group import SubscriptionGroupWrapper
from broker.remoting.protocol.body.consumer.lock import MessageRequestModeSerializeWrapper
from broker.remoting.protocol.body.consumer.offset import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
)
from broker.remoting.protocol.body.namesrv.kv import KVTable
from broker.remoting.protocol.body.timer import TimerCheckpoint, TimerMetrics
from broker.remoting.protocol.body.topic import TopicConfigAndMappingSerializeWrapper
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.server.ha.tasks import cancel

if TYPE_CHECKING:
    from broker.server.context import BrokerContext

log = logging.getLogger("broker.server")

PERIOD_MS: Final = 10_000
TIMEOUT_MS: Final = 10_000
POLL_MS: Final = 50
FIND_MASTER_MS: Final = 500
_TIMER_BODIES: Final[dict[int, type[TimerCheckpoint] | type[TimerMetrics]]] = {
    RequestCode.GET_TIMER_CHECK_POINT: TimerCheckpoint,
    RequestCode.GET_TIMER_METRICS: TimerMetrics,
}


class Caller(Protocol):
    """The part of RemotingClient that is needed."""

    async def call(
        self, address: str, command: RemotingCommand, timeout_ms: float
    ) -> RemotingCommand:
        """Send a request and return its response."""
        ...


class SlaveSynchronize:
    """Copy the tables of the master at ``find_master()`` (its remoting address) periodically."""

    def __init__(
        self, context: "BrokerContext", client: Caller, find_master: Callable[[], str]
    ) -> None:
        self.problem = "not synchronised yet"
        # Set when the topics were copied for the first time, or could not be.
        self.topics_tried = asyncio.Event()
        self._context = context
        self._client = client
        self._find_master = find_master
        # Encoded names of the topics that are on this disk.
        self.known: set[bytes] = set()
        # Topic that the master lacks → end of the master's log when it lacked it.
        self.deleted_before: dict[bytes, int] = {}
        self._copying_topics = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._versions: dict[int, Body | None] = {}
        # Topic → end of its deletion: as of the last copy of the offsets.
        self._deletions: dict[str, int] = {}
        # Request code → body of the master's last response.
        self.timer_copies: dict[int, bytes] = {}

    def start(self) -> None:
        """Start the periodic task; the broker's tables are loaded."""
        self.known.update(name.encode() for name in self._context.topics.configs)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop the task."""
        await cancel(self._task)

    async def _run(self) -> None:
        while True:
            master = self._find_master()
            if master:
                try:
                    await self.synchronize(master)
                except Exception:
                    log.exception("tables of the master %s not copied", master)
            await asyncio.sleep((PERIOD_MS if master else FIND_MASTER_MS) / 1000)

    async def synchronize(self, master: str) -> None:
        """Copy every table once; one that fails does not prevent the others."""
        problem = ""
        for copy in (self._topics, self._groups, self._request_modes, self._timers, self._offsets):
            try:
                await copy(master)
            except RocketMQError as error:
                problem = error.message
            self.topics_tried.set()
        if problem and problem != self.problem:
            log.warning("tables of the master %s not copied: %s", master, problem)
        self.problem = problem

    async def _fetch(self, master: str, code: int) -> bytes:
        answer = await self._client.call(master, request(code), TIMEOUT_MS)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark or "", master)
        return answer.body_bytes()

    def _is_new(self, code: int, version: Body | None) -> bool:
        if code in self._versions and self._versions[code] == version:
            return False
        self._versions[code] = version
        return True

    async def add_topic(self, topic: bytes, received_end: int) -> None:
        """Copy the topics because a record of this one waits; it may be appended afterwards.

        A topic that the master lacks was deleted after all records that the master had before the
        copy: those are appended. A later one is of the recreated topic, and waits for a copy, too:
        after a power cut it is lost if its topic is not on the disk. Known is also every topic of
        a master that refuses the requests or whose remoting address is not known. RemotingError if
        the master does not answer, StoreError or OSError if the topics cannot be written.
        """
        master = self._find_master()
        copied = False
        if master:
            try:
                end = max(received_end, await self._master_end(master))
                await self._topics(master)
                copied = True
            except BrokerError as error:
                log.warning("topics of the master %s not copied: %s", master, error.message)
        await self._context.topics.persist()
        if not copied:
            self.known.add(topic)
        elif topic not in self.known:
            self.deleted_before[topic] = end

    async def _topics(self, master: str) -> None:
        code = RequestCode.GET_ALL_TOPIC_CONFIG
        async with self._copying_topics:  # an older answer must not replace a newer one
            body = TopicConfigAndMappingSerializeWrapper.from_bytes(
                await self._fetch(master, code), RESPONSE_LIMITS
            )
            self._context.mappings.replace_all(body.topic_queue_mapping_detail_map)
            if not self._is_new(code, body.data_version):
                return
            table = self._context.topics
            for topic in set(table.configs) - set(body.topic_config_table):
                self.known.discard(topic.encode())
                table.delete(topic)
            table.put_all(body.topic_config_table.values())
            try:
                await table.persist()
            except BaseException:
                self._versions.pop(code)  # the table was rolled back: copy it again
                raise
            self.known.update(name.encode() for name in body.topic_config_table)

    async def _groups(self, master: str) -> None:
        code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        body = SubscriptionGroupWrapper.from_bytes(await self._fetch(master, code), RESPONSE_LIMITS)
        if self._is_new(code, body.data_version):
            table = self._context.groups
            for group in set(table.configs) - set(body.subscription_group_table):
                table.delete(group)
            table.put_all(body.subscription_group_table.values())

    async def _request_modes(self, master: str) -> None:
        pop = self._context.pop
        if pop is None:
            return
        try:
            data = await self._fetch(master, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        except BrokerError as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return  # a master before 5.0 has no request modes
            raise
        body = MessageRequestModeSerializeWrapper.from_bytes(data, RESPONSE_LIMITS)
        pop.modes.replace_all(body.message_request_mode_map)

    async def _timers(self, master: str) -> None:
        """Copy checkpoint and metrics of the timers; a master without timers has none."""
        for code, body in _TIMER_BODIES.items():
            try:
                data = await self._fetch(master, code)
            except BrokerError:
                self.timer_copies.pop(code, None)
                continue
            body.from_bytes(data, RESPONSE_LIMITS)
            self.timer_copies[code] = data

    async def _offsets(self, master: str) -> None:
        context = self._context
        consumers = ConsumerOffsetSerializeWrapper.from_bytes(
            await self._fetch(master, RequestCode.GET_ALL_CONSUMER_OFFSET), RESPONSE_LIMITS
        )
        delays = DelayOffsetSerializeWrapper.from_bytes(
            await self._fetch(master, RequestCode.GET_ALL_DELAY_OFFSET), RESPONSE_LIMITS
        )
        await self._reach(await self._master_end(master))
        deletions = context.store.manifest.deleted
        for topic, end in deletions.items():
            if self._deletions.get(topic) != end:
                context.offsets.remove_topic(topic)
        self._deletions = dict(deletions)
        context.offsets.merge(consumers.offset_table)
        if context.delays is not None:
            context.delays.merge(delays.offset_table)

    async def _master_end(self, master: str) -> int:
        """Return the physical offset at which the master's log ends."""
        table = KVTable.from_bytes(await self._fetch(master, RequestCode.GET_BROKER_RUNTIME_INFO))
        end = parse_number(table.table.get("commitLogMaxOffset", ""))
        if end is None:
            raise BrokerError(ResponseCode.SYSTEM_ERROR, "no commitLogMaxOffset", master)
        return end

    async def _reach(self, physical_offset: int) -> None:
        """Wait until this log ends at or after ``physical_offset``; RocketMQError if not."""
        store = self._context.store
        try:
            async with asyncio.timeout(PERIOD_MS / 1000):
                while store.max_physical_offset < physical_offset:
                    await asyncio.sleep(POLL_MS / 1000)
        except TimeoutError:
            raise RocketMQError(
                f"offsets wait for the log: it ends at {store.max_physical_offset}, the master's"
                f" at {physical_offset}"
            ) from None
