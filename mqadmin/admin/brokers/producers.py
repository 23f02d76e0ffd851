"""Producers connected to brokers."""

import msgspec

from broker.remoting.protocol.codes import RequestCode, version_name
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.failure import part_errors
from mqadmin.admin.result import Listing
from mqadmin.admin.session import AdminSession


class ProducerRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One producer as a broker knows it; ``lastUpdateTimestamp`` is its last heartbeat, ms."""

    broker_name: str | None
    address: str
    producer_group: str
    client_id: str
    client_addr: str
    language: str
    version: str
    version_code: int
    last_update_timestamp: int


def producers(
    admin: AdminSession, *, broker: str | None = None, cluster: str | None = None
) -> Listing[ProducerRecord]:
    """Return the producers of one broker (name or address), a cluster, or all.

    A broker before 4.9.4 does not know the request: it is one of the errors.

    **Source:** RocketMQ ``ProducerSubCommand``.
    """
    targets = admin.topology.all(cluster=cluster, broker=broker)
    answers = admin.call_all(
        [
            (target.address, build_request(RequestCode.GET_ALL_PRODUCER_INFO, {}))
            for target in targets
        ]
    )
    good, errors = part_errors(targets, answers)
    records = [
        ProducerRecord(
            broker_name=target.broker_name,
            address=target.address,
            producer_group=group,
            client_id=member.client_id,
            client_addr=member.remote_ip.removeprefix("/"),
            language=member.language or "",
            version=version_name(member.version),
            version_code=member.version,
            last_update_timestamp=member.last_update_timestamp,
        )
        for target, answer in good
        for group, members in sorted(answer.value.data.items())
        for member in members
    ]
    return Listing(items=records, errors=errors)
