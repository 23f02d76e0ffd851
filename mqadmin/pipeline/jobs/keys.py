"""``keys``: how many keys there are, which share a hash, how full the IndexFiles are."""

from typing import TYPE_CHECKING, Final

from broker.store.format.indexfile import index_key_hash
from mqadmin.pipeline.expressions import whole_number
from mqadmin.pipeline.job import STORE, TOP, TOPIC, Job, Table, columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mqadmin.pipeline.inputs import Inputs

JOB: Final = Job(
    name="keys",
    summary="Cardinality and collisions of index keys, load of the IndexFiles, chains.",
    text="Keys are what brokers index: the uniqKey and each word of KEYS, hashed with the topic."
    " Different keys of one hash cost a look into the log each.",
    example="mqadmin pipeline run keys --store /data/store --table files",
    entry="mqadmin.pipeline.jobs.keys:run",
    parameters=(TOP,),
    tables=(
        Table(
            "topics",
            "keys by topic",
            columns(
                TOPIC,
                ("messages", "int", "messages"),
                ("with_keys", "int", "messages with KEYS"),
                ("keys", "int", "keys that are indexed, uniqKeys among them"),
                ("distinct_keys", "int", "different ones"),
                ("distinct_hashes", "int", "different hashes of them"),
                ("collisions", "int", "keys that share their hash with another one"),
            ),
        ),
        Table(
            "collisions",
            "hashes that several keys share, over all topics",
            columns(
                ("key_hash", "int", "hash of topic#key"),
                ("keys", "int", "different keys"),
                ("messages", "int", "messages with one of them"),
                ("examples", "texts", "topic#key, at most 5"),
            ),
        ),
        Table(
            "files",
            "IndexFiles",
            columns(
                ("file", "text", "path"),
                ("begin_time", "time", "store time of its first message"),
                ("end_time", "time", "store time of its last message"),
                ("entries", "int", "entries"),
                ("fill", "float", "share of the room for entries, 0 to 1"),
                ("slots_used", "int", "slots with a chain"),
                ("slot_load", "float", "share of the slots, 0 to 1"),
                ("mean_chain", "float", "entries per used slot"),
                ("longest_chain", "int", "entries of the longest chain"),
                STORE,
            ),
        ),
    ),
)


def run(inputs: "Inputs") -> dict[str, "DataFrame"]:
    """The tables of the job."""
    messages = inputs.messages("topic", "keys", "uniq_key")
    hashed = hashes(words(messages))
    return {
        "topics": topics(messages, hashed),
        "collisions": collisions(hashed, top=whole_number(inputs.parameters, "top")),
        "files": files(inputs.index_files()),
    }


def words(messages: "DataFrame") -> "DataFrame":
    """The keys that are indexed, by topic: how many messages have each.

    **Source:** RocketMQ ``IndexService#buildIndex``.
    """
    from pyspark.sql import functions as F

    uniq = F.filter(F.array("uniq_key"), lambda word: word.isNotNull())
    own = F.coalesce(F.split("keys", " "), F.array().cast("array<string>"))
    both = F.filter(F.concat(uniq, own), lambda word: word != "")
    return (
        messages.select("topic", F.explode(both).alias("key"))
        .groupBy("topic", "key")
        .agg(F.count("*").alias("messages"))
    )


def hashes(words: "DataFrame") -> "DataFrame":
    """Keys with the hash under which the index files them."""
    from pyspark.sql import functions as F

    hashed = F.udf(lambda topic, key: index_key_hash(topic, key), "int", useArrow=False)
    return words.withColumn("key_hash", hashed("topic", "key"))


def topics(messages: "DataFrame", hashed: "DataFrame") -> "DataFrame":
    """Keys by topic."""
    from pyspark.sql import functions as F

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
    return JOB.tables[0].shape(found.orderBy("topic"))


def collisions(hashed: "DataFrame", *, top: int = 20) -> "DataFrame":
    """Hashes that several keys share, over all topics; the worst first."""
    from pyspark.sql import functions as F

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
    return JOB.tables[1].shape(found.orderBy(F.desc("keys"), "key_hash").limit(top))


def files(index_files: "DataFrame") -> "DataFrame":
    """Load and chains of IndexFiles."""
    from pyspark.sql import functions as F

    found = index_files.select(
        "*",
        (F.col("entries") / F.col("entries_most")).alias("fill"),
        (F.col("slots_used") / F.col("slots")).alias("slot_load"),
        (F.col("entries") / F.col("slots_used")).alias("mean_chain"),
    )
    return JOB.tables[2].shape(found.orderBy("store", "file"))
