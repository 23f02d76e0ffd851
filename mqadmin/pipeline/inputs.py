"""Input of a job: the data sources over its stores, with a count of damaged regions."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from mqadmin.pipeline.expressions import comma_list
from mqadmin.pipeline.sources.options import expand_paths

METRICS_LIMIT_MS: Final = 30_000


class DamageSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Number of skipped damaged regions, and the first one (None without any)."""

    count: int = 0
    store: str | None = None
    physical_offset: int | None = None
    detail: str | None = None


class Inputs:
    """The stores of a run as DataFrames; ``parameters`` holds every parameter of the job.

    ``stores`` may contain globs. ``limits`` are source options that narrow every read: ``topic``,
    ``since``, ``until``.
    """

    def __init__(
        self,
        spark: SparkSession,
        stores: Sequence[str],
        *,
        limits: dict[str, str] | None = None,
        parameters: dict[str, str] | None = None,
    ) -> None:
        self.spark = spark
        self.stores = expand_paths(stores, "pipeline")
        self.limits = limits or {}
        self.parameters = parameters or {}
        self._observations: list[Observation] = []

    @property
    def topics(self) -> list[str]:
        """The topics selected for the run, empty for all."""
        return comma_list(self.limits.get("topic", ""))

    def messages(
        self,
        *names: str,
        stores: Sequence[str] | None = None,
        crc: bool = False,
        every_topic: bool = False,
        every_time: bool = False,
        options: dict[str, str] | None = None,
    ) -> DataFrame:
        """Read messages of the log; damaged regions are excluded (:meth:`damage_summary`).

        ``names`` are columns of ``rocketmq-store``. ``every_topic`` ignores the run's topics,
        ``every_time`` its times; ``options`` are further options of the source.
        """
        columns = dict.fromkeys((*names, "store", "physical_offset", "damage"))
        ignored = {"topic"} if every_topic else set()
        ignored |= {"since", "until"} if every_time else set()
        limits = {name: value for name, value in self.limits.items() if name not in ignored}
        reader = self.spark.read.format("rocketmq-store").options(
            columns=",".join(columns),
            damages="true",
            crc="true" if crc else "false",
            **{**limits, **(options or {})},
        )
        frame = reader.load(list(stores or self.stores))
        observation = Observation()
        self._observations.append(observation)
        position = F.struct("store", "physical_offset", "damage")
        frame = frame.observe(
            observation,
            F.count("damage").alias("count"),
            F.min(F.when(F.col("damage").isNotNull(), position)).alias("first"),
        )
        return frame.where(F.col("damage").isNull()).select(*names)

    def damage_summary(self) -> DamageSummary:
        """Summarise the damaged regions of the reads that have run.

        Several reads of the same stores see the same regions: the read with the most counts.
        """
        most = DamageSummary()
        # Spark delivers observed metrics by a listener event shortly after the action.
        bus = self.spark.sparkContext._jsc.sc().listenerBus()
        bus.waitUntilEmpty(METRICS_LIMIT_MS)
        for observation in self._observations:
            metrics = _metrics(observation)
            if metrics is None or metrics["count"] <= most.count:
                continue
            first = metrics["first"]
            most = DamageSummary(
                count=metrics["count"],
                store=first["store"],
                physical_offset=first["physical_offset"],
                detail=first["damage"],
            )
        return most

    def offsets(self, paths: Sequence[str] = (), *, optional: bool = False) -> DataFrame:
        """Read consumer offsets from snapshots, without ``paths`` from the stores themselves.

        ``optional``: stores without the file yield no rows. Otherwise ConfigError if no store has
        the file.
        """
        reader = self.spark.read.format("rocketmq-offsets")
        reader = reader.option("optional", "true" if optional else "false")
        return reader.load(expand_paths(paths, "offsets") if paths else self.stores)

    def index_files(self) -> DataFrame:
        """Read one row per IndexFile."""
        reader = self.spark.read.format("rocketmq-index").option("files", "true")
        return reader.load(self.stores)

    def verification(self, *, rows: str = "findings") -> DataFrame:
        """Verify each store: one row per finding, or (``rows="stores"``) one row per store."""
        reader = self.spark.read.format("rocketmq-verify").option("what", rows)
        return reader.load(self.stores)


def _metrics(observation: Observation) -> dict[str, Any] | None:
    """Return the values of an observation, None if no action has run over it."""
    inner = getattr(observation, "_jo", None)
    if inner is None or not inner.future().isCompleted():
        return None
    # An empty row: Spark optimised this part of the plan away (an empty side of a join).
    return dict(observation.get) if inner.getRow().schema() is not None else None
