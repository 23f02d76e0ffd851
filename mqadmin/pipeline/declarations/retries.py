"""Declaration of the job ``retries``."""

from typing import Final

from mqadmin.pipeline.job import GROUP, Job, Table, columns

JOB: Final = Job(
    name="retries",
    summary="Retries of each message, from delay level to delay level, to success or the DLQ.",
    text="A chain collects the retry records of one message in one group: records in the delay"
    " queues, deliveries through the retry topic, the dead-letter message. The last delivery"
    " succeeded if the group's consumer offset is greater than its queue offset. The group of a POP"
    " retry topic (%RETRY%GROUP_TOPIC) is the one with consumer offsets in it, or else in TOPIC. If"
    " there is none or more than one, GROUP_TOPIC is shown as group, without origin topic.",
    example="mqadmin pipeline run retries --store /data/store --table chains",
    parameters=(GROUP,),
    tables=(
        Table(
            "groups",
            "chains by group and origin topic, most dead-letter messages first",
            columns(
                ("group", "text", "consumer group"),
                ("origin_topic", "text", "topic the messages were sent to, if known"),
                ("messages", "int", "retried messages"),
                ("dead", "int", "messages in the DLQ"),
                ("consumed", "int", "messages consumed in the end"),
                ("pending", "int", "delivered through the retry topic, not consumed yet"),
                ("waiting", "int", "in a delay queue"),
                ("unknown", "int", "delivered, but the queue has no consumer offset"),
                ("tries", "int", "retries of all messages"),
                ("tries_most", "int", "most retries of one message"),
                ("seconds_mean", "float", "mean of seconds from the first to the last record"),
                ("seconds_most", "float", "longest chain in seconds"),
            ),
        ),
        Table(
            "chains",
            "one row per group and message",
            columns(
                ("group", "text", "consumer group"),
                ("origin_topic", "text", "topic the message was sent to, if known"),
                ("origin_msg_id", "text", "its message id in that topic"),
                ("uniq_key", "text", "uniqKey"),
                ("keys", "text", "KEYS"),
                ("tries", "int", "highest reconsumeTimes"),
                ("levels", "ints", "delay levels, in order"),
                ("deliveries", "int", "records in the retry topic"),
                ("outcome", "text", "dead, consumed, pending, waiting or unknown"),
                ("first_store_time", "time", "store time of the first record"),
                ("last_store_time", "time", "store time of the last record"),
                ("seconds", "float", "seconds between the two"),
                ("dead_physical_offset", "int", "physical offset of the dead-letter message"),
            ),
        ),
    ),
)
