"""TransactionProducer: transactional messages with blocking calls.

**Source:** RocketMQ ``TransactionMQProducer``.
"""

from collections.abc import Iterable

from broker.client.config import ClientConfig, ProducerConfig
from broker.client.facade.producer import Producer
from broker.client.hooks.events import EndTransactionHook
from broker.client.publish.transaction import (
    AsyncTransactionProducer,
    TransactionListener,
    TransactionSendResult,
)
from broker.message.message import Message


class TransactionProducer(Producer):
    """A producer of transactional messages; the listener's methods run in threads."""

    def __init__(
        self,
        group: str,
        client: ClientConfig | str,
        listener: TransactionListener,
        config: ProducerConfig | None = None,
        *,
        topics: Iterable[str] = (),
    ) -> None:
        """``topics``: see :class:`AsyncTransactionProducer`."""
        super().__init__(group, client, config)
        self._transactions = AsyncTransactionProducer(
            group, client, listener, config, topics=topics
        )
        self._producer = self._startable = self._transactions

    @property
    def end_hooks(self) -> list[EndTransactionHook]:
        """The hooks called before each decision is sent to a broker, on the event loop."""
        return self._transactions.end_hooks

    def send_in_transaction(
        self, message: Message, argument: object = None
    ) -> TransactionSendResult:
        """Store a half message, run the local transaction, report its end to the broker."""
        return self._loop.run(self._transactions.send_in_transaction(message, argument))
