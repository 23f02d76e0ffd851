"""SimpleConsumer: receive, acknowledge, extend, with blocking calls.

**Source:** RocketMQ 5.x ``SimpleConsumer``.
"""

from broker.client.config import ClientConfig
from broker.client.consumer.simple_consumer import (
    DEFAULT_INVISIBLE_MS,
    DEFAULT_WAIT_MS,
    AsyncSimpleConsumer,
)
from broker.client.facade.blocking_facade import BlockingFacade
from broker.message.message import MessageExt


class SimpleConsumer(BlockingFacade):
    """Receives on request; needs a 5.x broker."""

    def __init__(self, group: str, client: ClientConfig | str) -> None:
        self._consumer = AsyncSimpleConsumer(group, client)
        super().__init__(self._consumer)

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Subscribe to a topic by tags or by an SQL92 expression."""
        self._consumer.subscribe(topic, tags, sql=sql)

    def unsubscribe(self, topic: str) -> None:
        """Remove a topic."""
        self._consumer.unsubscribe(topic)

    def receive(
        self,
        max_messages: int = 1,
        invisible_ms: int = DEFAULT_INVISIBLE_MS,
        *,
        topic: str | None = None,
        wait_ms: int = DEFAULT_WAIT_MS,
    ) -> list[MessageExt]:
        """Receive up to ``max_messages``; an empty list if none came within ``wait_ms``."""
        return self._loop.run(
            self._consumer.receive(max_messages, invisible_ms, topic=topic, wait_ms=wait_ms)
        )

    def ack(self, message: MessageExt) -> bool:
        """Acknowledge a message; False if it was not in flight any more."""
        return self._loop.run(self._consumer.ack(message))

    def change_invisible_duration(self, message: MessageExt, invisible_ms: int) -> bool:
        """Let a message stay invisible for ``invisible_ms`` from now."""
        return self._loop.run(self._consumer.change_invisible_duration(message, invisible_ms))
