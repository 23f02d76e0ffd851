"""The queues of every consumer group, in one request per broker and all brokers in parallel.

The statistics of a broker contain 0 both for "nothing committed" and for "committed 0". Only a
broker with such a queue, and messages in it, gets a second request, for its offset table: that
decides between a lag and an unknown one. The lag of an empty queue is 0 in both cases.

The statistics cover the write queues of a topic: a queue that is only read any more is missing.

**Source:** RocketMQ ``AdminBrokerProcessor#fetchAllConsumeStatsInBroker``; a group without a
committed offset has an entry without queues there (4.9.8 and 5.3.3).
"""

from collections.abc import Mapping, Sequence

import msgspec

from broker.errors import RocketMQError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import Reply, build_request
from mqadmin.admin.failure import describe
from mqadmin.admin.offset.progress import AHEAD, NO_OFFSET, OK, UNKNOWN, QueueProgress
from mqadmin.admin.result import TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target


class GroupQueues(msgspec.Struct, kw_only=True):
    """Group → its queues with a committed offset in their topic, and the brokers that failed."""

    groups: dict[str, list[QueueProgress]]
    errors: list[TargetError]


def queues_of_all_groups(admin: AdminSession) -> GroupQueues:
    """Return the queues of every group, system groups included, of the brokers that respond."""
    targets = admin.topology.readers()
    found = GroupQueues(groups={}, errors=[])
    zeros: dict[Target, list[tuple[str, QueueProgress]]] = {}
    for target, answer in _ask(
        admin, targets, RequestCode.GET_BROKER_CONSUME_STATS, {"is_order": False}
    ):
        if isinstance(answer, RocketMQError):
            found.errors.append(describe(answer, address=target.address, target=target.label))
            continue
        for entry in answer.value.consume_stats_list:
            for group, by_topic in entry.items():
                queues = found.groups.setdefault(group, [])
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
                        if at.consumer_offset <= 0 < at.broker_offset:
                            zeros.setdefault(target, []).append((group, progress))
    found.errors += _resolve_zeros(admin, zeros)
    return found


def _resolve_zeros(
    admin: AdminSession, zeros: Mapping[Target, Sequence[tuple[str, QueueProgress]]]
) -> list[TargetError]:
    """Decide for each offset 0 between committed, not committed and unknown."""
    errors: list[TargetError] = []
    for target, answer in _ask(admin, list(zeros), RequestCode.GET_ALL_CONSUMER_OFFSET, {}):
        if isinstance(answer, RocketMQError):
            errors.append(describe(answer, address=target.address, target=target.label))
            for _, progress in zeros[target]:
                progress.committed, progress.state = None, UNKNOWN
            continue
        table = answer.value.offset_table
        for group, progress in zeros[target]:
            queue = progress.queue
            # an offset is removed by committing -1
            if table.get(f"{queue.topic}@{group}", {}).get(queue.queue_id, -1) < 0:
                progress.committed, progress.state = None, NO_OFFSET
    return errors


def _ask(
    admin: AdminSession, targets: Sequence[Target], code: int, fields: dict[str, object]
) -> list[tuple[Target, Reply | RocketMQError]]:
    answers = admin.call_all([(one.address, build_request(code, fields)) for one in targets])
    return list(zip(targets, answers, strict=True))
