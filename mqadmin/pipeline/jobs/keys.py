"""``keys``: number of index keys, keys with equal hashes, load of the IndexFiles."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from broker.store.format.indexfile import index_key_hash
from mqadmin.pipeline.declarations.keys import JOB
from mqadmin.pipeline.expressions import positive_number, shape
from mqadmin.pipeline.inputs import Inputs


def run(inputs: Inputs) -> dict[str, DataFrame]:
    """Return the tables of the job."""
    messages = inputs.messages("topic", "keys", "uniq_key")
    hashed = hashes(index_keys(messages))
    return {
        "topics": topics(messages, hashed),
        "collisions": collisions(hashed, top=positive_number(inputs.parameters, "top")),
        "files": files(inputs.index_files()),
    }


def index_keys(messages: DataFrame) -> DataFrame:
    """Return the indexed keys by topic with the number of messages that have them.

    **Source:** RocketMQ ``IndexService#buildIndex``.
    """
    uniq = F.filter(F.array("uniq_key"), lambda word: word.isNotNull())
    own = F.coalesce(F.split("keys", " "), F.array().cast("array<string>"))
    both = F.filter(F.concat(uniq, own), lambda word: word != "")
    return (
        messages.select("topic", F.explode(both).alias("key"))
        .groupBy("topic", "key")
        .agg(F.count("*").alias("messages"))
    )


def hashes(keys: DataFrame) -> DataFrame:
    """Add the hash by which IndexFiles look up each key."""
    hashed = F.udf(lambda topic, key: index_key_hash(topic, key), "int", useArrow=False)
    return keys.withColumn("key_hash", hashed("topic", "key"))


def topics(messages: DataFrame, hashed: DataFrame) -> DataFrame:
    """Count messages, keys and hashes by topic."""
    counted = messages.groupBy("topic").agg(
        F.count("*").alias("messages"), F.count(F.nullif("keys", F.lit(""))).alias("with_keys")
    )
    of_hash = hashed.groupBy("topic", "key_hash").agg(
        F.count("*").alias("distinct"), F.sum("messages").alias("keys")
    )
    of_topic = of_hash.groupBy("topic").agg(
        F.sum("keys").alias("keys"),
        F.sum("distinct").alias("distinct_keys"),
        F.count("*").alias("distinct_hashes"),
        F.sum(F.when(F.col("distinct") > 1, F.col("distinct")).otherwise(0)).alias("collisions"),
    )
    found = counted.join(of_topic, "topic", "left").na.fill(0)
    return shape(found.orderBy("topic"), JOB.table("topics"))


def collisions(hashed: DataFrame, *, top: int = 20) -> DataFrame:
    """Find hashes shared by several keys, over all topics; those with most keys first."""
    name = F.concat("topic", F.lit("#"), "key")
    found = (
        hashed.groupBy("key_hash")
        .agg(
            F.count("*").alias("keys"),
            F.sum("messages").alias("messages"),
            F.slice(F.array_sort(F.collect_list(name)), 1, 5).alias("examples"),
        )
        .where("keys > 1")
    )
    return shape(found.orderBy(F.desc("keys"), "key_hash").limit(top), JOB.table("collisions"))


def files(index_files: DataFrame) -> DataFrame:
    """Compute load and chain lengths of IndexFiles."""
    found = index_files.select(
        "*",
        (F.col("entries") / F.col("entries_most")).alias("fill"),
        (F.col("slots_used") / F.col("slots")).alias("slot_load"),
        (F.col("entries") / F.col("slots_used")).alias("mean_chain"),
    )
    return shape(found.orderBy("store", "file"), JOB.table("files"))
