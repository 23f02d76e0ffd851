"""MessageSender: sends messages synchronously, one at a time.

**Source:** RocketMQ ``DefaultMQProducerImpl#sendDefaultImpl``, ``TopicPublishInfo``.
"""

import random

from broker.common.clock import Clock, SystemClock
from broker.common.message_queue import MessageQueue
from broker.common.topic import TBW102
from broker.errors import BrokerError, ClientError, RemotingError
from broker.message.message import PROPERTY_UNIQ_KEY, Message
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.rpc.caller import Caller
from broker.remoting.rpc.message_encoder import (
    SendRules,
    check_message,
    encode_message,
    send_request,
)
from broker.remoting.rpc.route_cache import Route, RouteCache, template_of
from broker.remoting.rpc.send_response import RETRIED_CODES, SEND_STATUS, SendResult, read_send
from broker.remoting.rpc.uniq_key import UniqKeyGenerator, own_ip

#: Attempts of one send. **Source:** DefaultMQProducer#retryTimesWhenSendFailed (2) + 1.
ATTEMPTS = 3


class MessageSender:
    """Sends messages to any topic, round-robin over its queues from a random start.

    ``create`` lets the broker create an unknown topic (by the route of TBW102) as Java clients do.
    """

    def __init__(
        self,
        caller: Caller,
        *,
        group: str = "CLIENT_INNER_PRODUCER",
        routes: RouteCache | None = None,
        create: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._caller = caller
        self._group = group
        self._clock = clock or SystemClock()
        self.routes = routes or RouteCache(caller, self._clock)
        self._create = create
        # topic -> position of the next queue. **Source:** TopicPublishInfo#sendWhichQueue.
        self._turns: dict[str, int] = {}
        self._rules = SendRules()
        self._keys = UniqKeyGenerator(self._clock, own_ip())

    def send(self, message: Message, queue: MessageQueue | None = None) -> SendResult:
        """Send and wait for the response; one attempt with ``queue``, else up to ``ATTEMPTS``.

        Raises ClientError for an invalid message or a topic without writable queue, BrokerError or
        RemotingError of the last attempt.
        """
        if queue is not None:
            return self._attempt(message, queue)
        check_message(message, self._rules, message.topic)
        queues = self._queues(message.topic)
        failed: set[str] = set()
        for attempt in range(ATTEMPTS):
            chosen = self._pick(message.topic, queues, failed)
            try:
                return self._attempt(message, chosen)
            except (BrokerError, RemotingError) as error:
                final = isinstance(error, BrokerError) and error.code not in RETRIED_CODES
                if final or attempt == ATTEMPTS - 1 or self._is_over():
                    raise
                failed.add(chosen.broker_name)
        raise AssertionError("the last attempt returns or raises")

    def queues(self, message: Message) -> list[MessageQueue]:
        """Return the queues from which :meth:`send` selects; same ClientErrors, sends nothing."""
        check_message(message, self._rules, message.topic)
        return self._queues(message.topic)

    def _is_over(self) -> bool:
        """Whether no time is left: another attempt would hide the error of the last one."""
        left_ms: float | None = getattr(self._caller.client, "remaining_ms", None)
        return left_ms is not None and left_ms <= 0

    def request(
        self, message: Message, queue: MessageQueue, *, born_timestamp_ms: int | None = None
    ) -> tuple[str, RemotingCommand]:
        """Return address and request of a send, for sending many at once.

        Adds a unique key to the message if it has none. ``born_timestamp_ms`` is for messages that
        are sent again; None means now. Raises ClientError as :meth:`send`.
        """
        encoded = encode_message(
            message, self._rules, topic=message.topic, new_key=self._keys.create()
        )
        command = send_request(
            encoded,
            queue,
            self._group,
            self._rules,
            born_timestamp_ms=born_timestamp_ms or self._clock.now_ms(),
        )
        return self._master(queue), command

    def _queues(self, topic: str) -> list[MessageQueue]:
        route = self.routes.find(topic)
        if route is None and self._create:
            route = self._template(topic)
        if route is None:
            raise ClientError(f"topic {topic} does not exist")
        queues = route.publish_queues()
        if not queues:
            raise ClientError(
                f"topic {topic} has no queue that can be written",
                f"mqadmin topic perm {topic} rw allows writing",
            )
        return queues

    def _template(self, topic: str) -> Route | None:
        """The route of a topic to create. **Source:** #updateTopicRouteInfoFromNameServer."""
        template = self.routes.find(TBW102)
        if template is None:
            return None
        return template_of(topic, template, self._rules.default_topic_queue_nums)

    def _pick(self, topic: str, queues: list[MessageQueue], failed: set[str]) -> MessageQueue:
        turn = self._turns.get(topic)
        if turn is None:
            # with a fixed start, commands that send one message would all use queue 0
            turn = random.randrange(len(queues))
        self._turns[topic] = turn + 1
        good = [queue for queue in queues if queue.broker_name not in failed] or queues
        return good[turn % len(good)]

    def master(self, queue: MessageQueue) -> str | None:
        """Return the master's address for a queue, None if its broker has no master."""
        route = self.routes.find(queue.topic)
        if route is None and self._create:
            route = self._template(queue.topic)
        return route.master(queue.broker_name) if route else None

    def _master(self, queue: MessageQueue) -> str:
        address = self.master(queue)
        if address is None:
            raise ClientError(f"broker {queue.broker_name} has no master for topic {queue.topic}")
        return address

    def _attempt(self, message: Message, queue: MessageQueue) -> SendResult:
        address, command = self.request(message, queue)
        reply = self._caller.send(address, command, accept=SEND_STATUS)
        return read_send(reply, queue, message.properties[PROPERTY_UNIQ_KEY])
