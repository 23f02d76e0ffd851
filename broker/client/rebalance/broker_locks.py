"""BrokerLocks: the locks at the brokers that orderly consumers need.

**Source:** RocketMQ ``RebalanceImpl#lock``, ``#lockAll``, ``#unlock``, ``#unlockAll``.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping

from broker.client.consumer.process_queue import ProcessQueue
from broker.client.instance.client_instance import MQClientInstance
from broker.common.message_queue import MessageQueue
from broker.errors import RocketMQError

log = logging.getLogger("broker.client")


class BrokerLocks:
    """Locks queues of one group for one client; the result is written into the process queues."""

    def __init__(self, instance: MQClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._delayed: dict[asyncio.Task[None], MessageQueue] = {}

    async def lock(
        self, queues: Iterable[MessageQueue], owned: Mapping[MessageQueue, ProcessQueue]
    ) -> set[MessageQueue]:
        """Lock queues, one request per broker; returns those held now."""
        held = await asyncio.gather(
            *(self._lock_at(name, there, owned) for name, there in _by_broker(queues).items())
        )
        return set().union(*held)

    async def _lock_at(
        self,
        broker_name: str,
        queues: list[MessageQueue],
        owned: Mapping[MessageQueue, ProcessQueue],
    ) -> set[MessageQueue]:
        address = self._instance.routes.master(broker_name)
        if address is None:
            return set()
        try:
            held = await self._instance.api.lock_queues(
                address, self._group, self._instance.client_id, queues
            )
        except RocketMQError as error:
            log.warning("%s: lock at %s: %s", self._group, broker_name, error.message)
            return set()  # not known: the locks held before count until they expire
        now_ms = self._instance.clock.monotonic_ms()
        for queue in queues:
            process = owned.get(queue)
            if process is None:
                continue
            process.locked = queue in held
            if process.locked:
                process.last_lock_ms = now_ms
        return held

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Unlock queues, one request per broker; a lock that stays expires."""
        for broker_name, there in _by_broker(queues).items():
            address = self._instance.routes.master(broker_name)
            if address is None:
                continue
            try:
                await self._instance.api.unlock_queues(
                    address, self._group, self._instance.client_id, there
                )
            except RocketMQError as error:
                log.info("%s: unlock at %s: %s", self._group, broker_name, error.message)

    def unlock_later(self, queue: MessageQueue, delay_s: float) -> None:
        """Unlock after a delay, in which messages still in the listener may end."""
        task = asyncio.get_running_loop().create_task(self._unlock_after(queue, delay_s))
        self._delayed[task] = queue
        task.add_done_callback(lambda done: self._delayed.pop(done, None))

    async def _unlock_after(self, queue: MessageQueue, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        await self.unlock([queue])

    async def unlock_pending(self) -> None:
        """Send the delayed unlocks now: a lock that is left blocks its queue for 60 s."""
        queues = list(self._delayed.values())
        for task in self._delayed:
            task.cancel()
        await self.unlock(queues)


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    found: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        found.setdefault(queue.broker_name, []).append(queue)
    return found
