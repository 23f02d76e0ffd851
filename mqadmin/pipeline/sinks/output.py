"""Result tables of a job below an output directory, with a manifest written last.

::

    OUT/<table>/part-…        OUT/manifest.json

Tables are written to a staging directory inside OUT and moved to their final places when all of
them are complete. The name of the staging directory is a hash of the run's parameters and of the
extent of its stores: an interrupted run that is repeated reuses the tables that it had completed.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from broker.errors import ConfigError
from mqadmin.pipeline.sinks.atomic_file import write_atomically
from mqadmin.pipeline.sources.partitions.splits import log_files

MANIFEST: Final = "manifest.json"
STAGING_PREFIX: Final = ".mqadmin-"
SUCCESS_FILE: Final = "_SUCCESS"  # Spark creates it in a completely written table
BUILT_IN_FORMATS: Final = "parquet, csv, json, orc"  # Spark needs no further jars for these

# The rules of mqadmin.safe_text as Java regular expressions: the start of a formula that is not a
# number, and control and bidi characters except line ends, which CSV quotes.
FORMULA: Final = r"^(?=[=+\-@\t\r\uff1d\uff0b\uff0d\uff20])(?![+-]?\d+(\.\d+)?([eE][+-]?\d+)?$)"
CONTROLS: Final = r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]"


class Output:
    """The output directory of a run. ConfigError for other files and tables of another job.

    ``form`` is any format that Spark can write, including those of jars given to the session;
    ``about`` describes the run in the manifest.
    """

    def __init__(self, out: Path, form: str, about: dict[str, Any]) -> None:
        self.out = out
        self.form = form
        self.about = about
        earlier = _job_of(out / MANIFEST)
        if earlier not in ("", about["job"]):
            raise ConfigError(f"{out} contains the tables of job {earlier}", "choose another --out")
        if out.exists() and any(out.iterdir()) and not earlier:
            foreign = [path for path in out.iterdir() if not path.name.startswith(STAGING_PREFIX)]
            if foreign:
                raise ConfigError(
                    f"{out} is not empty and has no manifest of mqadmin", "choose another --out"
                )
        text = json.dumps([about, form], sort_keys=True, default=str)
        self.staging = out / (STAGING_PREFIX + hashlib.sha256(text.encode()).hexdigest()[:12])

    def write(self, name: str, frame: DataFrame, partitions: tuple[str, ...] = ()) -> None:
        """Write one table to the staging directory, unless an interrupted run completed it."""
        path = self.staging / name
        if (path / SUCCESS_FILE).exists():
            return
        writer = encode_nested_columns(frame, self.form).write.format(self.form).mode("overwrite")
        if self.form == "csv":
            writer = writer.option("header", "true")
        if partitions:
            writer = writer.partitionBy(*partitions)
        try:
            writer.save(str(path))
        except Exception as error:
            if "DATA_SOURCE_NOT_FOUND" not in str(error):
                raise
            raise ConfigError(
                f"Spark has no format {self.form!r}",
                f"available: {BUILT_IN_FORMATS}; for others add their jars:"
                " --conf spark.jars.packages=GROUP:NAME:VERSION",
            ) from None

    def count(self, spark: SparkSession, name: str) -> int:
        """Return the number of rows of a staged table."""
        path = self.staging / name
        if not any(child.suffix != "" or child.is_dir() for child in path.iterdir()):
            return 0
        reader = spark.read.format(self.form)
        if self.form == "csv":
            reader = reader.option("header", "true").option("multiLine", "true")
        return int(reader.load(str(path)).count())

    def finish(self, rows: dict[str, int], more: dict[str, Any]) -> dict[str, Any]:
        """Move the staged tables to their final places, write and return the manifest.

        ``rows`` are the row counts by table, ``more`` further fields of the manifest.
        """
        for name in rows:
            path = self.out / name
            old = path.with_name(f"{STAGING_PREFIX}old-{name}")
            if path.exists():
                shutil.rmtree(old, ignore_errors=True)
                os.replace(path, old)
            os.replace(self.staging / name, path)
            shutil.rmtree(old, ignore_errors=True)
        tables = {
            name: {"rows": count, "format": self.form, "path": name} for name, count in rows.items()
        }
        manifest = {**self.about, **more, "tables": tables}
        write_atomically(self.out / MANIFEST, json.dumps(manifest, indent=2).encode() + b"\n")
        for leftover in self.out.glob(STAGING_PREFIX + "*"):
            shutil.rmtree(leftover, ignore_errors=True)
        return manifest


def _job_of(manifest: Path) -> str:
    """Return the job of a manifest, "" for a file that is missing or not a manifest."""
    try:
        return str(json.loads(manifest.read_bytes())["job"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def encode_nested_columns(frame: DataFrame, form: str) -> DataFrame:
    """Convert lists and maps to JSON text and bytes to base64 for formats that lack them.

    In CSV, text that a spreadsheet would evaluate as a formula is prefixed with ``'``, and
    characters that control a terminal become U+FFFD; other formats keep every value.
    """
    if form not in ("csv", "text"):
        return frame
    columns = []
    for field in frame.schema.fields:
        column = F.col(field.name)
        type_name = field.dataType.simpleString()
        if type_name.startswith(("array", "map", "struct")):
            column = F.to_json(column)
        elif type_name == "binary":
            column = F.base64(column)
        if form == "csv" and type_name in ("string", "binary"):
            column = F.regexp_replace(column, FORMULA, "'")
            column = F.regexp_replace(column, CONTROLS, "\ufffd")
        columns.append(column.alias(field.name))
    return frame.select(*columns)


def store_extents(stores: list[str]) -> list[dict[str, Any]]:
    """Return the extent of each store's log for the manifest."""
    extents = []
    for path in stores:
        files, label = log_files(path)
        extents.append(
            {
                "path": label,
                "minPhysicalOffset": files[0].start if files else 0,
                "logFiles": len(files),
                "newestFile": files[-1].path.name if files else None,
                "newestChangeMs": files[-1].path.stat().st_mtime_ns // 1_000_000 if files else None,
            }
        )
    return extents
