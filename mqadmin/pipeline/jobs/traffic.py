"""``traffic``: disk usage by topic, tag, queue, host and time."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from mqadmin.pipeline.declarations.traffic import JOB
from mqadmin.pipeline.expressions import (
    grouping,
    grouping_columns,
    percentile_columns,
    percentiles,
    positive_number,
    shape,
)
from mqadmin.pipeline.inputs import Inputs

# word of --param by -> (column of the result, column of the source)
_BY: Final = {
    "store": ("store", "store"),
    "topic": ("topic", "topic"),
    "tag": ("tag", "tags"),
    "queue": ("queue_id", "queue_id"),
    "host": ("producer_host", "born_host"),
}


def run(inputs: Inputs) -> dict[str, DataFrame]:
    """Return the tables of the job."""
    by = grouping(inputs.parameters["by"], tuple(_BY))
    top = positive_number(inputs.parameters, "top")
    bucket = inputs.parameters["bucket"]
    read = dict.fromkeys(["size", "body_len", "store_time", *(_BY[word][1] for word in by)])
    return {
        "traffic": traffic(inputs.messages(*read), by=by, bucket=bucket),
        "hot-keys": hot_keys(inputs.messages("topic", "keys", "size"), top=top),
        "skew": skew(inputs.messages("topic", "queue_id")),
    }


def traffic(messages: DataFrame, *, by: Sequence[str] = ("topic",), bucket: str = "") -> DataFrame:
    """Aggregate messages, bytes and sizes by store, topic, tag, queue, host and time."""
    groups = grouping_columns(by, _BY, bucket)
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
    found = percentile_columns(
        counted.withColumn("share", F.col("bytes") / whole),
        "sizes",
        ("size_p50", "size_p90", "size_p99"),
    )
    ordered = (
        found.orderBy("bucket_time", F.desc("bytes"))
        if bucket
        else found.orderBy(F.desc("bytes"), *groups)
    )
    return shape(ordered, JOB.table("traffic"))


def hot_keys(messages: DataFrame, *, top: int = 20) -> DataFrame:
    """Find the most frequent keys of all topics."""
    # The empty word occurs once per message: its count is the number of messages with keys.
    words = F.array_union(F.split("keys", " +"), F.array(F.lit("")))
    counted = (
        messages.where(F.col("keys").isNotNull())
        .select("topic", "size", F.explode(words).alias("key"))
        .groupBy("topic", "key")
        .agg(F.count("*").alias("messages"), F.sum("size").alias("bytes"))
    )
    with_keys = F.when(F.col("key") == "", F.col("messages"))
    whole = F.max(with_keys).over(Window.partitionBy("topic"))
    found = counted.withColumn("share", F.col("messages") / whole).where("key <> ''")
    highest = found.orderBy(F.desc("messages"), "topic", "key").limit(top)
    return shape(highest, JOB.table("hot-keys"))


def skew(messages: DataFrame) -> DataFrame:
    """Measure how evenly each topic's messages are distributed over its queues."""
    queues = messages.groupBy("topic", "queue_id").agg(F.count("*").alias("count"))
    topics = queues.groupBy("topic").agg(
        F.count("*").alias("queues"),
        F.sum("count").alias("messages"),
        F.min("count").alias("least"),
        F.max("count").alias("most"),
        (F.max("count") / F.avg("count")).alias("skew"),
        F.min_by("queue_id", F.struct(-F.col("count"), "queue_id")).alias("fullest_queue_id"),
    )
    return shape(topics.orderBy(F.desc("skew"), "topic"), JOB.table("skew"))
