"""Epochs of masters: the terms that brokers with a controller record."""

from collections.abc import Sequence

import msgspec

from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.failure import part_errors
from mqadmin.admin.result import Listing
from mqadmin.admin.session import AdminSession


class Epoch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One term of a master; the offsets are physical offsets."""

    epoch: int
    start_offset: int
    end_offset: int


class EpochRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The epochs of one broker process."""

    cluster_name: str | None
    broker_name: str | None
    broker_id: int
    address: str
    max_offset: int
    epochs: Sequence[Epoch]


def epochs(
    admin: AdminSession, *, broker: str | None = None, cluster: str | None = None
) -> Listing[EpochRecord]:
    """Return the epochs of the brokers; brokers without a controller refuse the request.

    **Source:** RocketMQ ``GetBrokerEpochSubCommand``.
    """
    targets = admin.topology.all(cluster=cluster, broker=broker)
    answers = admin.call_all(
        [
            (target.address, build_request(RequestCode.GET_BROKER_EPOCH_CACHE, {}))
            for target in targets
        ]
    )
    good, errors = part_errors(targets, answers)
    records: list[EpochRecord] = []
    for target, answer in good:
        cache = answer.value
        found = [
            Epoch(epoch=item.epoch, start_offset=item.start_offset, end_offset=item.end_offset)
            for item in cache.epoch_list
        ]
        if found:  # the last term is open: it ends at the end of the log
            found[-1] = msgspec.structs.replace(found[-1], end_offset=cache.max_offset)
        records.append(
            EpochRecord(
                cluster_name=cache.cluster_name or target.cluster_name,
                broker_name=cache.broker_name or target.broker_name,
                broker_id=cache.broker_id,
                address=target.address,
                max_offset=cache.max_offset,
                epochs=found,
            )
        )
    return Listing(items=records, errors=errors)
