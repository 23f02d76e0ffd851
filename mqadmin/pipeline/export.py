"""Parquet export, driver side: planning, resuming, streaming, manifest."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StringType, StructField, StructType

from broker.errors import ConfigError, StoreError
from mqadmin.pipeline.failure import annotated_errors
from mqadmin.pipeline.sinks.atomic_file import write_atomically
from mqadmin.pipeline.sinks.output import MANIFEST
from mqadmin.pipeline.sinks.parquet import (
    SPLITS,
    SplitRecord,
    SplitWriter,
    WrittenFile,
    read_record,
    split_name,
)
from mqadmin.pipeline.sources.options import lower_names, option_filter, option_paths
from mqadmin.pipeline.sources.partitions.split_reader import freeze_loaded_modules
from mqadmin.pipeline.sources.partitions.splits import SPLIT_BYTES, Split, plan_splits
from mqadmin.pipeline.sources.stream import StoreStreamReader

NAME: Final = "rocketmq-export"
PARAMETERS: Final = "_export/parameters.json"
CHECKPOINT: Final = "_export/checkpoint"
RESULT_SCHEMA: Final = "split string, messages bigint, bytes bigint, files int, damages bigint"
TRIGGER_INTERVAL: Final = "10 seconds"


class ExportSource(DataSource):
    """A source whose tasks write Parquet files; the rows are the results, one per split."""

    @classmethod
    def name(cls) -> str:
        """Return the name used in ``format(...)``."""
        return NAME

    def schema(self) -> str:
        """Return the columns of a result."""
        return RESULT_SCHEMA

    def reader(self, schema: StructType) -> "ExportReader":
        """Return the reader of a batch run."""
        return ExportReader(dict(self.options))

    def streamReader(self, schema: StructType) -> "ExportStreamReader":
        """Return the reader of a streaming run."""
        return ExportStreamReader(dict(self.options))


class ExportReader(DataSourceReader):
    """Plans the splits that are not complete; each task writes one of them."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = lower_names(options)
        self.out = Path(self.options["out"])
        self.names = self.options["columns"].split(",")
        with annotated_errors():
            self.rows = option_filter(self.options)
            self.paths = option_paths(self.options, NAME)

    def partitions(self) -> list[InputPartition]:
        """Return the splits to write."""
        with annotated_errors():
            return [
                split
                for split in plan_splits(self.paths, self.rows, self.options)
                if not self._is_complete(split)
            ]

    def _is_complete(self, split: Split) -> bool:
        record = read_record(self.out, split_name(split))
        return (
            record is not None
            and record.complete
            and record.end >= split.end_offset
            and all((self.out / file.path).exists() for file in record.files)
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Write a split and return its result."""
        if isinstance(partition, Split):
            freeze_loaded_modules()
            with annotated_errors():
                writer = SplitWriter(partition, self.out, self.names)
                yield result_batch(writer.write(self.rows, self.options))


class ExportStreamReader(StoreStreamReader):
    """The streaming reader of the store, with tasks that write."""

    def __init__(self, options: dict[str, str]) -> None:
        # The readers use only the names of the fields.
        fields = [StructField(name, StringType()) for name in options["columns"].split(",")]
        super().__init__(StructType(fields), options)
        self.export = ExportReader(options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Write a split of a batch."""
        if isinstance(partition, Split):
            with annotated_errors():
                if self.is_lost(partition):
                    return
        yield from self.export.read(partition)


def result_batch(record: SplitRecord) -> pa.RecordBatch:
    """Return the result of a split as one row."""
    row = {
        "split": record.name,
        "messages": sum(file.messages for file in record.files),
        "bytes": sum(file.bytes for file in record.files),
        "files": len(record.files),
        "damages": record.damages,
    }
    types = {"split": pa.string(), "files": pa.int32()}
    schema = pa.schema([(name, types.get(name, pa.int64())) for name in row])
    return pa.RecordBatch.from_pylist([row], schema=schema)


class Export:
    """One export below ``out``; the first run stores its parameters.

    ``limits`` (topic, since, until), ``columns`` and ``split_bytes`` must be equal in every run;
    times must therefore be absolute. ConfigError if they differ.
    """

    def __init__(
        self, spark: SparkSession, out: Path, *, stores: list[str], columns: list[str]
    ) -> None:
        self.spark = spark
        self.out = out
        self.stores = stores
        self.columns = columns
        self.split_bytes = SPLIT_BYTES
        self.limits: dict[str, str] = {}
        self.max_bytes = ""
        self.skip_lost_data = False

    def run(self) -> None:
        """Write all messages not written yet."""
        fresh = self._check_parameters("batch")
        frame = self._read(self.spark.read, fresh=fresh)
        frame.collect()

    def stream(self, *, available_now: bool = False) -> StreamingQuery:
        """Start a query that writes all messages, present and future ones, and return it.

        ``available_now``: the query ends at the present ends of the logs.
        """
        fresh = self._check_parameters("stream")
        frame = self._read(self.spark.readStream, fresh=fresh)
        writer = frame.writeStream.format("noop").option(
            "checkpointLocation", str(self.out / CHECKPOINT)
        )
        trigger = {"availableNow": True} if available_now else {"processingTime": TRIGGER_INTERVAL}
        query: StreamingQuery = writer.trigger(**trigger).start()
        return query

    def _read(self, reader: DataFrameReader | DataStreamReader, *, fresh: bool) -> DataFrame:
        options = {
            "out": str(self.out),
            "columns": ",".join(self.columns),
            "splitBytes": str(self.split_bytes),
            "fresh": "true" if fresh else "false",
            "crc": "true" if "crc_ok" in self.columns else "false",
            "failOnDataLoss": "false" if self.skip_lost_data else "true",
            **self.limits,
        }
        if self.max_bytes:
            options["maxBytesPerTrigger"] = self.max_bytes
        paths = {"paths": json.dumps(self.stores)}
        return reader.format(NAME).options(**options, **paths).load()

    def _check_parameters(self, mode: str) -> bool:
        """Compare the parameters with those of the first run; return whether this is the first.

        ConfigError if they differ or ``out`` contains other files.
        """
        given = {
            "way": mode,  # the name in the files of earlier versions
            "columns": self.columns,
            "splitBytes": self.split_bytes,
            "limits": self.limits,
        }
        path = self.out / PARAMETERS
        try:
            known = json.loads(path.read_bytes())
        except FileNotFoundError:
            if any(self.out.glob("*")):
                raise ConfigError(
                    f"{self.out} is not empty and is not an export", "choose another --out"
                ) from None
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(given, indent=2).encode() + b"\n")
            return True
        except (OSError, ValueError) as error:
            raise StoreError(f"cannot read {path}: {error}", path=str(path)) from error
        if known != given:
            differs = ", ".join(name for name in given if known.get(name) != given[name])
            raise ConfigError(
                f"{self.out} contains an export with other parameters: {differs}",
                "repeat its options (with absolute times), or choose another --out",
            )
        for leftover in self.out.glob("dt=*/topic=*/.*.tmp"):  # of killed tasks
            leftover.unlink(missing_ok=True)
        return False

    # ---- results

    def records(self) -> list[SplitRecord]:
        """Return the records of the written splits, ordered by name."""
        found = []
        for path in sorted((self.out / SPLITS).glob("*.json")):
            record = read_record(self.out, path.stem)
            if record is not None:
                found.append(record)
        return found

    def finish(self, about: dict[str, Any]) -> dict[str, Any]:
        """Write and return the manifest: the written stores and files, and ``about`` the run."""
        records = self.records()
        stores: dict[str, dict[str, Any]] = {}
        for record in records:
            store = stores.setdefault(
                record.store,
                {
                    "path": record.store,
                    "minPhysicalOffset": record.start,
                    "maxPhysicalOffset": record.reached,
                    "messages": 0,
                    "bytes": 0,
                    "splits": 0,
                    "damages": 0,
                },
            )
            store["minPhysicalOffset"] = min(store["minPhysicalOffset"], record.start)
            store["maxPhysicalOffset"] = max(store["maxPhysicalOffset"], record.reached)
            store["messages"] += sum(file.messages for file in record.files)
            store["bytes"] += sum(file.bytes for file in record.files)
            store["splits"] += 1
            store["damages"] += record.damages
        files = [file for record in records for file in record.files]
        manifest = {
            **about,
            "stores": list(stores.values()),
            "messages": sum(file.messages for file in files),
            "files": [msgspec.to_builtins(file) for file in files],
        }
        write_atomically(self.out / MANIFEST, json.dumps(manifest, indent=2).encode() + b"\n")
        return manifest


def by_partition(records: list[SplitRecord]) -> list[dict[str, Any]]:
    """Aggregate the written files by day and topic."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for record in records:
        for file in record.files:
            row = found.setdefault(
                (file.dt, file.topic),
                {
                    "dt": file.dt,
                    "topic": file.topic,
                    "files": 0,
                    "messages": 0,
                    "bytes": 0,
                    "file_bytes": 0,
                },
            )
            _add(row, file)
    return [found[key] for key in sorted(found)]


def _add(row: dict[str, Any], file: WrittenFile) -> None:
    row["files"] += 1
    row["messages"] += file.messages
    row["bytes"] += file.bytes
    row["file_bytes"] += file.file_bytes
