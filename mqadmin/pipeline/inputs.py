"""What a job reads: the sources over its stores, with the damages met on the way counted."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mqadmin.pipeline.options import expanded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

METRICS_LIMIT_MS: Final = 30_000


class Damages(msgspec.Struct, frozen=True, kw_only=True):
    """Damages that were passed: how many, and the first of them (None if there are none)."""

    count: int = 0
    store: str | None = None
    physical_offset: int | None = None
    detail: str | None = None


class Inputs:
    """The stores of a run, as DataFrames; ``parameters`` are those of the job, each given.

    ``stores`` may hold globs. ``limits`` are options of the source that narrow every read:
    ``topic``, ``since``, ``until``.
    """

    def __init__(
        self,
        spark: "SparkSession",
        stores: Sequence[str],
        *,
        limits: dict[str, str] | None = None,
        parameters: dict[str, str] | None = None,
    ) -> None:
        self.spark = spark
        self.stores = expanded(stores, "pipeline")
        self.limits = limits or {}
        self.parameters = parameters or {}
        self._observed: list[Observation] = []

    @property
    def topics(self) -> list[str]:
        """The topics that the run is about, none for all."""
        return [name.strip() for name in self.limits.get("topic", "").split(",") if name.strip()]

    def messages(
        self,
        *names: str,
        stores: Sequence[str] | None = None,
        crc: bool = False,
        every_topic: bool = False,
        options: dict[str, str] | None = None,
    ) -> "DataFrame":
        """The messages of the log; damages are counted (see :meth:`damages`) and left out.

        ``every_topic``: the run's topics do not narrow the read; ``options`` are the source's.
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        read = dict.fromkeys((*names, "store", "physical_offset", "damage"))
        limits = {k: v for k, v in self.limits.items() if k != "topic" or not every_topic}
        reader = self.spark.read.format("rocketmq-store").options(
            columns=",".join(read),
            damages="true",
            crc="true" if crc else "false",
            **{**limits, **(options or {})},
        )
        frame = reader.load(list(stores or self.stores))
        observed = Observation()
        self._observed.append(observed)
        place = F.struct("store", "physical_offset", "damage")
        frame = frame.observe(
            observed,
            F.count("damage").alias("count"),
            F.min(F.when(F.col("damage").isNotNull(), place)).alias("first"),
        )
        return frame.where(F.col("damage").isNull()).select(*names)

    def damages(self) -> Damages:
        """What the reads that have run met; a store that was read twice counts once."""
        most = Damages()
        # Metrics are told by events of the session, which come a moment after the action.
        bus = self.spark.sparkContext._jsc.sc().listenerBus()
        bus.waitUntilEmpty(METRICS_LIMIT_MS)
        for observed in self._observed:
            found = _metrics(observed)
            if found is None or found["count"] <= most.count:
                continue
            first = found["first"]
            most = Damages(
                count=found["count"],
                store=first["store"],
                physical_offset=first["physical_offset"],
                detail=first["damage"],
            )
        return most

    def offsets(self, paths: Sequence[str] = (), *, optional: bool = False) -> "DataFrame":
        """Consumer offsets: of snapshots, of the stores themselves without any.

        ``optional``: stores without the file give none; else it is an error if all are without.
        """
        reader = self.spark.read.format("rocketmq-offsets")
        reader = reader.option("optional", "true" if optional else "false")
        return reader.load(list(expanded(paths, "offsets") if paths else self.stores))

    def index_files(self) -> "DataFrame":
        """One row per IndexFile."""
        reader = self.spark.read.format("rocketmq-index").option("files", "true")
        return reader.load(self.stores)

    def verified(self, *, what: str = "findings") -> "DataFrame":
        """What verification of each store finds, or (``stores``) one row per store."""
        reader = self.spark.read.format("rocketmq-verify").option("what", what)
        return reader.load(self.stores)


def _metrics(observed: "Observation") -> dict[str, Any] | None:
    """What an observation saw, None if no action has run over it."""
    inner = getattr(observed, "_jo", None)
    if inner is None or not inner.future().isCompleted():
        return None
    # A part of the plan that never ran (nothing to join with) saw nothing.
    return dict(observed.get) if inner.getRow().schema() is not None else None
