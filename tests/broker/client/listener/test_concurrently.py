"""Concurrent consumption: the effect of each result."""

import asyncio
from collections.abc import Sequence

from broker.client.config import ConsumerConfig, MessageModel
from broker.client.consumer.process_queue import ProcessQueue
from broker.client.instance.client_instance import MQClientInstance
from broker.client.listener.concurrently import ConsumeConcurrentlyService
from broker.client.listener.listener_runner import ListenerRunner
from broker.client.listener.listeners import ConcurrentListener, ConsumeConcurrentlyContext
from broker.client.listener.send_back import SendBack
from broker.client.listener.stats import ConsumerStats
from broker.client.offset.offset_store import LocalFileOffsetStore
from broker.client.results import ConsumeConcurrentlyStatus
from broker.common.message_queue import MessageQueue
from broker.message.message import MessageExt
from tests.support.fake_cluster import FakeCluster
from tests.support.virtual_time import run_virtual

QUEUE = MessageQueue("T", "broker-a", 0)
SUCCESS = ConsumeConcurrentlyStatus.CONSUME_SUCCESS
LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER


class Returned(SendBack):
    """Records the messages sent back; ``fails`` of the next calls do not succeed."""

    def __init__(self, instance: MQClientInstance) -> None:
        super().__init__(instance, "g", 16)
        self.messages: list[tuple[int, int]] = []
        self.fails = 0

    async def send(self, message: MessageExt, queue: MessageQueue, delay_level: int) -> bool:
        if self.fails:
            self.fails -= 1
            return False
        self.messages.append((message.queue_offset, delay_level))
        return True


class Set:
    """A service with one queue of ``count`` messages."""

    def __init__(self, listener: ConcurrentListener, count: int, **config: object) -> None:
        self.cluster = FakeCluster()
        self.listener, self.count = listener, count
        self.config = ConsumerConfig(**config)  # type: ignore[arg-type]
        self.process = ProcessQueue(0)

    async def start(self) -> None:
        instance = MQClientInstance(
            self.cluster.config(), clock=self.cluster.clock, transport=self.cluster.transport
        )
        self.offsets = LocalFileOffsetStore("/nowhere", "c", "g")
        self.back = Returned(instance)
        self.service = ConsumeConcurrentlyService(
            ListenerRunner(
                self.listener,
                group="g",
                clock=self.cluster.clock,
                stats=ConsumerStats(self.cluster.clock),
                hooks=[],
                threads=self.config.consume_threads,
                success=SUCCESS,
            ),
            self.config,
            offsets=self.offsets,
            send_back=self.back,
        )
        messages = [MessageExt("T", b"x", queue_offset=number) for number in range(self.count)]
        self.process.put(messages)
        self.service.dispatch(messages, self.process, QUEUE)

    @property
    def committed(self) -> int | None:
        return self.offsets.table.get(QUEUE)


def run(made: Set, seconds: float = 1) -> Set:
    async def main() -> None:
        await made.start()
        await asyncio.sleep(seconds)
        await made.service.close(1_000)

    run_virtual(main(), made.cluster.clock)
    return made


def test_batches_have_at_most_the_configured_size() -> None:
    sizes: list[int] = []

    async def listener(
        messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        sizes.append(len(messages))
        return SUCCESS

    made = run(Set(listener, 10, consume_message_batch_max_size=4))
    assert sizes == [4, 4, 2]
    assert made.committed == 10


def test_messages_after_the_acknowledged_one_are_sent_back() -> None:
    async def listener(
        messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        context.ack_index = 1
        context.delay_level_when_next_consume = 4
        return SUCCESS

    made = run(Set(listener, 4, consume_message_batch_max_size=4))
    assert made.back.messages == [(2, 4), (3, 4)]
    assert made.committed == 4


def test_errors_none_and_later_send_everything_back() -> None:
    results: list[ConsumeConcurrentlyStatus | None] = [LATER, None]

    async def listener(
        messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        if not results:
            raise ValueError("no")
        return results.pop(0)  # type: ignore[return-value]

    made = run(Set(listener, 3))
    assert sorted(made.back.messages) == [(0, 0), (1, 0), (2, 0)]
    assert made.committed == 3


def test_broadcasting_drops_failures() -> None:
    async def listener(
        messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        return LATER

    made = run(Set(listener, 3, message_model=MessageModel.BROADCASTING))
    assert made.back.messages == []
    assert made.committed == 3


def test_a_message_that_cannot_be_sent_back_is_consumed_here_again_and_holds_the_offset() -> None:
    calls: list[int] = []

    async def listener(
        messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        calls.append(messages[0].queue_offset)
        return LATER if messages[0].queue_offset == 0 and len(calls) < 3 else SUCCESS

    made = Set(listener, 3)

    async def main() -> None:
        await made.start()
        made.back.fails = 1
        await asyncio.sleep(4)
        assert made.committed == 0
        await asyncio.sleep(2)
        assert made.committed == 3
        assert calls == [0, 1, 2, 0]
        await made.service.close(1_000)

    run_virtual(main(), made.cluster.clock)


def test_messages_of_a_dropped_queue_do_not_reach_the_listener() -> None:
    """The next owner of the queue gets them."""
    seen: list[int] = []

    async def listener(
        messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        seen.extend(message.queue_offset for message in messages)
        made.process.dropped = True
        return SUCCESS

    made = Set(listener, 5, consume_threads=1)
    run(made)
    assert seen == [0]
    assert made.committed is None
    assert made.back.messages == []


def test_late_results_of_a_dropped_queue_commit_and_send_back_nothing() -> None:
    async def listener(
        messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        made.process.dropped = True
        return SUCCESS if messages[0].queue_offset else LATER

    made = Set(listener, 2)
    run(made)
    assert (made.committed, made.back.messages) == (None, [])
