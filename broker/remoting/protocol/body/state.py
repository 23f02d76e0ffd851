"""States of optional broker parts: cold data flow control, RocksDB."""

# ruff: noqa: RUF012  (msgspec copies empty defaults per instance)

from broker.remoting.protocol.body.base import Body


class ColdDataFlowInfo(Body, frozen=True, kw_only=True):
    """GET_COLD_DATA_FLOW_CTR_INFO (2003); thresholds in bytes.

    **Source:** RocketMQ ``AdminBrokerProcessor#getColdDataFlowCtrInfo``.
    """

    runtime_table: dict[str, object] = {}
    config_table: dict[str, int] = {}
    cg_cold_read_threshold: int = 0
    global_cold_read_threshold: int = 0
    global_acc: int = 0


class CheckRocksdbCqWriteResult(Body, frozen=True, kw_only=True):
    """CHECK_ROCKSDB_CQ_WRITE_PROGRESS (354); status 0 ok, 1 not ok, 2 in progress, 3 error.

    **Source:** RocketMQ ``CheckRocksdbCqWriteResult``.
    """

    check_result: str | None = None
    check_status: int = 0
