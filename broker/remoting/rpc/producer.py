"""Producer: sends messages synchronously, one at a time.

**Source:** RocketMQ ``DefaultMQProducerImpl#sendDefaultImpl``, ``TopicPublishInfo``.
"""

import os
import random
import socket
import time

import msgspec

from broker.common import sysflag
from broker.common.clock import Clock, SystemClock
from broker.common.message_queue import MessageQueue
from broker.common.topic import TBW102, check_topic_name, is_not_allowed_send_topic
from broker.errors import BrokerError, ClientError, RemotingError
from broker.message import compression
from broker.message.message import PROPERTY_UNIQ_KEY, Message
from broker.message.message_id import compose_uniq_key
from broker.message.properties import encode_properties
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.rpc.caller import Caller, Reply, build_request
from broker.remoting.rpc.route_cache import Route, RouteCache

#: Attempts of one send. **Source:** DefaultMQProducer#retryTimesWhenSendFailed (2) + 1.
ATTEMPTS = 3

#: Bodies of at least this size are compressed. **Source:** compressMsgBodyOverHowmuch.
COMPRESS_OVER_BYTES = 4_096
COMPRESS_LEVEL = 5

#: Largest body, after compression. **Source:** DefaultMQProducer#maxMessageSize.
MAX_BODY_BYTES = 4 * 1024 * 1024

#: Number of queues of a topic that the broker creates on the first send.
DEFAULT_TOPIC_QUEUE_NUMS = 4

_SEND_STATUS = {
    ResponseCode.SUCCESS: "SEND_OK",
    ResponseCode.FLUSH_DISK_TIMEOUT: "FLUSH_DISK_TIMEOUT",
    ResponseCode.FLUSH_SLAVE_TIMEOUT: "FLUSH_SLAVE_TIMEOUT",
    ResponseCode.SLAVE_NOT_AVAILABLE: "SLAVE_NOT_AVAILABLE",
}
SEND_ACCEPTS = tuple(_SEND_STATUS)

#: Response codes after which the send is retried on another broker.
#: **Source:** DefaultMQProducer#retryResponseCodes.
_RETRIED = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)


class SendResult(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message was stored. Statuses other than SEND_OK: stored, but with less durability."""

    send_status: str
    queue: MessageQueue
    queue_offset: int
    offset_msg_id: str
    uniq_key: str


class Producer:
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
        self._counter = 0

    def send(self, message: Message, queue: MessageQueue | None = None) -> SendResult:
        """Send and wait for the response; one attempt with ``queue``, else up to ``ATTEMPTS``.

        Raises ClientError for an invalid message or a topic without writable queue, BrokerError or
        RemotingError of the last attempt.
        """
        if queue is not None:
            return self._attempt(message, queue)
        self._check(message)
        queues = self._queues(message.topic)
        failed: set[str] = set()
        for attempt in range(ATTEMPTS):
            chosen = self._pick(message.topic, queues, failed)
            try:
                return self._attempt(message, chosen)
            except (BrokerError, RemotingError) as error:
                final = isinstance(error, BrokerError) and error.code not in _RETRIED
                if final or attempt == ATTEMPTS - 1 or self._is_over():
                    raise
                failed.add(chosen.broker_name)
        raise AssertionError("the last attempt returns or raises")

    def queues(self, message: Message) -> list[MessageQueue]:
        """Return the queues from which :meth:`send` selects; same ClientErrors, sends nothing."""
        self._check(message)
        self._stored_body(message.body)
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
        self._check(message)
        message.properties.setdefault(PROPERTY_UNIQ_KEY, self._uniq_key())
        body, flag = self._stored_body(message.body)
        fields = {
            "producer_group": self._group,
            "topic": queue.topic,
            "default_topic": TBW102,
            "default_topic_queue_nums": DEFAULT_TOPIC_QUEUE_NUMS,
            "queue_id": queue.queue_id,
            "sys_flag": flag,
            "born_timestamp": born_timestamp_ms or self._clock.now_ms(),
            "flag": message.flag,
            "properties": encode_properties(message.properties).decode("utf-8"),
            "reconsume_times": 0,
            "unit_mode": False,
            "batch": False,
        }
        return self._master(queue), build_request(RequestCode.SEND_MESSAGE_V2, fields, body)

    def _check(self, message: Message) -> None:
        reason = check_topic_name(message.topic)
        if reason is not None:
            raise ClientError(f"topic {message.topic!r}: {reason}")
        if is_not_allowed_send_topic(message.topic):
            raise ClientError(f"topic {message.topic} is reserved for the broker")
        if not message.body:
            raise ClientError("a message needs a body", "brokers refuse an empty one")

    def _stored_body(self, body: bytes) -> tuple[bytes, int]:
        flag = 0
        if len(body) >= COMPRESS_OVER_BYTES:
            packed = compression.compress(body, "zlib", COMPRESS_LEVEL)
            body, flag = packed, sysflag.COMPRESSED | sysflag.COMPRESSION_ZLIB
        if len(body) > MAX_BODY_BYTES:
            raise ClientError(
                f"the body has {len(body)} bytes, the limit is {MAX_BODY_BYTES}",
                "split it, or store it elsewhere and send its address",
            )
        return body, flag

    def _queues(self, topic: str) -> list[MessageQueue]:
        route = self.routes.find(topic)
        if route is None and self._create:
            route = self._template(topic)
        if route is None:
            raise ClientError(f"topic {topic} does not exist")
        queues = route.publish_queues()
        if not queues:
            raise ClientError(f"topic {topic} has no queue that can be written")
        return queues

    def _template(self, topic: str) -> Route | None:
        """The route of a topic to create. **Source:** #updateTopicRouteInfoFromNameServer."""
        template = self.routes.find(TBW102)
        if template is None:
            return None
        data = template.data
        queues = [
            msgspec.structs.replace(
                queue,
                read_queue_nums=min(DEFAULT_TOPIC_QUEUE_NUMS, queue.read_queue_nums),
                write_queue_nums=min(DEFAULT_TOPIC_QUEUE_NUMS, queue.read_queue_nums),
            )
            for queue in data.queue_datas
        ]
        return Route(topic, msgspec.structs.replace(data, queue_datas=queues))

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
        reply = self._caller.send(address, command, accept=SEND_ACCEPTS)
        return read_send(reply, queue, message.properties[PROPERTY_UNIQ_KEY])

    def _uniq_key(self) -> str:
        """Create a unique key. **Source:** RocketMQ ``MessageClientIDSetter#createUniqID``."""
        self._counter += 1
        now_ms = self._clock.now_ms()
        since_ms = now_ms - _month_start_ms(now_ms)
        return compose_uniq_key(_own_ip(), os.getpid(), id(self), since_ms, self._counter)


def _month_start_ms(now_ms: int) -> int:
    """Return the start of the month of ``now_ms`` in the local zone, epoch ms."""
    now = time.localtime(now_ms / 1000)
    return int(time.mktime((now.tm_year, now.tm_mon, 1, 0, 0, 0, 0, 0, -1))) * 1000


def _own_ip() -> str:
    """Return this host's address on the default route; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def read_send(reply: Reply, queue: MessageQueue, uniq_key: str) -> SendResult:
    """Decode the response of a send."""
    header = reply.header
    return SendResult(
        send_status=_SEND_STATUS[reply.code],
        queue=MessageQueue(queue.topic, queue.broker_name, header.queue_id),
        queue_offset=header.queue_offset,
        offset_msg_id=header.msg_id,
        uniq_key=uniq_key,
    )
