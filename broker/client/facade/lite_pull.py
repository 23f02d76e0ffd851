"""LitePullConsumer: poll, seek, commit, with blocking calls.

**Source:** RocketMQ ``DefaultLitePullConsumer``.
"""

from collections.abc import Iterable

from broker.client.config import ClientConfig, ConsumerConfig
from broker.client.consumer.lite_pull import AsyncLitePullConsumer
from broker.client.facade.blocking_facade import BlockingFacade
from broker.client.facade.loop_thread import SHARED
from broker.client.rebalance.strategies import AllocateStrategy
from broker.common.message_queue import MessageQueue
from broker.message.message import MessageExt


class LitePullConsumer(BlockingFacade):
    """Polls messages that the client pulls ahead.

    >>> from broker.client.facade.producer import Producer
    >>> from broker.message.message import Message
    >>> with Producer("orders", namesrv) as producer:
    ...     queue = producer.send(Message("Polled", b"hello")).message_queue
    >>> consumer = LitePullConsumer("reports", namesrv)
    >>> consumer.assign([queue])
    >>> with consumer:
    ...     consumer.seek_to_begin(queue)
    ...     [message.body for message in consumer.poll()]
    [b'hello']
    """

    def __init__(
        self,
        group: str,
        client: ClientConfig | str,
        config: ConsumerConfig | None = None,
        *,
        auto_commit: bool = True,
        read_only: bool = False,
        strategy: AllocateStrategy | None = None,
    ) -> None:
        self._consumer = AsyncLitePullConsumer(
            group, client, config, auto_commit=auto_commit, read_only=read_only, strategy=strategy
        )
        super().__init__(self._consumer)

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Subscribe to a topic: the group's members share its queues."""
        self._consumer.subscribe(topic, tags, sql=sql)

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Consume exactly these queues."""
        self._check_process()
        SHARED.acquire()
        try:
            SHARED.run(self._consumer.assign(queues))
        finally:
            SHARED.release()

    def poll(self, timeout_ms: int = 5_000) -> list[MessageExt]:
        """Return the next batch of messages, an empty list if none comes in time."""
        return self._loop.run(self._consumer.poll(timeout_ms))

    def finish_polled(self) -> None:
        """Count polled messages as consumed, without ``auto_commit``; see the asynchronous form."""
        self._loop.call(self._consumer.finish_polled)

    def commit(self) -> None:
        """Commit everything polled so far."""
        self._loop.run(self._consumer.commit())

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the offset that is stored for the group."""
        return self._loop.run(self._consumer.committed(queue))

    def assignment(self) -> list[MessageQueue]:
        """Return the owned queues."""
        return self._loop.call(self._consumer.assignment)

    def fetch_message_queues(self, topic: str) -> list[MessageQueue]:
        """Return all readable queues of a topic."""
        return self._loop.run(self._consumer.fetch_message_queues(topic))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue an owned queue at an offset."""
        self._loop.run(self._consumer.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue an owned queue at its first message."""
        self._loop.run(self._consumer.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue an owned queue after its last message."""
        self._loop.run(self._consumer.seek_to_end(queue))

    def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the first offset stored at or after a time."""
        return self._loop.run(self._consumer.offset_for_timestamp(queue, timestamp_ms))

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Return no messages of these queues until :meth:`resume`."""
        self._consumer.pause(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Return messages of these queues again."""
        self._loop.call(lambda: self._consumer.resume(queues))
