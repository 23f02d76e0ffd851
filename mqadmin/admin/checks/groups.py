"""Measure consumer groups: lag in messages and seconds, and dead letters."""

from collections.abc import Sequence

import msgspec

from broker.common.group import is_system_group
from broker.common.topic import group_of_dlq_topic, is_retry_topic
from broker.errors import RocketMQError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import Reply
from mqadmin.admin.checks.report import CheckRow, Metric, Sample, Status, failed_rows, row_of
from mqadmin.admin.connections import ask_groups, is_offline
from mqadmin.admin.group import known_groups
from mqadmin.admin.lags.queues import queues_of_all_groups
from mqadmin.admin.offset.logical import logical_progress
from mqadmin.admin.offset.progress import (
    NO_OFFSET,
    UNKNOWN,
    QueueProgress,
    add_ages,
    route_of,
)
from mqadmin.admin.session import AdminSession

BROADCASTING = "BROADCASTING"


class LagLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Thresholds of lag, None for none; ``online``: fewer connected clients are critical."""

    warn_messages: int | None = None
    crit_messages: int | None = None
    warn_seconds: float | None = None
    crit_seconds: float | None = None
    online: int = 0


class _Clients(msgspec.Struct, frozen=True):
    """Connected clients of a group: number (None if a broker did not answer) and model."""

    count: int | None
    model: str


def check_lag(
    admin: AdminSession, limits: LagLimits, groups: Sequence[str] = (), topic: str | None = None
) -> list[CheckRow]:
    """Return one row per group and topic; ``groups`` empty: every group of the cluster.

    Every group: the lag takes two requests per broker; connected clients and ages, which the
    protocol gives per group only, a bounded number at once. The lag of a group in broadcasting
    mode is kept by its clients and not measured.
    """
    if groups:
        return _named_rows(admin, limits, groups, topic)
    if topic is not None:
        route_of(admin, topic)  # an error, rather than no rows, for a topic that does not exist
    found = queues_of_all_groups(admin)
    rows = failed_rows(found.errors, Status.UNKNOWN)
    chosen: dict[str, Sequence[QueueProgress]] = {
        name: [one for one in queues if topic in (None, one.queue.topic)]
        for name, queues in sorted(found.groups.items())
        if not is_system_group(name)
    }
    if topic is not None:
        chosen = {name: queues for name, queues in chosen.items() if queues}
    clients = _connected(admin, list(chosen))
    measured = {
        name: queues for name, queues in chosen.items() if clients[name].model != BROADCASTING
    }
    add_ages(admin, measured)
    # a broker that did not respond may have the offsets of a group that the others do not have
    absent = Status.UNKNOWN if found.errors else Status.OK
    for name in chosen:
        rows += (
            _topic_rows(name, measured[name], clients[name], limits, absent=absent)
            if name in measured
            else [_broadcasting_row(name)]
        )
    return rows


def _named_rows(
    admin: AdminSession, limits: LagLimits, groups: Sequence[str], topic: str | None
) -> list[CheckRow]:
    """Return the rows of the named groups, whose statistics include queues that are only read."""
    clients = _connected(admin, groups)
    rows: list[CheckRow] = []
    for name in groups:
        if clients[name].model == BROADCASTING:
            rows.append(_broadcasting_row(name))
            continue
        try:
            progress = logical_progress(admin, name, topic, ranges=False)
        except RocketMQError as error:
            rows.append(CheckRow(name=name, status=Status.UNKNOWN.name, message=error.message))
            continue
        failed = failed_rows(progress.errors, Status.UNKNOWN)
        least = Status.OK if clients[name].count else Status.UNKNOWN
        found = _topic_rows(name, progress.queues, clients[name], limits, absent=least)
        rows += [*failed, *(found if progress.queues or not failed else [])]
    return rows


def _connected(admin: AdminSession, groups: Sequence[str]) -> dict[str, _Clients]:
    targets = admin.topology.readers()
    answers = ask_groups(admin, groups, targets, RequestCode.GET_CONSUMER_CONNECTION_LIST)
    return {name: _clients(answers[name]) for name in groups}


def _clients(answers: Sequence[Reply | RocketMQError]) -> _Clients:
    found: set[str] = set()
    model = ""
    unknown = False
    for answer in answers:
        if isinstance(answer, Reply):
            found |= {one.client_id for one in answer.value.connection_set}
            model = model or answer.value.message_model or ""
        elif not is_offline(answer):
            unknown = True
    return _Clients(None if unknown and not found else len(found), model)


def _broadcasting_row(group: str) -> CheckRow:
    return row_of(group, [], text="broadcasting, the lag is kept by its clients")


def _topic_rows(
    group: str,
    queues: Sequence[QueueProgress],
    clients: _Clients,
    limits: LagLimits,
    *,
    absent: Status = Status.OK,
) -> list[CheckRow]:
    """Return one row per topic; ``absent`` is the least status without a committed offset."""
    topics: dict[str, list[QueueProgress]] = {}
    for one in queues:
        topics.setdefault(one.queue.topic, []).append(one)
    if not topics:
        return [row_of(group, [], least=absent, text="no offset is committed")]
    return [_lag_row(group, name, topics[name], clients, limits) for name in sorted(topics)]


def _lag_row(
    group: str, topic: str, queues: Sequence[QueueProgress], clients: _Clients, limits: LagLimits
) -> CheckRow:
    # a queue committed past its end must not reduce the sum
    lags = [max(0, one.lag) for one in queues if one.lag is not None]
    ages = [one.behind_ms for one in queues if one.behind_ms is not None]
    unknown = sum(one.state == UNKNOWN for one in queues)
    never = sum(one.state == NO_OFFSET for one in queues)
    kind = "retrydiff" if is_retry_topic(topic) else "diff"
    labels = {
        "group": group,
        "topic": topic,
        "countOfOnlineConsumers": "" if clients.count is None else str(clients.count),
        "msgModel": clients.model,
    }
    metrics = [
        Metric(
            name="lag",
            value=sum(lags) if lags else None,
            warn=limits.warn_messages,
            crit=limits.crit_messages,
            sample=Sample(name=f"rocketmq_group_{kind}", labels=labels),
        ),
        Metric(
            name="lagTime",
            value=max(ages) / 1000 if ages else None,
            unit="s",
            warn=limits.warn_seconds,
            crit=limits.crit_seconds,
        ),
        Metric(name="clients", value=clients.count),
    ]
    least, reasons = Status.OK, []
    if unknown:
        least, reasons = Status.UNKNOWN, [f"{unknown} queues are unknown"]
    if clients.count is not None and clients.count < limits.online:
        least = Status.CRITICAL
        reasons.append(f"{clients.count} clients are connected")
    if never and not lags:
        reasons.append("no offset is committed")
    return row_of(f"{group}/{topic}", metrics, least=least, text=", ".join(reasons))


def check_dlq(
    admin: AdminSession, warn: int | None, crit: int | None, groups: Sequence[str] = ()
) -> list[CheckRow]:
    """Return one row per DLQ topic with its dead letters; ``groups`` empty: every group."""
    answer = admin.ask_namesrv(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    topics = {
        group: topic
        for topic in sorted(answer.value.topic_list)
        if (group := group_of_dlq_topic(topic)) is not None and (not groups or group in groups)
    }
    rows = [_dlq_row(admin, group, topic, warn, crit) for group, topic in topics.items()]
    absent = [group for group in groups if group not in topics]
    if not absent:
        return rows
    known, errors = known_groups(admin, admin.topology.readers())
    failed = ", ".join(error.target or error.address or "a broker" for error in errors)
    missing = f"not found, and no answer from {failed}" if failed else "the group is unknown"
    for group in absent:
        if group in known:
            rows.append(row_of(group, [], text="has no dead letters"))
        else:
            rows.append(row_of(group, [], least=Status.UNKNOWN, text=missing))
    return rows


def _dlq_row(
    admin: AdminSession, group: str, topic: str, warn: int | None, crit: int | None
) -> CheckRow:
    route = admin.routes.find(topic)
    names = [] if route is None else route.broker_names()
    messages = 0
    ends: list[Metric] = []
    failed: list[str] = []
    for name in names:
        address = route.reader(name) if route is not None else None
        try:
            if address is None:
                raise RocketMQError(f"{name} has no address")
            table = admin.call(
                address, RequestCode.GET_TOPIC_STATS_INFO, topic=topic
            ).value.offset_table
        except RocketMQError:
            failed.append(name if address is None else f"{name} ({address})")
            continue
        messages += sum(queue.max_offset - queue.min_offset for queue in table.values())
        clusters = (
            target.cluster_name for target in admin.topology.targets if target.broker_name == name
        )
        ends.append(
            Metric(
                name=f"{name}_maxOffset",
                value=sum(queue.max_offset for queue in table.values()),
                sample=Sample(
                    name="rocketmq_topic_dlq_offset",
                    labels={"cluster": next(clusters, None) or "", "broker": name, "group": group},
                ),
            )
        )
    metric = Metric(
        name="deadLetters", value=messages if ends or not failed else None, warn=warn, crit=crit
    )
    return row_of(
        group,
        [metric, *ends],
        least=Status.UNKNOWN if failed else Status.OK,
        text=f"no response from {', '.join(failed)}" if failed else "",
    )
