"""Static topics as plans: create, extend, move and show them with read-back.

A plan contains the mapping of each broker as it will be sent. A move cannot be one request per
broker: the first offset of a moved queue is known only when its old owner has stopped to accept
messages. So :meth:`StaticTopicAdmin.apply` builds the move from the mappings of the plan and runs
it in the order of :mod:`mqadmin.admin.topics.remapping`.
"""

from collections.abc import Sequence

import msgspec

from broker.common.clock import Clock, SystemClock
from broker.common.topic import TopicConfig, topic_config_from_wire
from broker.errors import ClientError, RocketMQError
from broker.remoting.protocol.body.namesrv.route import TopicQueueMappingDetail
from broker.remoting.protocol.body.topic import TopicConfigAndQueueMapping
from mqadmin.admin.change import State, apply_plan, refusal_of_moved
from mqadmin.admin.result import Change, ChangeResult, Listing, Outcome, Plan
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topics.mappings import Items, Mappings, newest_segments
from mqadmin.admin.topics.remapping import Remapping, apply_remapping, plan_remapping
from mqadmin.admin.topics.static import StaticTopics, mapping_state
from mqadmin.system_topics.segments import SegmentRow, rows_of_queue

STATIC = "topic.static."
"""Start of the kinds of these plans."""

CREATE = f"{STATIC}create"
UPDATE = f"{STATIC}update"
REMAP = f"{STATIC}remap"


class StaticTopicAdmin:
    """Queries and changes of static topics; brokers are names, clusters names of clusters."""

    def __init__(self, admin: AdminSession, clock: Clock | None = None) -> None:
        self._admin = admin
        self._clock = clock or SystemClock()
        self._topics = StaticTopics(admin)

    def show(self, topic: str) -> Listing[SegmentRow]:
        """Return the segments of every queue; ClientError if it is not a static topic."""
        present = self._present(topic)
        details = [one.mapping_detail for one in present.values() if one.mapping_detail]
        rows: list[SegmentRow] = []
        for queue_id, items in newest_segments(topic, present).items():
            rows += rows_of_queue(
                topic,
                queue_id,
                items,
                epoch=max(detail.epoch for detail in details),
                total_queues=max(detail.total_queues for detail in details),
            )
        return Listing(items=rows)

    def plan_create(
        self,
        topic: str,
        queues: int,
        *,
        brokers: Sequence[str] = (),
        clusters: Sequence[str] = (),
        if_not_exists: bool = False,
    ) -> Plan:
        """Plan a new static topic on ``brokers`` or ``clusters``, by default the only cluster.

        ClientError if a broker has the topic, unless ``if_not_exists``: then it is left unchanged,
        and a warning names another number of queues.
        """
        present = self._topics.mappings(topic)
        if present and not if_not_exists:
            raise ClientError(
                f"static topic {topic} exists already on {', '.join(sorted(present))}",
                "mqadmin topic static update adds queues, --if-not-exists leaves it unchanged",
            )
        if present:
            number = _total_queues(present)
            text = f"static topic {topic} exists and is left unchanged: it has {number} queues"
            warnings = [f"{text}, not {queues}"] if number != queues else []
            kept = self._unchanged(present)
            return Plan(kind=CREATE, subject=topic, changes=kept, warnings=warnings)
        if not brokers and not clusters:
            brokers = [target.label for target in self._admin.topology.writers()]
        return self._topics.plan(
            topic, queues, now_ms=self._clock.now_ms(), brokers=brokers, clusters=clusters
        )

    def plan_update(
        self,
        topic: str,
        queues: int,
        *,
        brokers: Sequence[str] = (),
        clusters: Sequence[str] = (),
    ) -> Plan:
        """Plan more queues, on the brokers of the topic and on ``brokers`` or ``clusters``."""
        present = self._present(topic)
        if queues == _total_queues(present):
            return Plan(kind=UPDATE, subject=topic, changes=self._unchanged(present))
        return self._topics.plan(
            topic, queues, now_ms=self._clock.now_ms(), brokers=brokers, clusters=clusters
        )

    def plan_remap(
        self, topic: str, *, brokers: Sequence[str] = (), clusters: Sequence[str] = ()
    ) -> Plan:
        """Plan to spread the queues over ``brokers`` or ``clusters``, by default the only cluster.

        A queue stays where it is as far as possible; messages stay where they are.
        """
        present = self._present(topic)
        if not brokers and not clusters:
            brokers = [target.label for target in self._admin.topology.writers()]
        found = plan_remapping(
            self._admin, topic, now_ms=self._clock.now_ms(), brokers=brokers, clusters=clusters
        )
        if not found.moved:
            return Plan(kind=REMAP, subject=topic, changes=self._unchanged(present))
        return found.plan

    def apply(self, plan: Plan) -> Outcome:
        """Apply a plan of this class; see :func:`~mqadmin.admin.change.apply_plan`.

        A move is applied only if no target moved. An interrupted one is resumed by its plan, and by
        a new plan of the same move.
        """
        self._admin.renew()
        if plan.kind != REMAP or plan.empty:
            return apply_plan(self._admin, plan, self._states)
        return self._apply_remap(plan)

    # --- the state ------------------------------------------------------------------------------

    def _present(self, topic: str) -> dict[str, TopicConfigAndQueueMapping]:
        present = self._topics.mappings(topic)
        if not present:
            raise ClientError(
                f"no broker has the static topic {topic}", "mqadmin topic static create makes one"
            )
        return present

    def _unchanged(self, present: Mappings) -> list[Change]:
        changes = []
        for name, one in present.items():
            assert one.mapping_detail is not None, name
            (target,) = self._admin.topology.writers(broker=name)
            state = mapping_state(one.mapping_detail)
            changes.append(
                Change(
                    target=name,
                    address=target.address,
                    action="update",
                    before=state,
                    after=state,
                )
            )
        return changes

    def _states(self, plan: Plan) -> Sequence[State | RocketMQError]:
        """Return the present mapping of each target of a plan."""
        try:
            present = self._topics.mappings(plan.subject)
        except RocketMQError as error:
            return [error] * len(plan.changes)
        return [_state(present.get(change.target)) for change in plan.changes]

    # --- moving queues --------------------------------------------------------------------------

    def _apply_remap(self, plan: Plan) -> Outcome:
        """Run the move of a plan; the read-back of each target is compared with the plan."""
        refused = refusal_of_moved(plan, self._states(plan))
        if refused is not None:
            return refused
        found = self._move(plan)
        sent = apply_remapping(self._admin, found) if found.moved else None
        errors = list(sent.errors) if sent is not None else []
        failed = {item.target: item.error for item in sent.items if item.error} if sent else {}
        items: list[ChangeResult] = []
        for change, state in zip(plan.changes, self._states(plan), strict=True):
            error = failed.get(change.target)
            reached = not isinstance(state, RocketMQError) and state == change.after
            done = reached and error is None and not errors
            items.append(
                ChangeResult(
                    target=change.target,
                    address=change.address,
                    action=change.action,
                    status="done" if done else "failed" if error is not None else "skipped",
                    before=change.before,
                    after=change.after,
                    read_back=None if isinstance(state, RocketMQError) else state,
                    error=error,
                )
            )
        warnings = sent.warnings if sent is not None else ()
        return Outcome(
            kind=plan.kind, subject=plan.subject, items=items, errors=errors, warnings=warnings
        )

    def _move(self, plan: Plan) -> Remapping:
        """Return the move of a plan without the queues that are moved already."""
        before = self._topics.mappings(plan.subject)
        segments = newest_segments(plan.subject, before)
        after = {change.target: _planned(change) for change in plan.changes}
        moved: dict[int, tuple[str, str]] = {}
        for name, one in after.items():
            detail = one.mapping_detail
            assert detail is not None, name
            hosted = dict(detail.hosted_queues or {})
            for queue_id, items in hosted.items():
                if len(items) < 2 or items[-1].logic_offset >= 0:
                    continue
                if _is_decided(segments.get(queue_id, ()), items):
                    hosted[queue_id] = list(segments[queue_id])
                else:
                    moved[queue_id] = (items[-2].bname, items[-1].bname)
            changed = msgspec.structs.replace(detail, hosted_queues=hosted)
            after[name] = msgspec.structs.replace(one, mapping_detail=changed)
        targets = {
            target.label: target
            for name in after
            for target in self._admin.topology.writers(broker=name)
        }
        return Remapping(
            topic=plan.subject, before=before, after=after, moved=moved, targets=targets
        )


def _state(one: TopicConfigAndQueueMapping | None) -> State:
    if one is None or one.mapping_detail is None:
        return None
    return mapping_state(one.mapping_detail)


def _is_decided(present: Items, planned: Items) -> bool:
    """Whether the segments of a queue are the planned ones, the last with its first offset."""
    names = [[(one.gen, one.bname, one.queue_id) for one in items] for items in (present, planned)]
    return names[0] == names[1] and present[-1].logic_offset >= 0


def _planned(change: Change) -> TopicConfigAndQueueMapping:
    """Return configuration and mapping of the request of a change."""
    if change.request is None:
        raise ClientError(f"the plan has no mapping for {change.target}", "make the plan again")
    fields = change.request.ext_fields
    config: TopicConfig = topic_config_from_wire(
        {
            "topicName": fields["topic"],
            "readQueueNums": int(fields["readQueueNums"]),
            "writeQueueNums": int(fields["writeQueueNums"]),
            "perm": int(fields["perm"]),
            "topicFilterType": fields["topicFilterType"],
            "topicSysFlag": int(fields["topicSysFlag"]),
            "order": fields["order"] == "true",
        }
    )
    detail = TopicQueueMappingDetail.from_bytes(change.request.body)
    return TopicConfigAndQueueMapping(topic_config=config, mapping_detail=detail)


def _total_queues(present: Mappings) -> int:
    details = [one.mapping_detail for one in present.values() if one.mapping_detail]
    return max(detail.total_queues for detail in details)
