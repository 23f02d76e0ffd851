"""``diff``: two stores, message by message."""

from typing import TYPE_CHECKING, Final

from broker.errors import ConfigError
from mqadmin.pipeline.expressions import switch
from mqadmin.pipeline.job import QUEUE, TOPIC, Job, Parameter, Table, columns
from mqadmin.pipeline.options import expanded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mqadmin.pipeline.inputs import Inputs

JOB: Final = Job(
    name="diff",
    summary="Two stores: messages only here, only there, different.",
    text="Messages are the same if topic, queue and queue offset are; they differ if body, flag,"
    " tags, keys or uniqKey do, with place=true also if physical offset or store time do (master"
    " and slave). The exit status is 1 if anything differs.",
    example="mqadmin pipeline run diff --store /master/store --param other=/slave/store",
    entry="mqadmin.pipeline.jobs.diff:run",
    parameters=(
        Parameter("other", "", "the store to compare with"),
        Parameter("place", "false", "true: physical offset and store time must be equal too"),
        Parameter("overlap", "false", "true: only the physical offsets that both logs span"),
    ),
    tables=(
        Table(
            "differences",
            "one row per queue offset that is not the same on both sides",
            columns(
                ("difference", "text", "onlyHere, onlyThere or different"),
                TOPIC,
                QUEUE,
                ("queue_offset", "int", "queue offset"),
                ("here_physical_offset", "int", "place in --store"),
                ("there_physical_offset", "int", "place in the other store"),
                ("uniq_key", "text", "uniqKey, of --store if it is there"),
                ("store_time", "time", "store time, of --store if it is there"),
            ),
        ),
        Table(
            "topics",
            "counts by topic",
            columns(
                TOPIC,
                ("same", "int", "equal on both sides"),
                ("only_here", "int", "only in --store"),
                ("only_there", "int", "only in the other store"),
                ("different", "int", "on both sides, but different"),
            ),
        ),
    ),
)

READ: Final = (
    *("topic", "queue_id", "queue_offset", "physical_offset", "store_time", "body_crc"),
    *("body_len", "flag", "tags", "keys", "uniq_key"),
)
_PLACE: Final = ("topic", "queue_id", "queue_offset")


def run(inputs: "Inputs") -> dict[str, "DataFrame"]:
    """The tables of the job. ConfigError without a store to compare with."""
    other = inputs.parameters["other"]
    if not other:
        raise ConfigError("job diff: no store to compare with", "--param other=DIR")
    others = expanded([word.strip() for word in other.split(",")], "diff")
    options = {}
    if switch(inputs.parameters, "overlap"):
        options = overlap(inputs.stores, others)
    compared = compare(
        inputs.messages(*READ, options=options),
        inputs.messages(*READ, stores=others, options=options),
        place=switch(inputs.parameters, "place"),
    )
    return {"differences": differences(compared), "topics": topics(compared)}


def overlap(here: list[str], there: list[str]) -> dict[str, str]:
    """Options of the source: the physical offsets that both logs span."""
    from mqadmin.pipeline.splits import log_files

    firsts, ends = [], []
    for paths in (here, there):
        files = [file for path in paths for file in log_files(path)[0]]
        firsts.append(min((file.start for file in files), default=0))
        ends.append(max((file.start + file.length for file in files), default=0))
    return {"offset.from": str(max(firsts)), "offset.to": str(min(ends))}


def compare(here: "DataFrame", there: "DataFrame", *, place: bool = False) -> "DataFrame":
    """One row per queue offset: its messages on both sides, and how the sides differ (or null)."""
    from pyspark.sql import functions as F

    fields = ["body_crc", "body_len", "flag", "tags", "keys", "uniq_key"]
    if place:
        fields += ["physical_offset", "store_time"]
    sides = [
        side.withColumn("there", F.lit(number)).withColumn("mark", F.xxhash64(*fields))
        for number, side in enumerate((here, there))
    ]
    is_here, is_there = F.col("there") == 0, F.col("there") == 1
    found = (
        sides[0]
        .unionByName(sides[1])
        .groupBy(*_PLACE)
        .agg(
            # Sets: a queue offset can stand in a log twice, after a topic was made anew.
            F.array_sort(F.collect_list(F.when(is_here, F.col("mark")))).alias("here"),
            F.array_sort(F.collect_list(F.when(is_there, F.col("mark")))).alias("there"),
            F.min(F.when(is_here, F.col("physical_offset"))).alias("here_physical_offset"),
            F.min(F.when(is_there, F.col("physical_offset"))).alias("there_physical_offset"),
            F.min_by("uniq_key", "there").alias("uniq_key"),
            F.min_by("store_time", "there").alias("store_time"),
        )
    )
    kind = (
        F.when(F.size("there") == 0, "onlyHere")
        .when(F.size("here") == 0, "onlyThere")
        .when(F.col("here") != F.col("there"), "different")
    )
    return found.withColumn("difference", kind)


def differences(compared: "DataFrame") -> "DataFrame":
    """The queue offsets that are not the same on both sides."""
    from pyspark.sql import functions as F

    found = compared.where(F.col("difference").isNotNull()).orderBy(*_PLACE)
    return JOB.tables[0].shape(found)


def topics(compared: "DataFrame") -> "DataFrame":
    """Counts by topic."""
    from pyspark.sql import functions as F

    kind = F.col("difference")
    found = compared.groupBy("topic").agg(
        F.count(F.when(kind.isNull(), 1)).alias("same"),
        F.count(F.when(kind == "onlyHere", 1)).alias("only_here"),
        F.count(F.when(kind == "onlyThere", 1)).alias("only_there"),
        F.count(F.when(kind == "different", 1)).alias("different"),
    )
    return JOB.tables[1].shape(found.orderBy("topic"))
