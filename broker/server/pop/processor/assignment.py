"""QUERY_ASSIGNMENT (400), SET_MESSAGE_REQUEST_MODE (401), GET_ALL_MESSAGE_REQUEST_MODE (402).

Push consumers of 5.x ask the broker which queues they own and whether to pull or to pop them.

**Source:** RocketMQ QueryAssignmentProcessor, AdminBrokerProcessor#getAllMessageRequestMode.
"""

from typing import TYPE_CHECKING

from broker.common.message_queue import MessageQueue
from broker.common.topic import is_retry_topic
from broker.errors import RocketMQError
from broker.remoting.protocol.body.consumer.lock import (
    MessageQueueAssignment,
    MessageRequestModeSerializeWrapper,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
)
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.server.context import BrokerContext
from broker.server.pop.assignment.allocation import Member, assign
from broker.server.pop.assignment.request_mode import MODES, RequestMode
from broker.server.pop.assignment.route_lookup import RouteLookup
from broker.server.pop.service import PopService
from broker.server.processor.responses import no_group, no_topic, not_written

if TYPE_CHECKING:
    from broker.remoting.server import Connection

BROADCASTING = "BROADCASTING"


class AssignmentProcessor:
    """Serves assignments and request modes; one instance per broker."""

    def __init__(self, context: BrokerContext, pop: PopService, routes: RouteLookup) -> None:
        self._context = context
        self._pop = pop
        self._routes = routes

    async def query(self, connection: "Connection", request: RemotingCommand) -> RemotingCommand:
        """QUERY_ASSIGNMENT: the queues of one member; without the field: not decidable."""
        body = QueryAssignmentRequestBody.from_bytes(request.body_bytes())
        topic, group = body.topic or "", body.consumer_group or ""
        config = self._context.config
        default = RequestMode(
            mode=config.default_message_request_mode,
            pop_share_queue_num=config.default_pop_share_queue_num,
        )
        mode = self._pop.modes.effective(topic, group, default)
        queues = await self._assigned(body, mode)
        if queues is None:
            return response(request, body=QueryAssignmentResponseBody().to_bytes())
        assignments = [
            MessageQueueAssignment(message_queue=queue, mode=mode.mode) for queue in queues
        ]
        answer = QueryAssignmentResponseBody(message_queue_assignments=assignments)
        return response(request, body=answer.to_bytes())

    async def _assigned(
        self, body: QueryAssignmentRequestBody, mode: RequestMode
    ) -> list[MessageQueue] | None:
        queues = await self._routes.queues(body.topic or "")
        if queues is None:
            return None
        if body.message_model == BROADCASTING:
            return queues
        if not self._context.config.server_load_balancer_enable:
            return queues
        online = self._context.consumers.get(body.consumer_group or "")
        if online is None:
            return None
        member = Member(body.client_id or "", online.client_ids(), body.strategy_name or "")
        return assign(queues, mode, member)

    async def set_mode(self, connection: "Connection", request: RemotingCommand) -> RemotingCommand:
        """SET_MESSAGE_REQUEST_MODE: pull or pop a topic; answered when the file contains it."""
        body = SetMessageRequestModeRequestBody.from_bytes(request.body_bytes())
        topic, group = body.topic or "", body.consumer_group or ""
        if is_retry_topic(topic):
            remark = "retry topic is not allowed to set mode"
            return response(request, ResponseCode.NO_PERMISSION, remark)
        if topic not in self._context.topics:
            return no_topic(request, topic)
        if self._context.groups.find(group) is None:
            return no_group(request, group)
        if body.mode not in MODES:
            remark = f"message request mode {body.mode[:80]}: use PULL or POP"
            return response(request, ResponseCode.INVALID_PARAMETER, remark)
        if not self._pop.modes.put(body):
            return response(request, ResponseCode.SYSTEM_ERROR, "too many request modes")
        try:
            await self._pop.modes.persist()
        except (RocketMQError, OSError) as error:
            return not_written(request, error)
        return response(request)

    def all_modes(self, connection: "Connection", request: RemotingCommand) -> RemotingCommand:
        """GET_ALL_MESSAGE_REQUEST_MODE: the whole table, for slaves."""
        body = MessageRequestModeSerializeWrapper(
            message_request_mode_map=self._pop.modes.snapshot()
        )
        return response(request, body=body.to_bytes())
