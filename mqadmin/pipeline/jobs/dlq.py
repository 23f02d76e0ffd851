"""``dlq``: dead-letter messages by group, one by one, and as a file to replay."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from broker.common.topic import DLQ_PREFIX
from broker.message.message import RESERVED_PROPERTIES
from mqadmin.pipeline.declarations.dlq import JOB
from mqadmin.pipeline.expressions import (
    original_topic,
    properties_map,
    property_of,
    seconds_between,
    shape,
)
from mqadmin.pipeline.inputs import Inputs

READ: Final = (
    *("topic", "queue_id", "queue_offset", "physical_offset", "size", "flag", "sys_flag"),
    *("born_time", "born_host", "store_time", "store_host", "reconsume_times", "body_len"),
    *("tags", "keys", "uniq_key", "offset_msg_id", "properties", "store"),
)


def run(inputs: Inputs) -> dict[str, DataFrame]:
    """Return the tables of the job."""
    group = inputs.parameters["group"]
    options = {"topic": DLQ_PREFIX + group} if group else {}
    read = inputs.messages(*READ, every_topic=True, options=options)
    bodies = inputs.messages(*READ, "body", every_topic=True, options=options)
    if inputs.topics:
        wanted = _origin().isin(*inputs.topics) | F.col("topic").isin(*inputs.topics)
        read, bodies = read.where(wanted), bodies.where(wanted)
    found = dead_letters(read)
    return {"groups": groups(found), "letters": found, "replay": replay(bodies)}


def _origin() -> Column:
    """Return the topic that a dead-letter message was sent to.

    Java names the POP retry topic of a message that POP delivered again.
    """
    named = F.coalesce(property_of("DLQ_ORIGIN_TOPIC"), property_of("RETRY_TOPIC"))
    return F.coalesce(original_topic(named, _group()), named)


def _group() -> Column:
    return F.substring(F.col("topic"), len(DLQ_PREFIX) + 1, 255)


def dead_letters(messages: DataFrame) -> DataFrame:
    """Return every dead-letter message, oldest first."""
    dead = messages.where(F.startswith(F.col("topic"), F.lit(DLQ_PREFIX)))
    reserved = sorted(RESERVED_PROPERTIES)
    user = F.map_filter(properties_map(), lambda name, _: ~name.isin(*reserved))
    origin_id = F.coalesce(property_of("DLQ_ORIGIN_MESSAGE_ID"), property_of("ORIGIN_MESSAGE_ID"))
    found = dead.select(
        "*",
        _group().alias("group"),
        _origin().alias("origin_topic"),
        origin_id.alias("origin_msg_id"),
        F.col("reconsume_times").alias("tries"),
        user.alias("user_properties"),
    )
    return shape(found.orderBy("store_time", "store", "physical_offset"), JOB.table("letters"))


def groups(dead_letters: DataFrame) -> DataFrame:
    """Aggregate dead-letter messages by group and origin topic, most messages first."""
    found = dead_letters.groupBy("group", "origin_topic").agg(
        F.count("*").alias("messages"),
        F.sum("body_len").alias("body_bytes"),
        F.count_distinct("keys").alias("distinct_keys"),
        F.max("tries").alias("tries_most"),
        F.percentile_approx(seconds_between("born_time", "store_time"), 0.5).alias("seconds_p50"),
        F.min("store_time").alias("oldest_store_time"),
        F.max("store_time").alias("newest_store_time"),
    )
    return shape(found.orderBy(F.desc("messages"), "group", "origin_topic"), JOB.table("groups"))


def replay(messages: DataFrame) -> DataFrame:
    """Return the dead-letter messages with bodies, in the order of their store times."""
    dead = messages.where(F.startswith(F.col("topic"), F.lit(DLQ_PREFIX)))
    words = F.filter(F.split("keys", " +"), lambda word: word != "")
    found = dead.select(
        *("topic", "queue_id", "queue_offset", "physical_offset", "flag", "sys_flag"),
        *("born_time", "born_host", "store_time", "store_host", "reconsume_times"),
        F.col("size").alias("store_size"),
        F.col("body_len").alias("body_size"),
        "body",
        F.lit("base64").alias("body_encoding"),
        "tags",
        F.coalesce(words, F.array().cast("array<string>")).alias("keys"),
        *("uniq_key", "offset_msg_id"),
        properties_map().alias("properties"),
    )
    return shape(found.orderBy("store_time", "physical_offset"), JOB.table("replay"))
