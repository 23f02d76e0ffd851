"""Declaration of the job ``traffic``."""

from typing import Final

from mqadmin.pipeline.job import BUCKET, QUEUE, STORE, TOP, TOPIC, Job, Parameter, Table, columns

JOB: Final = Job(
    name="traffic",
    summary="Disk usage: messages, bytes and sizes by topic, tag, queue, host, time.",
    text="Counts every message of the log under the topic it is stored in, including retry, DLQ"
    " and system topics. Sizes are those of whole records.",
    example="mqadmin pipeline run traffic --store /data/store --param by=topic,tag --since -1d",
    parameters=(
        Parameter("by", "topic", "comma-separated: store, topic, tag, queue, host"),
        BUCKET,
        TOP,
    ),
    tables=(
        Table(
            "traffic",
            "messages and bytes, grouped by --param by=… and bucket=…; other grouping columns"
            " are null",
            columns(
                STORE,
                TOPIC,
                ("tag", "text", "TAGS of the message"),
                QUEUE,
                ("producer_host", "text", "address of the producer, without port"),
                ("bucket_time", "time", "start of the time bucket (store time)"),
                ("messages", "int", "messages"),
                ("bytes", "int", "bytes of their records"),
                ("body_bytes", "int", "bytes of their stored bodies"),
                ("share", "float", "share of all bytes, 0 to 1"),
                ("size_p50", "int", "50th percentile of the record size"),
                ("size_p90", "int", "90th percentile"),
                ("size_p99", "int", "99th percentile"),
                ("size_max", "int", "largest record"),
                ("first_store_time", "time", "store time of the oldest message"),
                ("last_store_time", "time", "store time of the newest message"),
            ),
            shown=(
                *("store", "topic", "tag", "queueId", "producerHost", "bucketTime", "messages"),
                *("bytes", "share", "sizeP50", "sizeP99", "sizeMax", "lastStoreTime"),
            ),
        ),
        Table(
            "hot-keys",
            "the most frequent keys",
            columns(
                TOPIC,
                ("key", "text", "one word of KEYS"),
                ("messages", "int", "messages with this key"),
                ("bytes", "int", "bytes of their records"),
                ("share", "float", "share of the topic's messages with keys, 0 to 1"),
            ),
        ),
        Table(
            "skew",
            "distribution of a topic's messages over its queues",
            columns(
                TOPIC,
                ("queues", "int", "queues with messages"),
                ("messages", "int", "messages of the topic"),
                ("least", "int", "messages of the smallest queue"),
                ("most", "int", "messages of the largest queue"),
                ("skew", "float", "largest queue by mean queue; 1 is even"),
                ("fullest_queue_id", "int", "queue id of the largest queue"),
            ),
        ),
    ),
    plots=True,
)
