"""Declaration of the job ``diff``."""

from typing import Final

from mqadmin.pipeline.job import QUEUE, TOPIC, Job, Parameter, Table, columns

JOB: Final = Job(
    name="diff",
    summary="Compare two stores: messages only here, only there, different.",
    text="Messages are matched by topic, queue and queue offset. They differ if body, flag, tags,"
    " keys or uniqKey differ; with place=true also if physical offset or store time differ (for"
    " master and slave). The exit status is 1 if anything differs.",
    example="mqadmin pipeline run diff --store /master/store --param other=/slave/store",
    parameters=(
        Parameter("other", "", "store to compare with"),
        Parameter("place", "false", "true: physical offset and store time must be equal too"),
        Parameter("overlap", "false", "true: only the physical offsets contained in both logs"),
    ),
    tables=(
        Table(
            "differences",
            "one row per queue offset that differs",
            columns(
                ("difference", "text", "onlyHere, onlyThere or different"),
                TOPIC,
                QUEUE,
                ("queue_offset", "int", "queue offset"),
                ("here_physical_offset", "int", "physical offset in --store"),
                ("there_physical_offset", "int", "physical offset in the other store"),
                ("uniq_key", "text", "uniqKey, of --store if present there"),
                ("store_time", "time", "store time, of --store if present there"),
            ),
        ),
        Table(
            "topics",
            "counts by topic",
            columns(
                TOPIC,
                ("same", "int", "equal in both stores"),
                ("only_here", "int", "only in --store"),
                ("only_there", "int", "only in the other store"),
                ("different", "int", "in both stores, but different"),
            ),
        ),
    ),
)
