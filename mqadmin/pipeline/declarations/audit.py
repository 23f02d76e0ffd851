"""Declaration of the job ``audit``."""

from typing import Final

from mqadmin.pipeline.job import QUEUE, STORE, TOPIC, Job, Table, columns

JOB: Final = Job(
    name="audit",
    summary="Verify any number of stores: log, queues, index, bodies, duplicates, gaps, clocks.",
    text="The findings are those of 'mqadmin store verify', one task per store. The other tables"
    " cover all stores together. The exit status is 5 if a finding is an error or a warning.",
    example="mqadmin pipeline run audit --store '/data/*/store'",
    tables=(
        Table(
            "findings",
            "findings of 'mqadmin store verify'",
            columns(
                ("kind", "text", "kind of finding"),
                ("severity", "text", "error, warning or notice"),
                ("path", "text", "file"),
                ("physical_offset", "int", "physical offset, or position in the file"),
                ("length", "int", "bytes"),
                ("detail", "text", "description"),
                ("suggestion", "text", "recommended action"),
                STORE,
            ),
            shown=("severity", "kind", "path", "physicalOffset", "length", "detail"),
        ),
        Table(
            "stores",
            "one row per store: extent of the verification",
            columns(
                STORE,
                ("state", "text", "clean, running or crashed"),
                ("records", "int", "records of the CommitLog"),
                ("queues", "int", "ConsumeQueues"),
                ("units_checked", "int", "units compared with their records"),
                ("index_entries_checked", "int", "index entries compared with their records"),
                ("errors", "int", "findings of severity error"),
                ("warnings", "int", "findings of severity warning"),
                ("coverage", "float", "share of the log that was read, 0 to 1"),
                ("log_bytes", "int", "bytes of the log"),
            ),
        ),
        Table(
            "duplicates",
            "messages of one topic with the same uniqKey (sent twice by the producer)",
            columns(
                TOPIC,
                ("uniq_key", "text", "uniqKey"),
                ("copies", "int", "messages with this uniqKey"),
                ("physical_offsets", "ints", "their physical offsets, at most 10"),
                ("first_store_time", "time", "store time of the first one"),
                ("seconds", "float", "seconds between the first and the last one"),
            ),
        ),
        Table(
            "gaps",
            "queue offsets without a message in the log",
            columns(
                STORE,
                TOPIC,
                QUEUE,
                ("from_offset", "int", "first missing queue offset"),
                ("missing", "int", "number of missing queue offsets"),
                ("before_physical_offset", "int", "physical offset of the message after the gap"),
            ),
        ),
        Table(
            "clock",
            "messages with an earlier store time than the message before them in the log",
            columns(
                STORE,
                ("physical_offset", "int", "physical offset of the message"),
                ("store_time", "time", "its store time"),
                ("back_seconds", "float", "seconds by which the clock went back"),
            ),
        ),
    ),
)
