"""Configurations and metrics of a cluster's masters, for a report on its size and load.

**Source:** RocketMQ ``ExportConfigsCommand``, ``ExportMetricsCommand``.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from broker.common.config.properties import parse_properties
from broker.common.topic import SCHEDULE_TOPIC, TRANS_HALF_TOPIC
from broker.errors import BrokerError, RocketMQError
from broker.remoting.protocol.codes import RequestCode, version_name
from broker.remoting.rpc.caller import Reply, build_request
from mqadmin.admin.cluster import first_number, whole_number
from mqadmin.admin.connections import ask_groups
from mqadmin.admin.exports.metadata import BrokerMetadata, broker_metadata
from mqadmin.admin.failure import part_errors
from mqadmin.admin.result import Listing, TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target

Wire = dict[str, object]

#: The settings that the report contains; ``filterServerNums`` exists in 4.9 only.
REPORTED_SETTINGS = (
    "brokerClusterName",
    "brokerId",
    "brokerName",
    "brokerRole",
    "fileReservedTime",
    "filterServerNums",
    "flushDiskType",
    "maxMessageSize",
    "messageDelayLevel",
    "msgTraceTopicName",
    "slaveReadEnable",
    "traceOn",
    "traceTopicEnable",
    "useTLS",
    "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
)


class ClusterReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report as a JSON object, and the masters that failed: they are missing in it."""

    report: Wire
    errors: Sequence[TargetError]
    brokers: int


def cluster_configs(admin: AdminSession, cluster: str) -> ClusterReport:
    """Return the number of servers of a cluster, and the settings of its masters."""
    masters = admin.topology.writers(cluster=cluster)
    good, errors = part_errors(masters, _configs(admin, masters))
    return ClusterReport(
        report={
            "clusterScale": {
                "namesrvSize": len(admin.namesrv_addresses),
                "masterBrokerSize": len(masters),
                "slaveBrokerSize": len(admin.topology.all(cluster=cluster)) - len(masters),
            },
            "brokerConfigs": {
                config.get("brokerName", target.label): {
                    key: config[key] for key in REPORTED_SETTINGS if key in config
                }
                for target, config in good
            },
        },
        errors=errors,
        brokers=len(good),
    )


def cluster_metrics(admin: AdminSession, cluster: str) -> ClusterReport:
    """Return versions, load and size of a cluster's masters, and the totals.

    A figure that a broker does not publish is None, and missing in the totals.
    """
    masters = admin.topology.writers(cluster=cluster)
    listing: Listing[BrokerMetadata] = broker_metadata(admin, masters)
    alive = [one.target for one in listing.items]
    configs, config_errors = part_errors(alive, _configs(admin, alive))
    settings = {target.address: config for target, config in configs}
    runtimes, runtime_errors = part_errors(alive, _runtimes(admin, alive))
    tables = {one.target.address: one for one in listing.items}
    brokers: dict[str, Wire] = {}
    for target, runtime in runtimes:
        if target.address in settings:
            table, config = tables[target.address], settings[target.address]
            brokers[target.label] = {
                "runtimeEnv": {"cpuNum": config.get("clientCallbackExecutorThreads")},
                "runtimeQuota": _quota(admin, table, runtime),
                "runtimeVersion": {
                    "rocketmqVersion": runtime.get("brokerVersionDesc"),
                    "clientInfo": _clients(admin, table),
                },
            }
    quotas = [broker["runtimeQuota"] for broker in brokers.values()]
    return ClusterReport(
        report={"evaluateReport": brokers, "totalData": _totals(quotas)},
        errors=[*listing.errors, *config_errors, *runtime_errors],
        brokers=len(brokers),
    )


def _configs(
    admin: AdminSession, targets: Sequence[Target]
) -> list[Mapping[str, str] | RocketMQError]:
    command = build_request(RequestCode.GET_BROKER_CONFIG, {})
    return [
        answer
        if isinstance(answer, RocketMQError)
        else parse_properties(answer.command.body_bytes().decode("utf-8", "replace"))
        for answer in admin.call_all([(one.address, command) for one in targets])
    ]


def _runtimes(
    admin: AdminSession, targets: Sequence[Target]
) -> list[Mapping[str, str] | RocketMQError]:
    command = build_request(RequestCode.GET_BROKER_RUNTIME_INFO, {})
    return [
        answer if isinstance(answer, RocketMQError) else answer.value.table
        for answer in admin.call_all([(one.address, command) for one in targets])
    ]


def _quota(admin: AdminSession, table: BrokerMetadata, runtime: Mapping[str, str]) -> Wire:
    scheduled, half = _counted(admin, table.target, (SCHEDULE_TOPIC, TRANS_HALF_TOPIC))
    out_tps = runtime.get("getTransferredTps", runtime.get("getTransferedTps"))  # 5.x, 4.9
    return {
        "diskRatio": {
            "commitLogDiskRatio": runtime.get("commitLogDiskRatio"),
            "consumeQueueDiskRatio": runtime.get("consumeQueueDiskRatio"),
        },
        "tps": {
            "normalInTps": first_number(runtime.get("putTps")),
            "normalOutTps": first_number(out_tps),
            "scheduleInTps": scheduled[0],
            "transInTps": half[0],
        },
        "oneDayNum": {
            "normalOneDayInNum": _one_day(runtime, "msgPutTotal"),
            "normalOneDayOutNum": _one_day(runtime, "msgGetTotal"),
            "scheduleOneDayInNum": scheduled[1],
            "transOneDayInNum": half[1],
        },
        "messageAverageSize": runtime.get("putMessageAverageSize"),
        "topicSize": len(table.topics),
        "groupSize": len(table.groups),
    }


def _one_day(runtime: Mapping[str, str], name: str) -> int | None:
    """Return the messages of yesterday, None if the broker does not publish both counts."""
    today = whole_number(runtime.get(f"{name}TodayMorning"))
    before = whole_number(runtime.get(f"{name}YesterdayMorning"))
    return None if today is None or before is None else today - before


def _counted(
    admin: AdminSession, target: Target, topics: Sequence[str]
) -> list[tuple[float | None, int | None]]:
    """Return rate and 24-hour sum of each topic; 0 where the broker has counted nothing yet."""
    answers = admin.call_all(
        [
            (
                target.address,
                build_request(
                    RequestCode.VIEW_BROKER_STATS_DATA,
                    {"stats_name": "TOPIC_PUT_NUMS", "stats_key": topic},
                ),
            )
            for topic in topics
        ]
    )
    found: list[tuple[float | None, int | None]] = []
    for answer in answers:
        if isinstance(answer, Reply):
            stats = answer.value
            windows = (stats.stats_day, stats.stats_hour, stats.stats_minute)
            day = next((window.sum for window in windows if window.sum), 0)
            found.append((stats.stats_minute.tps, day))
        else:  # a refusal: nothing counted; otherwise no response
            found.append((0.0, 0) if isinstance(answer, BrokerError) else (None, None))
    return found


def _clients(admin: AdminSession, table: BrokerMetadata) -> list[str]:
    """Return language and version of the connected consumers: ``JAVA%V5_3_3``."""
    code = RequestCode.GET_CONSUMER_CONNECTION_LIST
    answers = ask_groups(admin, list(table.groups), [table.target], code)
    return sorted(
        {
            f"{client.language}%{version_name(client.version)}"
            for (answer,) in answers.values()
            if isinstance(answer, Reply)
            for client in answer.value.connection_set
        }
    )


def _totals(quotas: Iterable[object]) -> Wire:
    tps: dict[str, float] = {}
    numbers: dict[str, int] = {}
    for quota in quotas:
        assert isinstance(quota, dict)
        for name, rate in quota["tps"].items():
            total = f"total{name[0].upper()}{name[1:]}"
            tps[total] = tps.get(total, 0.0) + (rate or 0.0)
        for name, number in quota["oneDayNum"].items():
            numbers[name] = numbers.get(name, 0) + (number or 0)
    return {"totalTps": tps, "totalOneDayNum": numbers}
