"""The running information of consumers, requested from each client through its broker.

A client reports its settings, subscriptions, the queues it holds with the cached messages, rates
per topic, and on request the stacks of its threads. A client that does not respond is an error of
its own; the others are shown.

**Source:** RocketMQ ``ConsumerRunningInfo``, ``ConsumerStatusSubCommand``.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from broker.common.clock import Clock
from broker.common.message_queue import MessageQueue
from broker.errors import ClientError, RocketMQError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.connections import Connection, Subscription, consumer_connections
from mqadmin.admin.failure import describe
from mqadmin.admin.result import Listing, TargetError
from mqadmin.admin.session import AdminSession

START_TIMESTAMP = "PROP_CONSUMER_START_TIMESTAMP"
CONSUME_TYPE = "PROP_CONSUME_TYPE"
ORDERLY = "PROP_CONSUMEORDERLY"
PUSH_TYPES = ("CONSUME_PASSIVELY", "CONSUME_POP")


class RunningQueue(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A queue that a client holds; ``waitAckCount`` is for queues received by POP.

    Times are epoch ms, None if it has not happened; offsets are None for a queue received by POP.
    """

    topic: str
    broker_name: str
    queue_id: int
    commit_offset: int | None = None
    cached_msg_min_offset: int | None = None
    cached_msg_max_offset: int | None = None
    cached_msg_count: int | None = None
    cached_msg_size_in_mib: int | None = None
    locked: bool | None = None
    dropped: bool = False
    wait_ack_count: int | None = None
    last_pull_timestamp: int | None = None
    last_consume_timestamp: int | None = None


class RunningTopic(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Rates per second and mean durations in ms of one topic in a client."""

    topic: str
    pull_rt: float
    pull_tps: float
    consume_rt: float
    consume_ok_tps: float
    consume_failed_tps: float
    consume_failed_msgs: int


class RunningRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The running information of one client. ``startTimestamp``: epoch ms, None if not reported.

    ``queueCount`` and ``cachedMessages`` are sums over ``queues``; ``jstack`` is None unless
    requested.
    """

    group: str
    client_id: str
    client_addr: str
    language: str
    version: str
    consume_type: str | None
    orderly: bool | None
    start_timestamp: int | None
    queue_count: int
    cached_messages: int
    properties: Mapping[str, str]
    subscriptions: Sequence[Subscription]
    queues: Sequence[RunningQueue]
    topics: Sequence[RunningTopic]
    user_consumer_info: Mapping[str, str]
    jstack: str | None = None


class StackRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One thread of a client, its state and its frames.

    Java clients list the innermost frame first; ``frame`` is the first one.
    """

    client_id: str
    thread: str
    state: str | None
    frame: str | None
    frames: Sequence[str]


class RunningAdmin:
    """Running information of the clients of a group."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin

    def running(
        self,
        group: str,
        *,
        client_id: str | None = None,
        broker: str | None = None,
        jstack: bool = False,
    ) -> Listing[RunningRecord]:
        """Return one record per connected client; ClientError when ``client_id`` is not connected.

        ``broker`` restricts it to the clients that are connected to that broker.
        """
        found = consumer_connections(self._admin, group)
        chosen = [
            client
            for client in found.connections
            if client_id in (None, client.client_id)
            and (broker is None or broker in client.brokers)
        ]
        if not chosen and client_id is not None and not found.errors:
            known = ", ".join(client.client_id for client in found.connections) or "none"
            raise ClientError(
                f"no client {client_id} of group {group} is connected (connected: {known})",
                f"mqadmin consumer connections {group} lists the clients",
            )
        items, errors = self._ask(group, chosen, jstack=jstack)
        return Listing(items=items, errors=[*found.errors, *errors])

    def stacks(
        self, group: str, *, client_id: str | None = None, broker: str | None = None
    ) -> Listing[StackRecord]:
        """Return one record per thread of each client."""
        listing = self.running(group, client_id=client_id, broker=broker, jstack=True)
        return Listing(
            items=[
                record
                for item in listing.items
                for record in parse_stacks(item.client_id, item.jstack or "")
            ],
            errors=listing.errors,
        )

    def _ask(
        self, group: str, clients: Sequence[Connection], *, jstack: bool
    ) -> tuple[Sequence[RunningRecord], Sequence[TargetError]]:
        addresses = {target.label: target.address for target in self._admin.topology.readers()}
        asked = [(client, addresses[client.brokers[0]]) for client in clients]
        answers = self._admin.call_all(
            [
                (
                    address,
                    build_request(
                        RequestCode.GET_CONSUMER_RUNNING_INFO,
                        {
                            "consumer_group": group,
                            "client_id": client.client_id,
                            "jstack_enable": jstack,
                        },
                    ),
                )
                for client, address in asked
            ]
        )
        items: list[RunningRecord] = []
        errors: list[TargetError] = []
        for (client, address), answer in zip(asked, answers, strict=True):
            if isinstance(answer, RocketMQError):
                errors.append(describe(answer, address=address, target=client.client_id))
            else:
                items.append(_record(group, client, answer.value))
        return items, errors


def _record(group: str, client: Connection, info: Any) -> RunningRecord:
    queues = [_pulled(queue, found) for queue, found in info.mq_table.items()]
    queues += [_popped(queue, found) for queue, found in info.mq_pop_table.items()]
    queues.sort(key=lambda one: (one.topic, one.broker_name, one.queue_id))
    started = info.properties.get(START_TIMESTAMP, "")
    orderly = info.properties.get(ORDERLY)
    return RunningRecord(
        group=group,
        client_id=client.client_id,
        client_addr=client.client_addr,
        language=client.language,
        version=client.version,
        consume_type=info.properties.get(CONSUME_TYPE),
        orderly=None if orderly is None else orderly == "true",
        start_timestamp=int(started) if started.isdecimal() else None,
        queue_count=len(queues),
        cached_messages=sum(one.cached_msg_count or 0 for one in queues),
        properties=info.properties,
        subscriptions=sorted(
            (
                Subscription(
                    topic=data.topic,
                    sub_string=data.sub_string,
                    expression_type=data.expression_type,
                    sub_version=data.sub_version,
                )
                for data in info.subscription_set
            ),
            key=lambda one: one.topic,
        ),
        queues=queues,
        topics=[
            RunningTopic(
                topic=topic,
                pull_rt=status.pull_rt,
                pull_tps=status.pull_tps,
                consume_rt=status.consume_rt,
                consume_ok_tps=status.consume_ok_tps,
                consume_failed_tps=status.consume_failed_tps,
                consume_failed_msgs=status.consume_failed_msgs,
            )
            for topic, status in sorted(info.status_table.items())
        ],
        user_consumer_info=info.user_consumer_info,
        jstack=info.jstack,
    )


def _pulled(queue: MessageQueue, found: Any) -> RunningQueue:
    return RunningQueue(
        topic=queue.topic,
        broker_name=queue.broker_name,
        queue_id=queue.queue_id,
        commit_offset=found.commit_offset,
        cached_msg_min_offset=found.cached_msg_min_offset,
        cached_msg_max_offset=found.cached_msg_max_offset,
        cached_msg_count=found.cached_msg_count,
        cached_msg_size_in_mib=found.cached_msg_size_in_mib,
        locked=found.locked,
        dropped=found.droped,
        last_pull_timestamp=found.last_pull_timestamp or None,
        last_consume_timestamp=found.last_consume_timestamp or None,
    )


def _popped(queue: MessageQueue, found: Any) -> RunningQueue:
    return RunningQueue(
        topic=queue.topic,
        broker_name=queue.broker_name,
        queue_id=queue.queue_id,
        dropped=found.droped,
        wait_ack_count=found.wait_ack_count,
        last_pull_timestamp=found.last_pop_timestamp or None,
    )


#: The first line of a thread in Java's format: name, TID, STATE.
_THREAD = re.compile(r"^(?P<thread>.*?)\s+TID:\s*\S+\s+STATE:\s*(?P<state>\S+)\s*$")


def parse_stacks(client_id: str, text: str) -> Sequence[StackRecord]:
    """Split the stacks of a client into threads; blocks are separated by empty lines.

    A block whose first line is not of Java's format (clients in other languages) is a thread with
    that line as its name and without a state.

    **Source:** RocketMQ ``UtilAll#jstack(Map)``.
    """
    records = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = [line.rstrip() for line in block.splitlines() if line.strip()]
        if not lines:
            continue
        head = _THREAD.match(lines[0])
        name = head["thread"].strip() if head else lines[0].strip()
        frames = [_without_name(line, name) for line in lines[1:]]
        records.append(
            StackRecord(
                client_id=client_id,
                thread=name,
                state=head["state"] if head else None,
                frame=frames[0] if frames else None,
                frames=frames,
            )
        )
    return records


def _without_name(line: str, thread: str) -> str:
    """Return a frame without the thread's name, which Java repeats in every line."""
    return line.strip().removeprefix(thread).strip()


# --- verdicts of consumerStatus --------------------------------------------------------------

#: A client that started less than this before may still be receiving its queues.
SETTLED_MS = 2 * 60_000

#: A queue with cached messages that consumed nothing for this long is blocked.
BLOCKED_MS = 60_000


def same_subscription(records: Sequence[RunningRecord], clock: Clock) -> bool:
    """Return whether all push clients have the same subscriptions; True for clients just started.

    **Source:** RocketMQ ``ConsumerRunningInfo#analyzeSubscription``.
    """
    if not records:
        return True
    first = records[0]
    age_ms = clock.now_ms() - (first.start_timestamp or clock.now_ms())
    if first.consume_type not in PUSH_TYPES or age_ms <= SETTLED_MS:
        return True
    return all(_subscribed(record) == _subscribed(first) for record in records)


def blocked_queues(record: RunningRecord, clock: Clock) -> Sequence[str]:
    """Return a sentence for each queue that does not progress.

    **Source:** RocketMQ ``ConsumerRunningInfo#analyzeProcessQueue``.
    """
    if record.consume_type != PUSH_TYPES[0]:
        return []
    sentences = []
    for queue in record.queues:
        name = f"{queue.topic} {queue.broker_name} {queue.queue_id}"
        idle_ms = clock.now_ms() - (queue.last_consume_timestamp or 0)
        if record.orderly:
            if not queue.locked:
                sentences.append(f"{record.client_id} {name}: the queue is not locked")
        elif queue.cached_msg_count and idle_ms >= BLOCKED_MS:
            sentences.append(
                f"{record.client_id} {name}: {queue.cached_msg_count} cached messages, "
                f"none consumed for {idle_ms} ms"
            )
    return sentences


def _subscribed(record: RunningRecord) -> set[tuple[str, str]]:
    return {(one.topic, one.sub_string) for one in record.subscriptions}
