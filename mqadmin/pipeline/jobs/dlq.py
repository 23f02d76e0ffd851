"""``dlq``: what died, and a set to replay."""

from typing import TYPE_CHECKING, Final

from broker.common.topic import DLQ_PREFIX
from mqadmin.pipeline.expressions import properties_map, property_of, seconds_between
from mqadmin.pipeline.job import GROUP, QUEUE, STORE, TOPIC, Job, Table, columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from mqadmin.pipeline.inputs import Inputs

JOB: Final = Job(
    name="dlq",
    summary="Dead letters: what died, when, from which topic and group, after how many tries.",
    text="Origins come from the properties that brokers set (RETRY_TOPIC, DLQ_ORIGIN_TOPIC and"
    " their ids). The table replay is a file that 'mqadmin dlq replay --from FILE' takes: --table"
    " replay -o ndjson, or replay.ndjson below --out.",
    example="mqadmin pipeline run dlq --store /data/store --param group=billing",
    entry="mqadmin.pipeline.jobs.dlq:run",
    parameters=(GROUP,),
    tables=(
        Table(
            "groups",
            "dead letters by group and origin",
            columns(
                ("group", "text", "consumer group that gave up"),
                ("origin_topic", "text", "topic the messages came from"),
                ("messages", "int", "dead letters"),
                ("body_bytes", "int", "bytes of their stored bodies"),
                ("distinct_keys", "int", "different KEYS texts"),
                ("tries_most", "int", "most deliveries of one of them"),
                ("seconds_p50", "float", "median of seconds from born to dead"),
                ("oldest_store_time", "time", "first death"),
                ("newest_store_time", "time", "last death"),
            ),
        ),
        Table(
            "letters",
            "every dead letter",
            columns(
                ("group", "text", "consumer group that gave up"),
                ("origin_topic", "text", "topic the message came from"),
                ("origin_msg_id", "text", "its id there"),
                ("store_time", "time", "when it died"),
                ("born_time", "time", "when the producer made it"),
                ("tries", "int", "deliveries (reconsumeTimes)"),
                ("tags", "text", "TAGS"),
                ("keys", "text", "KEYS"),
                ("uniq_key", "text", "uniqKey"),
                ("body_len", "int", "bytes of the stored body"),
                ("user_properties", "map", "properties that neither broker nor client set"),
                STORE,
                QUEUE,
                ("queue_offset", "int", "place in the DLQ topic's queue"),
                ("physical_offset", "int", "place in the log"),
                ("offset_msg_id", "text", "offsetMsgId of the dead letter"),
            ),
            shown=(
                *("group", "originTopic", "storeTime", "tries", "tags", "keys", "uniqKey"),
                *("bodyLen", "offsetMsgId"),
            ),
        ),
        Table(
            "replay",
            "the dead letters with bodies, fields as in 'mqadmin dlq show'",
            columns(
                TOPIC,
                QUEUE,
                ("queue_offset", "int", "place in the DLQ topic's queue"),
                ("physical_offset", "int", "place in the log"),
                ("store_size", "int", "bytes of the record"),
                ("flag", "int", "the application's flag"),
                ("sys_flag", "int", "system flags"),
                ("born_time", "time", "when the producer made it"),
                ("born_host", "text", "who sent it"),
                ("store_time", "time", "when it died"),
                ("store_host", "text", "who stored it"),
                ("reconsume_times", "int", "deliveries"),
                ("body_size", "int", "bytes of the stored body"),
                ("body", "bytes", "what the application sent"),
                ("body_encoding", "text", "base64"),
                ("tags", "text", "TAGS"),
                ("keys", "texts", "the words of KEYS"),
                ("uniq_key", "text", "uniqKey"),
                ("offset_msg_id", "text", "offsetMsgId"),
                ("properties", "map", "all properties"),
            ),
            shown=("topic", "queueId", "queueOffset", "storeTime", "keys", "offsetMsgId"),
        ),
    ),
)

READ: Final = (
    *("topic", "queue_id", "queue_offset", "physical_offset", "size", "flag", "sys_flag"),
    *("born_time", "born_host", "store_time", "store_host", "reconsume_times", "body_len"),
    *("tags", "keys", "uniq_key", "offset_msg_id", "properties", "store"),
)

# Properties that clients and brokers set on every message; the others are the application's.
OWN_PROPERTIES: Final = (
    *("KEYS", "TAGS", "WAIT", "DELAY", "RETRY_TOPIC", "REAL_TOPIC", "REAL_QID", "UNIQ_KEY"),
    *("MSG_REGION", "TRACE_ON", "CLUSTER", "ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_TOPIC"),
    *("DLQ_ORIGIN_MESSAGE_ID", "MIN_OFFSET", "MAX_OFFSET", "RECONSUME_TIME"),
    *("MAX_RECONSUME_TIMES", "CONSUME_START_TIME", "1ST_POP_TIME", "POP_CK", "TRAN_MSG"),
    *("PGROUP", "INSTANCE_ID", "__CRC32#", "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET"),
)


def run(inputs: "Inputs") -> dict[str, "DataFrame"]:
    """The tables of the job."""
    from pyspark.sql import functions as F

    group = inputs.parameters["group"]
    options = {"topic": DLQ_PREFIX + group} if group else {}
    read = inputs.messages(*READ, every_topic=True, options=options)
    bodies = inputs.messages(*READ, "body", every_topic=True, options=options)
    if inputs.topics:
        wanted = _origin().isin(*inputs.topics) | F.col("topic").isin(*inputs.topics)
        read, bodies = read.where(wanted), bodies.where(wanted)
    return {"groups": groups(letters(read)), "letters": letters(read), "replay": replay(bodies)}


def _origin() -> "Column":
    """The topic that a dead letter came from."""
    from pyspark.sql import functions as F

    return F.coalesce(property_of("DLQ_ORIGIN_TOPIC"), property_of("RETRY_TOPIC"))


def letters(messages: "DataFrame") -> "DataFrame":
    """Every dead letter, oldest first."""
    from pyspark.sql import functions as F

    dead = messages.where(F.startswith(F.col("topic"), F.lit(DLQ_PREFIX)))
    own = [F.lit(name) for name in OWN_PROPERTIES]
    user = F.map_filter(properties_map(), lambda name, _: ~name.isin(*own))
    origin_id = F.coalesce(property_of("DLQ_ORIGIN_MESSAGE_ID"), property_of("ORIGIN_MESSAGE_ID"))
    found = dead.select(
        "*",
        F.substring(F.col("topic"), len(DLQ_PREFIX) + 1, 255).alias("group"),
        _origin().alias("origin_topic"),
        origin_id.alias("origin_msg_id"),
        F.col("reconsume_times").alias("tries"),
        user.alias("user_properties"),
    )
    return JOB.tables[1].shape(found.orderBy("store_time", "store", "physical_offset"))


def groups(letters: "DataFrame") -> "DataFrame":
    """Dead letters by group and origin, most first."""
    from pyspark.sql import functions as F

    found = letters.groupBy("group", "origin_topic").agg(
        F.count("*").alias("messages"),
        F.sum("body_len").alias("body_bytes"),
        F.count_distinct("keys").alias("distinct_keys"),
        F.max("tries").alias("tries_most"),
        F.percentile_approx(seconds_between("born_time", "store_time"), 0.5).alias("seconds_p50"),
        F.min("store_time").alias("oldest_store_time"),
        F.max("store_time").alias("newest_store_time"),
    )
    return JOB.tables[0].shape(found.orderBy(F.desc("messages"), "group", "origin_topic"))


def replay(messages: "DataFrame") -> "DataFrame":
    """The dead letters with their bodies, in the order in which they died."""
    from pyspark.sql import functions as F

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
    return JOB.tables[2].shape(found.orderBy("store_time", "physical_offset"))
