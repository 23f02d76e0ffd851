"""``audit``: verification of any number of stores, and what shows only over all of them."""

from typing import TYPE_CHECKING, Final

from mqadmin.pipeline.job import QUEUE, STORE, TOPIC, Job, Table, columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mqadmin.pipeline.inputs import Inputs

JOB: Final = Job(
    name="audit",
    summary="Verify any number of stores: log, queues, index, bodies, duplicates, gaps, clocks.",
    text="The findings are those of 'mqadmin store verify', one task per store. The other tables"
    " look over all stores at once. Damages make the exit status 5.",
    example="mqadmin pipeline run audit --store '/data/*/store'",
    entry="mqadmin.pipeline.jobs.audit:run",
    tables=(
        Table(
            "findings",
            "what is wrong, as 'mqadmin store verify' says it",
            columns(
                ("kind", "text", "kind of finding"),
                ("severity", "text", "error, warning or notice"),
                ("path", "text", "file"),
                ("physical_offset", "int", "place in the log, or in the file"),
                ("length", "int", "bytes"),
                ("detail", "text", "what is wrong"),
                ("suggestion", "text", "what to do"),
                STORE,
            ),
            shown=("severity", "kind", "path", "physicalOffset", "length", "detail"),
        ),
        Table(
            "stores",
            "one row per store: what was looked at",
            columns(
                STORE,
                ("state", "text", "clean, running or crashed"),
                ("records", "int", "records of the log"),
                ("queues", "int", "ConsumeQueues"),
                ("units_checked", "int", "units compared with their records"),
                ("index_entries_checked", "int", "index entries compared with their records"),
                ("errors", "int", "findings that are errors"),
                ("warnings", "int", "findings that are warnings"),
                ("coverage", "float", "share of the log that was read, 0 to 1"),
                ("log_bytes", "int", "bytes of the log"),
            ),
        ),
        Table(
            "duplicates",
            "messages of one topic with the same uniqKey: producers that sent twice",
            columns(
                TOPIC,
                ("uniq_key", "text", "uniqKey"),
                ("copies", "int", "messages with it"),
                ("physical_offsets", "ints", "their places, at most 10"),
                ("first_store_time", "time", "the first"),
                ("seconds", "float", "from the first to the last"),
            ),
        ),
        Table(
            "gaps",
            "queue offsets that no message of the log has",
            columns(
                STORE,
                TOPIC,
                QUEUE,
                ("from_offset", "int", "first queue offset that is missing"),
                ("missing", "int", "how many"),
                ("before_physical_offset", "int", "place of the message behind the gap"),
            ),
        ),
        Table(
            "clock",
            "store times that go back along the log",
            columns(
                STORE,
                ("physical_offset", "int", "the message that is older than the one before it"),
                ("store_time", "time", "its store time"),
                ("back_seconds", "float", "how far the clock went back"),
            ),
        ),
    ),
)

SHOWN_PLACES: Final = 10


def run(inputs: "Inputs") -> dict[str, "DataFrame"]:
    """The tables of the job."""
    messages = inputs.messages(
        *("topic", "queue_id", "queue_offset", "physical_offset", "store_time", "uniq_key", "store")
    )
    sent = inputs.messages(
        *("topic", "queue_id", "physical_offset", "store_time", "store_host", "uniq_key")
    )
    return {
        "findings": findings(inputs.verified()),
        "stores": stores(inputs.verified(what="stores")),
        "duplicates": duplicates(sent),
        "gaps": gaps(messages),
        "clock": clock(messages),
    }


def findings(verified: "DataFrame") -> "DataFrame":
    """What ``store verify`` finds in each store."""
    return JOB.tables[0].shape(verified.orderBy("store", "path", "physical_offset", "kind"))


def stores(verified: "DataFrame") -> "DataFrame":
    """What ``store verify`` looked at in each store."""
    return JOB.tables[1].shape(verified.orderBy("store"))


def duplicates(messages: "DataFrame") -> "DataFrame":
    """Messages of one topic with the same uniqKey.

    Messages of one batch share theirs: what one broker stored in one queue at one time counts
    once, and so do a master's message and its copy in a slave. What brokers put in again on
    purpose (retries, delays, transaction checks) stands in other topics.
    """
    from pyspark.sql import functions as F

    topic = F.col("topic")
    again = topic.rlike("^(%RETRY%|%DLQ%|SCHEDULE_TOPIC_XXXX|rmq_sys_|RMQ_SYS_)")
    found = (
        messages.where(F.col("uniq_key").isNotNull() & ~again)
        .groupBy("topic", "uniq_key")
        .agg(
            F.count_distinct("store_host", "queue_id", "store_time").alias("copies"),
            F.slice(F.array_sort(F.collect_set("physical_offset")), 1, SHOWN_PLACES).alias(
                "physical_offsets"
            ),
            F.min("store_time").alias("first_store_time"),
            (
                (F.max(F.unix_millis("store_time")) - F.min(F.unix_millis("store_time"))) / 1000.0
            ).alias("seconds"),
        )
        .where("copies > 1")
    )
    return JOB.tables[2].shape(found.orderBy(F.desc("copies"), "topic", "uniq_key"))


def gaps(messages: "DataFrame") -> "DataFrame":
    """Queue offsets between the first and the last of a queue that no message has."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

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
    return JOB.tables[3].shape(shaped.orderBy("store", "topic", "queue_id", "from_offset"))


def clock(messages: "DataFrame") -> "DataFrame":
    """Store times that go back along the log."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    log = Window.partitionBy("store").orderBy("physical_offset", "queue_offset")
    before = F.lag("store_time").over(log)
    back = (F.unix_millis("before_time") - F.unix_millis("store_time")) / 1000.0
    found = (
        messages.withColumn("before_time", before)
        .withColumn("back_seconds", back)
        .where("back_seconds > 0")
    )
    return JOB.tables[4].shape(found.orderBy("store", "physical_offset"))
