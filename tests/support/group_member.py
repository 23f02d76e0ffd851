"""Members of a consumer group on a fake cluster."""

import asyncio
from collections.abc import Sequence
from typing import Any

from broker.client.config import ConsumerConfig
from broker.client.consumer.push_consumer import AsyncPushConsumer
from broker.client.instance.client_instance import MQClientInstance
from broker.client.listener.listeners import ConsumeConcurrentlyContext, ConsumeOrderlyContext
from broker.client.offset.start_offset import ConsumeFromWhere
from broker.client.results import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus
from broker.common.message_queue import MessageQueue
from broker.message.message import MessageExt
from tests.support.fake_cluster import FakeCluster, FakeTransport

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


class Member:
    """A push consumer that keeps its messages; ``fails``: body → remaining failures of it."""

    def __init__(
        self,
        cluster: FakeCluster,
        name: str,
        *,
        group: str = "g",
        topic: str = "T",
        orderly: bool = False,
        **config: Any,
    ) -> None:
        self.cluster = cluster
        self.name = name
        self.got: list[MessageExt] = []
        self.fails: dict[bytes, int] = {}
        self.delay_s = 0.0
        client = cluster.config(instance_name=name)
        self.instance = MQClientInstance(client, clock=cluster.clock, transport=cluster.transport)
        settings = ConsumerConfig(**{"consume_from_where": FIRST, **config})
        self.consumer = AsyncPushConsumer(
            group, client, settings, clock=cluster.clock, instance=self.instance
        )
        self.consumer.subscribe(topic)
        if orderly:
            self.consumer.listen_orderly(self._listen_orderly)
        else:
            self.consumer.listen(self._listen)

    async def _take(self, messages: Sequence[MessageExt]) -> bool:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        for message in messages:
            if self.fails.get(message.body, 0) > 0:
                self.fails[message.body] -= 1
                return False
            self.got.append(message)
        return True

    async def _listen(
        self, messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        if await self._take(messages):
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS
        return ConsumeConcurrentlyStatus.RECONSUME_LATER

    async def _listen_orderly(
        self, messages: Sequence[MessageExt], context: ConsumeOrderlyContext
    ) -> ConsumeOrderlyStatus:
        if await self._take(messages):
            return ConsumeOrderlyStatus.SUCCESS
        return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.got]

    @property
    def transport(self) -> FakeTransport:
        assert isinstance(self.instance.transport, FakeTransport)
        return self.instance.transport

    def owned(self) -> list[MessageQueue]:
        return self.consumer.assignment()

    async def kill(self) -> None:
        """End without a farewell, as kill -9 does: connections close, nothing is committed."""
        self.transport.closed = True
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task() and task in self._tasks():
                task.cancel()
        await self.instance.shutdown()
        for broker in self.cluster.brokers.values():
            await broker.lose(self.instance.client_id)

    def _tasks(self) -> set[asyncio.Task[Any]]:
        parts = self.consumer.running_parts()
        pops = () if parts.pop is None else parts.pop.pops.loops.values()
        return {*parts.pulls.loops.values(), *pops, *parts.service.runner.tasks()}


async def wait_until(cluster: FakeCluster, condition: Any, limit_s: float = 120) -> None:
    """Let virtual time pass until the condition holds."""
    end_s = cluster.now_s() + limit_s
    while not condition():
        assert cluster.now_s() < end_s, "did not come about in time"
        await asyncio.sleep(0.05)
