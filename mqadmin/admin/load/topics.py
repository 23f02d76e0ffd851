"""Rates and sums of topics and the groups that consume them, over all their brokers.

**Source:** RocketMQ ``StatsAllSubCommand``: counters TOPIC_PUT_NUMS, TOPIC_PUT_SIZE and
GROUP_GET_NUMS; a broker forgets the counters of a topic without traffic.
"""

from collections.abc import Iterable, Sequence

import msgspec

from broker.common.topic import is_dlq_topic, is_retry_topic, is_system_topic, reply_topic
from broker.errors import BrokerError, RocketMQError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.rpc.caller import Reply, build_request
from mqadmin.admin.failure import describe
from mqadmin.admin.offset.progress import group_progress
from mqadmin.admin.result import Listing, TargetError
from mqadmin.admin.session import AdminSession


class TopicLoad(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One topic and one group that consumes it; ``group`` None for a topic without groups.

    Rates are per second over the last minute, sums are messages of the last 24 hours. None: some
    broker did not report. ``lag`` is the sum over the queues with a committed offset.
    """

    topic: str
    group: str | None
    in_tps: float | None
    in_bytes_per_second: float | None
    in_messages24_hours: int | None
    out_tps: float | None
    out_messages24_hours: int | None
    lag: int | None


class _Counter(msgspec.Struct):
    """A counter summed over brokers; ``complete`` is false when one did not answer."""

    tps: float = 0.0
    day: int = 0
    complete: bool = True


def topic_loads(
    admin: AdminSession,
    topics: Sequence[str] = (),
    *,
    include_system: bool = False,
    lag: bool = True,
) -> Listing[TopicLoad]:
    """Return one record per topic and group; ``topics`` empty: every topic of the name server.

    ClientError if a named topic has no route. ``lag`` False saves a request per group and broker.
    """
    names = list(topics) or _topics(admin, include_system=include_system)
    items: list[TopicLoad] = []
    errors: list[TargetError] = []
    for topic in names:
        route = admin.routes.get(topic) if topics else admin.routes.find(topic)
        if route is None:
            continue  # deleted in the meantime
        places = [
            (name, address)
            for name in route.broker_names()
            if (address := route.reader(name)) is not None
        ]
        found, failed = _topic(admin, topic, places, lag=lag)
        items += found
        known = {(one.address, one.kind) for one in errors}
        errors += [one for one in failed if (one.address, one.kind) not in known]
    return Listing(items=items, errors=errors)


def _topics(admin: AdminSession, *, include_system: bool) -> list[str]:
    answer = admin.ask_namesrv(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    own = {target.cluster_name for target in admin.topology.targets}
    own |= {target.broker_name for target in admin.topology.targets}
    own |= {reply_topic(name) for name in admin.topology.clusters}
    return [
        topic
        for topic in sorted(answer.value.topic_list)
        if include_system
        or not (
            is_system_topic(topic) or is_retry_topic(topic) or is_dlq_topic(topic) or topic in own
        )
    ]


def _topic(
    admin: AdminSession, topic: str, places: Sequence[tuple[str, str]], *, lag: bool
) -> tuple[list[TopicLoad], list[TargetError]]:
    errors: list[TargetError] = []
    groups: set[str] = set()
    answers = admin.call_all(
        [
            (address, build_request(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic}))
            for _, address in places
        ]
    )
    for (name, address), answer in zip(places, answers, strict=True):
        if isinstance(answer, Reply):
            groups |= set(answer.value.group_list)
        else:
            errors.append(describe(answer, address=address, target=name))
    ordered = sorted(groups)
    wanted = [("TOPIC_PUT_NUMS", topic), ("TOPIC_PUT_SIZE", topic)]
    wanted += [("GROUP_GET_NUMS", f"{topic}@{group}") for group in ordered]
    put, size, *got = _counters(admin, [address for _, address in places], wanted)
    pairs: list[tuple[str | None, _Counter | None]] = [*zip(ordered, got, strict=True)]
    rows = [
        TopicLoad(
            topic=topic,
            group=group,
            in_tps=put.tps if put.complete else None,
            in_bytes_per_second=size.tps if size.complete else None,
            in_messages24_hours=put.day if put.complete else None,
            out_tps=one.tps if one is not None and one.complete else None,
            out_messages24_hours=one.day if one is not None and one.complete else None,
            lag=_lag(admin, group, topic) if lag and group is not None else None,
        )
        for group, one in pairs or [(None, None)]
    ]
    return rows, errors


def _counters(
    admin: AdminSession, addresses: Sequence[str], wanted: Iterable[tuple[str, str]]
) -> list[_Counter]:
    wanted = list(wanted)
    answers = admin.call_all(
        [
            (
                address,
                build_request(
                    RequestCode.VIEW_BROKER_STATS_DATA, {"stats_name": name, "stats_key": key}
                ),
            )
            for name, key in wanted
            for address in addresses
        ]
    )
    counters = [_Counter() for _ in wanted]
    for index, answer in enumerate(answers):
        counter = counters[index // len(addresses)]
        if isinstance(answer, Reply):
            counter.tps += answer.value.stats_minute.tps
            counter.day += answer.value.stats_day.sum or answer.value.stats_hour.sum
        elif not _has_no_counter(answer):
            counter.complete = False
    return counters


def _has_no_counter(error: RocketMQError) -> bool:
    """True for the answer of a broker without traffic of this topic: the counter is 0."""
    return isinstance(error, BrokerError) and error.code == ResponseCode.SYSTEM_ERROR


def _lag(admin: AdminSession, group: str, topic: str) -> int | None:
    try:
        progress = group_progress(admin, group, topic, ages=False)
    except RocketMQError:
        return None
    lags = [max(0, one.lag) for one in progress.queues if one.lag is not None]
    return sum(lags) if lags and not progress.errors else None
