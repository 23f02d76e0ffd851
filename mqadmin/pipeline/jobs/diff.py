"""``diff``: comparison of two stores, message by message."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from broker.errors import ConfigError
from mqadmin.pipeline.declarations.diff import JOB
from mqadmin.pipeline.expressions import comma_list, shape, switch
from mqadmin.pipeline.inputs import Inputs
from mqadmin.pipeline.sources.options import expand_paths
from mqadmin.pipeline.sources.partitions.splits import log_files

READ: Final = (
    *("topic", "queue_id", "queue_offset", "physical_offset", "store_time", "body_crc"),
    *("body_len", "flag", "tags", "keys", "uniq_key"),
)
_QUEUE_OFFSET: Final = ("topic", "queue_id", "queue_offset")


def run(inputs: Inputs) -> dict[str, DataFrame]:
    """Return the tables of the job. ConfigError without a store to compare with."""
    other = inputs.parameters["other"]
    if not other:
        raise ConfigError("job diff: no store to compare with", "--param other=DIR")
    others = expand_paths(comma_list(other), "diff")
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
    """Return source options that select the physical offsets contained in both logs."""
    firsts, ends = [], []
    for paths in (here, there):
        files = [file for path in paths for file in log_files(path)[0]]
        firsts.append(min((file.start for file in files), default=0))
        ends.append(max((file.start + file.length for file in files), default=0))
    return {"offset.from": str(max(firsts)), "offset.to": str(min(ends))}


def compare(here: DataFrame, there: DataFrame, *, place: bool = False) -> DataFrame:
    """Return one row per queue offset with the column ``difference``, null if the sides are equal.

    ``place``: physical offset and store time must be equal too.
    """
    fields = ["body_crc", "body_len", "flag", "tags", "keys", "uniq_key"]
    if place:
        fields += ["physical_offset", "store_time"]
    sides = [
        side.withColumn("there", F.lit(number)).withColumn("digest", F.xxhash64(*fields))
        for number, side in enumerate((here, there))
    ]
    is_here, is_there = F.col("there") == 0, F.col("there") == 1
    found = (
        sides[0]
        .unionByName(sides[1])
        .groupBy(*_QUEUE_OFFSET)
        .agg(
            # Lists: a log contains a queue offset twice after its topic was recreated.
            F.array_sort(F.collect_list(F.when(is_here, F.col("digest")))).alias("here"),
            F.array_sort(F.collect_list(F.when(is_there, F.col("digest")))).alias("there"),
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


def differences(compared: DataFrame) -> DataFrame:
    """Select the queue offsets that differ."""
    found = compared.where(F.col("difference").isNotNull()).orderBy(*_QUEUE_OFFSET)
    return shape(found, JOB.table("differences"))


def topics(compared: DataFrame) -> DataFrame:
    """Count equal and different messages by topic."""
    kind = F.col("difference")
    found = compared.groupBy("topic").agg(
        F.count(F.when(kind.isNull(), 1)).alias("same"),
        F.count(F.when(kind == "onlyHere", 1)).alias("only_here"),
        F.count(F.when(kind == "onlyThere", 1)).alias("only_there"),
        F.count(F.when(kind == "different", 1)).alias("different"),
    )
    return shape(found.orderBy("topic"), JOB.table("topics"))
