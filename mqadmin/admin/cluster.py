"""Clusters: which brokers there are and how they do."""

from typing import TYPE_CHECKING

import msgspec

from mqadmin.admin.result import Listing

if TYPE_CHECKING:
    from mqadmin.admin.session import MQAdmin


class ClusterRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One broker process. What it did not tell is None.

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
    """The questions about clusters."""

    def __init__(self, admin: "MQAdmin") -> None:
        self._admin = admin

    def list(self, *, cluster: str | None = None, status: bool = True) -> Listing[ClusterRecord]:
        """One record per broker process; ``status`` false asks the name server only."""
        raise NotImplementedError
