"""MQClientAPI: typed calls of the client to brokers and name servers.

**Source:** RocketMQ ``MQClientAPIImpl``.
"""

from collections.abc import Collection, Sequence
from typing import Any

from broker.client.instance.name_servers import NameServers
from broker.client.instance.transport import Transport
from broker.common.message_queue import MessageQueue
from broker.errors import BrokerError
from broker.remoting.protocol.body.consumer.lock import LockBatchRequestBody
from broker.remoting.protocol.body.namesrv.route import TopicRouteData
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.rpc.caller import Reply, build_request

UNREGISTER_TIMEOUT_MS = 3_000
"""Longest wait for the response to UNREGISTER_CLIENT: a client that closes waits for it, and a
broker that does not respond removes the client anyway when its heartbeats end."""

_SUCCESS_ONLY = (ResponseCode.SUCCESS,)


class MQClientAPI:
    """Requests by code and typed fields; ``timeout_ms`` is the default of each call."""

    def __init__(
        self, transport: Transport, name_servers: NameServers, *, timeout_ms: float
    ) -> None:
        self.transport = transport
        self.name_servers = name_servers
        self.timeout_ms = timeout_ms

    async def call(
        self,
        address: str,
        code: int,
        body: bytes = b"",
        *,
        accept: Collection[int] = _SUCCESS_ONLY,
        timeout_ms: float | None = None,
        **fields: Any,
    ) -> Reply:
        """Call one peer; BrokerError for a response code that is not in ``accept``."""
        return await self.send(
            address, build_request(code, fields, body), accept=accept, timeout_ms=timeout_ms
        )

    async def send(
        self,
        address: str,
        command: RemotingCommand,
        *,
        accept: Collection[int] = _SUCCESS_ONLY,
        timeout_ms: float | None = None,
    ) -> Reply:
        """Send a request that is already built; otherwise as :meth:`call`."""
        limit_ms = self.timeout_ms if timeout_ms is None else timeout_ms
        answer = await self.transport.call(address, command, limit_ms)
        if answer.code not in accept:
            raise BrokerError(answer.code, answer.remark or "", address, request_code=command.code)
        return Reply(address, command.code, answer)

    async def oneway(self, address: str, code: int, body: bytes = b"", **fields: Any) -> None:
        """Send a one-way request."""
        await self.transport.oneway(address, build_request(code, fields, body), self.timeout_ms)

    # ---- name server

    async def topic_route(self, topic: str) -> TopicRouteData | None:
        """Return the route of a topic; None if the name server does not know it."""
        command = build_request(
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            {"topic": topic, "accept_standard_json_only": True},
        )
        answer = await self.name_servers.call(command, self.timeout_ms)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        current = self.name_servers.current
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark or "", current, request_code=command.code)
        data: TopicRouteData = Reply(current, command.code, answer).value
        return data

    # ---- queues and offsets

    async def max_offset(
        self, address: str, queue: MessageQueue, timeout_ms: float | None = None
    ) -> int:
        """Return the offset that the next message of the queue gets."""
        return await self._offset(address, RequestCode.GET_MAX_OFFSET, queue, timeout_ms)

    async def min_offset(self, address: str, queue: MessageQueue) -> int:
        """Return the offset of the first message that the queue still has, 0 if it had none."""
        # A broker answers -1 for an inner-batch queue without messages.
        return max(0, await self._offset(address, RequestCode.GET_MIN_OFFSET, queue))

    async def search_offset(self, address: str, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the first offset stored at or after a time."""
        reply = await self.call(
            address,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            topic=queue.topic,
            queue_id=queue.queue_id,
            timestamp=timestamp_ms,
        )
        return int(reply.header.offset)

    async def _offset(
        self, address: str, code: int, queue: MessageQueue, timeout_ms: float | None = None
    ) -> int:
        reply = await self.call(
            address, code, timeout_ms=timeout_ms, topic=queue.topic, queue_id=queue.queue_id
        )
        return int(reply.header.offset)

    async def consumer_offset(self, address: str, group: str, queue: MessageQueue) -> int | None:
        """Return the committed offset of a group; None if it has none."""
        reply = await self.call(
            address,
            RequestCode.QUERY_CONSUMER_OFFSET,
            accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
        )
        return None if reply.code == ResponseCode.QUERY_NOT_FOUND else int(reply.header.offset)

    async def update_consumer_offset(
        self, address: str, group: str, queue: MessageQueue, offset: int
    ) -> None:
        """Commit an offset."""
        await self.call(
            address,
            RequestCode.UPDATE_CONSUMER_OFFSET,
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
        )

    # ---- groups

    async def consumer_ids(self, address: str, group: str) -> list[str]:
        """Return the client ids of a group's members; BrokerError if the group has none."""
        reply = await self.call(
            address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumer_group=group
        )
        return list(reply.value.consumer_id_list)

    async def lock_queues(
        self, address: str, group: str, client_id: str, queues: Sequence[MessageQueue]
    ) -> set[MessageQueue]:
        """Lock queues of one broker for this client; returns those it now holds."""
        body = LockBatchRequestBody(consumer_group=group, client_id=client_id, mq_set=list(queues))
        reply = await self.call(address, RequestCode.LOCK_BATCH_MQ, body.to_bytes())
        return set(reply.value.lock_ok_mq_set)

    async def unlock_queues(
        self, address: str, group: str, client_id: str, queues: Sequence[MessageQueue]
    ) -> None:
        """Unlock queues of one broker; one-way, as Java does."""
        body = LockBatchRequestBody(consumer_group=group, client_id=client_id, mq_set=list(queues))
        await self.oneway(address, RequestCode.UNLOCK_BATCH_MQ, body.to_bytes())

    @property
    def unregister_timeout_ms(self) -> float:
        """Longest wait of a client that leaves a group."""
        return min(self.timeout_ms, UNREGISTER_TIMEOUT_MS)

    async def unregister(
        self, address: str, client_id: str, *, producer_group: str = "", consumer_group: str = ""
    ) -> None:
        """Remove this client from a group at one broker."""
        await self.call(
            address,
            RequestCode.UNREGISTER_CLIENT,
            timeout_ms=self.unregister_timeout_ms,
            client_id=client_id,
            producer_group=producer_group or None,
            consumer_group=consumer_group or None,
        )
