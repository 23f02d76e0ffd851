"""Check each name server: it answers, in time, and its tables agree with those of the others."""

import time
from collections.abc import Callable

import msgspec

from broker.errors import BrokerError, RocketMQError
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.checks.report import CheckRow, Metric, Status, row_of
from mqadmin.admin.session import AdminSession


class NamesrvTables(msgspec.Struct, frozen=True, kw_only=True):
    """The tables of one name server; ``error`` is set, and the rest empty, if it failed.

    ``brokers`` are ``cluster/name:id=address``; ``seconds`` is the time of the first response.
    """

    address: str
    brokers: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    seconds: float | None = None
    error: str = ""


def read_tables(
    admin: AdminSession, *, clock: Callable[[], float] = time.monotonic
) -> list[NamesrvTables]:
    """Ask every name server for its brokers and topics, one after the other."""
    return [_tables(admin, address, clock) for address in admin.namesrv_addresses]


def _tables(admin: AdminSession, address: str, clock: Callable[[], float]) -> NamesrvTables:
    begin = clock()
    try:
        table = admin.call(address, RequestCode.GET_BROKER_CLUSTER_INFO).value
        seconds = clock() - begin
        topics = admin.call(address, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).value
    except RocketMQError as error:
        reason = error.message
        if isinstance(error, BrokerError):
            reason = f"{address}: {reason}"
        return NamesrvTables(address=address, error=reason)
    brokers = {
        f"{cluster}/{name}:{broker_id}={broker_address}"
        for cluster, names in table.cluster_addr_table.items()
        for name in names
        if name in table.broker_addr_table
        for broker_id, broker_address in table.broker_addr_table[name].broker_addrs.items()
    }
    return NamesrvTables(
        address=address,
        brokers=frozenset(brokers),
        topics=frozenset(topics.topic_list),
        seconds=seconds,
    )


def check_namesrv(
    admin: AdminSession, warn: float, crit: float, *, clock: Callable[[], float] = time.monotonic
) -> list[CheckRow]:
    """Return one row per name server; the limits apply to the response time in seconds.

    Critical: it does not answer. Warning: another name server has brokers or topics that it lacks,
    or no broker is registered.
    """
    tables = read_tables(admin, clock=clock)
    return [_row(table, tables, warn, crit) for table in tables]


def missing_at(table: NamesrvTables, tables: list[NamesrvTables]) -> tuple[list[str], list[str]]:
    """Return the brokers and the topics that other name servers have and this one lacks."""
    brokers = frozenset().union(*(one.brokers for one in tables)) - table.brokers
    topics = frozenset().union(*(one.topics for one in tables)) - table.topics
    return sorted(brokers), sorted(topics)


def _row(table: NamesrvTables, tables: list[NamesrvTables], warn: float, crit: float) -> CheckRow:
    if table.error:
        return CheckRow(name=table.address, status=Status.CRITICAL.name, message=table.error)
    brokers, topics = missing_at(table, tables)
    reasons = [
        f"lacks {len(lost)} {word} of the other name servers ({', '.join(lost[:3])})"
        for lost, word in ((brokers, "brokers"), (topics, "topics"))
        if lost
    ]
    if not table.brokers:
        reasons.append("no broker is registered")
    metrics = [
        Metric(name="responseTime", value=table.seconds, unit="s", warn=warn, crit=crit),
        Metric(name="brokers", value=len(table.brokers)),
        Metric(name="topics", value=len(table.topics)),
    ]
    return row_of(
        table.address,
        metrics,
        least=Status.WARNING if reasons else Status.OK,
        text=", ".join(reasons),
    )
