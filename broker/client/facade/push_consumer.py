"""PushConsumer: a member of a consumer group, started and stopped with blocking calls.

**Source:** RocketMQ ``DefaultMQPushConsumer``.
"""

from broker.client.config import ClientConfig, ConsumerConfig
from broker.client.consumer.push_consumer import AsyncPushConsumer
from broker.client.facade.blocking_facade import BlockingFacade
from broker.client.hooks.events import ConsumeHook
from broker.client.listener.listeners import ConcurrentListener, OrderlyListener
from broker.client.rebalance.strategies import AllocateStrategy
from broker.common.message_queue import MessageQueue


class PushConsumer(BlockingFacade):
    """Subscribe, set a listener, start; the listener is called in threads of the client.

    >>> import queue
    >>> from broker.client.facade.producer import Producer
    >>> from broker.client.results import ConsumeConcurrentlyStatus
    >>> from broker.message.message import Message
    >>> received = queue.Queue()
    >>> def listener(messages, context):
    ...     for message in messages:
    ...         received.put(message.body)
    ...     return ConsumeConcurrentlyStatus.CONSUME_SUCCESS
    >>> consumer = PushConsumer("shipping", namesrv)
    >>> consumer.subscribe("T", "A || B")
    >>> consumer.listen(listener)
    >>> with Producer("orders", namesrv) as producer, consumer:
    ...     _ = producer.send(Message("T", b"hello", tags="B"))
    ...     received.get(timeout=30)
    b'hello'
    """

    def __init__(
        self,
        group: str,
        client: ClientConfig | str,
        config: ConsumerConfig | None = None,
        *,
        strategy: AllocateStrategy | None = None,
    ) -> None:
        self.async_consumer = AsyncPushConsumer(group, client, config, strategy=strategy)
        super().__init__(self.async_consumer)

    def listen(self, listener: ConcurrentListener) -> None:
        """Set a concurrent listener."""
        self.async_consumer.listen(listener)

    def listen_orderly(self, listener: OrderlyListener) -> None:
        """Set an orderly listener."""
        self.async_consumer.listen_orderly(listener)

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Subscribe to a topic by tags or by an SQL92 expression."""
        self.async_consumer.subscribe(topic, tags, sql=sql)

    def unsubscribe(self, topic: str) -> None:
        """Remove a topic."""
        self.async_consumer.unsubscribe(topic)

    @property
    def consume_hooks(self) -> list[ConsumeHook]:
        """The hooks called before and after each listener call, on the event loop."""
        return self.async_consumer.consume_hooks

    def suspend(self) -> None:
        """Pull nothing more until :meth:`resume`."""
        self.async_consumer.suspend()

    def resume(self) -> None:
        """Pull again."""
        self._loop.call(self.async_consumer.resume)

    def assignment(self) -> list[MessageQueue]:
        """Return the queues that this member owns now."""
        return self._loop.call(self.async_consumer.assignment)
