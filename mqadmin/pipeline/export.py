"""The driver's side of the Parquet export: plan, resume, stream, manifest."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from broker.errors import ConfigError, StoreError
from mqadmin.pipeline.failure import noted
from mqadmin.pipeline.options import lower_names, option_paths, option_wanted
from mqadmin.pipeline.parquet import (
    SPLITS,
    SplitRecord,
    SplitWriter,
    WrittenFile,
    read_record,
    split_name,
    write_whole,
)
from mqadmin.pipeline.splits import SPLIT_BYTES, Split, plan, settle
from mqadmin.pipeline.stream import StoreStreamReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAME: Final = "rocketmq-export"
PARAMETERS: Final = "_export/parameters.json"
CHECKPOINT: Final = "_export/checkpoint"
MANIFEST: Final = "manifest.json"
RESULT: Final = "split string, messages bigint, bytes bigint, files int, damages bigint"
INTERVAL: Final = "10 seconds"


class ExportSource(DataSource):
    """A source whose reading *is* the writing: a row per split says what was written."""

    @classmethod
    def name(cls) -> str:
        """Its name in ``format(...)``."""
        return NAME

    def schema(self) -> str:
        """What a task says."""
        return RESULT

    def reader(self, schema: StructType) -> "ExportReader":
        """One run over what is there."""
        return ExportReader(dict(self.options))

    def streamReader(self, schema: StructType) -> "ExportStreamReader":
        """Batch after batch."""
        return ExportStreamReader(dict(self.options))


class ExportReader(DataSourceReader):
    """Plans the splits that are not done; a task writes one."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = lower_names(options)
        self.out = Path(self.options["out"])
        self.names = self.options["columns"].split(",")
        with noted():
            self.wanted = option_wanted(self.options)
            self.paths = option_paths(self.options, NAME)

    def partitions(self) -> list[InputPartition]:
        """The splits to write."""
        with noted():
            return [
                split
                for split in plan(self.paths, self.wanted, self.options)
                if not self._is_done(split)
            ]

    def _is_done(self, split: Split) -> bool:
        record = read_record(self.out, split_name(split))
        return (
            record is not None
            and record.complete
            and record.end >= split.base + split.end
            and all((self.out / file.path).exists() for file in record.files)
        )

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Write a split, tell what came of it."""
        if isinstance(partition, Split):
            settle()
            with noted():
                yield told(self._write(partition))

    def _write(self, split: Split) -> SplitRecord:
        return SplitWriter(split, self.out, self.names).write(self.wanted, self.options)


class ExportStreamReader(StoreStreamReader):
    """The streaming reader of the store; its tasks write."""

    def __init__(self, options: dict[str, str]) -> None:
        # Names are all that the readers look at.
        fields = [StructField(name, StringType()) for name in options["columns"].split(",")]
        super().__init__(StructType(fields), options)
        self.export = ExportReader(options)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Write a split of a batch."""
        if isinstance(partition, Split):
            with noted():
                if self._is_lost(partition):
                    return
        yield from self.export.read(partition)


def told(record: SplitRecord) -> "pa.RecordBatch":
    """The row of a split."""
    import pyarrow as pa

    row = {
        "split": record.name,
        "messages": sum(file.messages for file in record.files),
        "bytes": sum(file.bytes for file in record.files),
        "files": len(record.files),
        "damages": record.damages,
    }
    text = {"split": pa.string(), "files": pa.int32()}
    schema = pa.schema([(name, text.get(name, pa.int64())) for name in row])
    return pa.RecordBatch.from_pylist([row], schema=schema)


class Export:
    """One export below ``out``: its parameters, fixed by the first run, and its runs.

    ``limits`` (topic, since, until) and ``columns`` must be the same in every run; a time must
    therefore be an absolute one. ConfigError if they are not.
    """

    def __init__(
        self, spark: "SparkSession", out: Path, *, stores: list[str], columns: list[str]
    ) -> None:
        self.spark = spark
        self.out = out
        self.stores = stores
        self.columns = columns
        self.split_bytes = SPLIT_BYTES
        self.limits: dict[str, str] = {}
        self.max_bytes = ""
        self.keeps_on = False

    def run(self) -> None:
        """Write what is there and not written yet."""
        fresh = self._begin("batch")
        frame = self._read(self.spark.read, fresh=fresh)
        frame.collect()

    def stream(self, *, available_now: bool = False) -> "StreamingQuery":
        """Begin to write what is there and what comes; the query runs by itself."""
        fresh = self._begin("stream")
        frame = self._read(self.spark.readStream, fresh=fresh)
        writer = frame.writeStream.format("noop").option(
            "checkpointLocation", str(self.out / CHECKPOINT)
        )
        when = {"availableNow": True} if available_now else {"processingTime": INTERVAL}
        query: StreamingQuery = writer.trigger(**when).start()
        return query

    def _read(self, reader: Any, *, fresh: bool) -> Any:
        options = {
            "out": str(self.out),
            "columns": ",".join(self.columns),
            "splitBytes": str(self.split_bytes),
            "fresh": "true" if fresh else "false",
            "crc": "true" if "crc_ok" in self.columns else "false",
            "failOnDataLoss": "false" if self.keeps_on else "true",
            **self.limits,
        }
        if self.max_bytes:
            options["maxBytesPerTrigger"] = self.max_bytes
        paths = {"paths": json.dumps(self.stores)}
        return reader.format(NAME).options(**options, **paths).load()

    def _begin(self, way: str) -> bool:
        """Compare the parameters with those of earlier runs; whether this is the first."""
        given = {
            "way": way,
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
                    f"{self.out} is not empty and holds no export", "give another --out"
                ) from None
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(given, indent=2).encode() + b"\n")
            return True
        except (OSError, ValueError) as error:
            raise StoreError(f"cannot read {path}: {error}", path=str(path)) from error
        if known != given:
            differs = ", ".join(name for name in given if known.get(name) != given[name])
            raise ConfigError(
                f"{self.out} holds an export that was made otherwise: {differs}",
                "repeat its options (times must be absolute), or give another --out",
            )
        for left in self.out.glob("dt=*/topic=*/.*.tmp"):
            left.unlink(missing_ok=True)  # what a killed task was writing
        return False

    # ---- results

    def records(self) -> list[SplitRecord]:
        """The splits that are written, by name."""
        found = []
        for path in sorted((self.out / SPLITS).glob("*.json")):
            record = read_record(self.out, path.stem)
            if record is not None:
                found.append(record)
        return found

    def finish(self, about: dict[str, Any]) -> dict[str, Any]:
        """Write the manifest: what is there, store by store, and ``about`` the run."""
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
        write_whole(self.out / MANIFEST, json.dumps(manifest, indent=2).encode() + b"\n")
        return manifest


def by_partition(records: list[SplitRecord]) -> list[dict[str, Any]]:
    """What was written, by day and topic."""
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
