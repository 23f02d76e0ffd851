"""Clusters: their brokers and the status of each."""

from collections.abc import Mapping

import msgspec

from broker.errors import RocketMQError
from broker.remoting.protocol.codes import RequestCode, version_name
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.failure import describe
from mqadmin.admin.result import Listing, TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target


class ClusterRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One broker process. None: not reported by the broker.

    ``inTps`` and ``outTps`` are messages per second over the last 10 s; ``commitLogDiskRatio`` is
    0 to 1; ``earliestMessageTimestamp`` is ms.
    """

    cluster_name: str
    broker_name: str
    broker_id: int
    address: str
    version: str | None = None
    in_tps: float | None = None
    out_tps: float | None = None
    page_cache_lock_time_mills: int | None = None
    earliest_message_timestamp: int | None = None
    commit_log_disk_ratio: float | None = None
    active: bool | None = None


class ClusterAdmin:
    """Queries about clusters."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin

    def list(self, *, cluster: str | None = None, status: bool = True) -> Listing[ClusterRecord]:
        """Return one record per broker process; ``status`` False queries only the name server."""
        targets = self._admin.topology.all(cluster=cluster)
        if not status:
            return Listing(items=[cluster_record(target, {}) for target in targets])
        records: list[ClusterRecord] = []
        errors: list[TargetError] = []
        answers = self._admin.call_all(
            [
                (target.address, build_request(RequestCode.GET_BROKER_RUNTIME_INFO, {}))
                for target in targets
            ]
        )
        for target, answer in zip(targets, answers, strict=True):
            if isinstance(answer, RocketMQError):
                errors.append(describe(answer, address=target.address, target=target.label))
                records.append(cluster_record(target, {}))
            else:
                records.append(cluster_record(target, answer.value.table))
        return Listing(items=records, errors=errors)


def cluster_record(target: Target, runtime: Mapping[str, str]) -> ClusterRecord:
    """Build a broker's record from its runtime information; values that are not numbers are None.

    **Source:** RocketMQ ``ClusterListSubCommand`` for the keys; the out-TPS key is
    ``getTransferredTps`` in 5.x and ``getTransferedTps`` in 4.9.
    """
    version = runtime.get("brokerVersionDesc")
    if version is None and runtime.get("brokerVersion", "").isdecimal():
        version = version_name(int(runtime["brokerVersion"]))
    active = runtime.get("brokerActive")
    return ClusterRecord(
        cluster_name=target.cluster_name or "",
        broker_name=target.broker_name or "",
        broker_id=target.broker_id or 0,
        address=target.address,
        version=version,
        in_tps=first_number(runtime.get("putTps")),
        out_tps=first_number(runtime.get("getTransferredTps", runtime.get("getTransferedTps"))),
        page_cache_lock_time_mills=whole_number(runtime.get("pageCacheLockTimeMills")),
        earliest_message_timestamp=_time(runtime.get("earliestMessageTimeStamp")),
        commit_log_disk_ratio=first_number(runtime.get("commitLogDiskRatio")),
        active=None if active is None else active == "true",
    )


def first_number(text: str | None) -> float | None:
    """Return the first of blank-separated numbers, None when there is none."""
    try:
        return float((text or "").split()[0])
    except (IndexError, ValueError):
        return None


def whole_number(text: str | None) -> int | None:
    """Return an integer, None when the text is not an integer."""
    try:
        return int(text or "")
    except ValueError:
        return None


def _time(text: str | None) -> int | None:
    number = whole_number(text)
    return number if number is not None and number > 0 else None
