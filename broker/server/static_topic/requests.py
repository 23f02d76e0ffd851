"""Requests about queues of static topics: logical queue ids and offsets, other brokers' segments.

A request with ``lo`` false names a queue of this broker, as one broker asks another. A queue that
another broker leads is refused with NOT_LEADER_FOR_QUEUE: the client then updates its route.

Java converts the requests of SERVED, pulls and sends only. Consume statistics (208, 317), offset
reset (222) and the POP requests name queues of the broker, and Java's tools convert the statistics:
a broker that converted them too would be misread.

**Source:** RocketMQ TopicQueueMappingManager#rewriteForStaticTopic, AdminBrokerProcessor
(rewriteRequestForStaticTopic, handleGetMaxOffset …), ConsumerManageProcessor.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from broker.common.java import parse_number
from broker.errors import ClientError, RocketMQError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.command import request as make_request
from broker.server.static_topic.mapping import Item, LogicalQueue, logical_offset, queue_offset
from broker.server.static_topic.mapping_table import TopicQueueMappingManager

if TYPE_CHECKING:
    from broker.remoting.server import Connection, Handler

Serve = Callable[["StaticRequests", "Connection", RemotingCommand, LogicalQueue], Awaitable[int]]


def not_leader(request: RemotingCommand, topic: str, queue_id: int, bname: str) -> RemotingCommand:
    """Return NOT_LEADER_FOR_QUEUE."""
    remark = (
        f"queue {queue_id} of static topic {topic} is not led by broker {bname}: update the route"
    )
    return response(request, ResponseCode.NOT_LEADER_FOR_QUEUE, remark)


def _offset(answer: RemotingCommand, name: str = "offset") -> int:
    """Return a number of a response; ClientError if the other broker sent none."""
    number = parse_number(answer.ext_fields.get(name, ""), -1)
    if number is None:
        raise ClientError(f"the broker of the segment sent no valid {name}")
    return number


class _NotFoundError(Exception):
    """The response to the original request is this one of a segment."""

    def __init__(self, answer: RemotingCommand) -> None:
        super().__init__(answer.remark)
        self.answer = answer


class StaticRequests:
    """Serves the requests of :data:`SERVED`; ``handlers`` serve them for queues of this broker."""

    def __init__(self, mappings: TopicQueueMappingManager, handlers: "dict[int, Handler]") -> None:
        self._mappings = mappings
        self._handlers = handlers

    def wrap(self, code: int) -> "Handler":
        """Return the handler of a code for queues of every kind of topic."""
        inner, mappings = self._handlers[code], self._mappings

        def handle(connection: "Connection", request: RemotingCommand) -> object:
            fields = request.ext_fields
            if not mappings.details or fields.get("topic") not in mappings.details:
                return inner(connection, request)
            if fields.get("lo") == "false":
                return inner(connection, request)
            return self._serve(connection, request)

        return handle  # type: ignore[return-value]

    async def _serve(self, connection: "Connection", request: RemotingCommand) -> RemotingCommand:
        fields = request.ext_fields
        topic, text = fields["topic"], fields.get("queueId", "-1")
        queue_id = parse_number(text, -1)
        queue_id = -1 if queue_id is None else queue_id
        queue = self._mappings.queue(topic, queue_id)
        detail = self._mappings.get(topic)
        bname = (detail.bname if detail is not None else None) or ""
        if queue is None or not queue.is_led:
            return not_leader(request, topic, queue_id, bname)
        name, serve = SERVED[request.code]
        try:
            value = await serve(self, connection, request, queue)
        except _NotFoundError as error:
            answer = response(request, error.answer.code, error.answer.remark or "")
            answer.ext_fields = error.answer.ext_fields
            return answer
        except RocketMQError as error:
            return response(request, ResponseCode.SYSTEM_ERROR, error.message)
        return response(request, ext={name: str(value)} if name else {})

    async def _ask(
        self, connection: "Connection", request: RemotingCommand, item: Item, **changes: object
    ) -> RemotingCommand:
        """Send the request for the queue of a segment, to this broker or another one."""
        fields = {**request.ext_fields, "queueId": str(item.queue_id), "lo": "false"}
        fields.update({name: str(value) for name, value in changes.items()})
        command = make_request(request.code, fields)
        topic = fields["topic"]
        detail = self._mappings.get(topic)
        if detail is not None and item.bname == detail.bname:
            answer = self._handlers[request.code](connection, command)
            assert isinstance(answer, RemotingCommand)
            return answer
        assert self._mappings.others is not None
        fields["bname"] = item.bname
        return await self._mappings.others.ask(item.bname, topic, command)

    async def _number(
        self, connection: "Connection", request: RemotingCommand, item: Item, name: str = "offset"
    ) -> int:
        answer = await self._ask(connection, request, item)
        if answer.code != 0:
            raise _NotFoundError(answer)
        return _offset(answer, name)

    async def max_offset(
        self, connection: "Connection", request: RemotingCommand, queue: LogicalQueue
    ) -> int:
        """GET_MAX_OFFSET: that of the leader, or of the segment before while it is undecided.

        Java asks the broker of that segment for the leader's queue id, so that it returns the end
        of another queue unless both segments have the same id.

        **Source:** RocketMQ AdminBrokerProcessor#rewriteRequestForStaticTopic.
        """
        item = queue.newest_decided
        offset = await self._number(connection, request, item)
        return max(queue.max_mapped_offset, logical_offset(item, offset))

    async def min_offset(
        self, connection: "Connection", request: RemotingCommand, queue: LogicalQueue
    ) -> int:
        """GET_MIN_OFFSET: that of the oldest segment."""
        first = queue.item_at(0)
        return logical_offset(first, await self._number(connection, request, first))

    async def search_offset(
        self, connection: "Connection", request: RemotingCommand, queue: LogicalQueue
    ) -> int:
        """SEARCH_OFFSET_BY_TIMESTAMP: in the first segment with a message at or after the time."""
        decided = [item for item in queue.items if item.logic_offset >= 0]
        offset = 0
        for item in decided:
            offset = await self._number(connection, request, item)
            if item.start_offset <= offset and not 0 <= item.end_offset <= offset:
                return logical_offset(item, offset)
        return logical_offset(decided[-1], offset) if decided else 0

    async def earliest(
        self, connection: "Connection", request: RemotingCommand, queue: LogicalQueue
    ) -> int:
        """GET_EARLIEST_MSG_STORETIME: of the oldest segment."""
        return await self._number(connection, request, queue.item_at(0), "timestamp")

    async def query_offset(
        self, connection: "Connection", request: RemotingCommand, queue: LogicalQueue
    ) -> int:
        """QUERY_CONSUMER_OFFSET: of the newest segment that has one."""
        answer = None
        only = len(queue.items) == 1 and not queue.leader.logic_offset
        if only:
            answer = await self._ask(connection, request, queue.leader)
        else:
            for item in reversed(queue.items):
                if item.logic_offset < 0:
                    continue
                answer = await self._ask(connection, request, item, setZeroIfNotFound="false")
                if answer.code == 0:
                    return logical_offset(item, _offset(answer))
        if answer is None or answer.code != 0:
            remark = "Not found, maybe this group consumer boot first"
            raise _NotFoundError(answer or response(request, ResponseCode.QUERY_NOT_FOUND, remark))
        return logical_offset(queue.leader, _offset(answer))

    async def update_offset(
        self, connection: "Connection", request: RemotingCommand, queue: LogicalQueue
    ) -> int:
        """UPDATE_CONSUMER_OFFSET: in the segment that contains the offset."""
        text = request.ext_fields.get("commitOffset", "-1")
        logical = parse_number(text, -1)
        if logical is None:
            raise ClientError(f"commitOffset {text!r:.40} is not an offset")
        item = queue.item_at(logical) if logical >= 0 else queue.leader
        offset = queue_offset(item, logical) if logical >= 0 else logical
        answer = await self._ask(connection, request, item, commitOffset=offset)
        if answer.code != 0:
            raise _NotFoundError(answer)
        return 0


# code -> the field of the response, empty if it has none; the method
SERVED: dict[int, tuple[str, Serve]] = {
    RequestCode.GET_MAX_OFFSET: ("offset", StaticRequests.max_offset),
    RequestCode.GET_MIN_OFFSET: ("offset", StaticRequests.min_offset),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: ("offset", StaticRequests.search_offset),
    RequestCode.GET_EARLIEST_MSG_STORETIME: ("timestamp", StaticRequests.earliest),
    RequestCode.QUERY_CONSUMER_OFFSET: ("offset", StaticRequests.query_offset),
    RequestCode.UPDATE_CONSUMER_OFFSET: ("", StaticRequests.update_offset),
}
