"""Declaration of the job ``export``."""

from typing import Final

from mqadmin.pipeline.job import TOPIC, Job, Parameter, Table, columns

JOB: Final = Job(
    name="export",
    summary="Every message to Parquet, partitioned by day and topic, exactly once on re-runs.",
    text="Tasks decode and write Parquet themselves (DIR/dt=2026-01-02/topic=orders/…): the"
    " messages never pass through the JVM. An interrupted run resumes when it is repeated; a later"
    " run adds the messages stored since. --stream runs until Ctrl-C. Other formats are written by"
    " Spark, completely each time. manifest.json is written last.",
    example="mqadmin pipeline run export --store /data/store --out /lake/messages",
    parameters=(
        Parameter("columns", "", "comma-separated columns, default all"),
        Parameter("body", "true", "false: omit the bodies"),
        Parameter("splitBytes", "134217728", "bytes per split, the same in all runs of an export"),
        Parameter("maxBytesPerTrigger", "", "bytes per batch of --stream, default 1 GiB"),
        Parameter(
            "failOnDataLoss", "true", "false: --stream skips log files removed before being read"
        ),
    ),
    tables=(
        Table(
            "export",
            "written files by day and topic",
            columns(
                ("dt", "text", "day of the store time, UTC"),
                TOPIC,
                ("files", "int", "Parquet files"),
                ("messages", "int", "messages in them"),
                ("bytes", "int", "bytes of their records in the log"),
                ("file_bytes", "int", "bytes of the Parquet files"),
            ),
        ),
    ),
)
