"""Consumers: groups, their lag and their connected clients."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from broker.common.group import is_system_group
from broker.common.message_queue import MessageQueue
from broker.errors import BrokerError, RocketMQError
from broker.remoting.protocol.codes import RequestCode, ResponseCode, version_name
from broker.remoting.rpc.caller import Reply, build_request
from mqadmin.admin.connections import (
    ConsumerConnections,
    ask_groups,
    consumer_connections,
    is_offline,
)
from mqadmin.admin.failure import describe, part_errors
from mqadmin.admin.group import group_tables
from mqadmin.admin.offset.logical import logical_progress
from mqadmin.admin.offset.progress import (
    GroupProgress,
    QueueProgress,
    committed_offsets,
)
from mqadmin.admin.pop.in_flight import InFlight, in_flight
from mqadmin.admin.result import Listing, TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target


class ConsumerRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One consumer group over all brokers. ``clients`` 0 means no client is connected.

    The counts include only the brokers that responded. ``clients`` is None when no client is known
    and some broker did not report; ``lag`` is the sum over the queues with a committed offset,
    None when there is no such queue.
    """

    group: str
    clients: int | None
    consume_type: str | None
    message_model: str | None
    version: str | None
    consume_tps: float | None
    lag: int | None


class LagRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue of one group.

    ``state``: ``ok``; ``noOffset`` (nothing committed, ``consumerOffset`` and ``lag`` are None);
    ``ahead`` (committed past the end); ``belowMin`` (committed below the minimum offset);
    ``unknown`` (not reported by the broker). ``lagSeconds`` is the age of the oldest message not
    yet consumed, 0 without lag, None when not reported. ``lastTimestamp`` is the store time (ms)
    of the last consumed message.
    """

    group: str
    topic: str
    broker_name: str
    queue_id: int
    broker_offset: int | None
    consumer_offset: int | None
    lag: int | None
    lag_seconds: float | None
    inflight: int | None
    last_timestamp: int | None
    client_id: str | None
    state: str


class ConsumerAdmin:
    """Queries about consumers."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin

    def list(self, *, include_system: bool = False, lag: bool = True) -> Listing[ConsumerRecord]:
        """Return one record per group of any broker; ``lag`` False saves half of the requests."""
        targets = self._admin.topology.readers()
        good, errors = part_errors(targets, group_tables(self._admin, targets))
        alive = [target for target, _ in good]
        groups = {group for _, table in good for group in table}
        names = sorted(group for group in groups if include_system or not is_system_group(group))
        online = ask_groups(self._admin, names, alive, RequestCode.GET_CONSUMER_CONNECTION_LIST)
        stats = ask_groups(self._admin, names, alive, RequestCode.GET_CONSUME_STATS) if lag else {}
        for target, name, answer in _by_target(alive, online, stats):
            if isinstance(answer, RocketMQError) and not _has_no_data(answer):
                errors.append(
                    describe(answer, address=target.address, target=f"{target.label} {name}")
                )
        lags = self._lags(alive, stats)
        silent = len(alive) < len(targets)
        return Listing(
            items=[
                _record(name, online[name], stats.get(name, ()), lags.get(name), silent=silent)
                for name in names
            ],
            errors=errors,
        )

    def _lags(
        self, targets: Sequence[Target], stats: Mapping[str, Sequence[Reply | RocketMQError]]
    ) -> dict[str, int]:
        """Return group → sum of its lags, for groups with a committed offset.

        The statistics also contain 0 for "nothing committed", so the committed offset of those
        queues is queried separately.
        """
        lags: dict[str, int] = {}
        for group, answers in stats.items():
            young: list[tuple[str, MessageQueue, int]] = []
            for target, answer in zip(targets, answers, strict=True):
                if isinstance(answer, RocketMQError):
                    continue
                for queue, found in answer.value.offset_table.items():
                    if found.consumer_offset > 0:
                        # a queue committed past its end must not reduce the sum
                        lag = max(0, found.broker_offset - found.consumer_offset)
                        lags[group] = lags.get(group, 0) + lag
                    elif found.consumer_offset == 0:
                        young.append((target.address, queue, found.broker_offset))
            committed = committed_offsets(
                self._admin, group, [(address, queue) for address, queue, _ in young]
            )
            for (_, _, end), offset in zip(young, committed, strict=True):
                if isinstance(offset, int):
                    lags[group] = lags.get(group, 0) + max(0, end - offset)
        return lags

    def lag(
        self,
        group: str,
        *,
        topic: str | None = None,
        clients: bool = False,
        pop: bool = False,
    ) -> Listing[LagRecord]:
        """Return one record per queue; ``clients`` also asks every client for its assigned queues.

        The queues of a static topic are those that its clients see, over all brokers.

        With ``pop`` the messages in flight are counted from the check points of POP consumption.
        ClientError when ``topic`` has no route. No items: no broker has an offset of the group.
        """
        progress = logical_progress(self._admin, group, topic)
        if topic is None and not progress.queues and not progress.errors:
            progress = self._subscribed(group)
        errors = [*progress.errors]
        owners: Mapping[MessageQueue, str] = {}
        if clients:
            owners, failed = self._owners(group)
            errors += failed
        popped = in_flight(self._admin, group) if pop else None
        notes = []
        if popped is not None:
            errors += popped.errors
            notes += popped.notes
        items = [
            LagRecord(
                group=group,
                topic=one.queue.topic,
                broker_name=one.queue.broker_name,
                queue_id=one.queue.queue_id,
                broker_offset=one.broker_offset,
                consumer_offset=one.committed,
                lag=one.lag,
                lag_seconds=None if one.behind_ms is None else one.behind_ms / 1000,
                inflight=_inflight(one, popped),
                last_timestamp=one.last_timestamp,
                client_id=owners.get(one.queue),
                state=one.state,
            )
            for one in progress.queues
        ]
        if not items and not errors:
            notes.append(f"no broker has an offset of group {group}")
        return Listing(items=items, errors=errors, notes=notes)

    def _subscribed(self, group: str) -> GroupProgress:
        """Return the queues that a group subscribes to.

        A new group has connected clients before its first commit.
        """
        queues: list[QueueProgress] = []
        errors: list[TargetError] = []
        for subscription in self.connections(group).subscriptions:
            if self._admin.routes.find(subscription.topic) is not None:
                found = logical_progress(self._admin, group, subscription.topic)
                queues += found.queues
                errors += found.errors
        return GroupProgress(queues=queues, errors=errors)

    def consume_tps(self, group: str) -> float:
        """Return the messages per second of a group over the brokers that respond."""
        targets = self._admin.topology.readers()
        answers = ask_groups(self._admin, [group], targets, RequestCode.GET_CONSUME_STATS)[group]
        return float(sum(one.value.consume_tps for one in answers if isinstance(one, Reply)))

    def connections(self, group: str) -> ConsumerConnections:
        """Return clients and subscriptions of a group from every broker, merged by client id."""
        return consumer_connections(self._admin, group)

    def _owners(self, group: str) -> tuple[Mapping[MessageQueue, str], Sequence[TargetError]]:
        """Return queue → client id from the clients' running info, and the clients that failed."""
        found = self.connections(group)
        addresses = {target.label: target.address for target in self._admin.topology.readers()}
        asked = [(client.client_id, addresses[client.brokers[0]]) for client in found.connections]
        answers = self._admin.call_all(
            [
                (
                    address,
                    build_request(
                        RequestCode.GET_CONSUMER_RUNNING_INFO,
                        {"consumer_group": group, "client_id": client_id},
                    ),
                )
                for client_id, address in asked
            ]
        )
        owners: dict[MessageQueue, str] = {}
        errors: list[TargetError] = []
        for (client_id, address), answer in zip(asked, answers, strict=True):
            if isinstance(answer, RocketMQError):
                errors.append(describe(answer, address=address, target=client_id))
                continue
            owners.update(dict.fromkeys(answer.value.mq_table, client_id))
        return owners, errors


def _inflight(one: QueueProgress, popped: InFlight | None) -> int | None:
    """Return the messages in flight: pulled and not committed, or popped and not acknowledged."""
    if popped is not None:
        queue = one.queue
        if queue.broker_name not in popped.brokers:
            return None
        return popped.counts[queue.broker_name, queue.topic, queue.queue_id]
    return None if one.pulled is None or one.committed is None else one.pulled - one.committed


def _by_target(
    targets: Sequence[Target], *tables: Mapping[str, Sequence[Reply | RocketMQError]]
) -> Iterator[tuple[Target, str, Reply | RocketMQError]]:
    """Yield (target, group, response) of tables of group → one response per target."""
    for table in tables:
        for group, answers in table.items():
            for target, answer in zip(targets, answers, strict=True):
                yield target, group, answer


def _record(
    group: str,
    online: Sequence[Reply | RocketMQError],
    stats: Sequence[Reply | RocketMQError],
    lag: int | None,
    *,
    silent: bool,
) -> ConsumerRecord:
    """``silent``: some broker did not respond at all, so 0 clients may be incomplete."""
    clients: dict[str, int] = {}
    first: Any = None
    unknown = silent
    for answer in online:
        if isinstance(answer, Reply):
            first = first or answer.value
            clients |= {one.client_id: one.version for one in answer.value.connection_set}
        elif not is_offline(answer):
            unknown = True
    rates = [answer.value.consume_tps for answer in stats if isinstance(answer, Reply)]
    return ConsumerRecord(
        group=group,
        clients=None if unknown and not clients else len(clients),
        consume_type=first.consume_type if first else None,
        message_model=first.message_model if first else None,
        version=version_name(min(clients.values())) if clients else None,
        consume_tps=sum(rates) if rates else None,
        lag=lag,
    )


def _has_no_data(error: RocketMQError) -> bool:
    """True for response codes that mean: no clients, or no statistics, of a group on a broker."""
    return isinstance(error, BrokerError) and error.code in _NO_DATA_CODES


#: A group that never consumed has no retry topic, and therefore no statistics (4.9).
_NO_DATA_CODES = frozenset(
    {
        ResponseCode.CONSUMER_NOT_ONLINE,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    }
)
