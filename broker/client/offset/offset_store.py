"""Offset stores: on the brokers (clustering) or in a local file (broadcasting).

**Source:** RocketMQ ``RemoteBrokerOffsetStore``, ``LocalFileOffsetStore``.
"""

import asyncio
import logging
import math
import os
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Protocol

from broker.client.config import ConsumerConfig
from broker.client.instance.client_instance import MQClientInstance
from broker.client.offset.offset_table import OffsetTable
from broker.common.message_queue import MessageQueue
from broker.errors import ClientError, RemoteProtocolError, RocketMQError
from broker.remoting.protocol.body.consumer.offset import ResetOffsetBody

log = logging.getLogger("broker.client")

OFFSETS_FILE = "offsets.json"
BACKUP_SUFFIX = ".bak"
MAX_IN_FLIGHT = 64
"""Commits to one broker at a time."""
TAKE_OVER_MS = 60_000
"""Time after a take-over in which the former owner may commit: its next rebalance and persist."""


class OffsetStore(Protocol):
    """Where a consumer's offsets are kept; ``table`` is their present state in memory."""

    table: OffsetTable

    def offset_of_pull(self, queue: MessageQueue) -> int:
        """Return the offset that a pull commits with it; 0: none.

        **Source:** RocketMQ ``DefaultMQPushConsumerImpl#pullMessage`` (``commitOffsetEnable``).
        """
        ...

    async def read(self, queue: MessageQueue) -> int | None:
        """Return the stored offset, None if there is none; RocketMQError if it is not known."""
        ...

    async def resume(self, queue: MessageQueue) -> int | None:
        """Return the stored offset of a queue that is taken over, and put it into the table."""
        ...

    async def persist(self, queues: Collection[MessageQueue]) -> None:
        """Store the offsets of these queues."""
        ...

    async def release(self, queues: Collection[MessageQueue]) -> None:
        """Store the offsets of queues that are given up."""
        ...


class RemoteBrokerOffsetStore:
    """Offsets of a clustering group, on the broker of each queue.

    Only offsets that changed since they were last stored are sent; those of queues that were taken
    over less than ``TAKE_OVER_MS`` ago are read back too, and sent if the broker has lower ones.
    No commit is one-way, as Java's are: without a response to wait for, it could be executed after
    the last one of a stop.
    """

    def __init__(self, instance: MQClientInstance, group: str) -> None:
        self.table = OffsetTable()
        self._instance = instance
        self._group = group
        self._stored: dict[MessageQueue, int] = {}
        self._committed: set[MessageQueue] = set()  # since they were taken over
        self._taken_over_ms: dict[MessageQueue, float] = {}  # on the monotonic clock
        self._in_flight: dict[str, set[asyncio.Task[None]]] = {}  # commits by broker name

    def offset_of_pull(self, queue: MessageQueue) -> int:
        """Return an offset that is not confirmed: a pull commits it earlier than the next round."""
        offset = self.table.get(queue)
        return 0 if offset is None or self._stored.get(queue) == offset else offset

    async def read(self, queue: MessageQueue) -> int | None:
        """Ask the broker of the queue."""
        address = await self._address(queue)
        return await self._instance.api.consumer_offset(address, self._group, queue)

    async def resume(self, queue: MessageQueue) -> int | None:
        """Ask the broker; the offset is not committed before it has changed.

        Until the former owner of the queue gives it up, it may commit a higher offset, which stays,
        or a lower one, see :meth:`persist`. Offset 0 is committed: a Java broker also returns it
        for a queue without offset, for which a later start may be another.
        """
        self.table.remove(queue)  # frozen if it was moved
        self._stored.pop(queue, None)
        self._committed.discard(queue)
        stored = await self.read(queue)
        if stored is not None:
            self.table.update(queue, stored)
        if stored:
            self._stored[queue] = stored
        self._taken_over_ms[queue] = self._instance.clock.monotonic_ms()
        return stored

    async def persist(self, queues: Collection[MessageQueue]) -> None:
        """Store the offsets on the brokers; failures are logged and repeated next time.

        Of a queue taken over just now, an unchanged offset is only compared with the broker's.

        All brokers get them at the same time. Each has the time of two requests for all its
        queues, so that one that does not respond delays a shutdown once.
        """
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in self._unconfirmed(queues):
            by_broker.setdefault(queue.broker_name, []).append(queue)
        await asyncio.gather(*(self._confirm(*one) for one in by_broker.items()))

    async def release(self, queues: Collection[MessageQueue]) -> None:
        """Commit the offsets and drop them: when a queue returns, the broker's counts.

        Confirmed ones are committed, too: a broker may have executed a pull with an earlier one.
        """
        for queue in self._committed.intersection(queues):
            self._stored.pop(queue, None)
        await self.persist(queues)
        for queue in queues:
            self.table.remove(queue)
            self._stored.pop(queue, None)
            self._committed.discard(queue)
            self._taken_over_ms.pop(queue, None)

    def _unconfirmed(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Return the queues whose offsets the brokers may not have: changed or just taken over."""
        since_ms = self._instance.clock.monotonic_ms() - TAKE_OVER_MS
        return [
            queue
            for queue in queues
            if (offset := self.table.get(queue)) is not None
            and (
                self._stored.get(queue) != offset
                or self._taken_over_ms.get(queue, -math.inf) >= since_ms
            )
        ]

    async def _confirm(self, broker_name: str, queues: Collection[MessageQueue]) -> None:
        """Commit offsets on one broker; one line in the log names those not confirmed in time.

        After the last response, also to the commits of other rounds, all are read back, and lower
        ones are sent again. A broker executes requests in several threads: a pull or commit sent
        before may come after. The first commits of a topic may even replace those of other queues,
        also after their responses.

        **Source:** RocketMQ ``ConsumerOffsetManager#commitOffset`` (the first table of a topic).
        """
        sent: dict[MessageQueue, int] = {}
        failed: dict[MessageQueue, str] = {}
        missing = dict.fromkeys(queues)
        slots = asyncio.Semaphore(MAX_IN_FLIGHT)

        async def for_each(step: Callable[[MessageQueue], Awaitable[None]]) -> None:
            async def run(queue: MessageQueue) -> None:
                async with slots:
                    try:
                        await step(queue)
                    except RocketMQError as error:
                        failed[queue] = error.message

            await asyncio.gather(*(run(queue) for queue in queues if queue not in failed))

        async def commit(queue: MessageQueue) -> None:
            offset = self.table.get(queue)
            if offset is not None:  # else it was released meanwhile
                sent[queue] = offset
                if self._stored.get(queue) != offset:
                    await self._commit(queue, offset)

        async def verify(queue: MessageQueue) -> None:
            if queue in sent:
                found = await self.read(queue)
                if found is None or found < sent[queue]:
                    self._stored.pop(queue, None)
                    await commit(queue)
                if self.table.get(queue) == sent[queue]:
                    self._stored[queue] = sent[queue]
            del missing[queue]

        limit_s = 2 * self._instance.api.timeout_ms / 1000
        try:
            async with asyncio.timeout(limit_s):
                await for_each(commit)
                if others := self._in_flight.get(broker_name):
                    await asyncio.wait(list(others))
                await for_each(verify)
        except TimeoutError:
            pass
        if missing:
            names = ", ".join(f"{queue} {sent.get(queue, '')}".rstrip() for queue in missing)
            cause = next(iter(failed.values()), f"no response in {limit_s:g} s")
            log.warning("broker %s: offsets not confirmed: %s: %s", broker_name, names, cause)

    async def _commit(self, queue: MessageQueue, offset: int) -> None:
        self._committed.add(queue)
        address = await self._address(queue)
        call = asyncio.ensure_future(
            self._instance.api.update_consumer_offset(address, self._group, queue, offset)
        )
        in_flight = self._in_flight.setdefault(queue.broker_name, set())
        in_flight.add(call)
        call.add_done_callback(in_flight.discard)
        await call

    async def _address(self, queue: MessageQueue) -> str:
        routes = self._instance.routes
        found = routes.reader(queue.broker_name, 0)
        if found is None:
            await routes.refresh(queue.topic)
            found = routes.reader(queue.broker_name, 0)
        if found is None:
            raise ClientError(f"broker {queue.broker_name} of topic {queue.topic} has no address")
        return found[0]


class ReadOnlyOffsetStore(RemoteBrokerOffsetStore):
    """Offsets of a group that are read, and never committed.

    The consumer is a member of the group; a queue that moves to another member continues there at
    the offset that the broker has.
    """

    def offset_of_pull(self, queue: MessageQueue) -> int:
        """Return 0: a pull commits nothing."""
        return 0

    def _unconfirmed(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Return nothing to commit."""
        return []


class LocalFileOffsetStore:
    """Offsets of a broadcasting group, in ``DIR/clientId/group/offsets.json`` and its ``.bak``.

    The file has Java's format, so that a Java consumer with the same client id continues.
    """

    def __init__(self, directory: str, client_id: str, group: str) -> None:
        self.table = OffsetTable()
        # os.path: every client imports this module, and pathlib costs 4 ms and five more modules
        root = directory or os.path.join(os.path.expanduser("~"), ".rocketmq_offsets")
        self.path = os.path.join(root, client_id, group, OFFSETS_FILE)

    def offset_of_pull(self, queue: MessageQueue) -> int:
        """Return 0: brokers keep no offsets of a broadcasting group."""
        return 0

    def load(self) -> None:
        """Read the file, else its backup; ClientError if neither can be read though one exists."""
        failures = []
        for path in (self.path, self.path + BACKUP_SUFFIX):
            try:
                with open(path, "rb") as file:
                    data = file.read()
            except FileNotFoundError:
                continue
            except OSError as error:
                failures.append(f"{path}: {error.strerror}")
                continue
            if not data:
                failures.append(f"{path}: the file is empty")
                continue
            try:
                offsets = ResetOffsetBody.from_bytes(data).offset_table
            except RemoteProtocolError as error:
                failures.append(f"{path}: {error.message}")
                continue
            for queue, offset in offsets.items():
                self.table.update(queue, offset)
            return
        if failures:
            raise ClientError(
                "consumer offsets cannot be read: " + "; ".join(failures),
                "repair or remove the files",
            )

    async def read(self, queue: MessageQueue) -> int | None:
        """Return the offset in memory, which was loaded at the start."""
        return self.table.get(queue)

    async def resume(self, queue: MessageQueue) -> int | None:
        """Return the offset in memory; it may change again if it was moved."""
        stored = self.table.get(queue)
        if stored is not None:
            self.table.remove(queue)
            self.table.update(queue, stored)
        return stored

    async def persist(self, queues: Collection[MessageQueue]) -> None:
        """Write all offsets; the file before becomes the backup, and neither is ever partial."""
        body = ResetOffsetBody(offset_table=self.table.of_topic("")).to_bytes()
        path = self.path
        os.makedirs(os.path.dirname(path), exist_ok=True)
        fresh = f"{path}.tmp"
        with open(fresh, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(path):
            os.replace(path, path + BACKUP_SUFFIX)
        os.replace(fresh, path)

    async def release(self, queues: Collection[MessageQueue]) -> None:
        """Write all offsets; those of the queues stay in the file for their return."""
        await self.persist(queues)


class ReadOnlyFileOffsetStore(LocalFileOffsetStore):
    """Offsets of a broadcasting group that are read, and never written."""

    async def persist(self, queues: Collection[MessageQueue]) -> None:
        """Write nothing."""


def open_offset_store(
    instance: MQClientInstance, group: str, config: ConsumerConfig, *, read_only: bool = False
) -> OffsetStore:
    """Return the store of the message model; ClientError for a file that cannot be read."""
    if config.is_clustering:
        remote = ReadOnlyOffsetStore if read_only else RemoteBrokerOffsetStore
        return remote(instance, group)
    file = ReadOnlyFileOffsetStore if read_only else LocalFileOffsetStore
    local = file(config.offset_dir, instance.client_id, group)
    local.load()
    return local
