"""``retries``: the way of each message through the retry levels."""

from typing import TYPE_CHECKING, Final

from broker.common.topic import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC
from mqadmin.pipeline.expressions import property_of, seconds_between
from mqadmin.pipeline.job import GROUP, Job, Table, columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mqadmin.pipeline.inputs import Inputs

JOB: Final = Job(
    name="retries",
    summary="The way of each message through the retry levels to success or the DLQ.",
    text="A chain joins what one group did with one message: its stays in the delay queues, its"
    " deliveries through the retry topic, its end. Whether the last delivery succeeded is told by"
    " the group's consumer offset: a message behind it is consumed.",
    example="mqadmin pipeline run retries --store /data/store --table chains",
    entry="mqadmin.pipeline.jobs.retries:run",
    parameters=(GROUP,),
    tables=(
        Table(
            "groups",
            "chains by group and origin, the worst first",
            columns(
                ("group", "text", "consumer group"),
                ("origin_topic", "text", "topic the messages came from"),
                ("messages", "int", "messages that were tried again"),
                ("dead", "int", "ended in the DLQ"),
                ("consumed", "int", "consumed in the end"),
                ("pending", "int", "delivered through the retry topic, not consumed yet"),
                ("waiting", "int", "wait in a delay queue"),
                ("unknown", "int", "delivered, and no consumer offset says how it went"),
                ("tries", "int", "retries of all of them"),
                ("tries_most", "int", "most retries of one"),
                ("seconds_mean", "float", "mean of seconds from the first to the last event"),
                ("seconds_most", "float", "longest chain in seconds"),
            ),
        ),
        Table(
            "chains",
            "one row per group and message",
            columns(
                ("group", "text", "consumer group"),
                ("origin_topic", "text", "topic the message came from"),
                ("origin_msg_id", "text", "its id there"),
                ("uniq_key", "text", "uniqKey"),
                ("keys", "text", "KEYS"),
                ("tries", "int", "highest reconsumeTimes"),
                ("levels", "ints", "delay levels passed, in order"),
                ("deliveries", "int", "times it stood in the retry topic"),
                ("outcome", "text", "dead, consumed, pending, waiting or unknown"),
                ("first_store_time", "time", "first event"),
                ("last_store_time", "time", "last event"),
                ("seconds", "float", "between the two"),
                ("dead_physical_offset", "int", "the dead letter's place in the log"),
            ),
        ),
    ),
)

READ: Final = (
    *("topic", "queue_id", "queue_offset", "physical_offset", "store_time", "reconsume_times"),
    *("keys", "uniq_key", "properties", "store"),
)
# Kinds of events, in the order in which they follow each other.
DELAYED: Final = 0
DELIVERED: Final = 1
DEAD: Final = 2


def run(inputs: "Inputs") -> dict[str, "DataFrame"]:
    """The tables of the job."""
    from pyspark.sql import functions as F

    found = events(inputs.messages(*READ, every_topic=True))
    if group := inputs.parameters["group"]:
        found = found.where(F.col("group") == group)
    if inputs.topics:
        found = found.where(F.col("origin_topic").isin(*inputs.topics))
    joined = chains(found, inputs.offsets(optional=True))
    return {"groups": groups(joined), "chains": joined}


def events(messages: "DataFrame") -> "DataFrame":
    """What happened to messages on their way: stays in delay queues, deliveries, deaths."""
    from pyspark.sql import functions as F

    topic, target = F.col("topic"), property_of("REAL_TOPIC")
    retried = F.startswith(topic, F.lit(RETRY_PREFIX))
    died = F.startswith(topic, F.lit(DLQ_PREFIX))
    is_target = F.coalesce(F.startswith(target, F.lit(RETRY_PREFIX)), F.lit(False))
    waits = (topic == SCHEDULE_TOPIC) & is_target
    named = F.when(waits, target).otherwise(topic)
    # %RETRY% is longer than %DLQ%
    group = F.when(died, F.substring(topic, len(DLQ_PREFIX) + 1, 255)).otherwise(
        F.substring(named, len(RETRY_PREFIX) + 1, 255)
    )
    origin_id = F.coalesce(property_of("DLQ_ORIGIN_MESSAGE_ID"), property_of("ORIGIN_MESSAGE_ID"))
    # Without an id of its own a record is a chain of its own.
    own_id = F.format_string("%s %d", "store", "physical_offset")
    return messages.where(retried | died | waits).select(
        group.alias("group"),
        F.coalesce("uniq_key", origin_id, own_id).alias("message"),
        "uniq_key",
        "keys",
        F.coalesce(property_of("RETRY_TOPIC"), property_of("DLQ_ORIGIN_TOPIC")).alias(
            "origin_topic"
        ),
        origin_id.alias("origin_msg_id"),
        F.when(waits, DELAYED).when(retried, DELIVERED).otherwise(DEAD).alias("kind"),
        F.col("reconsume_times").alias("tries"),
        F.when(waits, property_of("DELAY").cast("bigint")).alias("level"),
        *("topic", "queue_id", "queue_offset", "physical_offset", "store_time", "store"),
    )


def chains(events: "DataFrame", offsets: "DataFrame") -> "DataFrame":
    """One row per group and message; ``offsets`` tells which deliveries were consumed."""
    from pyspark.sql import functions as F

    place = F.struct("store_time", "kind", "store", "topic", "queue_id", "queue_offset")
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
        F.max(place).alias("last"),
    )
    # The newest snapshot of each store counts.
    progress = offsets.groupBy("store", "topic", "group", "queue_id").agg(
        F.max_by("consumer_offset", "snapshot_time").alias("consumer_offset")
    )
    on = [
        F.col("p.store") == F.col("c.last.store"),
        F.col("p.topic") == F.col("c.last.topic"),
        F.col("p.group") == F.col("c.group"),
        F.col("p.queue_id") == F.col("c.last.queue_id"),
    ]
    known = joined.alias("c").join(F.broadcast(progress.alias("p")), on, "left")
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
    return JOB.tables[1].shape(found.orderBy("group", "first_store_time", "message"))


def groups(chains: "DataFrame") -> "DataFrame":
    """Chains by group and origin, the worst first."""
    from pyspark.sql import functions as F

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
    return JOB.tables[0].shape(ordered)
