"""Java's exports of a cluster to JSON files: exportMetadata, exportConfigs, exportMetrics."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from mqadmin.admin.exports.metadata import broker_metadata, group_table, topic_table
from mqadmin.admin.exports.report import ClusterReport, cluster_configs, cluster_metrics
from mqadmin.admin.session import AdminSession
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command
from mqadmin.command.java.pretty import pretty_json


@java_command("exportMetadata")
def export_metadata(call: JavaCall) -> None:
    """Write topics (-t), groups (-g), or both, of one broker or added up over a cluster.

    **Source:** RocketMQ ``ExportMetadataCommand``, which writes nothing for a broker without -t
    and -g.
    """
    one_broker = call.one_of("b", "c") == "b"
    if call.flag("t") and call.flag("g"):
        raise UsageFault("exportMetadata: -t and -g exclude each other", "omit both for both")
    if one_broker and not (call.flag("t") or call.flag("g")):
        raise UsageFault("exportMetadata: -b needs -t or -g", "the file of a broker has one table")
    targets = call.admin.topology.writers(broker=call.get("b"), cluster=call.get("c"))
    listing = broker_metadata(call.admin, targets, special=call.flag("s"))
    if listing.items:
        value: dict[str, object] = {}
        if one_broker:
            (only,) = listing.items
            value["dataVersion"] = only.topic_version if call.flag("t") else only.group_version
        else:
            value["exportTime"] = call.now_ms()
        if not call.flag("g"):
            value["topicConfigTable"] = topic_table(listing.items)
        if not call.flag("t"):
            value["subscriptionGroupTable"] = group_table(listing.items)
        whole = "metadata.json"
        name = "topic.json" if call.flag("t") else "subscriptionGroup.json"
        _write(call, name if call.flag("t") or call.flag("g") else whole, value)
        if len(listing.items) > 1:
            call.session.note("queue numbers of the brokers are added up, as the Java tool does")
    call.errors(listing.errors, some_worked=bool(listing.items))


@java_command("exportConfigs")
def export_configs(call: JavaCall) -> None:
    """Write the number of servers of a cluster, and chosen settings of its masters.

    **Source:** RocketMQ ``ExportConfigsCommand``.
    """
    _export(call, "configs.json", cluster_configs)


@java_command("exportMetrics")
def export_metrics(call: JavaCall) -> None:
    """Write versions, load and size of a cluster's masters.

    **Source:** RocketMQ ``ExportMetricsCommand``, which writes 0 for an unknown value; here null.
    """
    _export(call, "metrics.json", cluster_metrics)


def _export(call: JavaCall, name: str, read: Callable[[AdminSession, str], ClusterReport]) -> None:
    found = read(call.admin, call.text("c"))
    if found.brokers:
        _write(call, name, found.report)
    call.errors(found.errors, some_worked=found.brokers > 0)


def _write(call: JavaCall, name: str, value: object) -> None:
    """Write a file to the folder of -f; default: Java's, ``rocketmq/export`` for temporary files.

    The file appears complete, under its final name; an older one is replaced.
    """
    given = call.get("f")
    folder = Path(given) if given else Path(tempfile.gettempdir()) / "rocketmq" / "export"
    path = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=folder, prefix=f".{name}.", delete=False
        ) as file:
            file.write(pretty_json(value))
        Path(file.name).replace(path)
    except OSError as error:
        raise call.fault("f", f"{path}: {error.strerror}") from error
    call.line(f"export {path} success")
