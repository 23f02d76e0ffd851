"""Examine consumer groups: subscriptions, owners of queues, client ids, progress, retries.

The facts of a client are its own running information, which the broker requests from it. Times in
it are by the client's clock.

**Source:** RocketMQ ``ConsumerRunningInfo#analyzeSubscription``, ``#analyzeProcessQueue``.
"""

import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from broker.common.group import is_system_group
from broker.common.message_queue import MessageQueue
from broker.common.topic import is_retry_topic
from broker.errors import ClientError, RocketMQError
from broker.remoting.protocol.body.consumer.connection import Connection
from broker.remoting.protocol.body.consumer.running import ConsumerRunningInfo, ProcessQueueInfo
from broker.remoting.protocol.codes import RequestCode, version_name
from broker.remoting.rpc.caller import Reply, build_request
from mqadmin.admin.connections import ask_groups
from mqadmin.admin.doctor.finding import CRITICAL, NOTICE, WARNING, Finding, ordered
from mqadmin.admin.doctor.retries import retry_findings
from mqadmin.admin.group import known_groups
from mqadmin.admin.offset.progress import BELOW_MIN, group_progress
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target

BROADCASTING = "BROADCASTING"
#: A client pulls each of its queues at least every 20 s; its own limit to start over is 120 s.
PULL_EXPIRED_MS = 120_000
#: A message that is consumed for longer than this keeps its queue's offset back.
LONG_RUNNING_MS = 60_000
#: Defaults of pullThresholdForQueue (messages) and pullThresholdSizeForQueue (MiB).
CACHED_MESSAGES = 1_000
CACHED_MIB = 100


class GroupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A group as its brokers and clients describe it.

    ``connections``: broker name → clients connected there; ``running``: client id → running
    information, of the clients that answered; ``silent``: client id → why it did not; ``queues``:
    the readable queues of the subscribed topics, retry topics excluded.
    """

    group: str
    model: str
    connections: Mapping[str, Sequence[Connection]]
    running: Mapping[str, ConsumerRunningInfo]
    silent: Mapping[str, str]
    queues: Sequence[MessageQueue]


def examine_consumers(
    admin: AdminSession,
    groups: Sequence[str] = (),
    *,
    now: Callable[[], float] = time.time,
) -> list[Finding]:
    """Return the findings about groups, or all groups, worst first.

    ClientError if all brokers answer and none has one of the groups.
    """
    targets = admin.topology.readers()
    known, errors = known_groups(admin, targets)
    names = list(groups) or sorted(name for name in known if not is_system_group(name))
    findings = [
        Finding(
            severity=CRITICAL,
            kind="brokerUnreachable",
            target=error.target or "broker",
            message=error.message,
            cause="the broker hangs or has stopped: its queues are not consumed",
            fix="mqadmin cluster doctor",
        )
        for error in errors
    ]
    if not errors and (unknown := set(names) - known):
        brokers = ", ".join(target.label for target in targets)
        raise ClientError(
            f"group {min(unknown)} does not exist on {brokers}",
            "mqadmin group list shows the groups",
        )
    answers = ask_groups(admin, names, targets, RequestCode.GET_CONSUMER_CONNECTION_LIST)
    now_ms = int(now() * 1000)
    topics: dict[str, list[str]] = {}
    for name in names:
        facts = _facts(admin, name, targets, answers[name])
        if facts.connections:
            findings += group_findings(facts, now_ms)
            topics[name] = sorted({queue.topic for queue in facts.queues})
        findings += _progress_findings(admin, facts)
    return ordered(findings + retry_findings(admin, topics, targets))


def _facts(
    admin: AdminSession,
    group: str,
    targets: Sequence[Target],
    answers: Sequence[Reply | RocketMQError],
) -> GroupFacts:
    connections: dict[str, Sequence[Connection]] = {}
    addresses: dict[str, str] = {}
    topics: set[str] = set()
    model = ""
    for target, answer in zip(targets, answers, strict=True):
        if isinstance(answer, RocketMQError):
            continue  # offline there; a broker that does not answer is reported apart
        connections[target.label] = answer.value.connection_set
        topics |= {topic for topic in answer.value.subscription_table if not is_retry_topic(topic)}
        model = model or answer.value.message_model or ""
        for one in answer.value.connection_set:
            addresses.setdefault(one.client_id, target.address)
    replies = admin.call_all(
        [
            (
                address,
                build_request(
                    RequestCode.GET_CONSUMER_RUNNING_INFO,
                    {"consumer_group": group, "client_id": client_id},
                ),
            )
            for client_id, address in addresses.items()
        ]
    )
    running: dict[str, ConsumerRunningInfo] = {}
    silent: dict[str, str] = {}
    for client_id, reply in zip(addresses, replies, strict=True):
        if isinstance(reply, RocketMQError):
            silent[client_id] = reply.message
        else:
            running[client_id] = reply.value
    queues: list[MessageQueue] = []
    for topic in sorted(topics):
        route = admin.routes.find(topic)
        queues += [] if route is None else route.subscribe_queues()
    return GroupFacts(
        group=group,
        model=model,
        connections=connections,
        running=running,
        silent=silent,
        queues=queues,
    )


def group_findings(facts: GroupFacts, now_ms: int) -> list[Finding]:
    """Return the findings about a group with connected clients; ``now_ms`` epoch ms."""
    return [
        *_client_findings(facts),
        *_subscription_findings(facts),
        *_owner_findings(facts),
        *[
            finding
            for client_id, info in sorted(facts.running.items())
            for queue, state in sorted(info.mq_table.items())
            for finding in queue_findings(facts.group, client_id, queue, state, info, now_ms)
        ],
    ]


def _client_findings(facts: GroupFacts) -> list[Finding]:
    group = facts.group
    findings = []
    hosts: dict[str, set[str]] = {}
    doubled: set[str] = set()
    versions: dict[str, set[str]] = {}
    for clients in facts.connections.values():
        ids = [one.client_id for one in clients]
        doubled |= {client_id for client_id in ids if ids.count(client_id) > 1}
        for one in clients:
            hosts.setdefault(one.client_id, set()).add(one.client_addr.rpartition(":")[0])
            versions.setdefault(version_name(one.version), set()).add(one.client_id)
    doubled |= {client_id for client_id, found in hosts.items() if len(found) > 1}
    for client_id in sorted(doubled):
        places = ", ".join(sorted(hosts[client_id]))
        findings.append(
            Finding(
                severity=CRITICAL,
                kind="duplicateClientId",
                target=f"{group} {client_id}",
                message=f"several clients have the id {client_id} ({places})",
                cause="equal instanceName, or containers with one address and pid: they take the"
                " same queues, and the other queues are not consumed",
                fix="set another instanceName in each client (default: PID@host and a time)",
            )
        )
    if len(versions) > 1:
        findings.append(
            Finding(
                severity=NOTICE,
                kind="clientVersions",
                target=group,
                message="; ".join(f"{name}: {len(ids)}" for name, ids in sorted(versions.items())),
                cause="a roll-out of a new client was not completed",
                fix=f"mqadmin consumer connections {group} shows the version of each client",
            )
        )
    findings += [
        Finding(
            severity=WARNING,
            kind="clientSilent",
            target=f"{group} {client_id}",
            message=reason,
            cause="the client hangs or cannot be reached from the broker; 4.x POP proxies do not"
            " answer either",
            fix="take a thread dump of the client (jstack), restart it",
        )
        for client_id, reason in sorted(facts.silent.items())
    ]
    return findings


def _subscription_findings(facts: GroupFacts) -> list[Finding]:
    """Report clients whose subscriptions differ: brokers keep only the newest of a group."""
    shapes: dict[str, list[str]] = {}
    for client_id, info in sorted(facts.running.items()):
        words = sorted(
            f"{one.topic}:{one.sub_string or '*'}"
            for one in info.subscription_set
            if not is_retry_topic(one.topic)
        )
        shapes.setdefault(", ".join(words) or "(nothing)", []).append(client_id)
    if len(shapes) < 2:
        return []
    return [
        Finding(
            severity=CRITICAL,
            kind="subscriptionsDiffer",
            target=facts.group,
            message="; ".join(f"{shape} ({len(ids)} clients)" for shape, ids in shapes.items()),
            cause="brokers apply one subscription to the whole group: messages are skipped",
            fix="give each subscription its own consumer group, or finish the roll-out: "
            + ", ".join(min(shapes.values(), key=len)[:3]),
        )
    ]


def _owner_findings(facts: GroupFacts) -> list[Finding]:
    """Report queues without an owner or with several; not for broadcasting and POP."""
    pops = any(info.mq_pop_table for info in facts.running.values())
    if facts.model == BROADCASTING or pops or facts.silent:
        return []
    owners: dict[MessageQueue, list[str]] = {}
    for client_id, info in facts.running.items():
        for queue, state in info.mq_table.items():
            if not state.droped:
                owners.setdefault(queue, []).append(client_id)
    findings = []
    without = [queue for queue in facts.queues if queue not in owners]
    for topic in sorted({queue.topic for queue in without}):
        names = [f"{one.broker_name}/{one.queue_id}" for one in without if one.topic == topic]
        findings.append(
            Finding(
                severity=CRITICAL,
                kind="queueWithoutOwner",
                target=f"{facts.group} {topic}",
                message=f"{len(names)} queues are not consumed: {', '.join(names[:5])}",
                cause="rebalancing is in progress, clients have equal ids, or their routes are old",
                fix="repeat in 30 s; if it stays, restart one client to rebalance",
            )
        )
    findings += [
        Finding(
            severity=CRITICAL,
            kind="queueWithTwoOwners",
            target=f"{facts.group} {queue.topic} {queue.broker_name}/{queue.queue_id}",
            message=f"owned by {', '.join(sorted(ids))}",
            cause="the clients do not have the same list of members: messages are consumed twice",
            fix="repeat in 30 s; if it stays, restart these clients",
        )
        for queue, ids in sorted(owners.items())
        if len(ids) > 1
    ]
    return findings


def queue_findings(
    group: str,
    client_id: str,
    queue: MessageQueue,
    state: ProcessQueueInfo,
    info: ConsumerRunningInfo,
    now_ms: int,
) -> list[Finding]:
    """Return the findings about one queue in one client."""
    if state.droped or is_retry_topic(queue.topic):
        return []
    target = f"{group} {queue.topic} {queue.broker_name}/{queue.queue_id}"
    place = f"--topic {queue.topic} --broker {queue.broker_name} --queue {queue.queue_id}"
    first = f"mqadmin msg query {place} --offset {state.cached_msg_min_offset}"
    findings = []
    count = _threshold(info, "pullThresholdForQueue", CACHED_MESSAGES)
    size = _threshold(info, "pullThresholdSizeForQueue", CACHED_MIB)
    if state.cached_msg_count > count or state.cached_msg_size_in_mib > size:
        findings.append(
            Finding(
                severity=WARNING,
                kind="flowControl",
                target=target,
                message=f"{client_id} does not pull: {state.cached_msg_count} messages"
                f" ({state.cached_msg_size_in_mib} MiB) wait in it",
                cause="the listener is slower than the producers, or one message blocks the offset",
                fix=f"add clients or consumeThreadMax; {first}",
            )
        )
    elif 0 < state.last_pull_timestamp < now_ms - PULL_EXPIRED_MS:
        age = (now_ms - state.last_pull_timestamp) // 1000
        findings.append(
            Finding(
                severity=CRITICAL,
                kind="stuckQueue",
                target=target,
                message=f"{client_id} has not pulled for {age} s",
                cause="the client's pull thread hangs, or its connection to the broker is lost",
                fix=f"restart the client {client_id}",
            )
        )
    if state.cached_msg_count and 0 < state.last_consume_timestamp < now_ms - LONG_RUNNING_MS:
        age = (now_ms - state.last_consume_timestamp) // 1000
        findings.append(
            Finding(
                severity=WARNING,
                kind="longRunning",
                target=target,
                message=f"no message was finished for {age} s, {state.cached_msg_count} wait;"
                f" the oldest has offset {state.cached_msg_min_offset}",
                cause="the listener hangs or is slow; after consumeTimeout (15 min) it is retried",
                fix=first,
            )
        )
    return findings


def _threshold(info: ConsumerRunningInfo, key: str, default: int) -> int:
    text = info.properties.get(key, "")
    return int(text) if text.isdecimal() and int(text) > 0 else default


def _progress_findings(admin: AdminSession, facts: GroupFacts) -> list[Finding]:
    """Report lag without clients, and offsets below the minimum: those messages are lost to it."""
    group = facts.group
    try:
        progress = group_progress(admin, group, ages=False)
    except RocketMQError:
        return []
    findings = []
    lag = sum(max(0, one.lag or 0) for one in progress.queues)
    if lag and not facts.connections and not progress.errors:
        findings.append(
            Finding(
                severity=WARNING,
                kind="noClient",
                target=group,
                message=f"no client is connected, {lag} messages wait",
                cause="the clients have stopped or use other name servers, or the group is unused",
                fix=f"start a client, or: mqadmin group delete {group}",
            )
        )
    for topic in sorted({one.queue.topic for one in progress.queues if one.state == BELOW_MIN}):
        behind = [
            one for one in progress.queues if one.queue.topic == topic and one.state == BELOW_MIN
        ]
        lost = sum((one.min_offset or 0) - (one.committed or 0) for one in behind)
        findings.append(
            Finding(
                severity=WARNING,
                kind="belowMin",
                target=f"{group} {topic}",
                message=f"{lost} messages were deleted before the group consumed them",
                cause="the lag is longer than the retention (fileReservedTime)",
                fix=f"mqadmin offset reset {group} --topic {topic} --to earliest",
            )
        )
    return findings
