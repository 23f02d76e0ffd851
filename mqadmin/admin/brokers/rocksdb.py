"""Requests about RocksDB stores: progress of the double write, export of configurations."""

from collections.abc import Mapping, Sequence
from typing import Any

from broker.errors import ConfigError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.failure import part_errors
from mqadmin.admin.result import Listing
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target

CONFIG_TYPES = ("topics", "subscriptionGroups", "consumerOffsets")
"""Configurations that a broker keeps in RocksDB."""


def check_write_progress(
    admin: AdminSession, cluster: str, *, topic: str = "", since_ms: int | None = None
) -> Listing[Target]:
    """Ask the brokers of ``cluster`` to compare RocksDB queues with file queues; result: its log.

    **Source:** RocketMQ ``CheckRocksdbCqWriteProgressCommand``.
    """
    fields = {"topic": topic, "check_store_time": since_ms}
    targets = admin.topology.all(cluster=cluster)
    return _ask(admin, targets, RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, fields)


def export_config(
    admin: AdminSession,
    types: Sequence[str],
    *,
    broker: str | None = None,
    cluster: str | None = None,
) -> Listing[Target]:
    """Ask brokers to write configurations of their RocksDB to JSON files.

    **Source:** RocketMQ ``RocksDBConfigToJsonCommand``, the mode with requests.
    """
    unknown = [name for name in types if name not in CONFIG_TYPES]
    if unknown or not types:
        raise ConfigError(
            f"not a type of configuration: {', '.join(unknown)!r}",
            "one of " + ";".join(CONFIG_TYPES),
        )
    targets = admin.topology.all(cluster=cluster, broker=broker)
    fields = {"config_type": ";".join(types)}
    return _ask(admin, targets, RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, fields)


def _ask(
    admin: AdminSession, targets: Sequence[Target], code: int, fields: Mapping[str, Any]
) -> Listing[Target]:
    answers = admin.call_all([(target.address, build_request(code, fields)) for target in targets])
    good, errors = part_errors(targets, answers)
    return Listing(items=[target for target, _ in good], errors=errors)
