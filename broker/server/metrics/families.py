"""The metrics of a broker, calculated from its tables when they are read.

Names, units and labels are those of Java 5.1.4 to 5.3.3. The figures that a Java broker
measures per request (sizes, latencies of requests) are left out: they would cost every request.

**Source:** RocketMQ BrokerMetricsManager, DefaultStoreMetricsManager, PopMetricsManager.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from broker.common.group import CONSUME_POP
from broker.common.topic import (
    is_dlq_topic,
    is_retry_topic,
    is_system_topic,
    original_of_pop_retry_topic,
    pop_retry_topic,
)
from broker.remoting.protocol.codes import version_name
from broker.server import stats as counted
from broker.server.context import BrokerContext
from broker.server.metrics.message_type import INTERNAL, NORMAL, NUMS, SIZE, TYPES

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
MODES: Final = {"CONSUME_ACTIVELY": "pull", CONSUME_POP: "pop"}
LANES: Final = {
    "send": "send",
    "pull": "pull",
    "ack": "ack",
    "async_put": "",  # without a queue here
    "client_manager": "client",
    "consumer_manager": "consumer",
    "query_message": "query",
    "heartbeat": "heartbeat",
    "lite_pull": "litePull",
    "transaction": "transaction",
    "admin": "admin",
    "reply": "reply",
}


class Sample(NamedTuple):
    """One series: the metric's name, kind and meaning, the series' labels, its value."""

    name: str
    kind: str
    meaning: str
    labels: dict[str, str]
    value: float


def _flag(value: bool) -> str:
    return "true" if value else "false"


def all_samples(context: BrokerContext) -> Iterator[Sample]:
    """Every sample but those of lag; one step per series."""
    yield from received(context)
    yield from delivered(context)
    yield from state(context)
    yield from connections(context)
    yield from store(context)
    yield from timers(context)
    yield from transactions(context)
    yield from ingest(context)


def received(context: BrokerContext) -> Iterator[Sample]:
    """Messages and bytes that clients have sent, by topic and message type.

    As in Java, deliveries of delay levels are included, all else that the broker puts is not.
    """
    for name, total_name, by_type in (
        ("rocketmq_messages_in_total", counted.TOPIC_PUT_NUMS, NUMS),
        ("rocketmq_throughput_in_total", counted.TOPIC_PUT_SIZE, SIZE),
    ):
        meaning = "messages received" if by_type is NUMS else "bytes of their records"
        for topic, total in context.stats.counters(total_name):
            values = dict.fromkeys((*TYPES, INTERNAL), 0)
            for kind in values:
                counter = context.stats.find(by_type[kind], topic)
                values[kind] = counter.value if counter is not None else 0
            values[NORMAL] = total.value - sum(values.values())
            system = _flag(is_system_topic(topic))
            for kind, value in values.items():
                if value and kind != INTERNAL:
                    labels = {"topic": topic, "message_type": kind, "is_system": system}
                    yield Sample(name, COUNTER, meaning, labels, value)


def delivered(context: BrokerContext) -> Iterator[Sample]:
    """Messages and bytes given to consumer groups; messages sent to dead-letter topics.

    As in Java, retries of POP count under the first topic, and other retries not at all; only
    popped messages have the label ``is_retry``.
    """
    stats = context.stats
    for name, got, popped, meaning in (
        (
            "rocketmq_messages_out_total",
            counted.GROUP_GET_NUMS,
            counted.GROUP_POP_NUMS,
            "messages delivered",
        ),
        (
            "rocketmq_throughput_out_total",
            counted.GROUP_GET_SIZE,
            counted.GROUP_POP_SIZE,
            "bytes delivered",
        ),
    ):
        sums: dict[tuple[str, str, str], int] = {}
        for key, counter in stats.counters(got):
            topic, _, group = key.partition("@")
            by_pop = stats.find(popped, key)
            number = by_pop.value if by_pop is not None else 0
            parts = {"": counter.value - number, "false": number}
            if is_retry_topic(topic):
                topic = original_of_pop_retry_topic(topic, group) or ""
                parts = {"true": counter.value}
            for is_retry, value in parts.items():
                if topic and value:
                    series = topic, group, is_retry  # there may be retry topics of both versions
                    sums[series] = sums.get(series, 0) + value
        for (topic, group, is_retry), value in sums.items():
            labels = {"topic": topic, "consumer_group": group}
            labels["is_system"] = _flag(is_system_topic(topic))
            if is_retry:
                labels["is_retry"] = is_retry
            yield Sample(name, COUNTER, meaning, labels, value)
    for key, counter in stats.counters(counted.DLQ_PUT_NUMS):
        topic, _, group = key.partition("@")
        labels = {"topic": topic, "consumer_group": group}
        labels["is_system"] = _flag(is_system_topic(topic))
        meaning = "messages sent to the dead-letter topic"
        name = "rocketmq_send_to_dlq_messages_total"
        yield Sample(name, COUNTER, meaning, labels, counter.value)


def state(context: BrokerContext) -> Iterator[Sample]:
    """Permission, sizes of tables, queued requests."""
    lanes = context.server.lanes if context.server is not None else {}
    for processor, lane_name in LANES.items():
        lane = lanes.get(lane_name)
        queued = len(lane.queue) if lane is not None else 0
        labels = {"processor": processor}
        yield Sample("rocketmq_processor_watermark", GAUGE, "queued requests", labels, queued)
    for name, meaning, value in (
        (
            "rocketmq_broker_permission",
            "6: read and write, 4: read, 2: write",
            context.config.broker_permission,
        ),
        ("rocketmq_topic_number", "topics", len(context.topics.configs)),
        ("rocketmq_consumer_group_number", "subscription groups", len(context.groups.configs)),
    ):
        yield Sample(name, GAUGE, meaning, {}, value)


def connections(context: BrokerContext) -> Iterator[Sample]:
    """Clients by language and version; consumers also by group and mode."""
    sums: dict[tuple[str, str], int] = {}
    for group in context.producers.groups():
        for channel in context.producers.get(group):
            key = channel.language.lower(), version_name(channel.version).lower()
            sums[key] = sums.get(key, 0) + 1
    name = "rocketmq_producer_connections"
    for (language, version), count in sums.items():
        labels = {"language": language, "version": version, "protocol_type": "remoting"}
        yield Sample(name, GAUGE, "connections of producers", labels, count)
    name = "rocketmq_consumer_connections"
    for consumers in list(context.consumers):
        by_client: dict[tuple[str, str], int] = {}
        for channel in consumers.channels.values():
            key = channel.language.lower(), version_name(channel.version).lower()
            by_client[key] = by_client.get(key, 0) + 1
        mode = MODES.get(consumers.profile.consume_type, "push")
        for (language, version), count in by_client.items():
            labels = {"consumer_group": consumers.name, "language": language, "version": version}
            labels |= {"consume_mode": mode, "protocol_type": "remoting"}
            labels["is_system"] = _flag(is_system_topic(consumers.name))
            yield Sample(name, GAUGE, "connections of consumers", labels, count)


def store(context: BrokerContext) -> Iterator[Sample]:
    """Disk, bytes not yet flushed or dispatched, age of the oldest message."""
    messages = context.store
    used, _ = messages.disk.space(messages.config.root)
    oldest_ms = messages.earliest_message_time()
    age_ms = max(0, context.now_ms() - oldest_ms) if oldest_ms > 0 else 0
    behind = messages.max_physical_offset - messages.flushed_where
    labels = {"storage_type": "local", "storage_medium": "disk"}
    for name, meaning, value in (
        ("size_bytes", "used bytes of the file system with the store", used),
        ("flush_behind_bytes", "bytes of the CommitLog that are not flushed", behind),
        (
            "dispatch_behind_bytes",
            "bytes of the CommitLog that are not dispatched",
            messages.dispatch_behind_bytes,
        ),
        ("message_reserve_time_milliseconds", "age of the oldest message", age_ms),
    ):
        yield Sample(f"rocketmq_storage_{name}", GAUGE, meaning, labels, value)


def timers(context: BrokerContext) -> Iterator[Sample]:
    """Pending timers by topic; timer messages not yet in the wheel, and due ones."""
    if context.timers is None or context.timers.timers is None:
        return
    timers = context.timers.timers
    labels = {"storage_type": "local", "storage_medium": "disk"}
    for topic, entry in list(timers.metrics.topics.items()):
        of_topic = {"topic": topic, **labels}
        yield Sample("rocketmq_timing_messages", GAUGE, "pending timers", of_topic, entry.count)
    for name, meaning, value in (
        ("enqueue_lag", "timer messages that are not in the wheel yet", timers.offset_behind),
        ("dequeue_lag", "timer messages in the wheel", timers.wheel.pending),
        (
            "dequeue_latency_milliseconds",
            "how late deliveries are",
            context.timers.behind_ms,
        ),
    ):
        yield Sample(f"rocketmq_timer_{name}", GAUGE, meaning, labels, value)


def transactions(context: BrokerContext) -> Iterator[Sample]:
    """Transactions ended by their producers, and undecided half messages, by topic."""
    for name, ended in (("commit", counted.COMMIT_NUMS), ("rollback", counted.ROLLBACK_NUMS)):
        for topic, counter in context.stats.counters(ended):
            meaning = f"transactions ended by a {name}"
            full = f"rocketmq_{name}_messages_total"
            yield Sample(full, COUNTER, meaning, {"topic": topic}, counter.value)
    if context.transactions is None:
        return
    for topic, entry in list(context.transactions.metrics.counts.topics.items()):
        name = "rocketmq_half_messages"
        yield Sample(name, GAUGE, "undecided half messages", {"topic": topic}, entry.count)


def ingest(context: BrokerContext) -> Iterator[Sample]:
    """Messages by the path that stored them; not metrics of Java."""
    vectorized = context.ingest.frames
    stored = context.store.writer.put_count
    for path, count in (("plain", stored - vectorized), ("vectorized", vectorized)):
        name, meaning = (
            f"rocketmq_{path}_ingest_messages_total",
            f"messages stored by {path} ingest",
        )
        yield Sample(name, COUNTER, meaning, {}, count)


def lag(context: BrokerContext) -> Iterator[list[Sample]]:
    """The lag of each online group and topic; one step per group and topic.

    Groups without a client have no samples, as in Java; the retries of a group that pops have
    the labels of their first topic and ``is_retry="true"``.
    """
    for consumers in list(context.consumers):
        for topic in list(consumers.subscriptions):
            config = context.topics.get(topic)
            if config is None or is_retry_topic(topic) or is_dlq_topic(topic):
                continue
            yield _lag_of(context, consumers.name, topic, (topic,))
            if consumers.profile.consume_type == CONSUME_POP:
                retries = [
                    pop_retry_topic(topic, consumers.name, version_2=version_2)
                    for version_2 in (False, True)
                ]
                yield _lag_of(context, consumers.name, topic, retries, is_retry=True)


def _lag_of(
    context: BrokerContext,
    group: str,
    shown: str,
    topics: Sequence[str],
    *,
    is_retry: bool = False,
) -> list[Sample]:
    """The lag of a group in all queues of ``topics`` together, reported as that in ``shown``."""
    store, offsets = context.store, context.offsets
    behind = flying = ready = 0
    oldest = oldest_ready = now_ms = context.now_ms()
    configs = [config for topic in topics if (config := context.topics.get(topic)) is not None]
    queues = [
        (config.topic_name, queue_id)
        for config in configs
        for queue_id in range(config.write_queue_nums)
    ]
    for topic, queue_id in queues:
        committed = offsets.query(group, topic, queue_id)
        if committed < 0:
            continue
        end = store.get_max_offset(topic, queue_id)
        pop = context.pop
        popped = pop.in_flight.get(topic, group, queue_id) if pop is not None else 0
        # A pop commits at once: its messages in flight are before the committed offset.
        pulled = max(committed, offsets.pulled(group, topic, queue_id))
        behind += max(0, end - committed) + popped
        flying += pulled - committed + popped
        ready += max(0, end - pulled)
        oldest = min(oldest, _time_at(context, topic, queue_id, committed - popped, end, now_ms))
        oldest_ready = min(oldest_ready, _time_at(context, topic, queue_id, pulled, end, now_ms))
    labels = {"consumer_group": group, "topic": shown, "is_retry": _flag(is_retry)}
    labels["is_system"] = _flag(is_system_topic(shown))
    return [
        Sample(f"rocketmq_consumer_{name}", GAUGE, meaning, labels, value)
        for name, meaning, value in (
            ("lag_messages", "messages that the group has not consumed", behind),
            ("lag_latency_milliseconds", "age of the oldest of them", now_ms - oldest),
            ("inflight_messages", "messages delivered and not consumed", flying),
            ("ready_messages", "messages not delivered", ready),
            ("queueing_latency_milliseconds", "age of the oldest of them", now_ms - oldest_ready),
        )
    ]


def _time_at(
    context: BrokerContext, topic: str, queue_id: int, offset: int, end: int, now_ms: int
) -> int:
    """Store time of a message, ``now_ms`` if there is none at this offset yet."""
    if offset >= end:
        return now_ms
    stored_ms = context.store.store_timestamp_at(topic, queue_id, max(0, offset))
    return stored_ms if stored_ms > 0 else now_ms
