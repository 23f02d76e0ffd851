"""Copying the committed offsets of a group to another one, for one topic.

The offset of each queue is committed for the target group and read back: a broker with a pending
reset answers SUCCESS to a commit and ignores it. Java copies the offsets of every topic of the
source group and reads nothing back.

**Source:** RocketMQ ``CloneGroupOffsetCommand``, ``ConsumerManageProcessor#updateConsumerOffset``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from broker.common.message_queue import MessageQueue
from broker.errors import ClientError, RocketMQError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.change import State, apply_plan
from mqadmin.admin.connections import consumer_connections
from mqadmin.admin.failure import describe
from mqadmin.admin.offset.commit import commit_all
from mqadmin.admin.offset.progress import committed_offsets, route_of
from mqadmin.admin.result import Change, Outcome, Plan, Request, TargetError
from mqadmin.admin.session import AdminSession


class OffsetCloner:
    """Plans and applies a copy of offsets; ``apply`` belongs to the plan made before."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin

    def plan(self, source: str, target: str, topic: str) -> Plan:
        """Plan to commit the offsets of ``source`` in ``topic`` for ``target``.

        Queues without a committed offset of the source are left out. ClientError for one and the
        same group, for a source without offsets and for a target with connected clients, which
        would overwrite them.
        """
        if source == target:
            raise ClientError(f"group {source} is the source and the target")
        connected = consumer_connections(self._admin, target)
        if connected.connections:
            raise ClientError(
                f"{len(connected.connections)} clients of group {target} are connected: they would "
                "overwrite the offsets",
                f"stop them; mqadmin consumer connections {target} lists them",
            )
        errors: list[TargetError] = [*connected.errors]
        queues = self._queues(topic)
        found = committed_offsets(self._admin, source, queues)
        present = committed_offsets(self._admin, target, queues)
        changes: list[Change] = []
        for (address, queue), offset, now in zip(queues, found, present, strict=True):
            failed = next((one for one in (offset, now) if isinstance(one, RocketMQError)), None)
            if failed is not None:
                errors.append(describe(failed, address=address, target=_label(queue)))
            elif isinstance(offset, int):
                before = None if now is None else {"consumerOffset": now}
                changes.append(_change(target, address, queue, before, offset))
        if not changes and not errors:
            raise ClientError(
                f"group {source} has no committed offset in topic {topic}",
                f"mqadmin offset show {source} shows its offsets",
            )
        return Plan(
            kind="offset.clone", subject=f"{topic}@{target}", changes=changes, errors=errors
        )

    def apply(self, plan: Plan) -> Outcome:
        """Apply a plan; see :func:`~mqadmin.admin.change.apply_plan`."""
        self._admin.renew()
        return apply_plan(self._admin, plan, self._states, commit_all)

    def _queues(self, topic: str) -> list[tuple[str, MessageQueue]]:
        route = route_of(self._admin, topic)
        return [
            (address, queue)
            for queue in sorted(route.subscribe_queues())
            if (address := route.master(queue.broker_name)) is not None
        ]

    def _states(self, plan: Plan) -> Sequence[State | RocketMQError]:
        topic, _, target = plan.subject.rpartition("@")
        queues = []
        for change in plan.changes:
            name, _, number = change.target.rpartition(" ")
            queues.append((change.address, MessageQueue(topic, name, int(number))))
        return [
            one if one is None or isinstance(one, RocketMQError) else {"consumerOffset": one}
            for one in committed_offsets(self._admin, target, queues)
        ]


def _label(queue: MessageQueue) -> str:
    return f"{queue.broker_name} {queue.queue_id}"


def _change(
    target: str, address: str, queue: MessageQueue, before: Mapping[str, Any] | None, offset: int
) -> Change:
    after = {"consumerOffset": offset}
    fields = {
        "consumer_group": target,
        "topic": queue.topic,
        "queue_id": queue.queue_id,
        "commit_offset": offset,
    }
    code = RequestCode.UPDATE_CONSUMER_OFFSET
    return Change(
        target=_label(queue),
        address=address,
        action="commit",
        before=before,
        after=after,
        request=None
        if before == after
        else Request(address=address, code=code, ext_fields=build_request(code, fields).ext_fields),
    )
