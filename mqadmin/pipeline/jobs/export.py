"""``export``: every message to Parquet, exactly once, written by the tasks themselves.

The log is cut at multiples of the split size, so a split keeps its name for all runs. A run plans
the splits, skips those whose record is marked complete (no message can be added to them) and lets
tasks rewrite the others. An interrupted run leaves complete files and the records of complete
splits; the next run resumes from them. ``manifest.json`` is built from the records and written
last.

A stream uses the same writer. Spark keeps its offsets in ``_export/checkpoint``; a batch that runs
twice writes the same files twice.

Only one run at a time writes to an output directory.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mqadmin.pipeline.expressions import comma_list, switch
from mqadmin.pipeline.inputs import Inputs

# Every column of the source except ``damage``: an export holds no rows for damaged regions.
ALL: Final = (
    *("topic", "queue_id", "queue_offset", "physical_offset", "size", "sys_flag", "flag"),
    *("born_time", "born_host", "store_time", "store_host", "reconsume_times"),
    *("prepared_offset", "body_crc", "body_len", "body", "crc_ok", "tags", "keys", "uniq_key"),
    *("properties", "offset_msg_id", "store"),
)


def export_columns(parameters: dict[str, str]) -> list[str]:
    """Return the columns that an export writes, the topic first."""
    names = comma_list(parameters.get("columns", "")) or list(ALL)
    if not switch(parameters, "body"):
        names = [name for name in names if name != "body"]
    return list(dict.fromkeys(["topic", *names]))


def run(inputs: Inputs) -> dict[str, DataFrame]:
    """Return the messages for formats that Spark writes; ``pipeline.export`` writes Parquet."""
    names = export_columns(inputs.parameters)
    read = dict.fromkeys([*names, "store_time"])
    messages = inputs.messages(*read, crc="crc_ok" in names)
    day = F.date_format("store_time", "yyyy-MM-dd").alias("dt")
    return {"messages": messages.select(*names, day)}
