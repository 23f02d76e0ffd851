"""BrokerAssignments: the queues that a 5.x broker assigns, if it is asked to.

**Source:** RocketMQ ``RebalanceImpl#tryQueryAssignment``, ``#getRebalanceResultFromBroker``,
``MQClientInstance#queryAssignment``.
"""

import logging
from collections.abc import Iterable

import msgspec

from broker.client.config import MessageModel
from broker.client.instance.client_instance import MQClientInstance
from broker.common.message_queue import MessageQueue
from broker.errors import BrokerError, ClientError, RequestTimeoutError
from broker.remoting.protocol.body.consumer.lock import (
    MessageQueueAssignment,
    QueryAssignmentRequestBody,
)
from broker.remoting.protocol.codes import RequestCode

log = logging.getLogger("broker.client")

QUERY_ASSIGNMENT_TIMEOUT_MS = 3_000
MAX_TIMEOUTS = 3
"""A broker that has never assigned a topic's queues gets this many tries."""


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """The own queues of one topic: those to pull and those to pop."""

    pull: list[MessageQueue] = []
    pop: list[MessageQueue] = []


class BrokerAssignments:
    """Asks brokers for the queues of one group; remembers which topics they do not assign."""

    def __init__(
        self, instance: MQClientInstance, group: str, strategy_name: str, model: MessageModel
    ) -> None:
        self._instance = instance
        self._group = group
        self._strategy_name = strategy_name
        self._model = model
        self._by_client: set[str] = set()
        self._by_broker: set[str] = set()

    async def query(self, topic: str) -> Assignment | None:
        """Return the assigned queues; None if the client has to allocate them itself.

        Raises RocketMQError if no broker can be asked now, or if it does not know the group yet.
        Java allocates by itself for good after any error of the first query; here only a refusal
        and repeated timeouts count, so that a broker that starts late still assigns.
        """
        if topic in self._by_client:
            return None
        if topic in self._by_broker:
            return await self._ask(topic, QUERY_ASSIGNMENT_TIMEOUT_MS)
        for number in range(1, MAX_TIMEOUTS + 1):
            try:
                return await self._ask(topic, QUERY_ASSIGNMENT_TIMEOUT_MS * number / MAX_TIMEOUTS)
            except RequestTimeoutError:
                continue
            except BrokerError as error:
                log.info("%s: %s is not assigned by brokers: %s", self._group, topic, error.message)
                break
        self._by_client.add(topic)
        return None

    async def _ask(self, topic: str, timeout_ms: float) -> Assignment:
        address = self._instance.random_broker(topic)
        if address is None:
            raise ClientError(f"no broker of topic {topic} has an address")
        body = QueryAssignmentRequestBody(
            topic=topic,
            consumer_group=self._group,
            client_id=self._instance.client_id,
            strategy_name=self._strategy_name,
            message_model=self._model.value,
        )
        reply = await self._instance.api.call(
            address, RequestCode.QUERY_ASSIGNMENT, body.to_bytes(), timeout_ms=timeout_ms
        )
        self._by_broker.add(topic)
        assigned = reply.value.message_queue_assignments
        if assigned is None:
            raise ClientError(f"{address} does not know the members of {self._group} yet")
        return split_modes(assigned)


def split_modes(assigned: Iterable[MessageQueueAssignment]) -> Assignment:
    """Return the queues of an answer by mode, sorted."""
    queues = [(one.message_queue, one.mode == "POP") for one in assigned]
    return Assignment(
        pull=sorted(queue for queue, pop in queues if queue is not None and not pop),
        pop=sorted(queue for queue, pop in queues if queue is not None and pop),
    )
