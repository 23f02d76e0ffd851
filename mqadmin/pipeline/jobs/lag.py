"""``lag-history``: how far behind consumer groups were, at each snapshot of their offsets."""

from typing import TYPE_CHECKING, Final

from mqadmin.pipeline.job import GROUP, QUEUE, STORE, TOPIC, Job, Parameter, Table, columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mqadmin.pipeline.inputs import Inputs

JOB: Final = Job(
    name="lag-history",
    summary="Lag of consumer groups over time, in messages and seconds, out of offset snapshots.",
    text="A snapshot is a copy of config/consumerOffset.json whose name holds its time; without"
    " --param offsets=… the stores' own files are taken. The log says how far each queue was at"
    " that time and when the first message not consumed was stored.",
    example="mqadmin pipeline run lag-history --store /data/store --param offsets='/backup/*.json'",
    entry="mqadmin.pipeline.jobs.lag:run",
    parameters=(
        Parameter("offsets", "", "snapshots: files and globs, with commas"),
        GROUP,
    ),
    tables=(
        Table(
            "lag",
            "one row per snapshot, group and queue",
            columns(
                ("snapshot_time", "time", "when the snapshot was taken"),
                ("group", "text", "consumer group"),
                TOPIC,
                QUEUE,
                ("max_offset", "int", "end of the queue at that time"),
                ("consumer_offset", "int", "the group's progress"),
                ("lag", "int", "messages between the two"),
                ("lag_seconds", "float", "age of the first message not consumed"),
                ("state", "text", "ok, ahead, belowMin, or unknown (no message in the log)"),
                STORE,
            ),
        ),
        Table(
            "groups",
            "one row per snapshot, group and topic",
            columns(
                ("snapshot_time", "time", "when the snapshot was taken"),
                ("group", "text", "consumer group"),
                TOPIC,
                ("queues", "int", "queues with a consumer offset"),
                ("lag", "int", "messages behind, all queues"),
                ("lag_seconds", "float", "largest of the queues"),
            ),
        ),
    ),
    plots=True,
)

_QUEUE: Final = ("topic", "queue_id")


def run(inputs: "Inputs") -> dict[str, "DataFrame"]:
    """The tables of the job."""
    from pyspark.sql import functions as F

    paths = [word.strip() for word in inputs.parameters["offsets"].split(",") if word.strip()]
    offsets = inputs.offsets(paths)
    if group := inputs.parameters["group"]:
        offsets = offsets.where(F.col("group") == group)
    if inputs.topics:
        offsets = offsets.where(F.col("topic").isin(*inputs.topics))
    messages = inputs.messages("topic", "queue_id", "queue_offset", "store_time", "store")
    found = lag(messages, offsets)
    return {"lag": found, "groups": groups(found)}


def lag(messages: "DataFrame", offsets: "DataFrame") -> "DataFrame":
    """One row per snapshot, group and queue.

    The log is read once: each message is counted between the two snapshots it was stored between,
    and the store times of the first messages not consumed are picked out on the way. A snapshot
    that names no store (a copy) is compared with every store that has the queue.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    looked_up = offsets.groupBy(*_QUEUE).agg(
        F.array_sort(F.collect_set("snapshot_time")).alias("times"),
        F.collect_set("consumer_offset").alias("wanted"),
    )
    joined = messages.join(F.broadcast(looked_up), list(_QUEUE))
    stored = F.col("store_time")
    place = F.struct("queue_offset", "store_time")
    # How many snapshots were taken before the message was stored: the first that sees it.
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
    return JOB.tables[0].shape(_judged(with_ends).orderBy("snapshot_time", "group", *_QUEUE))


def _judged(known: "DataFrame") -> "DataFrame":
    """Lag and state out of the bounds of a queue and a consumer offset."""
    from pyspark.sql import functions as F

    progress, end = F.col("consumer_offset"), F.col("max_offset")
    behind = F.when(end.isNotNull(), F.greatest(end - progress, F.lit(0)))
    age = (F.unix_millis("snapshot_time") - F.unix_millis("next_time")) / 1000.0
    return known.select(
        "*",
        behind.alias("lag"),
        F.when(behind == 0, 0.0).when(behind > 0, age).alias("lag_seconds"),
        F.when(end.isNull(), "unknown")
        .when(progress > end, "ahead")
        .when(progress < F.col("min_offset"), "belowMin")
        .otherwise("ok")
        .alias("state"),
    )


def groups(lag: "DataFrame") -> "DataFrame":
    """One row per snapshot, group and topic."""
    from pyspark.sql import functions as F

    found = lag.groupBy("snapshot_time", "group", "topic").agg(
        F.count("*").alias("queues"),
        F.sum("lag").alias("lag"),
        F.max("lag_seconds").alias("lag_seconds"),
    )
    return JOB.tables[1].shape(found.orderBy("snapshot_time", "group", "topic"))
