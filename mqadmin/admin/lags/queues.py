"""The queues of every consumer group, in two requests per broker and all brokers in parallel.

The statistics of a broker contain 0 both for "nothing committed" and for "committed 0". Only a
broker with such a queue, and messages in it, gets a second request, for its offset table: that
decides between a lag and an unknown one. The lag of an empty queue is 0 in both cases.

The statistics cover the write queues of a topic. The second request, for the topics of a broker,
shows which of them have more read queues: these are added by
:mod:`mqadmin.admin.lags.read_only_queues`.

**Source:** RocketMQ ``AdminBrokerProcessor#fetchAllConsumeStatsInBroker``; a group without a
committed offset has an entry without queues there (4.9.8 and 5.3.3).
"""

from collections.abc import Collection, Sequence

import msgspec

from broker.errors import RocketMQError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import Reply, build_request
from mqadmin.admin.failure import describe
from mqadmin.admin.lags.read_only_queues import (
    OffsetTable,
    ReadOnlyQueues,
    add_ends,
    committed_in,
    read_only_queues,
)
from mqadmin.admin.offset.progress import AHEAD, NO_OFFSET, OK, UNKNOWN, QueueProgress
from mqadmin.admin.result import TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target

_BOTH: tuple[tuple[int, dict[str, object]], ...] = (
    (RequestCode.GET_BROKER_CONSUME_STATS, {"is_order": False}),
    (RequestCode.GET_ALL_TOPIC_CONFIG, {}),
)


class GroupQueues(msgspec.Struct, kw_only=True):
    """Group → its queues with a committed offset in their topic, and the brokers that failed."""

    groups: dict[str, list[QueueProgress]]
    errors: list[TargetError]


def queues_of_all_groups(admin: AdminSession) -> GroupQueues:
    """Return the queues of every group, system groups included, of the brokers that respond."""
    targets = admin.topology.readers()
    found = GroupQueues(groups={}, errors=[])
    groups_of: dict[Target, dict[str, set[str]]] = {}
    read_only: dict[Target, ReadOnlyQueues] = {}
    answers = admin.call_all(
        [(one.address, build_request(code, fields)) for code, fields in _BOTH for one in targets]
    )
    zeros: dict[Target, list[tuple[str, QueueProgress]]] = {}
    for target, answer, topics in zip(
        targets, answers[: len(targets)], answers[len(targets) :], strict=True
    ):
        if isinstance(answer, RocketMQError):
            found.errors.append(describe(answer, address=target.address, target=target.label))
            continue
        if isinstance(topics, RocketMQError):
            found.errors.append(describe(topics, address=target.address, target=target.label))
        elif extra := read_only_queues(topics.value.topic_config_table):
            read_only[target] = extra
        for entry in answer.value.consume_stats_list:
            for group, by_topic in entry.items():
                queues = found.groups.setdefault(group, [])
                own = groups_of.setdefault(target, {}).setdefault(group, set())
                for stats in by_topic:
                    for queue, at in stats.offset_table.items():
                        progress = QueueProgress(
                            queue=queue,
                            address=target.address,
                            broker_offset=at.broker_offset,
                            committed=at.consumer_offset,
                            last_timestamp=at.last_timestamp if at.last_timestamp > 0 else None,
                            state=AHEAD if at.consumer_offset > at.broker_offset else OK,
                        )
                        queues.append(progress)
                        own.add(queue.topic)
                        if at.consumer_offset <= 0 < at.broker_offset:
                            zeros.setdefault(target, []).append((group, progress))
    tables = _offset_tables(admin, {*zeros, *read_only}, found)
    for target, unsure in zeros.items():
        _resolve_zeros(tables.get(target), unsure)
    more = [
        one
        for target, queues in read_only.items()
        for one in queues.progress(target, groups_of.get(target, {}), tables.get(target))
    ]
    found.errors += add_ends(admin, [one for _, one in more])
    for group, one in more:
        found.groups[group].append(one)
    return found


def _offset_tables(
    admin: AdminSession, targets: Collection[Target], found: GroupQueues
) -> dict[Target, OffsetTable]:
    """Return the committed offsets of each broker; one that fails is an error of ``found``."""
    tables: dict[Target, OffsetTable] = {}
    wanted = sorted(targets, key=lambda one: one.address)
    for target, answer in _ask(admin, wanted, RequestCode.GET_ALL_CONSUMER_OFFSET, {}):
        if isinstance(answer, RocketMQError):
            found.errors.append(describe(answer, address=target.address, target=target.label))
        else:
            tables[target] = answer.value.offset_table
    return tables


def _resolve_zeros(table: OffsetTable | None, zeros: Sequence[tuple[str, QueueProgress]]) -> None:
    """Decide for each offset 0 between committed, not committed and unknown."""
    for group, progress in zeros:
        if table is None:
            progress.committed, progress.state = None, UNKNOWN
        elif committed_in(table, group, progress.queue) is None:
            progress.committed, progress.state = None, NO_OFFSET


def _ask(
    admin: AdminSession, targets: Sequence[Target], code: int, fields: dict[str, object]
) -> list[tuple[Target, Reply | RocketMQError]]:
    answers = admin.call_all([(one.address, build_request(code, fields)) for one in targets])
    return list(zip(targets, answers, strict=True))
