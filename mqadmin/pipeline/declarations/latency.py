"""Declaration of the job ``latency``."""

from typing import Final

from mqadmin.pipeline.job import BUCKET, STORE, TOPIC, Job, Parameter, Table, columns

JOB: Final = Job(
    name="latency",
    summary="Born to store time, accuracy of delays and timers, time to commit of transactions.",
    text="The first table covers messages as producers sent them; deliveries of retried, delayed"
    " and committed messages are excluded. Negative times mean that the clocks of producer and"
    " broker differ.",
    example="mqadmin pipeline run latency --store /data/store --plot latency.html",
    parameters=(
        Parameter("by", "topic", "comma-separated: store, topic, host"),
        BUCKET,
        Parameter("delayLevels", "", "messageDelayLevel of the broker, default as in Java"),
    ),
    tables=(
        Table(
            "stored",
            "milliseconds from born time to store time",
            columns(
                STORE,
                TOPIC,
                ("producer_host", "text", "address of the producer, without port"),
                ("bucket_time", "time", "start of the time bucket (store time)"),
                ("messages", "int", "messages"),
                ("p50_ms", "int", "50th percentile"),
                ("p90_ms", "int", "90th percentile"),
                ("p99_ms", "int", "99th percentile"),
                ("max_ms", "int", "maximum"),
                ("min_ms", "int", "minimum"),
                ("negative", "int", "messages with a store time before the born time"),
            ),
        ),
        Table(
            "delayed",
            "delivery of delayed and timer messages relative to their due time",
            columns(
                ("kind", "text", "level or timer"),
                TOPIC,
                ("level", "int", "delay level"),
                ("messages", "int", "scheduled messages"),
                ("delivered", "int", "delivered messages"),
                ("waiting", "int", "messages not delivered yet"),
                ("early", "int", "messages delivered before their due time"),
                ("p50_ms", "int", "50th percentile of delivery time minus due time"),
                ("p99_ms", "int", "99th percentile"),
                ("max_ms", "int", "maximum"),
            ),
        ),
        Table(
            "transactions",
            "half messages and their commit or rollback",
            columns(
                TOPIC,
                ("producer_group", "text", "producer group"),
                ("transactions", "int", "half messages"),
                ("committed", "int", "committed"),
                ("rolled_back", "int", "rolled back"),
                ("open", "int", "neither committed nor rolled back"),
                ("checks", "int", "transaction checks sent to producers"),
                ("p50_ms", "int", "50th percentile of the time to commit"),
                ("p99_ms", "int", "99th percentile"),
                ("max_ms", "int", "maximum"),
            ),
        ),
    ),
    plots=True,
)
