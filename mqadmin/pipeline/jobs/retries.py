"""``retries``: the retry records of each message and their outcome."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from broker.common.topic import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC
from mqadmin.pipeline.declarations.retries import JOB
from mqadmin.pipeline.expressions import original_topic, property_of, seconds_between, shape
from mqadmin.pipeline.inputs import Inputs

READ: Final = (
    *("topic", "queue_id", "queue_offset", "physical_offset", "store_time", "reconsume_times"),
    *("keys", "uniq_key", "properties", "store"),
)
# Kinds of records, in the order in which a retry writes them.
DELAYED: Final = 0
DELIVERED: Final = 1
DEAD: Final = 2


def run(inputs: Inputs) -> dict[str, DataFrame]:
    """Return the tables of the job."""
    offsets = inputs.offsets(optional=True)
    found = events(inputs.messages(*READ, every_topic=True), retry_groups(offsets))
    if group := inputs.parameters["group"]:
        found = found.where(F.col("group") == group)
    if inputs.topics:
        found = found.where(F.col("origin_topic").isin(*inputs.topics))
    joined = chains(found, offsets)
    return {"groups": groups(joined), "chains": joined}


def retry_groups(offsets: DataFrame) -> DataFrame:
    """Return the groups that a retry topic may belong to, one row for each of the topics.

    ``pop_group`` is the only group with offsets in ``retry_topic``, or else with offsets in the
    topic after the separator; null if there are several. ``is_group``: a group has the whole name.
    """
    topic, group = F.col("topic"), F.col("group")
    own = F.concat(F.lit(RETRY_PREFIX), group)
    in_retry_topic = original_topic(topic, group).isNotNull()
    known = offsets.select("topic", "group").distinct()
    found = known.where(in_retry_topic).select(
        topic.alias("retry_topic"), group.alias("reader"), F.lit(None).alias("consumer")
    )
    by_topic = known.where(~F.startswith(topic, F.lit(RETRY_PREFIX))).select(
        F.concat(own, F.lit("_"), topic), F.lit(None), group
    )
    names = known.select(own, F.lit(None), F.lit(None)).withColumn("is_group", F.lit(True))
    possible = found.union(by_topic).withColumn("is_group", F.lit(False)).union(names)
    collected = possible.groupBy("retry_topic").agg(
        F.collect_set("reader").alias("readers"),
        F.collect_set("consumer").alias("consumers"),
        F.max("is_group").alias("is_group"),
    )
    groups = F.when(F.size("readers") > 0, F.col("readers")).otherwise(F.col("consumers"))
    return collected.select(
        "retry_topic", F.when(F.size(groups) == 1, groups[0]).alias("pop_group"), "is_group"
    )


def events(messages: DataFrame, retry_groups: DataFrame) -> DataFrame:
    """Return the records in delay queues, retry topics and DLQ topics, one row each."""
    topic, target = F.col("topic"), property_of("REAL_TOPIC")
    is_retry = F.startswith(topic, F.lit(RETRY_PREFIX))
    is_dead_letter = F.startswith(topic, F.lit(DLQ_PREFIX))
    targets_retry_topic = F.coalesce(F.startswith(target, F.lit(RETRY_PREFIX)), F.lit(False))
    is_delayed = (topic == SCHEDULE_TOPIC) & targets_retry_topic
    named = F.when(is_delayed, target).otherwise(topic)
    # The two prefixes differ in length.
    whole = F.substring(named, len(RETRY_PREFIX) + 1, 255)
    first_topic = property_of("RETRY_TOPIC")
    # Messages that consumers send back to the retry topic of a group have RETRY_TOPIC.
    is_pop = F.col("pop_group").isNotNull() & (first_topic.isNull() | ~F.col("is_group"))
    group = (
        F.when(is_dead_letter, F.substring(topic, len(DLQ_PREFIX) + 1, 255))
        .when(F.contains(whole, F.lit("+")), F.substring_index(whole, "+", 1))
        .when(is_pop, F.col("pop_group"))
        .otherwise(whole)
    )
    named_origin = F.coalesce(first_topic, property_of("DLQ_ORIGIN_TOPIC"))
    origin_topic = F.coalesce(
        original_topic(named_origin, group), named_origin, original_topic(named, group)
    )
    origin_id = F.coalesce(property_of("DLQ_ORIGIN_MESSAGE_ID"), property_of("ORIGIN_MESSAGE_ID"))
    # A record without any id is a chain by itself.
    record_id = F.format_string("%s %d", "store", "physical_offset")
    selected = messages.where(is_retry | is_dead_letter | is_delayed)
    on = named == F.col("retry_topic")
    return selected.join(F.broadcast(retry_groups), on, "left").select(
        group.alias("group"),
        F.coalesce("uniq_key", origin_id, record_id).alias("message"),
        "uniq_key",
        "keys",
        origin_topic.alias("origin_topic"),
        origin_id.alias("origin_msg_id"),
        F.when(is_delayed, DELAYED).when(is_retry, DELIVERED).otherwise(DEAD).alias("kind"),
        F.col("reconsume_times").alias("tries"),
        F.when(is_delayed, property_of("DELAY").cast("bigint")).alias("level"),
        *("topic", "queue_id", "queue_offset", "physical_offset", "store_time", "store"),
    )


def chains(events: DataFrame, offsets: DataFrame) -> DataFrame:
    """Return one row per group and message; ``offsets`` decides which deliveries succeeded."""
    record = F.struct("store_time", "kind", "store", "topic", "queue_id", "queue_offset")
    names = ("origin_topic", "origin_msg_id", "uniq_key", "keys", "tries")
    level = F.when(F.col("kind") == DELAYED, F.struct("store_time", "level"))
    joined = events.groupBy("group", "message").agg(
        *(F.max(name).alias(name) for name in names),
        F.transform(F.array_sort(F.collect_list(level)), lambda one: one["level"]).alias("levels"),
        F.count(F.when(F.col("kind") == DELIVERED, 1)).alias("deliveries"),
        F.min("store_time").alias("first_store_time"),
        F.max("store_time").alias("last_store_time"),
        F.max(F.when(F.col("kind") == DEAD, F.col("physical_offset"))).alias(
            "dead_physical_offset"
        ),
        F.max(record).alias("last"),
    )
    # The newest snapshot of each store counts.
    newest = offsets.groupBy("store", "topic", "group", "queue_id").agg(
        F.max_by("consumer_offset", "snapshot_time").alias("consumer_offset")
    )
    on = [
        F.col("p.store") == F.col("c.last.store"),
        F.col("p.topic") == F.col("c.last.topic"),
        F.col("p.group") == F.col("c.group"),
        F.col("p.queue_id") == F.col("c.last.queue_id"),
    ]
    known = joined.alias("c").join(F.broadcast(newest.alias("p")), on, "left")
    ended = F.col("c.last.queue_offset") < F.col("consumer_offset")
    outcome = (
        F.when(F.col("dead_physical_offset").isNotNull(), "dead")
        .when(F.col("c.last.kind") == DELAYED, "waiting")
        .when(F.col("consumer_offset").isNull(), "unknown")
        .when(ended, "consumed")
        .otherwise("pending")
    )
    found = known.select("c.*", outcome.alias("outcome")).withColumn(
        "seconds", seconds_between("first_store_time", "last_store_time")
    )
    return shape(found.orderBy("group", "first_store_time", "message"), JOB.table("chains"))


def groups(chains: DataFrame) -> DataFrame:
    """Aggregate chains by group and origin topic, most dead-letter messages first."""
    outcomes = ("dead", "consumed", "pending", "waiting", "unknown")
    found = chains.groupBy("group", "origin_topic").agg(
        F.count("*").alias("messages"),
        *(F.count(F.when(F.col("outcome") == name, 1)).alias(name) for name in outcomes),
        F.sum("tries").alias("tries"),
        F.max("tries").alias("tries_most"),
        F.avg("seconds").alias("seconds_mean"),
        F.max("seconds").alias("seconds_most"),
    )
    ordered = found.orderBy(F.desc("dead"), F.desc("messages"), "group", "origin_topic")
    return shape(ordered, JOB.table("groups"))
