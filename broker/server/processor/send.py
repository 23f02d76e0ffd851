"""Sends: 10, 310 and 320. The hot path: one dictionary of text in, one byte string out.

::

    header ─ checks ─ properties ─ store.put_message ─ reply bytes
                                        └─ SYNC_FLUSH: all replies of a loop turn wait on one ticket

What depends on the topic alone is checked once and kept in a :class:`Target` until topics or
settings change. The property string is taken as it came, only the broker's own properties are
appended; a message whose properties need more than that (delay, transaction, retry, properties
of the broker sent by a client) takes the slow path over a dictionary.

**Source:** RocketMQ SendMessageProcessor, AbstractSendMessageProcessor#msgCheck.
"""

import random
import struct
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from broker.common import sysflag
from broker.common import topic as names
from broker.common.group import SubscriptionGroupConfig
from broker.common.topic import TopicConfig
from broker.message import message as props
from broker.message.properties import decode_properties, encode_properties
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.framing import encode_reply_json
from broker.server import stats as counted
from broker.server.context import BrokerContext
from broker.server.processor.answer import bad_field, no_group
from broker.server.processor.batch_records import (
    BATCH_QUEUE,
    BatchHead,
    inner_batch_record,
    item_records,
    why_no_batch,
)
from broker.server.schedule import delay_level, park
from broker.server.unique_ids import UniqueKeys
from broker.store.results import MessageInner, PutMessageResult, PutMessageStatus

if TYPE_CHECKING:
    from broker.remoting.server import Connection, Handler
    from broker.server.stats import Counter

    Send = Callable[["Connection", RemotingCommand], "Reply"]

Answer = RemotingCommand | bytes | None
Reply = Answer | Awaitable[Answer]

VERSION_WITH_MAX_RECONSUME: Final = 121  # V3_4_9: the header's maxReconsumeTimes counts
MAX_TARGETS: Final = 100_000

LETTERS: Final = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopic": "c",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "unitMode": "k",
    "maxReconsumeTimes": "l",
    "batch": "m",
    "brokerName": "n",
}

UNIQ_KEY: Final = b"UNIQ_KEY\x01"
NO_WAIT: Final = b"WAIT\x01false\x02"
STATUS_CODES: Final = {
    "PUT_OK": ResponseCode.SUCCESS,
    "FLUSH_DISK_TIMEOUT": ResponseCode.FLUSH_DISK_TIMEOUT,
    "FLUSH_SLAVE_TIMEOUT": ResponseCode.FLUSH_SLAVE_TIMEOUT,
    "SLAVE_NOT_AVAILABLE": ResponseCode.SLAVE_NOT_AVAILABLE,
    "SERVICE_NOT_AVAILABLE": ResponseCode.SERVICE_NOT_AVAILABLE,
    "MESSAGE_ILLEGAL": ResponseCode.MESSAGE_ILLEGAL,
    "PROPERTIES_SIZE_EXCEEDED": ResponseCode.MESSAGE_ILLEGAL,
    "OS_PAGE_CACHE_BUSY": ResponseCode.SYSTEM_BUSY,
}
STORED: Final = {
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
}


class Target:
    """What sending to one topic needs, checked once."""

    __slots__ = (
        "batch_queue",
        "config",
        "put_nums",
        "put_size",
        "queue_limit",
        "slow",
        "sys_flag",
    )

    def __init__(self, config: TopicConfig, put_nums: "Counter", put_size: "Counter") -> None:
        self.config = config
        self.queue_limit = max(config.read_queue_nums, config.write_queue_nums)
        multi = config.topic_filter_type == "MULTI_TAG"
        self.sys_flag = sysflag.MULTI_TAGS if multi else 0
        self.slow = names.is_retry_topic(config.topic_name)
        self.batch_queue = BATCH_QUEUE in config.attributes.items()
        self.put_nums = put_nums
        self.put_size = put_size


class SendProcessor:
    """Serves sends; one instance per broker."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._store = context.store
        self._targets: dict[str, Target] = {}
        self._waiting: list[tuple[Connection, RemotingCommand, bytes]] = []
        self._waiting_end = 0
        self._sync = context.store.sync_flush
        self._suffix = b""
        self._id_prefix = b""
        self._uniq_keys = UniqueKeys(context.clock)
        self._store_host = b""
        context.topics.on_change.append(self._topics_changed)
        context.on_config_change.append(self.settings_changed)
        self.settings_changed()

    def settings_changed(self) -> None:
        """Take over region, trace switch, names and address."""
        config = self._context.config
        trace = "true" if config.trace_on else "false"
        self._broker_properties = {
            props.PROPERTY_MSG_REGION: config.region_id,
            props.PROPERTY_TRACE_SWITCH: trace,
            props.PROPERTY_CLUSTER: config.broker_cluster_name,
        }
        self._suffix = encode_properties(self._broker_properties)
        self._reply_ext = {"MSG_REGION": config.region_id, "TRACE_ON": trace}
        region = b'"%b"' % _in_json(config.region_id.encode()).replace(b"%", b"%%")
        self._store_host = self._context.store_host
        self._id_prefix = self._store_host.hex().upper().encode()
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

    # ---- requests

    def send_v1(self, connection: "Connection", request: RemotingCommand) -> Reply:
        """SEND_MESSAGE: the header with long names."""
        ext = request.ext_fields
        request.ext_fields = {LETTERS.get(name, name): value for name, value in ext.items()}
        return self.send(connection, request)

    def send(self, connection: "Connection", request: RemotingCommand) -> Reply:
        """SEND_MESSAGE_V2: the header with single letters."""
        ext = request.ext_fields
        if ext.get("m") == "true":
            return self.send_batch(connection, request)
        try:
            topic = ext["b"]
            queue_id = int(ext["e"])
            target = self._targets.get(topic)
            if target is None:
                return self._first_send(connection, request, topic, self.send)
            if not 0 <= queue_id < target.queue_limit:
                if queue_id >= 0:
                    return self._mark(_bad_queue(request, queue_id, target.config))
                queue_id = random.randrange(max(1, target.config.write_queue_nums))
            raw = ext.get("i", "").encode()
            inner = MessageInner(
                topic,
                queue_id,
                request.body,  # type: ignore[arg-type]
                raw,
                int(ext["h"]),
                int(ext["f"]) | target.sys_flag,
                int(ext["g"]),
                connection.remote_host,
                self._store_host,
                int(ext.get("j") or 0),
            )
        except (KeyError, ValueError) as error:
            return self._mark(bad_field(request, error))
        start = raw.find(UNIQ_KEY)
        if start < 0 or (start and raw[start - 1] != 2) or target.slow or _is_special(raw):
            return self._send_slowly(connection, request, inner, target)
        suffix = self._suffix
        inner.properties = raw + suffix if raw.endswith(b"\x02") else raw + b"\x02" + suffix
        try:
            result = self._store.put_message(inner)
        except struct.error as error:  # a number of the header does not fit its field
            return self._mark(bad_field(request, error))
        if result.status is not PutMessageStatus.PUT_OK:
            return self._mark(self._failed(request, result))
        end = raw.find(b"\x02", start)
        uniq_key = raw[start + 9 : end] if end > 0 else raw[start + 9 :]
        self._count(target, result.store_size, 1)
        ext_json = self._reply % (
            result.physical_offset,
            queue_id,
            result.queue_offset,
            uniq_key if uniq_key.isalnum() else _in_json(uniq_key),
        )
        if self._sync and NO_WAIT not in raw:
            self._wait_flushed(connection, request, ext_json, result.physical_end)
            return None
        return encode_reply_json(request.opaque, 0, ext_json)

    def send_batch(self, connection: "Connection", request: RemotingCommand) -> Reply:
        """SEND_BATCH_MESSAGE: every item becomes a record of its own, or all of them one."""
        ext = request.ext_fields
        try:
            topic = ext["b"]
            queue_id = int(ext["e"])
            target = self._targets.get(topic)
            if target is None:
                return self._first_send(connection, request, topic, self.send_batch)
            if not 0 <= queue_id < target.queue_limit:
                if queue_id >= 0:
                    return self._mark(_bad_queue(request, queue_id, target.config))
                queue_id = random.randrange(max(1, target.config.write_queue_nums))
            head = BatchHead(
                topic,
                queue_id,
                int(ext["h"]),
                int(ext["f"]) | target.sys_flag,
                int(ext["g"]),
                connection.remote_host,
                self._store_host,
                decode_properties(ext.get("i", "")),
            )
        except (KeyError, ValueError) as error:
            return self._mark(bad_field(request, error))
        reason = why_no_batch(head, len(request.body), self._store.config.max_message_size)
        if reason is not None:
            return self._mark(_illegal(request, reason))
        return self._store_batch(connection, request, head, target)

    def _store_batch(
        self,
        connection: "Connection",
        request: RemotingCommand,
        head: BatchHead,
        target: Target,
    ) -> Answer:
        uniq_key = head.properties.get(props.PROPERTY_UNIQ_KEY, "")
        body = request.body_bytes()
        if target.batch_queue and uniq_key:
            whole = inner_batch_record(head, body, self._broker_properties)
            inners = [] if whole is None else [whole]
        else:
            inners = item_records(head, body, self._broker_properties)
        if not inners:
            return self._mark(_illegal(request, "the batch holds no message"))
        try:
            results = self._store.put_messages(inners)
        except struct.error as error:
            return self._mark(bad_field(request, error))
        first = results[0]
        last = results[-1]
        if last.status is not PutMessageStatus.PUT_OK:
            return self._mark(self._failed(request, last))
        self._count(target, sum(result.store_size for result in results), len(results))
        prefix = self._id_prefix
        ids = b",".join([b"%b%016X" % (prefix, r.physical_offset) for r in results])
        key = _in_json(uniq_key.encode())
        ext_json = self._reply_to_batch % (ids, head.queue_id, first.queue_offset, key)
        if target.batch_queue and uniq_key:
            ext_json = b'%b,"batchUniqId":"%b"}' % (ext_json[:-1], key)
        if not uniq_key:  # old clients give a batch no key of its own
            ext_json = ext_json.replace(b',"transactionId":""', b"")
        if self._sync:
            self._wait_flushed(connection, request, ext_json, last.physical_end)
            return None
        return encode_reply_json(request.opaque, 0, ext_json)

    # ---- what is not hot

    def _first_send(
        self, connection: "Connection", request: RemotingCommand, topic: str, send: "Send"
    ) -> Reply:
        """Check the topic, then send; a topic made by this send is announced before the answer.

        Whoever sees SEND_OK finds the route: the answer waits for the name servers, boundedly.

        **Source:** RocketMQ TopicConfigManager#createTopicInSendMessageMethod.
        """
        known = topic in self._context.topics
        found = self._resolve(request, topic)
        if isinstance(found, RemotingCommand):
            return self._mark(found)
        answer = send(connection, request)
        if known or isinstance(answer, Awaitable):
            return answer
        return self._announced(topic, answer)

    async def _announced(self, topic: str, answer: Answer) -> Answer:
        await self._context.announce([topic])
        return answer

    def _resolve(self, request: RemotingCommand, topic: str) -> "Target | RemotingCommand":
        """Checks of the topic, in Java's order; a Target or the refusal."""
        context = self._context
        config = context.config
        now_ms = context.now_ms()
        if now_ms < config.start_accept_send_request_time_stamp:
            remark = (
                f"broker unable to service, until {config.start_accept_send_request_time_stamp}"
            )
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        found = context.topics.get(topic)
        if found is not None and found.order and not names.is_writable(config.broker_permission):
            remark = f"the broker[{config.broker_ip1}] sending message is forbidden"
            return response(request, ResponseCode.NO_PERMISSION, remark)
        reason = names.check_topic_name(topic)
        if reason is not None:
            return response(request, ResponseCode.INVALID_PARAMETER, reason)
        if names.is_not_allowed_send_topic(topic):
            remark = f"Sending message to topic[{topic}] is forbidden."
            return response(request, ResponseCode.NO_PERMISSION, remark)
        if found is None:
            found = self._create_topic(request, topic)
        if found is None:
            remark = f"topic[{topic}] not exist, apply first please!"
            return response(request, ResponseCode.TOPIC_NOT_EXIST, remark)
        stats = context.stats
        target = Target(
            found,
            stats.counter(counted.TOPIC_PUT_NUMS, topic),
            stats.counter(counted.TOPIC_PUT_SIZE, topic),
        )
        if len(self._targets) >= MAX_TARGETS:
            self._targets.clear()
        self._targets[topic] = target
        return target

    def _create_topic(self, request: RemotingCommand, topic: str) -> TopicConfig | None:
        ext = request.ext_fields
        topics = self._context.topics
        flag = sysflag.TOPIC_UNIT if ext.get("k") == "true" else 0
        if names.is_retry_topic(topic):
            flag = sysflag.TOPIC_UNIT_SUB if flag else 0
            return topics.ensure(topic, 1, sys_flag=flag)
        return topics.create_for_send(
            topic, ext.get("c", names.TBW102), int(ext.get("d") or 0), flag
        )

    def _send_slowly(
        self,
        connection: "Connection",
        request: RemotingCommand,
        inner: MessageInner,
        target: Target,
    ) -> Answer:
        """A message whose properties decide where it goes."""
        properties = decode_properties(bytes(inner.properties))
        properties.pop(props.PROPERTY_POP_CK, None)
        properties.update(self._broker_properties)
        uniq_key = properties.get(props.PROPERTY_UNIQ_KEY)
        if uniq_key is None:
            uniq_key = self._uniq_keys.next(self._context.address)
            properties[props.PROPERTY_UNIQ_KEY] = uniq_key
        queue_id = inner.queue_id
        refusal = self._refuse_kind(request, properties, inner)
        if refusal is not None:
            return self._mark(refusal)
        if names.is_retry_topic(inner.topic):
            refusal = self._retry_or_dlq(request, inner, properties)
            if refusal is not None:
                return self._mark(refusal)
        level = delay_level(properties, self._max_level())
        if level > 0:
            inner.topic, inner.queue_id = park(properties, inner.topic, inner.queue_id, level)
        if inner.topic != target.config.topic_name:
            target = self._counting(inner.topic, target)
        inner.properties = encode_properties(properties)
        try:
            result = self._store.put_message(inner)
        except struct.error as error:  # a number of the header does not fit its field
            return self._mark(bad_field(request, error))
        if result.status is not PutMessageStatus.PUT_OK:
            return self._mark(self._failed(request, result))
        self._count(target, result.store_size, 1)
        ext_json = self._reply % (
            result.physical_offset,
            queue_id,
            result.queue_offset,
            _in_json(uniq_key.encode()),
        )
        if self._sync and properties.get(props.PROPERTY_WAIT_STORE_MSG_OK) != "false":
            self._wait_flushed(connection, request, ext_json, result.physical_end)
            return None
        return encode_reply_json(request.opaque, 0, ext_json)

    def _refuse_kind(
        self, request: RemotingCommand, properties: dict[str, str], inner: MessageInner
    ) -> RemotingCommand | None:
        """Refuse what this broker does not do: half messages and timer messages."""
        if properties.get(props.PROPERTY_TRANSACTION_PREPARED) == "true":
            remark = (
                f"the broker[{self._context.address}] sending transaction message is forbidden: "
                "transactions are not supported"
            )
            return response(request, ResponseCode.NO_PERMISSION, remark)
        timers = (
            props.PROPERTY_TIMER_DELAY_SEC,
            props.PROPERTY_TIMER_DELAY_MS,
            props.PROPERTY_TIMER_DELIVER_MS,
        )
        if any(name in properties for name in timers):
            if delay_level(properties, self._max_level()) > 0:
                for name in timers:
                    properties.pop(name, None)
                return None
            return response(
                request,
                ResponseCode.SYSTEM_ERROR,
                "timer messages are not supported by this broker; use a delay level",
            )
        return None

    def _retry_or_dlq(
        self, request: RemotingCommand, inner: MessageInner, properties: dict[str, str]
    ) -> RemotingCommand | None:
        """A consumer sends a failed message again: to the DLQ when it was tried often enough.

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
            inner.topic = names.dlq_topic(group)
            inner.queue_id = 0
            context.topics.ensure(inner.topic, 1)
            properties[props.PROPERTY_DELAY_TIME_LEVEL] = "0"
            context.stats.counter(counted.DLQ_PUT_NUMS, group).add(1)
        return None

    def _max_reconsume(self, request: RemotingCommand, config: SubscriptionGroupConfig) -> int:
        if request.version >= VERSION_WITH_MAX_RECONSUME:
            text = request.ext_fields.get("l")
            if text:
                return int(text)
        return config.retry_max_times

    def _max_level(self) -> int:
        delays = self._context.delays
        return delays.max_level if delays is not None else 0

    def _counting(self, topic: str, target: Target) -> Target:
        """A target that counts under the topic a message is really stored in (parked, DLQ)."""
        stats = self._context.stats
        return Target(
            target.config,
            stats.counter(counted.TOPIC_PUT_NUMS, topic),
            stats.counter(counted.TOPIC_PUT_SIZE, topic),
        )

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

    def _failed(self, request: RemotingCommand, result: PutMessageResult) -> RemotingCommand:
        self._context.stats.put_failed += 1
        name = result.status.name
        code = STATUS_CODES.get(name, ResponseCode.SYSTEM_ERROR)
        return response(request, code, result.remark or f"the store answered {name}")

    def _mark(self, refusal: RemotingCommand) -> RemotingCommand:
        """Every send answer carries region and trace switch, refusals too."""
        refusal.ext_fields = {**self._reply_ext, **refusal.ext_fields}
        return refusal

    # ---- SYNC_FLUSH

    def _wait_flushed(
        self, connection: "Connection", request: RemotingCommand, ext_json: bytes, end: int
    ) -> None:
        """Keep a reply until the log is on disk up to ``end``; one ticket per turn of the loop."""
        first = not self._waiting
        self._waiting.append((connection, request, ext_json))
        self._waiting_end = max(self._waiting_end, end)
        if first:
            self._context.soon(self._take_ticket)

    def _take_ticket(self) -> None:
        waiting, self._waiting = self._waiting, []

        def flushed(status: PutMessageStatus) -> None:
            code = STATUS_CODES.get(status.name, ResponseCode.SYSTEM_ERROR)
            for connection, request, ext_json in waiting:
                if request.is_oneway:
                    continue
                if code in STORED:  # late ones keep ids and offsets: the message is stored
                    connection.send(encode_reply_json(request.opaque, code, ext_json))
                else:
                    remark = f"the store answered {status.name}"
                    connection.send(self._mark(response(request, code, remark)))

        self._store.await_flush(self._waiting_end, flushed)


def _is_special(raw: bytes) -> bool:
    """Whether a property string holds any mark that needs the slow path.

    Spelled out: a loop over the marks costs more than all the searches. A value that looks like a
    mark merely costs time.
    """
    return (
        b"DELAY\x01" in raw
        or b"TRAN_MSG\x01" in raw
        or b"TIMER_D" in raw
        or b"POP_CK\x01" in raw
        or b"MSG_REGION\x01" in raw
        or b"TRACE_ON\x01" in raw
        or b"CLUSTER\x01" in raw
    )


def _in_json(text: bytes) -> bytes:
    """Text as it stands between the quotes of a JSON string."""
    from msgspec import json

    return json.encode(text.decode("utf-8", "replace"))[1:-1]


def _bad_queue(request: RemotingCommand, queue_id: int, config: TopicConfig) -> RemotingCommand:
    return response(
        request,
        ResponseCode.INVALID_PARAMETER,
        f"request queueId[{queue_id}] is illegal, {config.topic_name} has "
        f"readQueueNums[{config.read_queue_nums}] writeQueueNums[{config.write_queue_nums}]",
    )


def _illegal(request: RemotingCommand, remark: str) -> RemotingCommand:
    return response(request, ResponseCode.MESSAGE_ILLEGAL, remark)


def make_handlers(context: BrokerContext) -> "dict[int, Handler]":
    """The handlers of this family, bound to a broker."""
    processor = SendProcessor(context)
    return {
        RequestCode.SEND_MESSAGE: processor.send_v1,
        RequestCode.SEND_MESSAGE_V2: processor.send,
        RequestCode.SEND_BATCH_MESSAGE: processor.send_batch,
    }
