"""MessageTrace: sends and listener calls as messages of the trace topic.

A hidden producer writes them in batches; it is never traced itself. Records that cannot be kept or
sent are counted in ``dropped``: tracing must not slow down or fail the traffic.

**Source:** RocketMQ ``AsyncTraceDispatcher``, ``SendMessageTraceHookImpl``,
``ConsumeMessageTraceHookImpl``, ``EndTransactionTraceHookImpl``.
"""

import asyncio
import logging
from collections import deque

from broker.client.config import ClientConfig, ProducerConfig
from broker.client.hooks.events import ConsumeEvent, EndTransactionEvent, SendEvent
from broker.client.hooks.trace_format import (
    encode_consume,
    encode_end_transaction,
    encode_publish,
    keys_of,
)
from broker.client.publish.async_producer import AsyncProducer
from broker.common.topic import TRACE_TOPIC
from broker.errors import RocketMQError
from broker.message.message import Message
from broker.remoting.rpc.uniq_key import own_ip

log = logging.getLogger("broker.client")

QUEUE_LIMIT = 2_048
BATCH = 10
MAX_BODY_BYTES = 128_000
MAX_KEYS_BYTES = 24_000
"""Index keys of one trace message: all its properties have at most 32,767 bytes."""
FLUSH_INTERVAL_S = 5.0
SHUTDOWN_S = 5.0
"""Time in which a shutdown sends the remaining records."""
TRACE_GROUP = "_INNER_TRACE_PRODUCER"


class MessageTrace:
    """Collects events; pass :meth:`sent`, :meth:`consumed` and :meth:`ended` as hooks.

    Start it before the traffic and stop it afterwards. ``topic`` must exist, as it does on a
    broker with ``traceTopicEnable=true``.
    """

    def __init__(
        self,
        client: ClientConfig | str,
        *,
        topic: str = TRACE_TOPIC,
        producer: AsyncProducer | None = None,
    ) -> None:
        config = ProducerConfig(create_topic_key="", max_message_size=MAX_BODY_BYTES)
        self._producer = producer or AsyncProducer(TRACE_GROUP, client, config)
        self._host = self._producer.client.client_ip or own_ip()
        self._topic = topic
        self._records: deque[tuple[str, set[str]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._full = asyncio.Event()
        self._closing = False
        self.dropped = 0

    def sent(self, event: SendEvent) -> None:
        """Trace a send."""
        if event.topic != self._topic:
            self._add(encode_publish(event, self._host), keys_of(event))

    def consumed(self, event: ConsumeEvent) -> None:
        """Trace the start or the end of a listener call."""
        if event.queue.topic != self._topic:
            self._add(encode_consume(event, self._host), keys_of(event))

    def ended(self, event: EndTransactionEvent) -> None:
        """Trace the decision about a half message."""
        self._add(encode_end_transaction(event), keys_of(event))

    def _add(self, record: str, keys: set[str]) -> None:
        if self._closing or len(self._records) >= QUEUE_LIMIT:
            self.dropped += 1
            return
        self._records.append((record, keys))
        if len(self._records) >= BATCH:
            self._full.set()

    async def start(self) -> None:
        """Start the hidden producer."""
        await self._producer.start()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def shutdown(self) -> None:
        """Send the remaining records within 5 s, then stop; ``dropped`` counts the others."""
        if self._task is None:
            return
        self._closing = True
        self._full.set()
        await asyncio.wait([self._task], timeout=SHUTDOWN_S)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None
        self.dropped += len(self._records)
        self._records.clear()
        await self._producer.shutdown()

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(FLUSH_INTERVAL_S):
                    await self._full.wait()
            except TimeoutError:
                pass
            self._full.clear()
            await self.flush()
            if self._closing:
                return

    async def flush(self) -> None:
        """Send everything collected so far."""
        while self._records:
            bodies: list[str] = []
            keys: set[str] = set()
            size = 0
            while self._records and len(bodies) < BATCH:
                record, its_keys = self._records[0]
                size += len(record.encode())
                if bodies and size > MAX_BODY_BYTES:
                    break
                self._records.popleft()
                bodies.append(record)
                keys |= its_keys
            body = "".join(bodies).encode("utf-8", "replace")
            message = Message(self._topic, body, keys=_bounded(keys))
            try:
                await self._producer.send(message)
            except RocketMQError as error:
                self.dropped += len(bodies)
                log.warning("%d trace records not sent: %s", len(bodies), error.message)
            except asyncio.CancelledError:
                self.dropped += len(bodies)
                raise


def _bounded(keys: set[str]) -> list[str]:
    """Return the keys that fit into the properties of one message, short ones first."""
    chosen: list[str] = []
    size = 0
    for key in sorted(keys, key=lambda one: (len(one), one)):
        size += len(key.encode("utf-8", "replace")) + 1
        if size > MAX_KEYS_BYTES:
            break
        chosen.append(key)
    return chosen
