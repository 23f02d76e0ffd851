"""The request mode of consumer groups: whether push consumers receive by PULL or by POP.

The mode is kept by each broker, per topic and group (messageRequestMode.json). It is applied by
brokers that assign queues (QUERY_ASSIGNMENT), which Java push consumers 5.x ask for with
clientRebalance=false.

**Source:** RocketMQ QueryAssignmentProcessor#setMessageRequestMode, MessageRequestModeManager.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from broker.common.topic import is_retry_topic
from broker.errors import ClientError, RocketMQError
from broker.remoting.protocol.body.consumer.lock import (
    QueryAssignmentRequestBody,
    SetMessageRequestModeRequestBody,
)
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import Reply, build_request
from mqadmin.admin.change import State, apply_plan
from mqadmin.admin.connections import consumer_connections
from mqadmin.admin.failure import describe, part_errors
from mqadmin.admin.offset.progress import route_of
from mqadmin.admin.result import Change, Listing, Outcome, Plan, Request, TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target

PULL, POP = "PULL", "POP"


class ModeRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The request mode that a broker has stored for a group and a topic."""

    group: str
    topic: str
    broker_name: str | None
    mode: str
    pop_share_queue_num: int


class AssignmentRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A queue that the brokers assign to a client; ``queueId`` -1: any queue of the broker.

    A client without a row has no queue; ``mode`` None: the broker does not assign queues, so that
    the clients do.
    """

    client_id: str
    topic: str
    broker_name: str | None
    queue_id: int | None
    mode: str | None


class ModeAdmin:
    """Show and set the request mode of groups."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin

    def modes(
        self,
        group: str,
        *,
        topic: str | None = None,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> Listing[ModeRecord]:
        """Return the stored modes of a group; no items: every topic has the broker's default."""
        targets = self._admin.topology.masters(cluster=cluster, broker=broker)
        good, errors = part_errors(targets, self._tables(targets))
        items = [
            ModeRecord(
                group=group,
                topic=name,
                broker_name=target.broker_name,
                mode=groups[group].mode,
                pop_share_queue_num=groups[group].pop_share_queue_num,
            )
            for target, reply in good
            for name, groups in sorted(reply.value.message_request_mode_map.items())
            if group in groups and topic in (None, name)
        ]
        return Listing(items=items, errors=errors)

    def plan(
        self,
        group: str,
        topic: str,
        mode: str,
        *,
        share: int = 0,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> Plan:
        """Plan a mode on the masters of a topic, or on the selected brokers.

        ``share`` is popShareQueueNum: how many clients further than its own share a queue; 0:
        every client pops from all queues. ClientError for a retry topic or without a target.
        """
        if is_retry_topic(topic):
            raise ClientError(
                f"{topic} is a retry topic, which has no mode of its own",
                "its messages are received in the mode of the topic",
            )
        targets = self._targets(topic, cluster, broker)
        after = {"mode": mode, "popShareQueueNum": share}
        body = SetMessageRequestModeRequestBody(
            topic=topic, consumer_group=group, mode=mode, pop_share_queue_num=share
        ).to_bytes()
        good, errors = part_errors(targets, self._tables(targets))
        changes = []
        for target, reply in good:
            before = _state(reply, topic, group)
            request = Request(
                address=target.address, code=RequestCode.SET_MESSAGE_REQUEST_MODE, body=body
            )
            changes.append(
                Change(
                    target=target.label,
                    address=target.address,
                    action="set",
                    before=before,
                    after=after,
                    request=None if before == after else request,
                )
            )
        return Plan(
            kind="consumer.mode", subject=f"{topic}@{group}", changes=changes, errors=errors
        )

    def apply(self, plan: Plan) -> Outcome:
        """Apply a plan; see :func:`~mqadmin.admin.change.apply_plan`."""
        self._admin.renew()
        return apply_plan(self._admin, plan, self._states)

    def assignments(self, group: str, topic: str) -> Listing[AssignmentRecord]:
        """Return the queues that a broker of the topic assigns to each connected client."""
        connected = consumer_connections(self._admin, group)
        targets = self._targets(topic, None, None)
        bodies = [
            QueryAssignmentRequestBody(
                topic=topic,
                consumer_group=group,
                client_id=client.client_id,
                strategy_name="AVG",
                message_model=connected.message_model,
            ).to_bytes()
            for client in connected.connections
        ]
        answers = self._admin.call_all(
            [
                (targets[0].address, build_request(RequestCode.QUERY_ASSIGNMENT, {}, body))
                for body in bodies
            ]
        )
        items: list[AssignmentRecord] = []
        errors: list[TargetError] = [*connected.errors]
        for client, answer in zip(connected.connections, answers, strict=True):
            if isinstance(answer, RocketMQError):
                errors.append(describe(answer, address=targets[0].address, target=client.client_id))
                continue
            items += _assigned(client.client_id, topic, answer.value.message_queue_assignments)
        return Listing(items=items, errors=errors)

    def _targets(self, topic: str, cluster: str | None, broker: str | None) -> Sequence[Target]:
        if cluster is not None or broker is not None:
            return self._admin.topology.masters(cluster=cluster, broker=broker)
        names = set(route_of(self._admin, topic).broker_names())
        return [target for target in self._admin.topology.masters() if target.broker_name in names]

    def _tables(self, targets: Sequence[Target]) -> Sequence[Reply | RocketMQError]:
        return self._admin.call_all(
            [
                (target.address, build_request(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, {}))
                for target in targets
            ]
        )

    def _states(self, plan: Plan) -> Sequence[State | RocketMQError]:
        topic, _, group = plan.subject.rpartition("@")
        answers = self._tables([Target(address=change.address) for change in plan.changes])
        return [
            answer if isinstance(answer, RocketMQError) else _state(answer, topic, group)
            for answer in answers
        ]


def _state(reply: Reply, topic: str, group: str) -> dict[str, Any] | None:
    found = reply.value.message_request_mode_map.get(topic, {}).get(group)
    if found is None:
        return None
    return {"mode": found.mode, "popShareQueueNum": found.pop_share_queue_num}


def _assigned(client_id: str, topic: str, assignments: Any) -> list[AssignmentRecord]:
    if assignments is None:
        return [
            AssignmentRecord(
                client_id=client_id, topic=topic, broker_name=None, queue_id=None, mode=None
            )
        ]
    return [
        AssignmentRecord(
            client_id=client_id,
            topic=one.message_queue.topic if one.message_queue else topic,
            broker_name=one.message_queue.broker_name if one.message_queue else None,
            queue_id=one.message_queue.queue_id if one.message_queue else None,
            mode=one.mode,
        )
        for one in assignments
    ]
