"""Pull requests (11, 361). Responses carry slices of the log; this path decodes no message.

::

    header ─ checks ─ filter ─ store.get_message ─ response header and slices, joined
                                    └─ no message: suspended in PullRequestHold, executed again when
                                       a message arrives or the deadline is reached

**Source:** RocketMQ PullMessageProcessor, DefaultPullMessageResultHandler.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

import msgspec

from broker.common import topic as names
from broker.common.group import CONSUME_ACTIVELY, SubscriptionGroupConfig
from broker.common.subscription import is_tag_type
from broker.common.sysflag import (
    PULL_COMMIT_OFFSET,
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
)
from broker.common.topic import TopicConfig
from broker.errors import RocketMQError
from broker.message import message as props
from broker.message.properties import decode_properties
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.framing import encode_reply_json
from broker.remoting.protocol.header.consumer.pull import PullMessageRequestHeader
from broker.remoting.protocol.header.fields import decode_header_fields
from broker.server import stats as counted
from broker.server.context import BrokerContext
from broker.server.filter.message_filter import EVERYTHING, Matcher
from broker.server.longpolling.long_polling import SuspendedPull
from broker.server.processor.responses import no_group, no_topic
from broker.server.processor.send.batch_records import (
    VERSION_THAT_UNWRAPS,
    is_batch_topic,
    unwrapped_records,
)
from broker.server.slices import collect_in_slices
from broker.server.static_topic.pulls import (
    SegmentPull,
    pull_elsewhere,
    reply_shown,
    segment_pull,
)
from broker.server.tables.consumer_offset import offset_key
from broker.store.results import GetMessageResult, GetMessageStatus

if TYPE_CHECKING:
    from broker.remoting.server import Connection, Handler

log = logging.getLogger("broker.server")

Answer = RemotingCommand | bytes | None
Reply = Answer | Awaitable[bytes | RemotingCommand]

RECORDS_PER_SLICE: Final = 500
"""Messages of inner batches unwrapped per slice, about 15 µs each."""

COLD_HOLD_MS: Final = 3_000
"""How long a pull of a group that has read too much cold data waits, as in Java."""

NO_QUEUE: Final = -1

MAX_SUSPEND_MS: Final = 120_000  # a longer suspension would hit the idle timeout of the connection
MAX_GET_COUNTERS: Final = 100_000

SLAVE_NOT_READABLE: Final = (
    "[REJECTREQUEST]this broker is a slave with slaveReadEnable=false: pull from its master"
)

FORBIDDEN_BROKER, FORBIDDEN_GROUP, FORBIDDEN_TOPIC = 1, 2, 3
FORBIDDEN_BROADCAST, FORBIDDEN_SUBSCRIPTION = 4, 5

CODES: Final = {
    GetMessageStatus.FOUND: ResponseCode.SUCCESS,
    GetMessageStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}
REMARKS: Final = {status: b'"%b"' % status.name.encode() for status in GetMessageStatus}

EXECUTED_FIELDS: Final = (
    "consumerGroup",
    "topic",
    "queueId",
    "queueOffset",
    "maxMsgNums",
    "sysFlag",
    "commitOffset",
    "suspendTimeoutMillis",
    "subscription",
    "subVersion",
    "expressionType",
    "lo",
)

REPLY: Final = (
    b'{"groupSysFlag":"%d","maxOffset":"%d","minOffset":"%d","nextBeginOffset":"%d",'
    b'"suggestWhichBrokerId":"%d","topicSysFlag":"%d"}'
)


class PullMessageProcessor:
    """Serves pulls; one instance per broker."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._counters = context.stats.new_cache()
        self._woken: list[SuspendedPull] = []
        self._unwrapping: set[asyncio.Future[bytes | RemotingCommand]] = set()
        limits = context.store.config
        self.max_count = limits.max_transfer_count_on_message_in_memory
        self._max_bytes = limits.max_transfer_bytes_on_message_in_memory
        self._is_slave = context.config.is_slave

    def pull(self, connection: "Connection", request: RemotingCommand) -> Reply:
        """PULL_MESSAGE, first execution: the pull may be suspended."""
        return self._execute(connection, request, None)

    def lite_pull(self, connection: "Connection", request: RemotingCommand) -> Reply:
        """LITE_PULL_MESSAGE: the same, with a separate switch."""
        if not self._context.config.lite_pull_message_enable:
            remark = f"the broker[{self._context.address}] for lite pull consumer is forbidden"
            return _forbidden(request, remark, FORBIDDEN_BROKER)
        return self._execute(connection, request, None)

    # ---- suspended pulls

    def arrived(self, pulls: list[SuspendedPull]) -> None:
        """Execute these pulls again after dispatch: messages have arrived for them.

        One wake-up per event-loop iteration: a pull then returns all messages dispatched together.
        """
        first = not self._woken
        self._woken += pulls
        if first:
            self._context.soon(self._answer_woken)

    def _answer_woken(self) -> None:
        woken, self._woken = self._woken, []
        self.resume(woken)

    def resume(self, pulls: list[SuspendedPull]) -> None:
        """Execute suspended pulls once more and send each result; none is suspended again."""
        for pull in pulls:
            connection = pull.connection
            if connection.closed:
                continue
            try:
                answer = self._execute(connection, pull.request, pull)
            except Exception as error:  # the other pulls still get their responses
                answer = _failed(pull, error)
            if isinstance(answer, Awaitable):
                self._send_later(pull, answer)
            elif answer is not None and not pull.request.is_oneway:
                connection.send(answer)

    def _send_later(self, pull: SuspendedPull, answer: Awaitable[bytes | RemotingCommand]) -> None:
        """Send the response to a resumed pull when it is ready."""
        task = asyncio.ensure_future(answer)
        self._unwrapping.add(task)

        def done(task: "asyncio.Future[bytes | RemotingCommand]") -> None:
            self._unwrapping.discard(task)
            if not task.cancelled():
                error = task.exception()
                failed = _failed(pull, error) if isinstance(error, Exception) else None
                pull.connection.send(failed or task.result())

        task.add_done_callback(done)

    # ---- one execution

    def _execute(
        self, connection: "Connection", request: RemotingCommand, held: SuspendedPull | None
    ) -> Reply:
        context = self._context
        if self._is_slave and not context.config.slave_read_enable:
            # As in Java 5, before any check of the request; 4.9 serves such pulls.
            return response(request, ResponseCode.SYSTEM_BUSY, SLAVE_NOT_READABLE)
        header = decode_header_fields(PullMessageRequestHeader, request.ext_fields)
        if header.topic not in context.mappings.details or header.lo is False:
            return self._execute_at(connection, request, held, header)
        segment = segment_pull(context.mappings, request, header)
        if isinstance(segment, RemotingCommand):
            return segment
        if not segment.is_local:
            return pull_elsewhere(context.mappings, request, segment)
        return self._execute_at(connection, request, held, segment.header, segment)

    def _execute_at(
        self,
        connection: "Connection",
        request: RemotingCommand,
        held: SuspendedPull | None,
        header: PullMessageRequestHeader,
        segment: SegmentPull | None = None,
    ) -> Reply:
        """Execute a pull from a queue of this broker; with its segment of a static topic."""
        context = self._context
        group = context.groups.find(header.consumer_group)
        topic = context.topics.get(header.topic)
        if group is None or topic is None or not self.may_read(header, group, topic):
            return self._refuse(request, header, group, topic)
        matcher = self._matcher(request, header, group)
        if isinstance(matcher, RemotingCommand):
            return matcher
        max_count = max(1, min(header.max_msg_nums, self.max_count))
        if context.config.cold_data_flow_control_enable and self._is_limited(header):
            if not self._pulls(header):
                remark = "This consumer group is reading cold data. It has been flow control"
                return response(request, ResponseCode.SYSTEM_BUSY, remark)
            if held is None and self._hold_cold(connection, request, header):
                return None
            max_count = 1
        offsets = context.offsets
        name = header.consumer_group
        moved = offsets.take_reset(name, header.topic, header.queue_id)
        if moved is not None:
            result = self._reset_result(header, moved)
        else:
            result = context.store.get_message(
                header.topic,
                header.queue_id,
                header.queue_offset,
                max_count,
                self._max_bytes,
                matcher=matcher.tags,
                record_matcher=matcher.properties,
                ext_matcher=matcher.ext,
            )
        if held is None:
            # As in Java, only the first execution commits: when a suspended pull is resumed, its
            # commit offset may be older than the committed one. A reset replaces it.
            if moved is None and header.sys_flag & PULL_COMMIT_OFFSET and header.commit_offset >= 0:
                offsets.commit(name, header.topic, header.queue_id, header.commit_offset)
            key = offset_key(header.topic, name)
            offsets.note_pull(key, header.queue_id, result.next_begin_offset)
        code = CODES.get(result.status)
        if code is None:
            # The queue is missing or empty. As in Java, only a pull from offset 0 may be suspended;
            # a pull from another offset is moved.
            moves = header.queue_offset != 0
            code = ResponseCode.PULL_OFFSET_MOVED if moves else ResponseCode.PULL_NOT_FOUND
        if code == ResponseCode.PULL_NOT_FOUND and held is None:
            context.stats.get_missed.add(1)
            if header.sys_flag & PULL_SUSPEND and self._suspend(
                connection, request, header, matcher
            ):
                return None
        if code == 0 and request.version < VERSION_THAT_UNWRAPS and is_batch_topic(topic):
            return self._reply_unwrapped(request, result, group, topic)
        if segment is not None:
            key = offset_key(topic.topic_name, group.group_name)
            self.count(key, result.message_count, result.total_bytes)
            return reply_shown(request, segment, result, code)
        return self._reply(request, result, code, group, topic)

    def may_read(
        self, header: PullMessageRequestHeader, group: SubscriptionGroupConfig, topic: TopicConfig
    ) -> bool:
        """Whether group, topic and broker permit reading, and the queue exists."""
        return bool(
            group.consume_enable
            and topic.perm & names.PERM_READ
            and 0 <= header.queue_id < topic.read_queue_nums
            and self._context.config.broker_permission & names.PERM_READ
        )

    async def _reply_unwrapped(
        self,
        request: RemotingCommand,
        result: GetMessageResult,
        group: SubscriptionGroupConfig,
        topic: TopicConfig,
    ) -> bytes:
        """Answer a client that cannot unwrap inner batches with one record per message."""
        data = b"".join(result.buffers)  # copied before the first await: files may be removed
        asked = int(request.ext_fields["queueOffset"])
        records = await collect_in_slices(unwrapped_records(data, asked), RECORDS_PER_SLICE)
        result.buffers = [memoryview(record) for record in records]
        result.message_count = len(records)
        result.total_bytes = sum(map(len, records))
        return self._reply(request, result, 0, group, topic)

    def _reply(
        self,
        request: RemotingCommand,
        result: GetMessageResult,
        code: int,
        group: SubscriptionGroupConfig,
        topic: TopicConfig,
    ) -> bytes:
        config = self._context.config
        ext = REPLY % (
            group.group_sys_flag,
            result.max_offset,
            result.min_offset,
            result.next_begin_offset,
            self._suggested_broker(group, result) if config.slave_read_enable else 0,
            topic.topic_sys_flag,
        )
        size = result.total_bytes if code == 0 else 0
        head = encode_reply_json(
            request.opaque, code, ext, remark_json=REMARKS[result.status], body_size=size
        )
        if not size:
            return head
        key = offset_key(topic.topic_name, group.group_name)
        self.count(key, result.message_count, result.total_bytes)
        if config.disable_consume_if_consumer_read_slowly:
            self._context.slow_consumers.note(group.group_name, result.behind_bytes)
        if result.suggest_slave and config.cold_data_flow_control_enable:
            now_ms = self._context.now_ms()
            self._context.cold_data.add(group.group_name, result.total_bytes, now_ms)
        # One copy, at most a pull's size limit: the slices do not outlive this call, so a slow
        # client cannot keep an expired file mapped.
        return b"".join((head, *result.buffers))

    def _suggested_broker(self, group: SubscriptionGroupConfig, result: GetMessageResult) -> int:
        """Return the id of the broker to pull from next, with slaveReadEnable.

        **Source:** RocketMQ DefaultPullMessageResultHandler, PullMessageProcessor.
        """
        return group.which_broker_when_consume_slowly if result.suggest_slave else group.broker_id

    def count(self, key: str, messages: int, size: int) -> None:
        """Add the messages of a response to the statistics of ``topic@group``."""
        counters = self._counters.get(key)
        stats = self._context.stats
        if counters is None:
            if len(self._counters) >= MAX_GET_COUNTERS:
                self._counters.clear()  # a cache: refilled by the next pulls
            counters = self._counters[key] = (
                stats.counter(counted.GROUP_GET_NUMS, key),
                stats.counter(counted.GROUP_GET_SIZE, key),
            )
        get_nums, get_size = counters
        get_nums.value += messages
        get_nums.calls += 1
        get_size.value += size
        get_size.calls += 1
        stats.get_found.value += 1
        stats.get_found.calls += 1
        stats.get_messages.value += messages
        stats.get_messages.calls += 1

    def _reset_result(self, header: PullMessageRequestHeader, moved: int) -> GetMessageResult:
        store = self._context.store
        return GetMessageResult(
            status=GetMessageStatus.OFFSET_RESET,
            next_begin_offset=moved,
            min_offset=store.get_min_offset(header.topic, header.queue_id),
            max_offset=store.get_max_offset(header.topic, header.queue_id),
        )

    def _suspend(
        self,
        connection: "Connection",
        request: RemotingCommand,
        header: PullMessageRequestHeader,
        matcher: Matcher,
    ) -> bool:
        context = self._context
        wait_ms = header.suspend_timeout_millis
        if not context.config.long_polling_enable:
            wait_ms = context.config.short_polling_time_mills
        if wait_ms <= 0:
            return False
        pull = SuspendedPull(connection, _suspended(request), header.topic, header.queue_id)
        pull.queue_offset = header.queue_offset
        pull.deadline_ms = context.clock.monotonic_ms() + min(wait_ms, MAX_SUSPEND_MS)
        pull.tag_match = matcher.tags
        pull.properties_match = matcher.properties
        pull.held_bytes += len(header.subscription or "") + matcher.held_bytes
        return self._hold(pull)

    def _hold(self, pull: SuspendedPull) -> bool:
        """Suspend a pull until its deadline; False if a limit is reached."""
        context = self._context
        if not context.holds.suspend(pull):
            return False
        if context.on_suspend is not None:
            context.on_suspend()
        return True

    # ---- cold data

    def _is_limited(self, header: PullMessageRequestHeader) -> bool:
        """Return whether this pull asks for cold data and its group has read too much of it.

        **Source:** RocketMQ ColdDataCgCtrService#isCgNeedColdDataFlowCtr.
        """
        context = self._context
        return context.cold_data.exceeded(
            header.consumer_group, context.now_ms()
        ) and context.store.is_cold(header.topic, header.queue_id, header.queue_offset)

    def _pulls(self, header: PullMessageRequestHeader) -> bool:
        """Return whether the group's application pulls; such pulls wait, others fail."""
        online = self._context.consumers.get(header.consumer_group)
        return online is not None and online.profile.consume_type == CONSUME_ACTIVELY

    def _hold_cold(
        self, connection: "Connection", request: RemotingCommand, header: PullMessageRequestHeader
    ) -> bool:
        """Suspend a pull for a fixed time; it then gets one message.

        **Source:** RocketMQ ColdDataPullRequestHoldService.
        """
        context = self._context
        # No message arrives in this queue: only the deadline resumes the pull.
        pull = SuspendedPull(connection, _suspended(request), header.topic, NO_QUEUE)
        pull.deadline_ms = context.clock.monotonic_ms() + COLD_HOLD_MS
        return self._hold(pull)

    # ---- filters and refusals

    def _matcher(
        self,
        request: RemotingCommand,
        header: PullMessageRequestHeader,
        group: SubscriptionGroupConfig,
    ) -> "Matcher | RemotingCommand":
        """Return the filter of this pull, from the request or the heartbeats, or a refusal."""
        context = self._context
        if header.sys_flag & PULL_SUBSCRIPTION:
            kind = header.expression_type or "TAG"
            expression = header.subscription or "*"
        else:
            found = self._subscription(request, header, group)
            if isinstance(found, RemotingCommand):
                return found
            kind, expression = found
            if not is_tag_type(kind) and context.config.enable_property_filter:
                return self._sql_matcher(request, header, (kind, expression))
        if not is_tag_type(kind) and not context.config.enable_property_filter:
            remark = f"The broker does not support consumer to filter message by {kind}"
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        if expression == "*" and is_tag_type(kind):
            return EVERYTHING
        if names.is_retry_topic(header.topic) and not is_tag_type(kind):
            return self._retry_matcher(header)
        try:
            return context.matchers.get(kind, expression)
        except RocketMQError as error:
            return response(
                request,
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                f"parse the consumer's subscription failed: {error.message}",
            )

    def _sql_matcher(
        self, request: RemotingCommand, header: PullMessageRequestHeader, sql: tuple[str, str]
    ) -> "Matcher | RemotingCommand":
        """Return the SQL92 filter that the group's heartbeats have registered, or a refusal.

        **Source:** RocketMQ PullMessageProcessor (FILTER_DATA_NOT_EXIST, FILTER_DATA_NOT_LATEST).
        """
        context = self._context
        if names.is_retry_topic(header.topic):
            return self._retry_matcher(header)
        try:
            matcher = context.matchers.get(*sql)
        except RocketMQError as error:
            remark = f"The broker's consumer filter data is not exist! {error.message}"
            return response(request, ResponseCode.FILTER_DATA_NOT_EXIST, remark)
        data = context.filters.get(header.topic, header.consumer_group)
        if data is not None and data.expression == sql[1]:
            if data.version < header.sub_version:
                remark = "the consumer's consumer filter data not latest"
                return response(request, ResponseCode.FILTER_DATA_NOT_LATEST, remark)
            return msgspec.structs.replace(matcher, ext=data.may_match)
        return matcher

    def _retry_matcher(self, header: PullMessageRequestHeader) -> Matcher:
        """Return the filter of retried messages: that of the group for their first topic.

        Everything passes without ``filterSupportRetry``, and if the group has no SQL92 filter for
        the topic.

        **Source:** RocketMQ ExpressionForRetryMessageFilter.
        """
        filters = self._context.filters
        group = names.group_of_retry_topic(header.topic) or ""
        if not self._context.config.filter_support_retry:
            return EVERYTHING

        def matches(raw: bytes) -> bool:
            properties = decode_properties(raw)
            data = filters.get(properties.get(props.PROPERTY_RETRY_TOPIC, ""), group)
            return data is None or data.evaluate(properties) is True

        own = filters.get(header.topic, group)  # of a subscription to the retry topic by SQL92
        return Matcher(properties=matches, ext=own.may_match if own is not None else None)

    def _subscription(
        self,
        request: RemotingCommand,
        header: PullMessageRequestHeader,
        group: SubscriptionGroupConfig,
    ) -> "tuple[str, str] | RemotingCommand":
        context = self._context
        online = context.consumers.get(header.consumer_group)
        name = header.consumer_group
        if online is None:
            remark = f"the consumer's group info not exist: {name}"
            return response(request, ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
        if not group.consume_broadcast_enable and online.broadcasting:
            remark = f"the consumer group[{name}] can not consume by broadcast way"
            return _forbidden(request, remark, FORBIDDEN_BROADCAST)
        if not context.groups.may_read(name, header.topic):
            remark = f"the consumer group[{name}] is forbidden for topic[{header.topic}]"
            return _forbidden(request, remark, FORBIDDEN_SUBSCRIPTION)
        data = online.subscriptions.get(header.topic)
        if data is None:
            remark = f"the consumer's subscription not exist: {name}, topic:{header.topic}"
            return response(request, ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
        if data.sub_version < header.sub_version:
            remark = "the consumer's subscription not latest"
            return response(request, ResponseCode.SUBSCRIPTION_NOT_LATEST, remark)
        return data.expression_type, data.sub_string

    def _refuse(
        self,
        request: RemotingCommand,
        header: PullMessageRequestHeader,
        group: SubscriptionGroupConfig | None,
        topic: TopicConfig | None,
    ) -> RemotingCommand:
        """Return the response for the failed check, in Java's order of checks."""
        config = self._context.config
        if not names.is_readable(config.broker_permission):
            remark = f"the broker[{self._context.address}] pulling message is forbidden"
            return _forbidden(request, remark, FORBIDDEN_BROKER)
        if group is None:
            return no_group(request, header.consumer_group)
        if not group.consume_enable:
            remark = f"subscription group no permission, {header.consumer_group}"
            return _forbidden(request, remark, FORBIDDEN_GROUP)
        if topic is None:
            return no_topic(request, header.topic)
        if not names.is_readable(topic.perm):
            remark = f"the topic[{header.topic}] pulling message is forbidden"
            return _forbidden(request, remark, FORBIDDEN_TOPIC)
        return response(
            request,
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
            f"topicConfig.readQueueNums:[{topic.read_queue_nums}] "
            f"consumer:[{header.consumer_group}]",
        )


def _failed(pull: SuspendedPull, error: Exception) -> RemotingCommand:
    if isinstance(error, RocketMQError):
        return response(pull.request, ResponseCode.SYSTEM_ERROR, error.message)
    log.error(
        "%s: suspended pull of %s, queue %d failed",
        pull.connection.remote_address,
        pull.topic,
        pull.queue_id,
        exc_info=error,
    )
    remark = f"{type(error).__name__}: {error}"
    return response(pull.request, ResponseCode.SYSTEM_ERROR, remark)


def _suspended(request: RemotingCommand) -> RemotingCommand:
    """Return the request reduced to the fields that its execution needs, to save memory."""
    ext = request.ext_fields
    fields = {name: ext[name] for name in EXECUTED_FIELDS if name in ext}
    return msgspec.structs.replace(request, ext_fields=fields, body=b"", remark=None, extra=None)


def _forbidden(request: RemotingCommand, remark: str, kind: int) -> RemotingCommand:
    return response(request, ResponseCode.NO_PERMISSION, remark, {"forbiddenType": str(kind)})


def make_handlers(processor: PullMessageProcessor) -> "dict[int, Handler]":
    """Return the handlers of this module, bound to one processor."""
    return {
        RequestCode.PULL_MESSAGE: processor.pull,
        RequestCode.LITE_PULL_MESSAGE: processor.lite_pull,
    }
