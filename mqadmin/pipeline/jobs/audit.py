"""``audit``: verification of every store, and checks over all stores together."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from mqadmin.pipeline.declarations.audit import JOB
from mqadmin.pipeline.expressions import shape
from mqadmin.pipeline.inputs import Inputs

MAX_SHOWN_OFFSETS: Final = 10


def run(inputs: Inputs) -> dict[str, DataFrame]:
    """Return the tables of the job."""
    messages = inputs.messages(
        *("topic", "queue_id", "queue_offset", "physical_offset", "store_time", "uniq_key", "store")
    )
    sent = inputs.messages(
        *("topic", "queue_id", "physical_offset", "store_time", "store_host", "uniq_key")
    )
    return {
        "findings": findings(inputs.verification()),
        "stores": stores(inputs.verification(rows="stores")),
        "duplicates": duplicates(sent),
        "gaps": gaps(messages),
        "clock": clock(messages),
    }


def findings(verified: DataFrame) -> DataFrame:
    """Shape the findings of ``store verify``."""
    return shape(
        verified.orderBy("store", "path", "physical_offset", "kind"), JOB.table("findings")
    )


def stores(verified: DataFrame) -> DataFrame:
    """Shape the summaries of ``store verify``."""
    return shape(verified.orderBy("store"), JOB.table("stores"))


def duplicates(messages: DataFrame) -> DataFrame:
    """Find messages of one topic with the same uniqKey.

    Messages of one batch share their uniqKey: messages stored by one broker in one queue at one
    time count once, as do a master's message and its copy in a slave. Topics into which brokers
    write copies on purpose (retries, delays, transaction checks) are excluded.
    """
    topic = F.col("topic")
    system_copy = topic.rlike("^(%RETRY%|%DLQ%|SCHEDULE_TOPIC_XXXX|rmq_sys_|RMQ_SYS_)")
    found = (
        messages.where(F.col("uniq_key").isNotNull() & ~system_copy)
        .groupBy("topic", "uniq_key")
        .agg(
            F.count_distinct("store_host", "queue_id", "store_time").alias("copies"),
            F.slice(F.array_sort(F.collect_set("physical_offset")), 1, MAX_SHOWN_OFFSETS).alias(
                "physical_offsets"
            ),
            F.min("store_time").alias("first_store_time"),
            (
                (F.max(F.unix_millis("store_time")) - F.min(F.unix_millis("store_time"))) / 1000.0
            ).alias("seconds"),
        )
        .where("copies > 1")
    )
    return shape(found.orderBy(F.desc("copies"), "topic", "uniq_key"), JOB.table("duplicates"))


def gaps(messages: DataFrame) -> DataFrame:
    """Find the queue offsets between the first and last of a queue that no message has."""
    queue = Window.partitionBy("store", "topic", "queue_id").orderBy(
        "queue_offset", "physical_offset"
    )
    before = F.lag("queue_offset").over(queue)
    found = messages.withColumn("from_offset", before + 1).where(
        F.col("queue_offset") > F.col("from_offset")
    )
    missing = F.col("queue_offset") - F.col("from_offset")
    shaped = found.withColumn("missing", missing).withColumn(
        "before_physical_offset", F.col("physical_offset")
    )
    return shape(shaped.orderBy("store", "topic", "queue_id", "from_offset"), JOB.table("gaps"))


def clock(messages: DataFrame) -> DataFrame:
    """Find the messages with an earlier store time than the message before them."""
    log = Window.partitionBy("store").orderBy("physical_offset", "queue_offset")
    before = F.lag("store_time").over(log)
    back = (F.unix_millis("before_time") - F.unix_millis("store_time")) / 1000.0
    found = (
        messages.withColumn("before_time", before)
        .withColumn("back_seconds", back)
        .where("back_seconds > 0")
    )
    return shape(found.orderBy("store", "physical_offset"), JOB.table("clock"))
