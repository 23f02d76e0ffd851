"""Java's commands about RocksDB stores. This tool has no RocksDB library: it sends requests."""

from broker.errors import RocketMQError
from mqadmin.admin.brokers.rocksdb import CONFIG_TYPES, check_write_progress, export_config
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command

DAY_MS = 86_400_000
CHECKED_DAYS = 30


@java_command("checkRocksdbCqWriteProgress")
def check_rocksdb_cq_write_progress(call: JavaCall) -> None:
    """Ask brokers to compare their RocksDB queues with the file queues.

    **Source:** RocketMQ ``CheckRocksdbCqWriteProgressCommand``; the result is in the broker's log.
    """
    since_ms = call.number("cf")
    if since_ms is None:
        since_ms = call.now_ms() - CHECKED_DAYS * DAY_MS
    listing = check_write_progress(
        call.admin, call.text("c"), topic=call.get("t") or "", since_ms=since_ms
    )
    for target in listing.items:
        call.line(f"{target.label} check doing, please wait and get the result from log... ")
    call.errors(listing.errors, some_worked=bool(listing.items))


@java_command("rocksDBConfigToJson")
def rocksdb_config_to_json(call: JavaCall) -> None:
    """Ask brokers to export configurations of their RocksDB as JSON files.

    **Source:** RocketMQ ``RocksDBConfigToJsonCommand``.
    """
    if call.get("p"):
        raise _not_readable(call, call.text("p"))
    call.one_of("b", "c")
    words = call.get("t") or ";".join(CONFIG_TYPES)
    types = [word.strip() for word in words.split(";") if word.strip()]
    listing = export_config(call.admin, types, broker=call.get("b"), cluster=call.get("c"))
    for target in listing.items:
        call.line(f"export {';'.join(types)} in {target.address} success")
    call.errors(listing.errors, some_worked=bool(listing.items))


@java_command("exportMetadataInRocksDB")
def export_metadata_in_rocksdb(call: JavaCall) -> None:
    """Refuse: a RocksDB directory can only be read with its library.

    **Source:** RocketMQ ``ExportMetadataInRocksDBCommand``.
    """
    raise _not_readable(call, call.text("p"))


def _not_readable(call: JavaCall, path: str) -> RocketMQError:
    return RocketMQError(
        f"{call.name.name} ({path}): this tool cannot read RocksDB directories",
        "mqadmin rocksDBConfigToJson -b BROKER asks the broker to export them",
    )
