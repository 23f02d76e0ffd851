"""Rates of topics and groups as brokers count them, with the backlog of each group."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from broker.common.topic import DLQ_PREFIX, RETRY_PREFIX
from broker.errors import BrokerError, RocketMQError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.rpc.caller import Reply, build_request
from mqadmin.admin.failure import describe
from mqadmin.admin.result import Listing, TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target

#: Requests sent at once; more would only wait in the brokers' admin queues.
FAN_OUT = 256

TOPIC_PUT_NUMS = "TOPIC_PUT_NUMS"
GROUP_GET_NUMS = "GROUP_GET_NUMS"


class StatisticsRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One topic and group; group None: no group has consumed the topic.

    ``inTps`` and ``outTps`` are messages per second, the 24-hour values the largest window that
    brokers have filled so far; ``accumulation`` is the backlog of the group in messages.
    """

    topic: str
    group: str | None = None
    accumulation: int | None = None
    in_tps: float | None = None
    out_tps: float | None = None
    in_msg24_hour: int | None = None
    out_msg24_hour: int | None = None


Key = tuple[str, str]


def statistics(
    admin: AdminSession, *, topic: str | None = None, cluster: str | None = None
) -> Listing[StatisticsRecord]:
    """Return a record per topic and group, for one topic or all.

    Retry and dead-letter topics are left out. Every broker is asked for every topic at once.

    **Source:** RocketMQ ``StatsAllSubCommand``, which asks one by one.
    """
    topology = admin.topology
    targets = topology.masters(cluster=cluster) if cluster else topology.masters()
    topics = [topic] if topic else _topics(admin)
    errors: dict[str, TargetError] = {}
    groups = _groups(admin, targets, topics, errors)
    pairs = [(name, group) for name in topics for group in groups[name]]
    put = _rates(admin, targets, TOPIC_PUT_NUMS, {(name, ""): name for name in topics}, errors)
    keys = {(name, group): f"{name}@{group}" for name, group in pairs}
    got = _rates(admin, targets, GROUP_GET_NUMS, keys, errors)
    backlog = _backlog(admin, targets, pairs, errors)
    records: list[StatisticsRecord] = []
    for name in topics:
        tps, day = put[(name, "")]
        members: Sequence[str | None] = groups[name] or (None,)
        for group in members:
            out = (None, None) if group is None else got[(name, group)]
            records.append(
                StatisticsRecord(
                    topic=name,
                    group=group,
                    accumulation=None if group is None else backlog.get((name, group)),
                    in_tps=tps,
                    out_tps=out[0],
                    in_msg24_hour=day,
                    out_msg24_hour=out[1],
                )
            )
    return Listing(items=records, errors=list(errors.values()))


def put_tps(admin: AdminSession, topic: str) -> float:
    """Return the messages per second that are sent to a topic, over all masters."""
    targets = admin.topology.masters()
    return _rates(admin, targets, TOPIC_PUT_NUMS, {(topic, ""): topic}, {})[(topic, "")][0]


def _topics(admin: AdminSession) -> list[str]:
    names = admin.ask_namesrv(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).value.topic_list
    return sorted(name for name in names if not name.startswith((RETRY_PREFIX, DLQ_PREFIX)))


def _ask(
    admin: AdminSession,
    targets: Sequence[Target],
    requests: Mapping[Key, RemotingCommand],
    errors: dict[str, TargetError],
) -> Iterable[tuple[Key, Reply]]:
    """Send each request to each target; yield the responses that are not refusals."""
    pairs = [(key, target, command) for key, command in requests.items() for target in targets]
    for begin in range(0, len(pairs), FAN_OUT):
        part = pairs[begin : begin + FAN_OUT]
        answers = admin.call_all([(target.address, command) for _, target, command in part])
        for (key, target, _), answer in zip(part, answers, strict=True):
            if isinstance(answer, Reply):
                yield key, answer
            elif not isinstance(answer, BrokerError):  # nothing counted yet is a refusal
                _keep(errors, target, answer)


def _keep(errors: dict[str, TargetError], target: Target, error: RocketMQError) -> None:
    found = describe(error, address=target.address, target=target.label)
    errors.setdefault(target.address, found)


def _groups(
    admin: AdminSession,
    targets: Sequence[Target],
    topics: Sequence[str],
    errors: dict[str, TargetError],
) -> dict[str, list[str]]:
    code = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO
    requests = {(name, ""): build_request(code, {"topic": name}) for name in topics}
    found: dict[str, set[str]] = {name: set() for name in topics}
    for (name, _), reply in _ask(admin, targets, requests, errors):
        found[name] |= set(reply.value.group_list)
    return {name: sorted(groups) for name, groups in found.items()}


def _rates(
    admin: AdminSession,
    targets: Sequence[Target],
    name: str,
    keys: Mapping[Key, str],
    errors: dict[str, TargetError],
) -> dict[Key, tuple[float, int]]:
    """Return rate and 24-hour sum of each key over all targets; 0 where nothing was counted."""
    code = RequestCode.VIEW_BROKER_STATS_DATA
    requests = {
        key: build_request(code, {"stats_name": name, "stats_key": text})
        for key, text in keys.items()
    }
    totals = dict.fromkeys(keys, (0.0, 0))
    for key, reply in _ask(admin, targets, requests, errors):
        stats = reply.value
        windows = (stats.stats_day, stats.stats_hour, stats.stats_minute)
        day = next((window.sum for window in windows if window.sum), 0)
        tps, count = totals[key]
        totals[key] = (tps + stats.stats_minute.tps, count + day)
    return totals


def _backlog(
    admin: AdminSession,
    targets: Sequence[Target],
    pairs: Sequence[Key],
    errors: dict[str, TargetError],
) -> dict[Key, int]:
    code = RequestCode.GET_CONSUME_STATS
    requests = {
        (topic, group): build_request(code, {"consumer_group": group, "topic": topic})
        for topic, group in pairs
    }
    found: dict[Key, int] = {}
    for key, reply in _ask(admin, targets, requests, errors):
        queues = reply.value.offset_table.values()
        lag = sum(queue.broker_offset - queue.consumer_offset for queue in queues)
        found[key] = found.get(key, 0) + lag
    return found
