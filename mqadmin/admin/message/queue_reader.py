"""QueueReader: reads queues by offset, without joining a group.

A pull request contains its subscription (flag SUBSCRIPTION), so no heartbeat is required, and it
never commits an offset. The broker only checks that the group exists: TOOLS_CONSUMER exists on
every broker.

**Source:** RocketMQ ``DefaultMQPullConsumerImpl``, ``PullAPIWrapper``, ``MQClientAPIImpl``.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from broker.common import sysflag
from broker.common.group import TOOLS_CONSUMER_GROUP
from broker.common.message_queue import MessageQueue
from broker.errors import ClientError, RocketMQError
from broker.message.message import MessageExt
from broker.message.record import scan_records
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.rpc.caller import Caller, Reply, build_request
from broker.remoting.rpc.route_cache import RouteCache

#: Messages requested per pull. **Source:** MessageStoreConfig#maxTransferCountOnMessageInMemory.
PULL_BATCH = 32

FOUND = "FOUND"
NO_NEW_MESSAGE = "NO_NEW_MSG"
NO_MATCHED_MESSAGE = "NO_MATCHED_MSG"
OFFSET_ILLEGAL = "OFFSET_ILLEGAL"

_STATUS = {
    ResponseCode.SUCCESS: FOUND,
    ResponseCode.PULL_NOT_FOUND: NO_NEW_MESSAGE,
    ResponseCode.PULL_RETRY_IMMEDIATELY: NO_MATCHED_MESSAGE,
    ResponseCode.PULL_OFFSET_MOVED: OFFSET_ILLEGAL,
}
PULL_ACCEPTS = tuple(_STATUS)


class PullResult(msgspec.Struct, frozen=True, kw_only=True):
    """One response to a pull.

    ``status`` is FOUND, NO_NEW_MSG, NO_MATCHED_MSG or OFFSET_ILLEGAL; ``remark`` the broker's
    remark; ``messages`` those whose tag text matches, in queue order.
    """

    status: str
    remark: str
    next_begin_offset: int
    min_offset: int
    max_offset: int
    messages: Sequence[MessageExt] = ()


class QueueReader:
    """Reads queues of any topic by queue offset."""

    def __init__(
        self, caller: Caller, *, group: str = TOOLS_CONSUMER_GROUP, routes: RouteCache | None = None
    ) -> None:
        self.caller = caller
        self._group = group
        self.routes = routes or RouteCache(caller)

    def address(self, queue: MessageQueue) -> str:
        """Return the address to read a queue from; ClientError if its broker has none."""
        address = self.routes.get(queue.topic).reader(queue.broker_name)
        if address is None:
            raise ClientError(f"broker {queue.broker_name} of topic {queue.topic} has no address")
        return address

    def pull(
        self,
        queue: MessageQueue,
        queue_offset: int,
        *,
        max_messages: int = PULL_BATCH,
        tags: str = "*",
        suspend_ms: int = 0,
    ) -> PullResult:
        """Read up to ``max_messages`` from ``queue_offset`` on.

        With ``suspend_ms`` the broker suspends a pull without messages for up to that time. Raises
        BrokerError for a refusal (no such topic or queue, no permission), RemotingError without a
        response.
        """
        address, command = self.pull_request(
            queue, queue_offset, max_messages=max_messages, tags=tags, suspend_ms=suspend_ms
        )
        reply = self.caller.send(address, command, accept=PULL_ACCEPTS)
        return read_pull(reply, tags)

    def pull_request(
        self,
        queue: MessageQueue,
        queue_offset: int,
        *,
        max_messages: int = PULL_BATCH,
        tags: str = "*",
        sql: str | None = None,
        suspend_ms: int = 0,
    ) -> tuple[str, Any]:
        """Return address and request of a pull, for reading many queues at once.

        ``sql`` is an SQL92 expression and replaces ``tags``.
        """
        flag = sysflag.PULL_SUBSCRIPTION | (sysflag.PULL_SUSPEND if suspend_ms else 0)
        fields = {
            "consumer_group": self._group,
            "topic": queue.topic,
            "queue_id": queue.queue_id,
            "queue_offset": queue_offset,
            "max_msg_nums": max_messages,
            "sys_flag": flag,
            "commit_offset": 0,
            "suspend_timeout_millis": suspend_ms,
            "subscription": tags if sql is None else sql,
            "sub_version": 0,
            "expression_type": "TAG" if sql is None else "SQL92",
        }
        return self.address(queue), build_request(RequestCode.PULL_MESSAGE, fields)

    def min_offsets(self, queues: Sequence[MessageQueue]) -> list[int | RocketMQError]:
        """Return the min offset of each queue; the requests are sent together."""
        # A broker answers -1 for an inner-batch queue without messages.
        return [
            max(0, low) if isinstance(low, int) else low
            for low in self._offsets(queues, RequestCode.GET_MIN_OFFSET)
        ]

    def max_offsets(self, queues: Sequence[MessageQueue]) -> list[int | RocketMQError]:
        """Return the max offset (one past the last message) of each queue; sent together."""
        return self._offsets(queues, RequestCode.GET_MAX_OFFSET)

    def search_offsets(
        self, queues: Sequence[MessageQueue], timestamp_ms: int
    ) -> list[int | RocketMQError]:
        """Return the first queue offset stored at or after a time, of each queue.

        **Source:** ``AdminBrokerProcessor#searchOffsetByTimestamp``. A 4.9 broker returns the
        nearest message instead; a caller that needs the exact bound must check store times.
        """
        return self._offsets(queues, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=timestamp_ms)

    def _offsets(
        self, queues: Sequence[MessageQueue], code: int, **fields: Any
    ) -> list[int | RocketMQError]:
        requests = [
            (
                self.address(queue),
                build_request(code, {"topic": queue.topic, "queue_id": queue.queue_id, **fields}),
            )
            for queue in queues
        ]
        return [
            answer if isinstance(answer, RocketMQError) else int(answer.header.offset)
            for answer in self.caller.call_all(requests)
        ]

    def scan(
        self,
        queue: MessageQueue,
        begin: int,
        end: int | None = None,
        *,
        tags: str = "*",
        max_messages: int = PULL_BATCH,
    ) -> Iterator[MessageExt]:
        """Yield messages with ``begin <= queue offset < end``; ``end`` None: current max offset.

        Gaps (expired or filtered messages) are skipped.
        """
        position = begin
        while end is None or position < end:
            result = self.pull(queue, position, tags=tags, max_messages=max_messages)
            if end is None:
                end = result.max_offset
            for message in result.messages:
                if message.queue_offset >= end:
                    return
                yield message
            if result.status == NO_NEW_MESSAGE or result.next_begin_offset <= position:
                return
            position = result.next_begin_offset


def read_pull(reply: Reply, tags: str = "*") -> PullResult:
    """Decode the response of a pull and compare tag texts: the broker compares only hashes.

    **Source:** RocketMQ ``PullAPIWrapper#processPullResult``.
    """
    header = reply.header
    status = _STATUS[reply.code]
    messages: list[MessageExt] = []
    if status == FOUND:
        messages = list(scan_records(reply.body))
        wanted = wanted_tags(tags)
        if wanted is not None:
            messages = [message for message in messages if message.tags in wanted]
    return PullResult(
        status=status,
        remark=reply.command.remark or "",
        next_begin_offset=header.next_begin_offset,
        min_offset=header.min_offset,
        max_offset=header.max_offset,
        messages=messages,
    )


def wanted_tags(expression: str) -> frozenset[str] | None:
    """Return the tags of ``A || B``, None for all tags."""
    words = frozenset(word.strip() for word in expression.split("||")) - {""}
    return None if not words or "*" in words else words
