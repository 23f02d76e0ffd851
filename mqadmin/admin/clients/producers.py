"""Producers: the clients that brokers know by their heartbeats.

A producer sends heartbeats to every broker of the topics it has sent to, so each client appears
once per broker. Brokers report all producer groups since 4.9.4.
"""

from collections.abc import Sequence

import msgspec

from broker.errors import BrokerError, RocketMQError
from broker.remoting.protocol.codes import RequestCode, ResponseCode, version_name
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.brokers.producers import ProducerRecord, producers
from mqadmin.admin.connections import Connection
from mqadmin.admin.failure import describe
from mqadmin.admin.result import Listing, TargetError
from mqadmin.admin.session import AdminSession


class ProducerConnections(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The connected clients of a producer group over all brokers."""

    group: str
    connections: Sequence[Connection]
    errors: Sequence[TargetError] = ()


class ProducerAdmin:
    """Queries about producers."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin

    def list(
        self,
        *,
        group: str | None = None,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> Listing[ProducerRecord]:
        """Return one record per producer and broker process, sorted by group and client id."""
        found = producers(self._admin, broker=broker, cluster=cluster)
        items = [item for item in found.items if group in (None, item.producer_group)]
        items.sort(key=lambda item: (item.producer_group, item.client_id, item.broker_name or ""))
        return Listing(items=items, errors=found.errors)

    def connections(self, group: str) -> ProducerConnections:
        """Return the clients of a producer group from every broker, merged by client id.

        Java asks one broker of a topic's route, and so misses clients of the others.

        **Source:** RocketMQ ``ProducerConnectionSubCommand``.
        """
        targets = self._admin.topology.readers()
        answers = self._admin.call_all(
            [
                (
                    target.address,
                    build_request(
                        RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producer_group": group}
                    ),
                )
                for target in targets
            ]
        )
        found: dict[str, Connection] = {}
        errors: list[TargetError] = []
        for target, answer in zip(targets, answers, strict=True):
            if isinstance(answer, RocketMQError):
                if not _is_unknown_group(answer):
                    errors.append(describe(answer, address=target.address, target=target.label))
                continue
            for client in answer.value.connection_set:
                known = found.get(client.client_id)
                found[client.client_id] = Connection(
                    client_id=client.client_id,
                    client_addr=client.client_addr,
                    language=str(client.language or ""),
                    version=version_name(client.version),
                    brokers=[*(known.brokers if known else ()), target.label],
                )
        connections = [found[name] for name in sorted(found)]
        return ProducerConnections(group=group, connections=connections, errors=errors)


def _is_unknown_group(error: RocketMQError) -> bool:
    """True for the response to an unknown producer group, which has no specific response code."""
    return (
        isinstance(error, BrokerError)
        and error.code == ResponseCode.SYSTEM_ERROR
        and "producer group" in error.remark
    )
