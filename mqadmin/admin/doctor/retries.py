"""Examine the share of messages that the consumers of a group send back for a retry.

The counters are those of the brokers over about the last minute. Messages that a POP consumer does
not ack are not sent back, and are not counted here.

**Source:** RocketMQ ``BrokerStatsManager#incSendBackNums``, ``#incGroupGetNums`` (both by
``topic@group``).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import Reply, build_request
from mqadmin.admin.connections import FAN_OUT
from mqadmin.admin.doctor.finding import WARNING, Finding
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target

#: A listener that fails for more than this share of its messages has a defect or a slow dependency.
RETRY_SHARE: Final = 0.1
#: Fewer retries in a minute are single failures.
MIN_RETRIES: Final = 10
_COUNTERS: Final = ("SNDBCK_PUT_NUMS", "GROUP_GET_NUMS")


def retry_findings(
    admin: AdminSession, topics: Mapping[str, Sequence[str]], targets: Sequence[Target]
) -> list[Finding]:
    """Return a warning for each topic of which a group sends many messages back.

    ``topics``: group → its topics. A broker without a counter has counted 0.
    """
    pairs = [(group, topic) for group, names in topics.items() for topic in names]
    counts = _minute_sums(
        admin, targets, [(name, f"{topic}@{group}") for group, topic in pairs for name in _COUNTERS]
    )
    return [
        Finding(
            severity=WARNING,
            kind="manyRetries",
            target=f"{group} {topic}",
            message=f"{retries} messages were sent back in the last minute, {got} were delivered",
            cause="the listener fails for these messages; each retry is stored again, and after"
            " retryMaxTimes it is a dead letter",
            fix=f"look at the log of the client, and at: mqadmin dlq stats {group}",
        )
        for (group, topic), retries, got in zip(pairs, counts[::2], counts[1::2], strict=True)
        if retries >= MIN_RETRIES and retries > RETRY_SHARE * got
    ]


def _minute_sums(
    admin: AdminSession, targets: Sequence[Target], counters: Sequence[tuple[str, str]]
) -> list[int]:
    """Return the sum of each counter (name and key) over all brokers."""
    code = RequestCode.VIEW_BROKER_STATS_DATA
    wanted = [
        (target.address, build_request(code, {"stats_name": name, "stats_key": key}))
        for name, key in counters
        for target in targets
    ]
    sums = [0] * len(counters)
    for begin in range(0, len(wanted), FAN_OUT):
        for index, answer in enumerate(admin.call_all(wanted[begin : begin + FAN_OUT]), begin):
            if isinstance(answer, Reply):  # a broker that counted nothing refuses
                sums[index // len(targets)] += answer.value.stats_minute.sum
    return sums
