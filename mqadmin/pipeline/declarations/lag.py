"""Declaration of the job ``lag-history``."""

from typing import Final

from mqadmin.pipeline.job import GROUP, QUEUE, STORE, TOPIC, Job, Parameter, Table, columns

JOB: Final = Job(
    name="lag-history",
    summary="Lag of consumer groups over time, in messages and seconds, from offset snapshots.",
    text="A snapshot is a copy of config/consumerOffset.json (with enableLmq=true"
    " lmqConsumerOffset.json) with its time in the file name. The default is the file of each"
    " store. The maximum offset of a queue at that time and the store time of the first unconsumed"
    " message are taken from the CommitLog; those of light message queues from the messages that"
    " were dispatched to them. System groups are left out unless named. --since and --until select"
    " snapshots by their times.",
    example="mqadmin pipeline run lag-history --store /data/store --param offsets='/backup/*.json'",
    parameters=(
        Parameter("offsets", "", "comma-separated snapshot files and globs"),
        GROUP,
    ),
    tables=(
        Table(
            "lag",
            "one row per snapshot, group and queue",
            columns(
                ("snapshot_time", "time", "time of the snapshot"),
                ("group", "text", "consumer group"),
                TOPIC,
                QUEUE,
                ("max_offset", "int", "maximum offset of the queue at that time"),
                ("consumer_offset", "int", "consumer offset of the group"),
                ("lag", "int", "maximum offset minus consumer offset, at least 0"),
                ("lag_seconds", "float", "age of the first unconsumed message"),
                ("state", "text", "ok, ahead, belowMin, or unknown (no message in the log)"),
                STORE,
            ),
        ),
        Table(
            "groups",
            "one row per snapshot, group and topic",
            columns(
                ("snapshot_time", "time", "time of the snapshot"),
                ("group", "text", "consumer group"),
                TOPIC,
                ("queues", "int", "queues with a consumer offset"),
                ("lag", "int", "lag in messages, sum of all queues"),
                ("lag_seconds", "float", "lag in seconds, maximum of all queues"),
            ),
        ),
    ),
    plots=True,
)
