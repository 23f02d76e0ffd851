"""``lag-history``: lag of consumer groups at each snapshot of their offsets."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from broker.common.group import PRESET_GROUPS, SYSTEM_GROUP_PREFIX
from broker.common.topic import LMQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC
from broker.message.check_point import REVIVE_GROUP
from mqadmin.pipeline.declarations.lag import JOB
from mqadmin.pipeline.expressions import comma_list, property_of, shape
from mqadmin.pipeline.inputs import Inputs

_QUEUE: Final = ("topic", "queue_id")
_MESSAGE: Final = (*_QUEUE, "queue_offset", "store_time", "store")


def run(inputs: Inputs) -> dict[str, DataFrame]:
    """Return the tables of the job."""
    offsets = inputs.offsets(comma_list(inputs.parameters["offsets"]))
    if group := inputs.parameters["group"]:
        offsets = offsets.where(F.col("group") == group)
    else:
        is_preset = F.col("group").isin(*PRESET_GROUPS)
        offsets = offsets.where(~(is_preset | F.startswith("group", F.lit(SYSTEM_GROUP_PREFIX))))
    if inputs.topics:
        offsets = offsets.where(F.col("topic").isin(*inputs.topics))
    taken = F.unix_millis("snapshot_time")
    if since := inputs.limits.get("since"):
        offsets = offsets.where(taken >= int(since))
    if until := inputs.limits.get("until"):
        offsets = offsets.where(taken < int(until))
    # The ends of a queue depend on messages of any time.
    messages = inputs.messages(*_MESSAGE, every_time=True)
    if not offsets.where(F.startswith("topic", F.lit(LMQ_PREFIX))).isEmpty():
        every = inputs.messages(*_MESSAGE, "properties", every_time=True, every_topic=True)
        messages = messages.unionByName(light_messages(every))
    found = lag(messages, offsets)
    return {"lag": found, "groups": groups(found)}


def light_messages(messages: DataFrame) -> DataFrame:
    """Return one row per message and light message queue (LMQ) that it was dispatched to."""
    topic = F.col("topic")
    dispatched = topic != SCHEDULE_TOPIC
    for prefix in (RETRY_PREFIX, "rmq_sys_", "%SYS%"):
        dispatched &= ~F.startswith(topic, F.lit(prefix))
    places = F.zip_with(
        F.split(property_of("INNER_MULTI_DISPATCH"), ","),
        F.split(property_of("INNER_MULTI_QUEUE_OFFSET"), ","),
        lambda name, offset: F.struct(
            name.alias("topic"), offset.try_cast("bigint").alias("queue_offset")
        ),
    )
    return (
        messages.where(dispatched)
        .select("store_time", "store", F.explode(places).alias("place"))
        .select("store_time", "store", "place.*", F.lit(0).alias("queue_id"))
        .where(F.startswith("topic", F.lit(LMQ_PREFIX)) & F.col("queue_offset").isNotNull())
    )


def lag(messages: DataFrame, offsets: DataFrame) -> DataFrame:
    """Return one row per snapshot, group and queue.

    The log is read once. Messages are grouped by the number of snapshots taken before their store
    time, and the store times of the messages at the consumer offsets are collected in the same
    pass. A snapshot without a store (a copy of the file) is compared with every store that has the
    queue.
    """
    looked_up = offsets.groupBy(*_QUEUE).agg(
        F.array_sort(F.collect_set("snapshot_time")).alias("times"),
        F.collect_set("consumer_offset").alias("wanted"),
    )
    joined = messages.join(F.broadcast(looked_up), list(_QUEUE))
    stored = F.col("store_time")
    place = F.struct("queue_offset", "store_time")
    # The number of snapshots taken before the message was stored is the index of the first
    # snapshot that includes the message.
    counted = joined.groupBy(
        "store", *_QUEUE, F.size(F.filter("times", lambda time: time < stored)).alias("number")
    ).agg(
        F.max("queue_offset").alias("last"),
        F.min(place).alias("first"),
        F.collect_list(F.when(F.array_contains("wanted", F.col("queue_offset")), place)).alias(
            "points"
        ),
    )
    queues = counted.groupBy("store", *_QUEUE).agg(
        F.collect_list(F.struct("number", "last")).alias("ends"),
        F.min("first").alias("first"),
        F.flatten(F.collect_list("points")).alias("points"),
    )
    numbered = offsets.withColumnRenamed("store", "of_store").withColumn(
        "number", F.dense_rank().over(Window.partitionBy(*_QUEUE).orderBy("snapshot_time")) - 1
    )
    on = [
        F.col("o.topic") == F.col("q.topic"),
        F.col("o.queue_id") == F.col("q.queue_id"),
        (F.col("of_store") == "") | (F.col("of_store") == F.col("q.store")),
    ]
    known = numbered.alias("o").join(queues.alias("q"), on, "left")
    seen = F.filter("ends", lambda end: end["number"] <= F.col("o.number"))
    point = F.get(
        F.filter("points", lambda one: one["queue_offset"] == F.col("consumer_offset")), 0
    )
    end = F.array_max(F.transform(seen, lambda one: one["last"])) + 1
    first = F.when(F.col("consumer_offset") < F.col("first.queue_offset"), F.col("first"))
    with_ends = known.select(
        "o.*",
        F.coalesce("q.store", F.nullif("of_store", F.lit(""))).alias("store"),
        end.alias("max_offset"),
        F.col("first.queue_offset").alias("min_offset"),
        F.coalesce(point, first)["store_time"].alias("next_time"),
    )
    return shape(
        _with_state(with_ends).orderBy("snapshot_time", "group", *_QUEUE), JOB.table("lag")
    )


def _with_state(known: DataFrame) -> DataFrame:
    """Add lag and state, from the offsets of a queue and the consumer offset."""
    consumed, end = F.col("consumer_offset"), F.col("max_offset")
    # The offset of the revive group is that of its last check point, not of the next one.
    following = consumed + (F.col("group") == REVIVE_GROUP).cast("bigint")
    lag = F.when(end.isNotNull(), F.greatest(end - following, F.lit(0)))
    age = (F.unix_millis("snapshot_time") - F.unix_millis("next_time")) / 1000.0
    return known.select(
        "*",
        lag.alias("lag"),
        F.when(lag == 0, 0.0).when(lag > 0, age).alias("lag_seconds"),
        F.when(end.isNull(), "unknown")
        .when(consumed > end, "ahead")
        .when(consumed < F.col("min_offset"), "belowMin")
        .otherwise("ok")
        .alias("state"),
    )


def groups(lag: DataFrame) -> DataFrame:
    """Aggregate lag by snapshot, group and topic."""
    found = lag.groupBy("snapshot_time", "group", "topic").agg(
        F.count("*").alias("queues"),
        F.sum("lag").alias("lag"),
        F.max("lag_seconds").alias("lag_seconds"),
    )
    return shape(found.orderBy("snapshot_time", "group", "topic"), JOB.table("groups"))
