"""``traffic``: who fills the disk."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mqadmin.pipeline.expressions import bucket_of, grouping, host_of, percentiles, whole_number
from mqadmin.pipeline.job import BUCKET, QUEUE, STORE, TOP, TOPIC, Job, Parameter, Table, columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mqadmin.pipeline.inputs import Inputs

JOB: Final = Job(
    name="traffic",
    summary="Who fills the disk: messages, bytes and sizes by topic, tag, queue, host, time.",
    text="Counts every message of the log, those of retry, DLQ and system topics too, under the"
    " topic it is stored in. Sizes are those of whole records.",
    example="mqadmin pipeline run traffic --store /data/store --param by=topic,tag --since -1d",
    entry="mqadmin.pipeline.jobs.traffic:run",
    parameters=(
        Parameter("by", "topic", "any of store, topic, tag, queue, host, with commas"),
        BUCKET,
        TOP,
    ),
    tables=(
        Table(
            "traffic",
            "messages and bytes by what --param by=… and bucket=… say; absent columns are not"
            " grouped by",
            columns(
                STORE,
                TOPIC,
                ("tag", "text", "TAGS of the message"),
                QUEUE,
                ("producer_host", "text", "address that sent the message, without port"),
                ("bucket_time", "time", "begin of the time bucket (store time)"),
                ("messages", "int", "messages"),
                ("bytes", "int", "bytes of their records"),
                ("body_bytes", "int", "bytes of their stored bodies"),
                ("share", "float", "share of all bytes, 0 to 1"),
                ("size_p50", "int", "record size that half of the messages do not exceed"),
                ("size_p90", "int", "record size that 90 % do not exceed"),
                ("size_p99", "int", "record size that 99 % do not exceed"),
                ("size_max", "int", "largest record"),
                ("first_store_time", "time", "oldest message"),
                ("last_store_time", "time", "youngest message"),
            ),
            shown=(
                *("store", "topic", "tag", "queueId", "producerHost", "bucketTime", "messages"),
                *("bytes", "share", "sizeP50", "sizeP99", "sizeMax", "lastStoreTime"),
            ),
        ),
        Table(
            "hot-keys",
            "the keys that most messages have",
            columns(
                TOPIC,
                ("key", "text", "one word of KEYS"),
                ("messages", "int", "messages with it"),
                ("bytes", "int", "bytes of their records"),
                ("share", "float", "share of the topic's messages with keys, 0 to 1"),
            ),
        ),
        Table(
            "skew",
            "how unevenly the queues of a topic are filled",
            columns(
                TOPIC,
                ("queues", "int", "queues with messages"),
                ("messages", "int", "messages of the topic"),
                ("least", "int", "messages of the emptiest queue"),
                ("most", "int", "messages of the fullest queue"),
                ("skew", "float", "fullest queue by mean queue; 1 is even"),
                ("fullest_queue_id", "int", "which queue is the fullest"),
            ),
        ),
    ),
    plots=True,
)

# word of --param by -> (column of the result, column of the source)
_BY: Final = {
    "store": ("store", "store"),
    "topic": ("topic", "topic"),
    "tag": ("tag", "tags"),
    "queue": ("queue_id", "queue_id"),
    "host": ("producer_host", "born_host"),
}


def run(inputs: "Inputs") -> dict[str, "DataFrame"]:
    """The tables of the job."""
    by = grouping(inputs.parameters["by"], tuple(_BY))
    top = whole_number(inputs.parameters, "top")
    bucket = inputs.parameters["bucket"]
    read = dict.fromkeys(["size", "body_len", "store_time", *(_BY[word][1] for word in by)])
    return {
        "traffic": traffic(inputs.messages(*read), by=by, bucket=bucket),
        "hot-keys": hot_keys(inputs.messages("topic", "keys", "size"), top=top),
        "skew": skew(inputs.messages("topic", "queue_id")),
    }


def traffic(
    messages: "DataFrame", *, by: Sequence[str] = ("topic",), bucket: str = ""
) -> "DataFrame":
    """Messages, bytes and sizes by any of store, topic, tag, queue, host, and by time."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    groups = {}
    for word in by:
        name, source = _BY[word]
        groups[name] = host_of(source) if word == "host" else F.col(source)
    if bucket:
        groups["bucket_time"] = bucket_of("store_time", bucket)
    counted = messages.groupBy(*(value.alias(name) for name, value in groups.items())).agg(
        F.count("*").alias("messages"),
        F.sum("size").alias("bytes"),
        F.sum("body_len").alias("body_bytes"),
        percentiles(F.col("size"), (0.5, 0.9, 0.99)).alias("sizes"),
        F.max("size").alias("size_max"),
        F.min("store_time").alias("first_store_time"),
        F.max("store_time").alias("last_store_time"),
    )
    whole = F.sum("bytes").over(Window.partitionBy(F.lit(0)))
    found = counted.withColumn("share", F.col("bytes") / whole).select(
        "*", *(F.col("sizes")[at].alias(f"size_p{p}") for at, p in enumerate((50, 90, 99)))
    )
    ordered = (
        found.orderBy("bucket_time", F.desc("bytes"))
        if bucket
        else found.orderBy(F.desc("bytes"), *groups)
    )
    return JOB.tables[0].shape(ordered)


def hot_keys(messages: "DataFrame", *, top: int = 20) -> "DataFrame":
    """The keys of most messages, topic by topic."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    # The empty word stands for the message itself: it counts the messages with keys.
    words = F.array_union(F.split("keys", " +"), F.array(F.lit("")))
    counted = (
        messages.where(F.col("keys").isNotNull())
        .select("topic", "size", F.explode(words).alias("key"))
        .groupBy("topic", "key")
        .agg(F.count("*").alias("messages"), F.sum("size").alias("bytes"))
    )
    itself = F.when(F.col("key") == "", F.col("messages"))
    whole = F.max(itself).over(Window.partitionBy("topic"))
    found = counted.withColumn("share", F.col("messages") / whole).where("key <> ''")
    highest = found.orderBy(F.desc("messages"), "topic", "key").limit(top)
    return JOB.tables[1].shape(highest)


def skew(messages: "DataFrame") -> "DataFrame":
    """How unevenly the queues of each topic are filled."""
    from pyspark.sql import functions as F

    queues = messages.groupBy("topic", "queue_id").agg(F.count("*").alias("count"))
    topics = queues.groupBy("topic").agg(
        F.count("*").alias("queues"),
        F.sum("count").alias("messages"),
        F.min("count").alias("least"),
        F.max("count").alias("most"),
        (F.max("count") / F.avg("count")).alias("skew"),
        F.min_by("queue_id", F.struct(-F.col("count"), "queue_id")).alias("fullest_queue_id"),
    )
    return JOB.tables[2].shape(topics.orderBy(F.desc("skew"), "topic"))
