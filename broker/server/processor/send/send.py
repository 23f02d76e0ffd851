"""Send requests (10, 310, 320). The hot path: a dictionary of strings in, one byte string out.

::

    header ─ checks ─ properties ─ store.put_message ─ response bytes
                                        └─ SYNC_FLUSH: the responses of one event-loop iteration
                                           wait for one group commit

Checks that depend on the topic alone run once; their result is kept in a :class:`Target` until
topics or settings change. The property string is stored as received, with the broker's own
properties appended. A message whose properties need more than that (delay, transaction, retry,
broker properties sent by a client) takes the slow path, which decodes them into a dictionary.

**Source:** RocketMQ SendMessageProcessor, AbstractSendMessageProcessor#msgCheck.
"""

import struct
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import json

from broker.common import sysflag
from broker.common import topic as names
from broker.common.group import SubscriptionGroupConfig
from broker.errors import RocketMQError
from broker.message import message as props
from broker.message.properties import decode_properties, encode_properties, peek_property
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.framing import encode_reply_json
from broker.server import stats as counted
from broker.server.context import BrokerContext
from broker.server.metrics.message_type import NORMAL, message_type
from broker.server.metrics.settings import is_enabled
from broker.server.processor.responses import bad_field, bad_queue, illegal, no_group, not_written
from broker.server.processor.send.batch_records import (
    BatchHead,
    check_batch,
    delay_batch,
    inner_batch_record,
    item_records,
    message_ids,
    shared_fields,
)
from broker.server.processor.send.flushed_answers import STATUS_CODES, FlushedAnswers, waits
from broker.server.processor.send.parts import SendParts
from broker.server.processor.send.send_target import (
    BATCH,
    BORN_TIMESTAMP,
    FLAG,
    MAX_RECONSUME_TIMES,
    PROPERTIES,
    QUEUE_ID,
    RECONSUME_TIMES,
    SHORT_NAMES,
    SYS_FLAG,
    TOPIC,
    Target,
    check_topic,
    is_special,
    is_special_or_fifo,
    random_queue,
    record_target,
)
from broker.server.processor.send.unique_ids import UniqueKeys
from broker.server.schedule import delay_level, illegal_delay
from broker.server.slices import collect_in_slices
from broker.server.static_topic.sends import shown_place, to_led_queue
from broker.server.timer.delay import delay_message
from broker.server.timer.recall_handles import recall_handle
from broker.server.transaction.half import is_prepared, prepare
from broker.store.encoded_batch import ITEMS_PER_STEP, EncodedBatch
from broker.store.results import (
    MessageExtBrokerInner,
    PutBatchResult,
    PutMessageResult,
    PutMessageStatus,
)

if TYPE_CHECKING:
    from broker.remoting.server import Connection, Handler

    Send = Callable[["Connection", RemotingCommand], "Reply"]

Answer = RemotingCommand | bytes | None
Reply = Answer | Awaitable[Answer]

VERSION_WITH_MAX_RECONSUME: Final = 121  # V3_4_9: the header's maxReconsumeTimes applies
MAX_TARGETS: Final = 100_000
PARSED_AT_ONCE_BYTES: Final = 64 * 1024  # longer batches are decoded in slices
ITEMS_PER_SLICE: Final = 2_048  # about 4 ms
STEPS_PER_SLICE: Final = ITEMS_PER_SLICE // ITEMS_PER_STEP

UNIQ_KEY: Final = b"UNIQ_KEY\x01"
UNIQ_KEY_SIZE: Final = len(UNIQ_KEY)
_REAL_TOPIC: Final = props.PROPERTY_REAL_TOPIC.encode()
WAIT: Final = props.PROPERTY_WAIT_STORE_MSG_OK.encode()
WAIT_FALSE: Final = props.PROPERTY_WAIT_STORE_MSG_OK + "\x01false"  # a hint: XWAIT has it too


class _BatchReply(NamedTuple):
    """The values that the response to a batch needs."""

    connection: "Connection"
    request: RemotingCommand
    head: BatchHead
    target: Target


class SendMessageProcessor:
    """Serves sends; one instance per broker."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._store = context.store
        self._targets: dict[str, Target] = {}
        self._flushed = FlushedAnswers(context, self._refusal)
        self._sync = context.durability.waits
        self._suffix = b""
        self._id_prefix = b""
        self._uniq_keys = UniqueKeys(context.clock)
        self._typed = is_enabled(context.config.metrics_exporter_type)
        self._is_special = is_special_or_fifo if self._typed else is_special
        self._store_host = b""
        context.topics.on_change.append(self._topics_changed)
        context.on_config_change.append(self.settings_changed)
        self.settings_changed()

    def settings_changed(self) -> None:
        """Apply changed settings: region, trace switch, cluster name and address."""
        config = self._context.config
        trace = "true" if config.trace_on else "false"
        self._broker_properties = {
            props.PROPERTY_MSG_REGION: config.region_id,
            props.PROPERTY_TRACE_SWITCH: trace,
            props.PROPERTY_CLUSTER: config.broker_cluster_name,
        }
        self._suffix = encode_properties(self._broker_properties)
        self._reply_ext = {"MSG_REGION": config.region_id, "TRACE_ON": trace}
        # The region becomes part of a % template: a literal percent sign is doubled.
        region = b'"%b"' % _in_json(config.region_id.encode()).replace(b"%", b"%%")
        self._store_host = self._context.store_host
        self._id_prefix = self._store_host.hex().upper().encode()
        # Response headers are templates built once, so a send costs one % operation.
        head = b'{"MSG_REGION":%b,"TRACE_ON":"%b","msgId":"' % (region, trace.encode())
        tail = b'","queueId":"%d","queueOffset":"%d","transactionId":"%b"}'
        self._reply = head + self._id_prefix + b"%016X" + tail
        self._reply_to_batch = head + b"%b" + tail
        self._targets.clear()

    def _topics_changed(self, topics: list[str]) -> None:
        if not topics:
            self._targets.clear()
        for topic in topics:
            self._targets.pop(topic, None)

    @property
    def parts(self) -> SendParts:
        """The parts that vectorized ingest shares."""
        flushed = self._flushed if self._sync else None
        shown = self._suffix, self._reply, self._store_host
        return SendParts(self._targets, flushed, *shown, self._count)

    # ---- requests

    def send_v1(self, connection: "Connection", request: RemotingCommand) -> Reply:
        """SEND_MESSAGE: the header with long field names."""
        ext = request.ext_fields
        request.ext_fields = {SHORT_NAMES.get(name, name): value for name, value in ext.items()}
        return self.send(connection, request)

    def send(self, connection: "Connection", request: RemotingCommand) -> Reply:
        """SEND_MESSAGE_V2: the header with one-letter field names."""
        ext = request.ext_fields
        batch = ext.get(BATCH)
        if batch is not None and batch != "false" and batch.lower() == "true":
            return self.send_batch(connection, request)
        try:
            topic = ext[TOPIC]
            target = self._targets.get(topic)
            if target is None:
                return self._first_send(connection, request, topic, self.send)
            if target.mappings is not None:
                elsewhere = to_led_queue(target.mappings, request, topic, QUEUE_ID)
                if elsewhere is not None:
                    return self._mark(elsewhere)
            queue_id = int(ext[QUEUE_ID])
            if not 0 <= queue_id < target.queue_limit:
                if queue_id >= 0:
                    return self._mark(bad_queue(request, queue_id, target.config))
                queue_id = random_queue(target)
            text = ext.get(PROPERTIES, "")
            raw = text.encode()
            inner = MessageExtBrokerInner(
                topic,
                queue_id,
                request.body,  # type: ignore[arg-type]
                raw,
                int(ext[FLAG]),
                int(ext[SYS_FLAG]) | target.sys_flag,
                int(ext[BORN_TIMESTAMP]),
                connection.remote_host,
                self._store_host,
                int(ext.get(RECONSUME_TIMES) or 0),
            )
        except (KeyError, ValueError) as error:
            return self._mark(bad_field(request, error))
        # Of equal property names the last one wins. A UNIQ_KEY that is missing, empty or only part
        # of another name takes the slow path.
        at = raw.rfind(UNIQ_KEY)
        slow = at < 0 or (at and raw[at - 1] != 2) or target.slow or not inner.body
        if slow or self._is_special(text):
            return self._send_slowly(connection, request, inner, target)
        end = raw.find(b"\x02", at)
        start = at + UNIQ_KEY_SIZE
        uniq_key = raw[start:end] if end > 0 else raw[start:]
        if not uniq_key:
            return self._send_slowly(connection, request, inner, target)
        suffix = self._suffix
        inner.properties = raw + suffix if raw.endswith(b"\x02") else raw + b"\x02" + suffix
        wait = self._sync and not (WAIT_FALSE in text and peek_property(raw, WAIT) == b"false")
        return self._store_one(
            connection, request, inner, target, queue_id=queue_id, uniq_key=uniq_key, wait=wait
        )

    def send_batch(self, connection: "Connection", request: RemotingCommand) -> Reply:
        """SEND_BATCH_MESSAGE: store one record per message, or one record for the whole batch."""
        ext = request.ext_fields
        try:
            topic = ext[TOPIC]
            target = self._targets.get(topic)
            if target is None:
                return self._first_send(connection, request, topic, self.send_batch)
            if target.mappings is not None:
                elsewhere = to_led_queue(target.mappings, request, topic, QUEUE_ID)
                if elsewhere is not None:
                    return self._mark(elsewhere)
            queue_id = int(ext[QUEUE_ID])
            if not 0 <= queue_id < target.queue_limit:
                if queue_id >= 0:
                    return self._mark(bad_queue(request, queue_id, target.config))
                queue_id = random_queue(target)
            head = BatchHead(
                topic,
                queue_id,
                int(ext[FLAG]),
                int(ext[SYS_FLAG]) | target.sys_flag,
                int(ext[BORN_TIMESTAMP]),
                connection.remote_host,
                self._store_host,
                decode_properties(ext.get(PROPERTIES, "")),
            )
        except (KeyError, ValueError) as error:
            return self._mark(bad_field(request, error))
        body = request.body_bytes()
        reason = check_batch(head, body, self._store.config.max_message_size)
        if reason is not None:
            return self._mark(illegal(request, reason))
        refused, stored_head = delay_batch(self._context, head)
        if refused is not None:
            return self._mark(self._failed(request, refused))
        reply = _BatchReply(connection, request, head, target)
        if target.batch_queue and props.PROPERTY_UNIQ_KEY in head.properties:
            whole = inner_batch_record(stored_head, body, self._broker_properties)
            return self._store_batch(reply, [whole] if whole else [])
        try:
            shared = shared_fields(head, self._broker_properties)
            batch = self._store.new_batch(shared) if stored_head is head else None
        except struct.error as error:
            return self._mark(bad_field(request, error))
        if len(body) > PARSED_AT_ONCE_BYTES:
            return self._store_large_batch(reply, stored_head, body, batch)
        if batch is None:
            records = item_records(stored_head, body, self._broker_properties)
            return self._store_batch(reply, list(records))
        for _ in batch.encode_items(body):
            pass
        return self._put_batch(reply, batch)

    async def _store_large_batch(
        self, reply: _BatchReply, stored_head: BatchHead, body: bytes, batch: EncodedBatch | None
    ) -> Answer:
        """Encode a long batch in slices, with other requests served between them, then store it.

        The records of a batch stay together in the log, so the last step is not interrupted.
        """
        connection, request, head, target = reply
        if batch is None:
            records = item_records(stored_head, body, self._broker_properties)
            inners = await collect_in_slices(records, ITEMS_PER_SLICE)
        else:
            await collect_in_slices(batch.encode_items(body), STEPS_PER_SLICE)
        if self._targets.get(head.topic) is not target:  # topic or settings changed meanwhile
            answer = self.send_batch(connection, request)
            return await answer if isinstance(answer, Awaitable) else answer
        if batch is None:
            return self._store_batch(reply, inners)
        return self._put_batch(reply, batch)

    def _put_batch(self, reply: _BatchReply, batch: EncodedBatch) -> Answer:
        if not batch.starts and batch.refused is None:
            return self._mark(illegal(reply.request, "the batch holds no message"))
        if (lacking := self._flushed.lacking_replicas(reply.head.properties)) is not None:
            return self._mark(self._failed(reply.request, lacking))
        return self._answer_batch(reply, self._store.put_batch(batch))

    def _store_batch(self, reply: _BatchReply, inners: list[MessageExtBrokerInner]) -> Answer:
        request = reply.request
        if not inners:
            return self._mark(illegal(request, "the batch holds no message"))
        if (lacking := self._flushed.lacking_replicas(reply.head.properties)) is not None:
            return self._mark(self._failed(request, lacking))
        try:
            results = self._store.put_messages(inners)
        except struct.error as error:
            return self._mark(bad_field(request, error))
        last = results[-1]
        stored = PutBatchResult(
            last.status,
            results[0].queue_offset,
            [result.physical_offset for result in results],
            sum(result.store_size for result in results),
            last.physical_end,
            last.remark,
        )
        return self._answer_batch(reply, stored)

    def _answer_batch(self, reply: "_BatchReply", stored: PutBatchResult) -> Answer:
        connection, request, head, target = reply
        uniq_key = head.properties.get(props.PROPERTY_UNIQ_KEY, "")
        if stored.status is not PutMessageStatus.PUT_OK:
            failed = PutMessageResult(stored.status, remark=stored.remark)
            return self._mark(self._failed(request, failed))
        self._count(target, stored.store_size, len(stored.physical_offsets))
        ids = message_ids(self._id_prefix, stored.physical_offsets)
        key = _in_json(uniq_key.encode())
        place = head.queue_id, stored.queue_offset
        if target.mappings is not None:
            place = shown_place(target.mappings, head.topic, *place)
        ext_json = self._reply_to_batch % (ids, *place, key)
        if target.batch_queue and uniq_key:
            ext_json = b'%b,"batchUniqId":"%b"}' % (ext_json[:-1], key)
        if not uniq_key:  # old clients send a batch without a UNIQ_KEY
            ext_json = ext_json.replace(b',"transactionId":""', b"")
        if self._sync and waits(head.properties):
            self._flushed.wait(connection, request, ext_json, stored.physical_end)
            return None
        return encode_reply_json(request.opaque, 0, ext_json)

    # ---- slow path

    def _first_send(
        self, connection: "Connection", request: RemotingCommand, topic: str, send: "Send"
    ) -> Reply:
        """Check the topic, then send; a topic created by this send is written and announced first.

        The send waits for the name servers for a bounded time, so that a client that receives
        SEND_OK finds the route.

        **Source:** RocketMQ TopicConfigManager#createTopicInSendMessageMethod.
        """
        known = topic in self._context.topics
        found = self._resolve(request, topic)
        if isinstance(found, RemotingCommand):
            return self._mark(found)
        if known and self._context.topics.is_persisted(topic):
            return send(connection, request)
        self._targets.pop(topic, None)
        return self._send_to_new_topic(connection, request, topic, send)

    async def _send_to_new_topic(
        self, connection: "Connection", request: RemotingCommand, topic: str, send: "Send"
    ) -> Answer:
        """Send after topics.json is written and the name servers know the topic.

        Otherwise a restart could lose the topic of an acknowledged message.
        """
        try:
            await self._context.topics.persist()
        except (RocketMQError, OSError) as error:
            return self._mark(not_written(request, error))
        await self._context.announce([topic])
        answer = send(connection, request)
        return await answer if isinstance(answer, Awaitable) else answer

    def _resolve(self, request: RemotingCommand, topic: str) -> "Target | RemotingCommand":
        """Check the topic; keep and return its Target, or return the refusal."""
        target = check_topic(self._context, request, topic)
        if isinstance(target, Target):
            if len(self._targets) >= MAX_TARGETS:
                self._targets.clear()  # a cache: refilled by the next sends
            self._targets[topic] = target
        return target

    def _send_slowly(
        self,
        connection: "Connection",
        request: RemotingCommand,
        inner: MessageExtBrokerInner,
        target: Target,
    ) -> Reply:
        """Send a message whose properties must be decoded: they may change its topic and queue."""
        properties = decode_properties(bytes(inner.properties))
        kind = message_type(properties) if self._typed else NORMAL
        properties.pop(props.PROPERTY_POP_CK, None)
        properties.update(self._broker_properties)
        uniq_key = properties.get(props.PROPERTY_UNIQ_KEY)
        if uniq_key is None:
            uniq_key = self._uniq_keys.next(self._context.address)
            properties[props.PROPERTY_UNIQ_KEY] = uniq_key
        queue_id = inner.queue_id
        if props.PROPERTY_INNER_NUM in properties and not inner.sys_flag & sysflag.INNER_BATCH:
            return self._mark(illegal(request, "INNER_NUM, but no inner batch"))
        refusal = self._refuse_kind(request, properties, inner)
        if refusal is not None:
            return self._mark(refusal)
        if names.is_retry_topic(inner.topic):
            refusal = self._retry_or_dlq(request, inner, properties)
            if refusal is not None:
                return self._mark(refusal)
        persisted = self._context.topics.is_persisted(inner.topic)
        level = delay_level(properties, self._max_level())
        if is_prepared(properties, inner.reconsume_times, level):
            reason = self._store.why_illegal_place(inner.topic, inner.queue_id)
            if reason is not None:
                return self._mark(illegal(request, reason))
            prepare(inner, properties)  # its delay counts from the commit
        else:
            context = self._context
            timers = context.timers.timers if context.timers is not None else None
            refused = delay_message(context.delays, timers, inner, properties)
            if refused is not None:
                return self._mark(self._failed(request, refused))
        handle = recall_handle(self._context, inner.topic, properties)
        if inner.topic != target.config.topic_name or kind != NORMAL:
            target = record_target(self._context.stats, inner.topic, target, kind)
        inner.properties = encode_properties(properties)
        wait = self._sync and waits(properties)
        store = partial(
            self._store_one,
            connection,
            request,
            inner,
            target,
            queue_id=queue_id,
            uniq_key=uniq_key.encode(),
            wait=wait,
            handle=handle.encode(),
        )
        return store() if persisted else self._store_persisted(request, store)

    async def _store_persisted(
        self, request: RemotingCommand, store: Callable[[], Answer]
    ) -> Answer:
        """Store in a dead-letter queue that was just created: topics.json is written first."""
        try:
            await self._context.topics.persist()
        except (RocketMQError, OSError) as error:
            return self._mark(not_written(request, error))
        return store()

    def _store_one(
        self,
        connection: "Connection",
        request: RemotingCommand,
        inner: MessageExtBrokerInner,
        target: Target,
        *,
        queue_id: int,
        uniq_key: bytes,
        wait: bool,
        handle: bytes = b"",
    ) -> Answer:
        """Store one message of either path; respond now, or with ``wait`` once it is durable."""
        if wait and (lacking := self._flushed.lacking_replicas()) is not None:
            return self._mark(self._failed(request, lacking))
        try:
            result = self._store.put_message(inner)
        except struct.error as error:  # a number in the header does not fit its field
            return self._mark(bad_field(request, error))
        if result.status is not PutMessageStatus.PUT_OK:
            return self._mark(self._failed(request, result))
        self._count(target, result.store_size, 1)
        if inner.topic == names.TRANS_HALF_TOPIC and self._context.transactions is not None:
            real_topic = peek_property(inner.properties, _REAL_TOPIC) or b""
            self._context.transactions.metrics.add(real_topic.decode(), 1)
        offset = result.queue_offset
        if target.mappings is not None:
            queue_id, offset = shown_place(target.mappings, inner.topic, queue_id, offset)
        ext_json = self._reply % (
            result.physical_offset,
            queue_id,
            offset,
            uniq_key if uniq_key.isalnum() else _in_json(uniq_key),
        )
        if handle:
            ext_json = b'%b,"recallHandle":"%b"}' % (ext_json[:-1], handle)
        if wait:
            self._flushed.wait(connection, request, ext_json, result.physical_end)
            return None
        return encode_reply_json(request.opaque, 0, ext_json)

    def _refuse_kind(
        self, request: RemotingCommand, properties: dict[str, str], inner: MessageExtBrokerInner
    ) -> RemotingCommand | None:
        """Refuse an empty body or illegal delay level unless retried, half messages by setting."""
        reason = illegal_delay(properties) if inner.body else "the message has no body"
        if reason is not None and not names.is_retry_topic(inner.topic):
            return illegal(request, reason)
        level = delay_level(properties, self._max_level())
        if is_prepared(properties, inner.reconsume_times, level):
            context = self._context
            if context.transactions is None or context.config.reject_transaction_message:
                remark = f"the broker[{context.address}] sending transaction message is forbidden"
                return response(request, ResponseCode.NO_PERMISSION, remark)
        return None

    def _retry_or_dlq(
        self, request: RemotingCommand, inner: MessageExtBrokerInner, properties: dict[str, str]
    ) -> RemotingCommand | None:
        """Redirect a retried message to the DLQ after too many attempts; return a refusal or None.

        The DLQ also takes every retry of a group that holds queue locks, because a retry queue
        would break the order of consumption.

        **Source:** RocketMQ SendMessageProcessor#handleRetryAndDLQ.
        """
        context = self._context
        group = names.group_of_retry_topic(inner.topic) or ""
        config = context.groups.find(group)
        if config is None:
            return no_group(request, group)
        limit = self._max_reconsume(request, config)
        if inner.reconsume_times > limit or context.locks.holds_any(
            group, int(context.clock.monotonic_ms())
        ):
            topic, inner.topic = inner.topic, names.dlq_topic(group)
            inner.queue_id = 0
            reason = self._store.why_illegal_place(inner.topic, 0)
            if reason is not None:
                return illegal(request, reason)
            context.topics.ensure(inner.topic, 1)
            properties[props.PROPERTY_DELAY_TIME_LEVEL] = "0"
            context.stats.counter(counted.DLQ_PUT_NUMS, f"{topic}@{group}").add(1)
        return None

    def _max_reconsume(self, request: RemotingCommand, config: SubscriptionGroupConfig) -> int:
        if request.version >= VERSION_WITH_MAX_RECONSUME:
            text = request.ext_fields.get(MAX_RECONSUME_TIMES)
            if text:
                return int(text)
        return config.retry_max_times

    def _max_level(self) -> int:
        delays = self._context.delays
        return delays.max_level if delays is not None else 0

    def _count(self, target: Target, size: int, messages: int) -> None:
        counter = target.put_nums
        counter.value += messages
        counter.calls += 1
        counter = target.put_size
        counter.value += size
        counter.calls += 1
        total = self._context.stats.put
        total.value += messages
        total.calls += 1
        if target.typed is not None:
            target.typed[0].add(messages)
            target.typed[1].add(size)

    def _failed(self, request: RemotingCommand, result: PutMessageResult) -> RemotingCommand:
        self._context.stats.put_failed += 1
        name = result.status.name
        code = STATUS_CODES.get(name, ResponseCode.SYSTEM_ERROR)
        return response(request, code, result.remark or f"the store answered {name}")

    def _mark(self, refusal: RemotingCommand) -> RemotingCommand:
        """Add region and trace switch to a refusal: every send response carries them."""
        refusal.ext_fields = {**self._reply_ext, **refusal.ext_fields}
        return refusal

    def _refusal(self, opaque: int, code: int, remark: str) -> RemotingCommand:
        return self._mark(response(RemotingCommand(opaque=opaque), code, remark))


def _in_json(text: bytes) -> bytes:
    """Return text as encoded between the quotes of a JSON string."""
    return json.encode(text.decode("utf-8", "replace"))[1:-1]


def handlers_of(processor: SendMessageProcessor) -> "dict[int, Handler]":
    """Return the handlers of one processor."""
    return {
        RequestCode.SEND_MESSAGE: processor.send_v1,
        RequestCode.SEND_MESSAGE_V2: processor.send,
        RequestCode.SEND_BATCH_MESSAGE: processor.send_batch,
    }
