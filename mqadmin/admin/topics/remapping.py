"""Moving queues of a static topic to other brokers; no offset is used twice.

The order of the requests matters. The new owner of a queue gets the mapping first, with an unknown
first offset; then the old owner stops to accept messages; only now its last offset is final, and
the new owner gets a first offset above it. A run that was interrupted is resumed by the next one.

**Source:** RocketMQ ``RemappingStaticTopicSubCommand``, ``MQAdminUtils#remappingStaticTopic``,
``TopicQueueMappingUtils#remappingStaticTopic``. There an interrupted run cannot be resumed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from broker.common.message_queue import MessageQueue
from broker.common.topic import TopicConfig
from broker.errors import ClientError
from broker.remoting.protocol.body.namesrv.route import (
    LogicQueueMappingItem,
    TopicQueueMappingDetail,
)
from broker.remoting.protocol.body.topic import TopicConfigAndQueueMapping
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.brokers.one_shot import send_plan
from mqadmin.admin.result import ChangeResult, Outcome, Plan
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topics.mappings import Items, Mappings, newest_segments
from mqadmin.admin.topics.static import EPOCH_STEP, StaticTopics, mapping_change
from mqadmin.admin.topology import Target

#: The first offset of a moved queue is a multiple of this. **Source:** ``TopicQueueMappingUtils``.
BLOCK_SEQ_SIZE = 10_000

#: The first offset of a queue that its old owner may still extend.
UNDECIDED = -1


class Remapping(msgspec.Struct, frozen=True, kw_only=True):
    """A planned move. ``after``: broker name → configuration and mapping, offsets undecided.

    ``moved``: global queue id → (name of the old owner, of the new owner).
    """

    topic: str
    before: Mappings
    after: Mappings
    moved: Mapping[int, tuple[str, str]]
    targets: Mapping[str, Target]

    @property
    def plan(self) -> Plan:
        """The writes as a plan, for the scope and the confirmation of the change."""
        return self.writes(self.after)

    def writes(self, names: Iterable[str]) -> Plan:
        """Return the writes to the named brokers."""
        changes = []
        for name in names:
            one = self.after[name]
            assert one.mapping_detail is not None, name
            changes.append(
                mapping_change(
                    self.targets[name], one.topic_config, one.mapping_detail, self.before.get(name)
                )
            )
        return Plan(kind="topic.static.remap", subject=self.topic, changes=changes)


def plan_remapping(
    admin: AdminSession,
    topic: str,
    *,
    now_ms: int,
    brokers: Sequence[str] = (),
    clusters: Sequence[str] = (),
) -> Remapping:
    """Plan to spread the queues of a static topic evenly over ``brokers`` or ``clusters``.

    A queue stays at its broker as far as that gets any. ClientError if there is no such topic.
    """
    before = StaticTopics(admin).mappings(topic)
    if not before:
        raise ClientError(
            f"no broker has the static topic {topic}",
            "mqadmin topic static create makes one",
        )
    topology = admin.topology
    chosen = [target for name in brokers for target in topology.writers(broker=name)]
    chosen += [target for name in clusters for target in topology.writers(cluster=name)]
    owners = [target for name in before for target in topology.writers(broker=name)]
    after, moved = remapped(topic, before, [target.label for target in chosen], now_ms)
    targets = {target.label: target for target in (*chosen, *owners)}
    return Remapping(topic=topic, before=before, after=after, moved=moved, targets=targets)


def remapped(
    topic: str, present: Mappings, names: Sequence[str], now_ms: int
) -> tuple[dict[str, TopicConfigAndQueueMapping], dict[int, tuple[str, str]]]:
    """Return the mappings with each queue at one of ``names``, and the queues that move."""
    details = {name: one.mapping_detail for name, one in present.items() if one.mapping_detail}
    total = max(detail.total_queues for detail in details.values())
    segments = newest_segments(topic, present)
    epoch = max(now_ms, *(detail.epoch + EPOCH_STEP for detail in details.values()))
    configs = {name: one.topic_config for name, one in present.items()}
    hosted = {name: dict(detail.hosted_queues or {}) for name, detail in details.items()}
    moved: dict[int, tuple[str, str]] = {}
    for queue_id, name in _assigned(segments, names).items():
        items = list(segments[queue_id])
        leader = items[-1]
        if leader.bname != name:
            if leader.logic_offset < 0:
                raise ClientError(
                    f"topic {topic} queue {queue_id}: its move to {leader.bname} was interrupted",
                    f"finish it first: mqadmin topic static remap --broker {leader.bname}",
                )
            config = configs.get(name) or TopicConfig(
                topic_name=topic, read_queue_nums=0, write_queue_nums=0
            )
            items.append(
                LogicQueueMappingItem(
                    gen=leader.gen + 1,
                    queue_id=config.write_queue_nums,
                    bname=name,
                    logic_offset=UNDECIDED,
                )
            )
            configs[name] = msgspec.structs.replace(
                config,
                read_queue_nums=config.read_queue_nums + 1,
                write_queue_nums=config.write_queue_nums + 1,
            )
        elif leader.logic_offset >= 0 or len(items) < 2:
            continue
        old = items[-2].bname
        moved[queue_id] = (old, name)
        for owner in (old, name):
            hosted.setdefault(owner, {})[queue_id] = items
    after = {
        name: TopicConfigAndQueueMapping(
            topic_config=config,
            mapping_detail=TopicQueueMappingDetail(
                topic=topic,
                bname=name,
                total_queues=total,
                epoch=epoch,
                hosted_queues=dict(sorted(hosted[name].items())),
            ),
        )
        for name, config in configs.items()
    }
    return after, moved


def _assigned(segments: Mapping[int, Items], names: Sequence[str]) -> dict[int, str]:
    """Return global queue id → broker; a broker keeps queues up to its share."""
    before = Counter(items[-1].bname for items in segments.values())
    share = dict.fromkeys(names, 0)
    for _ in segments:
        name = min(share, key=lambda one: (share[one], -before[one], one))
        share[name] += 1
    assigned: dict[int, str] = {}
    for queue_id, items in segments.items():
        if share.get(items[-1].bname, 0) > 0:
            assigned[queue_id] = items[-1].bname
            share[items[-1].bname] -= 1
    free = [name for name, count in share.items() for _ in range(count)]
    rest = [queue_id for queue_id in segments if queue_id not in assigned]
    return dict(sorted({**assigned, **dict(zip(rest, free, strict=True))}.items()))


def block_seq_round_up(offset: int, block: int = BLOCK_SEQ_SIZE) -> int:
    """Return the multiple of ``block`` at which the next owner starts, half a block away or more.

    **Source:** RocketMQ ``TopicQueueMappingUtils#blockSeqRoundUp``.
    """
    blocks, rest = divmod(offset, block)
    return (blocks + (1 if rest < block // 2 else 2)) * block


def apply_remapping(admin: AdminSession, found: Remapping) -> Outcome:
    """Write the mappings in order; the first step with an error is the last one.

    The same move, planned again, resumes after an error.
    """
    old = sorted({pair[0] for pair in found.moved.values()})
    new = sorted({pair[1] for pair in found.moved.values()})
    items: list[ChangeResult] = []
    # a broker that gains one queue and loses another is written in both roles
    for names in (new, old):
        outcome = send_plan(admin, found.writes(names))
        items += outcome.items
        if outcome.errors:
            return _outcome(found, items)
    final = decided(admin, found)
    for names in (new, sorted(set(found.after) - {*old, *new})):
        outcome = send_plan(admin, final.writes(names))
        items += outcome.items
        if outcome.errors:
            break
    return _outcome(found, items)


def _outcome(found: Remapping, items: Sequence[ChangeResult]) -> Outcome:
    errors = [item.error for item in items if item.error is not None]
    warnings = ["the move is not complete: run the same command again"] if errors else []
    return Outcome(
        kind="topic.static.remap",
        subject=found.topic,
        items=items,
        errors=errors,
        warnings=warnings,
    )


def decided(admin: AdminSession, found: Remapping) -> Remapping:
    """Return the move with the first offsets, from the final offsets of the old owners."""
    ends: dict[MessageQueue, int] = {}
    for name in sorted({pair[0] for pair in found.moved.values()}):
        address = found.targets[name].address
        table = admin.call(address, RequestCode.GET_TOPIC_STATS_INFO, topic=found.topic).value
        ends |= {queue: place.max_offset for queue, place in table.offset_table.items()}
    after = dict(found.after)
    for queue_id, (_, name) in found.moved.items():
        one = after[name]
        assert one.mapping_detail is not None, name
        hosted = dict(one.mapping_detail.hosted_queues or {})
        *closed, leader = hosted[queue_id]
        last = closed[-1]
        end = ends.get(MessageQueue(found.topic, last.bname, last.queue_id))
        if end is None or end < last.start_offset:
            raise ClientError(
                f"topic {found.topic} queue {queue_id}: {last.bname} does not report the end of "
                f"its queue {last.queue_id}",
                "the move is not complete: run the same command again",
            )
        logical = last.logic_offset + end - last.start_offset
        leader = msgspec.structs.replace(leader, logic_offset=block_seq_round_up(logical))
        hosted[queue_id] = [*closed, leader]
        detail = msgspec.structs.replace(one.mapping_detail, hosted_queues=hosted)
        after[name] = TopicConfigAndQueueMapping(
            topic_config=one.topic_config, mapping_detail=detail
        )
    return msgspec.structs.replace(found, after=after)
