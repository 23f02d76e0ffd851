"""The connected clients of a consumer group, merged over all brokers."""

from collections.abc import Sequence
from typing import Any

import msgspec

from broker.errors import BrokerError, RocketMQError
from broker.remoting.protocol.codes import RequestCode, ResponseCode, version_name
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.rpc.caller import Reply, build_request
from mqadmin.admin.failure import describe
from mqadmin.admin.result import TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target

#: Requests sent at once; more would only wait in the brokers' admin queues.
FAN_OUT = 256


class Connection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One client of a group; ``brokers`` are the brokers it is connected to."""

    client_id: str
    client_addr: str
    language: str
    version: str
    brokers: Sequence[str]


class Subscription(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One subscription of a group."""

    topic: str
    sub_string: str
    expression_type: str
    sub_version: int


class ConsumerConnections(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The connected clients of a group over all brokers; no connections: no client is online."""

    group: str
    consume_type: str | None
    message_model: str | None
    consume_from_where: str | None
    connections: Sequence[Connection]
    subscriptions: Sequence[Subscription]
    errors: Sequence[TargetError] = ()


def consumer_connections(admin: AdminSession, group: str) -> ConsumerConnections:
    """Return clients and subscriptions of a group from every broker, merged by client id."""
    targets = admin.topology.readers()
    seen: dict[str, tuple[Any, list[str]]] = {}
    subscriptions: dict[str, Subscription] = {}
    errors: list[TargetError] = []
    first: Any = None
    answers = ask_groups(admin, [group], targets, RequestCode.GET_CONSUMER_CONNECTION_LIST)[group]
    for target, answer in zip(targets, answers, strict=True):
        if isinstance(answer, RocketMQError):
            if not is_offline(answer):
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


def call_bounded(
    admin: AdminSession,
    requests: Sequence[tuple[str, RemotingCommand]],
    accept: Sequence[int] = (ResponseCode.SUCCESS,),
) -> list[Reply | RocketMQError]:
    """Send the requests, FAN_OUT of them at once; return one response per request.

    A response code that is not in ``accept`` is an error.
    """
    answers: list[Reply | RocketMQError] = []
    for begin in range(0, len(requests), FAN_OUT):
        answers += admin.call_all(requests[begin : begin + FAN_OUT], accept=accept)
    return answers


def ask_groups(
    admin: AdminSession, groups: Sequence[str], targets: Sequence[Target], code: int
) -> dict[str, Sequence[Reply | RocketMQError]]:
    """Send one request per group and target; return group → one response per target."""
    requests = [
        (target.address, build_request(code, {"consumer_group": group}))
        for group in groups
        for target in targets
    ]
    answers = call_bounded(admin, requests)
    width = len(targets)
    return {
        group: answers[index * width : (index + 1) * width] for index, group in enumerate(groups)
    }


def is_offline(error: RocketMQError) -> bool:
    """True for the response code that means that no client of the group is connected."""
    return isinstance(error, BrokerError) and error.code == ResponseCode.CONSUMER_NOT_ONLINE
