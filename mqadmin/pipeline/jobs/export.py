"""``export``: every message to Parquet, exactly once, written by the tasks themselves.

Theory of operation: the log is cut at fixed places (multiples of the split size), so a split has
a name for good. A run plans the splits, leaves out those whose record says that nothing can come
to them any more, and lets tasks write the others anew. A run that was cut off leaves whole files
and the records of whole splits: the next one goes on. ``manifest.json`` is made of the records,
last.

A stream feeds the same writer. Spark keeps its offsets in ``_export/checkpoint``; a batch that
runs twice writes the same files twice.

One run at a time writes below one directory.
"""

from typing import TYPE_CHECKING, Final

from mqadmin.pipeline.expressions import switch
from mqadmin.pipeline.job import TOPIC, Job, Parameter, Table, columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mqadmin.pipeline.inputs import Inputs

JOB: Final = Job(
    name="export",
    summary="Every message to Parquet, partitioned by day and topic, exactly once on re-runs.",
    text="Tasks decode and write Parquet themselves (DIR/dt=2026-01-02/topic=orders/…): the"
    " messages never pass through Java. A run that was cut off goes on where it ended; a later run"
    " adds what came since. --stream keeps going until Ctrl-C. Other formats are written by Spark,"
    " whole each time. manifest.json is written last.",
    example="mqadmin pipeline run export --store /data/store --out /lake/messages",
    entry="mqadmin.pipeline.jobs.export:run",
    parameters=(
        Parameter("columns", "", "comma list of columns, default all"),
        Parameter("body", "true", "false: leave the bodies out"),
        Parameter("splitBytes", "134217728", "the log is cut at multiples of this, for good"),
        Parameter("maxBytesPerTrigger", "", "bound of one batch of --stream, default 1 GiB"),
        Parameter("failOnDataLoss", "true", "false: --stream goes on behind files removed unread"),
    ),
    tables=(
        Table(
            "export",
            "what was written, by day and topic",
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

# Everything but what is in the path or marks damages.
ALL: Final = (
    *("topic", "queue_id", "queue_offset", "physical_offset", "size", "sys_flag", "flag"),
    *("born_time", "born_host", "store_time", "store_host", "reconsume_times"),
    *("prepared_offset", "body_crc", "body_len", "body", "crc_ok", "tags", "keys", "uniq_key"),
    *("properties", "offset_msg_id", "store"),
)


def wanted_columns(parameters: dict[str, str]) -> list[str]:
    """The columns that an export writes, the topic first."""
    given = parameters.get("columns", "")
    names = [name.strip() for name in given.split(",") if name.strip()] or list(ALL)
    if not switch(parameters, "body"):
        names = [name for name in names if name != "body"]
    return list(dict.fromkeys(["topic", *names]))


def run(inputs: "Inputs") -> dict[str, "DataFrame"]:
    """The messages themselves, for the formats that Spark writes; Parquet goes another way."""
    from pyspark.sql import functions as F

    names = wanted_columns(inputs.parameters)
    read = dict.fromkeys([*names, "store_time"])
    messages = inputs.messages(*read, crc="crc_ok" in names)
    day = F.date_format("store_time", "yyyy-MM-dd").alias("dt")
    return {"messages": messages.select(*names, day)}
