"""The lag of every consumer group: two requests per broker, all brokers in parallel.

The statistics of all groups contain 0 both for "nothing committed" and for "committed 0", so the
offset table of the broker decides: a queue that it lacks has no offset, and its lag is not known.

**Source:** RocketMQ ``AdminBrokerProcessor#fetchAllConsumeStatsInBroker``.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from broker.common.group import is_system_group
from broker.errors import RocketMQError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.failure import describe
from mqadmin.admin.offset.progress import AHEAD, NO_OFFSET, OK, UNKNOWN
from mqadmin.admin.result import Listing, TargetError
from mqadmin.admin.session import AdminSession


class GroupLag(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One group on one topic over all brokers that responded.

    ``lag`` is the sum over the queues with a committed offset, ``maxLag`` the largest of them;
    None: no such queue. ``noOffset`` queues have messages and no committed offset: their lag is
    not known. ``lastTimestamp`` is the latest store time (ms) of a consumed message. ``state``:
    ``ok``, ``noOffset`` (some queue), ``ahead`` (an offset past the end), ``unknown`` (a broker
    reported no offsets).
    """

    group: str
    topic: str
    queues: int
    lag: int | None
    max_lag: int | None
    no_offset: int
    last_timestamp: int | None
    state: str


class _Sum:
    """The queues of one group and topic, added up."""

    def __init__(self) -> None:
        self.queues = 0
        self.lags: list[int] = []
        self.no_offset = 0
        self.last_timestamp = 0
        self.states: set[str] = set()

    def add(self, at: Any, committed: int | None, *, known: bool) -> None:
        """Add a queue: its statistics, its committed offset, whether the latter is reported."""
        self.queues += 1
        self.last_timestamp = max(self.last_timestamp, at.last_timestamp)
        if not known:
            self.states.add(UNKNOWN)
        elif committed is not None:
            self.lags.append(max(0, at.broker_offset - committed))
            self.states.add(AHEAD if committed > at.broker_offset else OK)
        elif at.broker_offset > 0:
            self.no_offset += 1
            self.states.add(NO_OFFSET)
        else:
            self.lags.append(0)  # an empty queue: no message is missing

    def record(self, group: str, topic: str) -> GroupLag:
        order = (UNKNOWN, NO_OFFSET, AHEAD)
        return GroupLag(
            group=group,
            topic=topic,
            queues=self.queues,
            lag=sum(self.lags) if self.lags else None,
            max_lag=max(self.lags, default=None),
            no_offset=self.no_offset,
            last_timestamp=self.last_timestamp or None,
            state=next((state for state in order if state in self.states), OK),
        )


def all_lags(admin: AdminSession, *, include_system: bool = False) -> Listing[GroupLag]:
    """Return one record per group and topic; a broker that fails is an error of the listing."""
    targets = admin.topology.readers()
    codes: tuple[tuple[int, dict[str, object]], ...] = (
        (RequestCode.GET_BROKER_CONSUME_STATS, {"is_order": False}),
        (RequestCode.GET_ALL_CONSUMER_OFFSET, {}),
    )
    answers = admin.call_all(
        [(one.address, build_request(code, fields)) for one in targets for code, fields in codes]
    )
    sums: dict[tuple[str, str], _Sum] = {}
    errors: list[TargetError] = []
    for target, stats, table in zip(targets, answers[::2], answers[1::2], strict=True):
        failed = [one for one in (stats, table) if isinstance(one, RocketMQError)]
        if failed:
            errors.append(describe(failed[0], address=target.address, target=target.label))
        if isinstance(stats, RocketMQError):
            continue
        offsets = None if isinstance(table, RocketMQError) else table.value.offset_table
        _add(sums, _queues(stats.value.consume_stats_list), offsets)
    return Listing(
        items=[
            found.record(group, topic)
            for (group, topic), found in sorted(sums.items())
            if include_system or not is_system_group(group)
        ],
        errors=errors,
    )


def _queues(entries: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Any, Any]]:
    """Yield (group, queue, statistics) of the statistics of a broker."""
    for entry in entries:
        for group, by_topic in entry.items():
            for stats in by_topic:
                for queue, at in stats.offset_table.items():
                    yield group, queue, at


def _add(
    sums: dict[tuple[str, str], _Sum],
    queues: Iterable[tuple[str, Any, Any]],
    offsets: Mapping[str, Mapping[int, int]] | None,
) -> None:
    for group, queue, at in queues:
        found = sums.setdefault((group, queue.topic), _Sum())
        if at.consumer_offset > 0:
            found.add(at, at.consumer_offset, known=True)
            continue
        table = (offsets or {}).get(f"{queue.topic}@{group}", {})
        offset = table.get(queue.queue_id, -1)
        found.add(at, offset if offset >= 0 else None, known=offsets is not None)
