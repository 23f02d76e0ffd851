"""Results of a job as tables below a directory: whole or not there, and a manifest last.

::

    OUT/<table>/part-…        OUT/manifest.json

Tables are written beside their place and moved there when all of them are whole. The folder they
wait in is named after the run's parameters and the state of its stores, so the same run, cut off
and started again, finds the tables that it had finished.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker.errors import ConfigError
from mqadmin.pipeline.export import MANIFEST
from mqadmin.pipeline.parquet import write_whole
from mqadmin.pipeline.splits import log_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WAITING: Final = ".mqadmin-"
DONE: Final = "_SUCCESS"  # what Spark leaves in a table that is whole
OWN_FORMATS: Final = "parquet, csv, json, orc"  # Spark writes them as it is


class Output:
    """Where a run's tables go. ConfigError if the directory holds something else.

    ``form`` is any format that Spark writes, also one whose jars the session was given.
    """

    def __init__(self, out: Path, form: str, about: dict[str, Any]) -> None:
        self.out = out
        self.form = form
        self.about = about
        if out.exists() and any(out.iterdir()) and not (out / MANIFEST).exists():
            leftovers = [path for path in out.iterdir() if not path.name.startswith(WAITING)]
            if leftovers:
                raise ConfigError(
                    f"{out} is not empty and holds no results of mqadmin", "give another --out"
                )
        text = json.dumps([about, form], sort_keys=True, default=str)
        self.waiting = out / (WAITING + hashlib.sha256(text.encode()).hexdigest()[:12])

    def write(self, name: str, frame: "DataFrame", partitions: tuple[str, ...] = ()) -> None:
        """Write one table to where it waits; nothing if an earlier run has done so."""
        place = self.waiting / name
        if (place / DONE).exists():
            return
        writer = flattened(frame, self.form).write.format(self.form).mode("overwrite")
        if self.form == "csv":
            writer = writer.option("header", "true")
        if partitions:
            writer = writer.partitionBy(*partitions)
        try:
            writer.save(str(place))
        except Exception as error:
            if "DATA_SOURCE_NOT_FOUND" not in str(error):
                raise
            raise ConfigError(
                f"Spark knows no format {self.form!r}",
                f"it writes {OWN_FORMATS}; the jars of others are named with"
                " --conf spark.jars.packages=GROUP:NAME:VERSION",
            ) from None

    def count(self, spark: "SparkSession", name: str) -> int:
        """How many rows a waiting table has."""
        place = self.waiting / name
        if not any(path.suffix != "" or path.is_dir() for path in place.iterdir()):
            return 0
        reader = spark.read.format(self.form)
        if self.form == "csv":
            reader = reader.option("header", "true").option("multiLine", "true")
        return int(reader.load(str(place)).count())

    def finish(self, rows: dict[str, int], more: dict[str, Any]) -> dict[str, Any]:
        """Move the tables to their places and write the manifest."""
        for name in rows:
            place = self.out / name
            old = place.with_name(f"{WAITING}old-{name}")
            if place.exists():
                shutil.rmtree(old, ignore_errors=True)
                os.replace(place, old)
            os.replace(self.waiting / name, place)
            shutil.rmtree(old, ignore_errors=True)
        tables = {
            name: {"rows": count, "format": self.form, "path": name} for name, count in rows.items()
        }
        manifest = {**self.about, **more, "tables": tables}
        write_whole(self.out / MANIFEST, json.dumps(manifest, indent=2).encode() + b"\n")
        for left in self.out.glob(WAITING + "*"):
            shutil.rmtree(left, ignore_errors=True)
        return manifest


def flattened(frame: "DataFrame", form: str) -> "DataFrame":
    """Lists and maps as JSON text, bytes as base64, where the format knows neither."""
    if form not in ("csv", "text"):
        return frame
    from pyspark.sql import functions as F

    found = []
    for field in frame.schema.fields:
        column = F.col(field.name)
        kind = field.dataType.simpleString()
        if kind.startswith(("array", "map", "struct")):
            column = F.to_json(column)
        elif kind == "binary":
            column = F.base64(column)
        found.append(column.alias(field.name))
    return frame.select(*found)


def store_states(stores: list[str]) -> list[dict[str, Any]]:
    """Where the logs of the stores begin and end: what a result is about."""
    found = []
    for path in stores:
        files, label = log_files(path)
        found.append(
            {
                "path": label,
                "minPhysicalOffset": files[0].start if files else 0,
                "logFiles": len(files),
                "newestFile": files[-1].path.name if files else None,
                "newestChangeMs": files[-1].path.stat().st_mtime_ns // 1_000_000 if files else None,
            }
        )
    return found
