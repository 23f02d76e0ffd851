"""Declaration of the job ``dlq``."""

from typing import Final

from mqadmin.pipeline.job import GROUP, QUEUE, STORE, TOPIC, Job, Table, columns

JOB: Final = Job(
    name="dlq",
    summary="Dead-letter messages: time, origin topic, consumer group, number of deliveries.",
    text="Origins are taken from the properties that brokers set (RETRY_TOPIC, DLQ_ORIGIN_TOPIC and"
    " the message ids). 'mqadmin dlq replay --from FILE' accepts the table replay as a file:"
    " --table replay -o ndjson, or replay.ndjson in the --out directory.",
    example="mqadmin pipeline run dlq --store /data/store --param group=billing",
    parameters=(GROUP,),
    tables=(
        Table(
            "groups",
            "dead-letter messages by group and origin topic",
            columns(
                ("group", "text", "consumer group"),
                ("origin_topic", "text", "topic the messages were sent to"),
                ("messages", "int", "dead-letter messages"),
                ("body_bytes", "int", "bytes of their stored bodies"),
                ("distinct_keys", "int", "distinct KEYS values"),
                ("tries_most", "int", "highest reconsumeTimes"),
                ("seconds_p50", "float", "median of seconds from born time to store time"),
                ("oldest_store_time", "time", "store time of the oldest one"),
                ("newest_store_time", "time", "store time of the newest one"),
            ),
        ),
        Table(
            "letters",
            "every dead-letter message",
            columns(
                ("group", "text", "consumer group"),
                ("origin_topic", "text", "topic the message was sent to"),
                ("origin_msg_id", "text", "its message id in that topic"),
                ("store_time", "time", "time at which it was stored in the DLQ topic"),
                ("born_time", "time", "time at which the producer created it"),
                ("tries", "int", "reconsumeTimes"),
                ("tags", "text", "TAGS"),
                ("keys", "text", "KEYS"),
                ("uniq_key", "text", "uniqKey"),
                ("body_len", "int", "bytes of the stored body"),
                ("user_properties", "map", "properties set by the application"),
                STORE,
                QUEUE,
                ("queue_offset", "int", "queue offset in the DLQ topic"),
                ("physical_offset", "int", "physical offset"),
                ("offset_msg_id", "text", "offsetMsgId of the dead-letter message"),
            ),
            shown=(
                *("group", "originTopic", "storeTime", "tries", "tags", "keys", "uniqKey"),
                *("bodyLen", "offsetMsgId"),
            ),
        ),
        Table(
            "replay",
            "dead-letter messages with bodies, fields as in 'mqadmin dlq show'",
            columns(
                TOPIC,
                QUEUE,
                ("queue_offset", "int", "queue offset in the DLQ topic"),
                ("physical_offset", "int", "physical offset"),
                ("store_size", "int", "bytes of the record"),
                ("flag", "int", "flag set by the application"),
                ("sys_flag", "int", "system flags"),
                ("born_time", "time", "time at which the producer created it"),
                ("born_host", "text", "address of the producer"),
                ("store_time", "time", "time at which it was stored in the DLQ topic"),
                ("store_host", "text", "address of the broker"),
                ("reconsume_times", "int", "reconsumeTimes"),
                ("body_size", "int", "bytes of the stored body"),
                ("body", "bytes", "body, decompressed"),
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
