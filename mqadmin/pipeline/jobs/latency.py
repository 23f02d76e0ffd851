"""``latency``: born to stored, delays against their due time, transactions to their end."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from broker.common.sysflag import TRANSACTION_COMMIT, TRANSACTION_MASK
from broker.common.times import parse_duration_ms
from broker.common.topic import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from broker.errors import ConfigError, RocketMQError
from mqadmin.pipeline.expressions import bucket_of, grouping, host_of, percentiles, property_of
from mqadmin.pipeline.job import BUCKET, STORE, TOPIC, Job, Parameter, Table, columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from mqadmin.pipeline.inputs import Inputs

JOB: Final = Job(
    name="latency",
    summary="Born to stored, accuracy of delays and timers, time to commit of transactions.",
    text="The first table is about messages as producers sent them: deliveries of retries, delays"
    " and commits are left out. Negative times are clocks that differ.",
    example="mqadmin pipeline run latency --store /data/store --plot latency.html",
    entry="mqadmin.pipeline.jobs.latency:run",
    parameters=(
        Parameter("by", "topic", "any of store, topic, host, with commas"),
        BUCKET,
        Parameter("delayLevels", "", "messageDelayLevel of the broker, default Java's"),
    ),
    tables=(
        Table(
            "stored",
            "milliseconds from born to stored",
            columns(
                STORE,
                TOPIC,
                ("producer_host", "text", "address that sent the message, without port"),
                ("bucket_time", "time", "begin of the time bucket (store time)"),
                ("messages", "int", "messages"),
                ("p50_ms", "int", "half of them took no longer"),
                ("p90_ms", "int", "90 % took no longer"),
                ("p99_ms", "int", "99 % took no longer"),
                ("max_ms", "int", "longest"),
                ("min_ms", "int", "shortest"),
                ("negative", "int", "stored before they were born: clocks differ"),
            ),
        ),
        Table(
            "delayed",
            "delivery of delayed and timed messages against their due time",
            columns(
                ("kind", "text", "level or timer"),
                TOPIC,
                ("level", "int", "delay level"),
                ("messages", "int", "scheduled"),
                ("delivered", "int", "delivered"),
                ("waiting", "int", "not delivered yet"),
                ("early", "int", "delivered before they were due"),
                ("p50_ms", "int", "half of the deliveries were no later"),
                ("p99_ms", "int", "99 % were no later"),
                ("max_ms", "int", "latest delivery"),
            ),
        ),
        Table(
            "transactions",
            "half messages to commit or rollback",
            columns(
                TOPIC,
                ("producer_group", "text", "producer group"),
                ("transactions", "int", "half messages"),
                ("committed", "int", "committed"),
                ("rolled_back", "int", "rolled back"),
                ("open", "int", "neither"),
                ("checks", "int", "times the broker asked the producer"),
                ("p50_ms", "int", "half of the commits took no longer"),
                ("p99_ms", "int", "99 % took no longer"),
                ("max_ms", "int", "longest commit"),
            ),
        ),
    ),
    plots=True,
)

DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_BY: Final = {
    "store": ("store", "store"),
    "topic": ("topic", "topic"),
    "host": ("producer_host", "born_host"),
}
READ: Final = (
    *("topic", "born_time", "store_time", "born_host", "reconsume_times", "sys_flag"),
    *("uniq_key", "properties", "store"),
)
READ_ENDS: Final = (*READ, "queue_offset", "prepared_offset")


def run(inputs: "Inputs") -> dict[str, "DataFrame"]:
    """The tables of the job."""
    from pyspark.sql import functions as F

    by = grouping(inputs.parameters["by"], tuple(_BY))
    levels = inputs.parameters["delayLevels"] or DELAY_LEVELS
    messages = inputs.messages(*READ, every_topic=True)
    ends = inputs.messages(*READ_ENDS, every_topic=True)
    ops = inputs.messages("topic", "body", "store", options={"topic": TRANS_OP_HALF_TOPIC})
    if not inputs.topics:
        return {
            "stored": stored(messages, by=by, bucket=inputs.parameters["bucket"]),
            "delayed": delayed(messages, levels=levels),
            "transactions": transactions(ends, ops),
        }
    # The topic of a message that waits is a property of it: only the results can be narrowed.
    wanted = F.col("topic").isin(*inputs.topics)
    by = by if "topic" in by else ["topic", *by]
    return {
        "stored": stored(messages, by=by, bucket=inputs.parameters["bucket"]).where(wanted),
        "delayed": delayed(messages, levels=levels).where(wanted),
        "transactions": transactions(ends, ops).where(wanted),
    }


def _ms(first: "Column | str", last: "Column | str") -> "Column":
    from pyspark.sql import functions as F

    return F.unix_millis(last) - F.unix_millis(first)


def stored(
    messages: "DataFrame", *, by: Sequence[str] = ("topic",), bucket: str = ""
) -> "DataFrame":
    """Milliseconds from born to stored of messages as producers sent them."""
    from pyspark.sql import functions as F

    topic, target = F.col("topic"), property_of("REAL_TOPIC")
    put_off = topic.isin(SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC)
    first = put_off & (F.col("reconsume_times") == 0)
    first &= (
        property_of("TRANSACTION_CHECK_TIMES").isNull() & property_of("TIMER_ROLL_TIMES").isNull()
    )
    # A message that waited keeps the marks of its waiting when it is delivered.
    waited = property_of("DELAY").isNotNull() | property_of("TIMER_OUT_MS").isNotNull()
    waited |= F.col("sys_flag").bitwiseAND(TRANSACTION_MASK) != 0
    again = F.startswith(topic, F.lit(RETRY_PREFIX)) | F.startswith(topic, F.lit(DLQ_PREFIX))
    direct = ~put_off & ~waited & ~again & (topic != TRANS_OP_HALF_TOPIC)
    # What is sent back by consumers also waits, under the name of the retry topic.
    sent = messages.where(first | direct).withColumn(
        "topic", F.when(put_off, F.coalesce(target, topic)).otherwise(topic)
    )
    groups = {}
    for word in by:
        name, source = _BY[word]
        groups[name] = host_of(source) if word == "host" else F.col(source)
    if bucket:
        groups["bucket_time"] = bucket_of("store_time", bucket)
    took = _ms("born_time", "store_time")
    found = sent.groupBy(*(value.alias(name) for name, value in groups.items())).agg(
        F.count("*").alias("messages"),
        percentiles(took, (0.5, 0.9, 0.99)).alias("shares"),
        F.max(took).alias("max_ms"),
        F.min(took).alias("min_ms"),
        F.count(F.when(took < 0, 1)).alias("negative"),
    )
    return JOB.tables[0].shape(_spread(found, (50, 90, 99)).orderBy(*groups))


def _spread(found: "DataFrame", shares: Sequence[int]) -> "DataFrame":
    from pyspark.sql import functions as F

    return found.select(
        "*", *(F.col("shares")[at].alias(f"p{share}_ms") for at, share in enumerate(shares))
    )


def level_lengths(text: str) -> list[int]:
    """A broker's messageDelayLevel in ms, level 1 first. ConfigError if it is none."""
    try:
        return [parse_duration_ms(word) for word in text.split()]
    except RocketMQError as error:
        raise ConfigError(f"parameter delayLevels: {error.message}", error.hint) from error


def delayed(messages: "DataFrame", *, levels: str = DELAY_LEVELS) -> "DataFrame":
    """Deliveries of delayed and timed messages against the time at which they were due."""
    from pyspark.sql import functions as F

    lengths = F.array(*(F.lit(length) for length in level_lengths(levels)))
    topic = F.col("topic")
    level = property_of("DELAY").cast("int")
    timer = F.coalesce(property_of("TIMER_DELIVER_MS"), property_of("TIMER_OUT_MS")).cast("bigint")
    scheduled = topic.isin(SCHEDULE_TOPIC, TIMER_TOPIC)
    due = F.when(
        topic == SCHEDULE_TOPIC,
        F.unix_millis("store_time") + F.get(lengths, F.least(level, F.size(lengths)) - 1),
    ).otherwise(timer)
    is_timer = timer.isNotNull()
    cancels = property_of("TIMER_DEL_UNIQKEY").isNotNull()
    events = messages.where(
        (is_timer | (level > 0)) & ~F.startswith(topic, F.lit(DLQ_PREFIX)) & ~cancels
    ).select(
        F.when(is_timer, "timer").otherwise("level").alias("kind"),
        F.when(scheduled, property_of("REAL_TOPIC")).otherwise(topic).alias("topic"),
        F.when(~is_timer, level).alias("level"),
        "uniq_key",
        "reconsume_times",
        F.when(scheduled, due).alias("due"),
        F.when(~scheduled, F.unix_millis("store_time")).alias("at"),
    )
    one = events.groupBy("kind", "topic", "level", "uniq_key", "reconsume_times").agg(
        F.min("due").alias("due"), F.min("at").alias("at")
    )
    late = F.col("at") - F.col("due")
    found = (
        one.where(F.col("due").isNotNull())
        .groupBy("kind", "topic", "level")
        .agg(
            F.count("*").alias("messages"),
            F.count("at").alias("delivered"),
            F.count(F.when(F.col("at").isNull(), 1)).alias("waiting"),
            F.count(F.when(late < 0, 1)).alias("early"),
            percentiles(late, (0.5, 0.99)).alias("shares"),
            F.max(late).alias("max_ms"),
        )
    )
    return JOB.tables[1].shape(_spread(found, (50, 99)).orderBy("kind", "topic", "level"))


def transactions(messages: "DataFrame", ops: "DataFrame") -> "DataFrame":
    """Half messages and what became of them; ``ops`` are the op messages with their bodies."""
    from pyspark.sql import functions as F

    half = F.col("topic") == TRANS_HALF_TOPIC
    commit = F.col("sys_flag").bitwiseAND(TRANSACTION_MASK) == TRANSACTION_COMMIT
    done = (
        ops.where(F.col("topic") == TRANS_OP_HALF_TOPIC)
        .select("store", F.explode(F.split(F.col("body").cast("string"), ",")).alias("number"))
        .where(F.col("number").rlike("^[0-9]+$"))
        .select("store", F.col("number").cast("bigint").alias("done_offset"))
        .distinct()
    )
    events = messages.where(half | commit).select(
        "store",
        F.when(half, property_of("REAL_TOPIC")).otherwise(F.col("topic")).alias("topic"),
        "uniq_key",
        property_of("PGROUP").alias("producer_group"),
        F.coalesce(property_of("TRANSACTION_CHECK_TIMES").cast("int"), F.lit(0)).alias("checks"),
        F.when(half, F.col("queue_offset")).alias("half_offset"),
        F.when(half, F.unix_millis("store_time")).alias("begin"),
        F.when(commit & ~half, F.unix_millis("store_time")).alias("end"),
    )
    one = events.groupBy("store", "topic", "uniq_key").agg(
        F.max("producer_group").alias("producer_group"),
        F.max("checks").alias("checks"),
        # A check puts the half message in once more: the last one counts.
        F.max("half_offset").alias("done_offset"),
        F.min("begin").alias("begin"),
        F.min("end").alias("end"),
    )
    known = one.join(done.withColumn("is_done", F.lit(True)), ["store", "done_offset"], "left")
    took = F.col("end") - F.col("begin")
    back = F.col("end").isNull() & F.col("is_done").isNotNull()
    found = known.groupBy("topic", "producer_group").agg(
        F.count("*").alias("transactions"),
        F.count("end").alias("committed"),
        F.count(F.when(back, 1)).alias("rolled_back"),
        F.count(F.when(F.col("end").isNull() & ~back, 1)).alias("open"),
        F.sum("checks").alias("checks"),
        percentiles(took, (0.5, 0.99)).alias("shares"),
        F.max(took).alias("max_ms"),
    )
    return JOB.tables[2].shape(_spread(found, (50, 99)).orderBy("topic", "producer_group"))
