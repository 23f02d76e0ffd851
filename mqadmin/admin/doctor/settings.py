"""Compare the settings of the brokers of a cluster, and check single settings.

Settings that name a broker or describe its host differ by design and are not compared.
"""

import re
from collections.abc import Mapping, Sequence

from mqadmin.admin.broker import BrokerConfigRecord
from mqadmin.admin.doctor.finding import NOTICE, WARNING, Finding

_OWN = re.compile(
    r"broker(?:Name|Id|IP\d?|Role|Permission)|.*(?:Port|Path|Paths|Home|Dir|Addr|Address)"
    r"|storePath.*|.*Path(?:RootDir|CommitLog).*|bindAddress|.*(?:Threads|ThreadPoolNums|Nums)"
    r"|haMasterAddress|.*HostName|namesrvAddr|accessMessageInMemoryMaxRatio|metricsLabel"
)

#: Settings on which the behaviour seen by clients or the durability depends.
SERIOUS: Mapping[str, str] = {
    "flushDiskType": "the durability of a message depends on the broker that stores it",
    "fileReservedTime": "messages of a topic are kept longer on some brokers than on others",
    "maxMessageSize": "a message is accepted or refused depending on the broker",
    "messageDelayLevel": "a delay level means a different time on each broker",
    "autoCreateTopicEnable": "a topic is created or refused depending on the broker",
    "autoCreateSubscriptionGroup": "a group is created or refused depending on the broker",
    "enablePropertyFilter": "SQL92 subscriptions are refused by some brokers",
    "timerWheelEnable": "timer messages are refused by some brokers",
    "authenticationEnabled": "some brokers accept requests without credentials",
    "authorizationEnabled": "some brokers accept requests without permission",
    "aclEnable": "some brokers accept requests without credentials",
    "rejectTransactionMessage": "transactions are refused by some brokers",
    "inSyncReplicas": "the durability of a message depends on the broker that stores it",
    "transactionCheckMax": "open transactions are dropped earlier on some brokers",
    "transactionTimeOut": "transactions are checked earlier on some brokers",
    "namesrvAddr": "the brokers register at different name servers",
}


def setting_findings(records: Sequence[BrokerConfigRecord]) -> list[Finding]:
    """Return one finding per setting that differs between the masters of a cluster."""
    clusters: dict[str, list[BrokerConfigRecord]] = {}
    for record in records:
        if record.broker_id == 0:
            clusters.setdefault(record.cluster_name or "", []).append(record)
    return [
        finding
        for cluster, members in sorted(clusters.items())
        for finding in _differences(cluster, members)
    ]


def _differences(cluster: str, members: Sequence[BrokerConfigRecord]) -> list[Finding]:
    keys = sorted({key for member in members for key in member.config})
    findings = []
    for key in keys:
        values: dict[str, list[str]] = {}
        for member in members:
            # a setting that a broker of another version does not have does not differ
            if key in member.config:
                values.setdefault(member.config[key], []).append(member.broker_name or "")
        if len(values) < 2 or (_OWN.fullmatch(key) and key not in SERIOUS):
            continue
        # the value of most brokers, the first of equal counts
        common = max(values, key=lambda value: len(values[value]))
        others = sorted(
            name for value, names in values.items() if value != common for name in names
        )
        shown = "; ".join(
            f"{value or '(empty)'}: {', '.join(names)}" for value, names in values.items()
        )
        findings.append(
            Finding(
                severity=WARNING if key in SERIOUS else NOTICE,
                kind="settingDiffers",
                target=f"{cluster} {key}",
                message=shown,
                cause=SERIOUS.get(key, "broker.conf of one broker was changed alone"),
                fix=_set_setting(others, key, common),
            )
        )
    return findings


def _set_setting(brokers: Sequence[str], key: str, value: str) -> str:
    commands = [f"mqadmin broker config set {broker} {key}={value}" for broker in brokers]
    return "; ".join(commands) + " (and in broker.conf)"


def permission_findings(records: Sequence[BrokerConfigRecord]) -> list[Finding]:
    """Return one finding per broker that does not accept both reads and writes."""
    words = {"2": "refuses reads", "4": "refuses writes"}
    return [
        Finding(
            severity=WARNING,
            kind="permission",
            target=record.broker_name or record.address,
            message=f"brokerPermission={permission}: {words.get(permission, 'refuses clients')}",
            cause="the broker was taken out of service, for example before an upgrade",
            fix=f"mqadmin broker config set {record.broker_name} brokerPermission=6",
        )
        for record in records
        if (permission := record.config.get("brokerPermission", "6")) != "6"
    ]
