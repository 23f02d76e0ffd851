"""``latency``: born to store time, delivery of delayed messages, duration of transactions."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

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
from mqadmin.pipeline.declarations.latency import JOB
from mqadmin.pipeline.expressions import (
    grouping,
    grouping_columns,
    percentile_columns,
    percentiles,
    property_of,
    shape,
)
from mqadmin.pipeline.inputs import Inputs

DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
# word of --param by -> (column of the result, column of the source)
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


def run(inputs: Inputs) -> dict[str, DataFrame]:
    """Return the tables of the job."""
    by = grouping(inputs.parameters["by"], tuple(_BY))
    levels = inputs.parameters["delayLevels"] or DELAY_LEVELS
    messages = inputs.messages(*READ, every_topic=True)
    ends = inputs.messages(*READ_ENDS, every_topic=True)
    ops = inputs.messages("topic", "body", "store", options={"topic": TRANS_OP_HALF_TOPIC})
    if inputs.topics and "topic" not in by:
        by = ["topic", *by]
    tables = {
        "stored": stored(messages, by=by, bucket=inputs.parameters["bucket"]),
        "delayed": delayed(messages, levels=levels),
        "transactions": transactions(ends, ops),
    }
    if not inputs.topics:
        return tables
    # A waiting message names its topic in a property: only the results can be filtered by topic.
    selected = F.col("topic").isin(*inputs.topics)
    return {name: table.where(selected) for name, table in tables.items()}


def _ms(first: Column | str, last: Column | str) -> Column:
    return F.unix_millis(last) - F.unix_millis(first)


def stored(messages: DataFrame, *, by: Sequence[str] = ("topic",), bucket: str = "") -> DataFrame:
    """Measure milliseconds from born to store time of messages as producers sent them."""
    topic, target = F.col("topic"), property_of("REAL_TOPIC")
    waiting = topic.isin(SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC)
    first = waiting & (F.col("reconsume_times") == 0)
    first &= (
        property_of("TRANSACTION_CHECK_TIMES").isNull() & property_of("TIMER_ROLL_TIMES").isNull()
    )
    # A delivered message keeps the properties and flags of its waiting record.
    delivered = property_of("DELAY").isNotNull() | property_of("TIMER_OUT_MS").isNotNull()
    delivered |= F.col("sys_flag").bitwiseAND(TRANSACTION_MASK) != 0
    resent = F.startswith(topic, F.lit(RETRY_PREFIX)) | F.startswith(topic, F.lit(DLQ_PREFIX))
    direct = ~waiting & ~delivered & ~resent & (topic != TRANS_OP_HALF_TOPIC)
    # Messages that consumers send back wait too (reconsume_times > 0): they are not in `first`.
    sent = messages.where(first | direct).withColumn(
        "topic", F.when(waiting, F.coalesce(target, topic)).otherwise(topic)
    )
    groups = grouping_columns(by, _BY, bucket)
    took = _ms("born_time", "store_time")
    found = sent.groupBy(*(value.alias(name) for name, value in groups.items())).agg(
        F.count("*").alias("messages"),
        percentiles(took, (0.5, 0.9, 0.99)).alias("shares"),
        F.max(took).alias("max_ms"),
        F.min(took).alias("min_ms"),
        F.count(F.when(took < 0, 1)).alias("negative"),
    )
    return shape(_spread(found, (50, 90, 99)).orderBy(*groups), JOB.table("stored"))


def _spread(found: DataFrame, shares: Sequence[int]) -> DataFrame:
    return percentile_columns(found, "shares", [f"p{share}_ms" for share in shares])


def level_lengths(text: str) -> list[int]:
    """Parse a messageDelayLevel into ms, level 1 first. ConfigError if it is not valid."""
    try:
        return [parse_duration_ms(word) for word in text.split()]
    except RocketMQError as error:
        raise ConfigError(f"parameter delayLevels: {error.message}", error.hint) from error


def delayed(messages: DataFrame, *, levels: str = DELAY_LEVELS) -> DataFrame:
    """Measure the delivery of delayed and timer messages relative to their due time."""
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
    return shape(_spread(found, (50, 99)).orderBy("kind", "topic", "level"), JOB.table("delayed"))


def transactions(messages: DataFrame, ops: DataFrame) -> DataFrame:
    """Measure half messages to their commit; ``ops`` are the op messages with bodies."""
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
        # A transaction check appends the half message again: the last copy counts.
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
    return shape(
        _spread(found, (50, 99)).orderBy("topic", "producer_group"), JOB.table("transactions")
    )
