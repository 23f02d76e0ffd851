"""Consumers: which groups there are, how far behind they are, who is connected."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from broker.client.caller import Reply, build_request
from broker.common.group import is_system_group
from broker.common.message_queue import MessageQueue
from broker.errors import BrokerError, RocketMQError
from broker.remoting.protocol.codes import RequestCode, ResponseCode, version_name
from mqadmin.admin.failure import describe, part_errors
from mqadmin.admin.progress import GroupProgress, QueueProgress, group_progress
from mqadmin.admin.result import Listing, TargetError
from mqadmin.admin.topology import Target

if TYPE_CHECKING:
    from mqadmin.admin.session import MQAdmin

#: Requests sent together: more would only queue up in the brokers' admin lanes.
FAN_OUT = 256


class ConsumerRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One consumer group over all brokers. ``clients`` 0 means nobody is online.

    ``lag`` is the sum over all queues that have a lag, None when no broker could tell.
    """

    group: str
    clients: int
    consume_type: str | None
    message_model: str | None
    version: str | None
    consume_tps: float | None
    lag: int | None


class LagRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue of one group.

    ``state``: ``ok``; ``noOffset`` (nothing committed, ``consumerOffset`` and ``lag`` are None);
    ``ahead`` (committed beyond the end); ``belowMin`` (committed below the oldest kept);
    ``unknown`` (the broker did not tell). ``lagSeconds`` is the age of the oldest message not yet
    consumed, 0 without lag, None when nobody tells. ``lastTimestamp`` is the store time (ms) of
    the last consumed message.
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


class Connection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One client of a group; ``brokers`` are those that see it."""

    client_id: str
    client_addr: str
    language: str
    version: str
    brokers: Sequence[str]


class Subscription(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a group subscribes to."""

    topic: str
    sub_string: str
    expression_type: str
    sub_version: int


class ConsumerConnections(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who is connected for a group, over all brokers; no connections: nobody is online."""

    group: str
    consume_type: str | None
    message_model: str | None
    consume_from_where: str | None
    connections: Sequence[Connection]
    subscriptions: Sequence[Subscription]
    errors: Sequence[TargetError] = ()


class ConsumerAdmin:
    """The questions about consumers."""

    def __init__(self, admin: "MQAdmin") -> None:
        self._admin = admin

    def list(self, *, include_system: bool = False, lag: bool = True) -> Listing[ConsumerRecord]:
        """One record per group any broker knows; ``lag`` false saves half of the requests."""
        targets = self._admin.topology.readers()
        good, errors = part_errors(targets, self._admin.group.tables(targets))
        alive = [target for target, _ in good]
        groups = {group for _, table in good for group in table}
        names = sorted(group for group in groups if include_system or not is_system_group(group))
        online = self._ask(names, alive, RequestCode.GET_CONSUMER_CONNECTION_LIST)
        stats = self._ask(names, alive, RequestCode.GET_CONSUME_STATS) if lag else {}
        return Listing(
            items=[_record(name, online[name], stats.get(name)) for name in names],
            errors=errors,
        )

    def lag(
        self, group: str, *, topic: str | None = None, clients: bool = False
    ) -> Listing[LagRecord]:
        """One record per queue; ``clients`` also asks every client which queues it holds.

        ClientError when ``topic`` has no route. No items: no broker has an offset of the group.
        """
        progress = group_progress(self._admin, group, topic)
        if topic is None and not progress.queues and not progress.errors:
            progress = self._subscribed(group)
        errors = [*progress.errors]
        owners: Mapping[MessageQueue, str] = {}
        if clients:
            owners, failed = self._owners(group)
            errors += failed
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
                inflight=None
                if one.pulled is None or one.committed is None
                else one.pulled - one.committed,
                last_timestamp=one.last_timestamp,
                client_id=owners.get(one.queue),
                state=one.state,
            )
            for one in progress.queues
        ]
        notes = []
        if not items and not errors:
            notes.append(f"no broker has an offset of group {group}")
        return Listing(items=items, errors=errors, notes=notes)

    def _subscribed(self, group: str) -> GroupProgress:
        """A young group has clients before its first commit: the queues it subscribes to."""
        queues: list[QueueProgress] = []
        errors: list[TargetError] = []
        for subscription in self.connections(group).subscriptions:
            if self._admin.routes.find(subscription.topic) is not None:
                found = group_progress(self._admin, group, subscription.topic)
                queues += found.queues
                errors += found.errors
        return GroupProgress(queues=queues, errors=errors)

    def connections(self, group: str) -> ConsumerConnections:
        """Clients and subscriptions of a group, asked of every broker and merged by client id."""
        targets = self._admin.topology.readers()
        seen: dict[str, tuple[Any, list[str]]] = {}
        subscriptions: dict[str, Subscription] = {}
        errors: list[TargetError] = []
        first: Any = None
        answers = self._ask([group], targets, RequestCode.GET_CONSUMER_CONNECTION_LIST)[group]
        for target, answer in zip(targets, answers, strict=True):
            if isinstance(answer, RocketMQError):
                if not _is_offline(answer):
                    errors.append(describe(answer, address=target.address, target=target.label))
                continue
            found = answer.value
            first = first or found
            for client in found.connection_set:
                seen.setdefault(client.client_id, (client, []))[1].append(target.label)
            for topic, data in found.subscription_table.items():
                subscriptions[topic] = Subscription(
                    topic=topic,
                    sub_string=data.sub_string,
                    expression_type=data.expression_type,
                    sub_version=data.sub_version,
                )
        return ConsumerConnections(
            group=group,
            consume_type=first.consume_type if first else None,
            message_model=first.message_model if first else None,
            consume_from_where=first.consume_from_where if first else None,
            connections=[
                Connection(
                    client_id=client.client_id,
                    client_addr=client.client_addr,
                    language=str(client.language or ""),
                    version=version_name(client.version),
                    brokers=brokers,
                )
                for _, (client, brokers) in sorted(seen.items())
            ],
            subscriptions=[subscriptions[topic] for topic in sorted(subscriptions)],
            errors=errors,
        )

    def _ask(
        self, groups: Sequence[str], targets: Sequence[Target], code: int
    ) -> dict[str, Sequence[Reply | RocketMQError]]:
        """Ask every target about every group: group → one answer per target."""
        requests = [
            (target.address, build_request(code, {"consumer_group": group}))
            for group in groups
            for target in targets
        ]
        answers: list[Reply | RocketMQError] = []
        for begin in range(0, len(requests), FAN_OUT):
            answers += self._admin.call_all(requests[begin : begin + FAN_OUT])
        width = len(targets)
        return {
            group: answers[index * width : (index + 1) * width]
            for index, group in enumerate(groups)
        }

    def _owners(self, group: str) -> tuple[Mapping[MessageQueue, str], Sequence[TargetError]]:
        """Which client holds which queue, as the clients themselves say."""
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


def _record(
    group: str,
    online: Sequence[Reply | RocketMQError],
    stats: Sequence[Reply | RocketMQError] | None,
) -> ConsumerRecord:
    clients: dict[str, int] = {}
    first: Any = None
    for answer in online:
        if isinstance(answer, Reply):
            first = first or answer.value
            clients |= {one.client_id: one.version for one in answer.value.connection_set}
    tps: float | None = None
    lag: int | None = None
    for answer in stats or ():
        if isinstance(answer, Reply):
            tables = answer.value.offset_table.values()
            tps = (tps or 0.0) + answer.value.consume_tps
            lag = (lag or 0) + sum(
                max(0, one.broker_offset - max(0, one.consumer_offset)) for one in tables
            )
    return ConsumerRecord(
        group=group,
        clients=len(clients),
        consume_type=first.consume_type if first else None,
        message_model=first.message_model if first else None,
        version=version_name(min(clients.values())) if clients else None,
        consume_tps=tps,
        lag=lag,
    )


def _is_offline(error: RocketMQError) -> bool:
    """True for the answer that says nobody of the group is connected."""
    return isinstance(error, BrokerError) and error.code == ResponseCode.CONSUMER_NOT_ONLINE
