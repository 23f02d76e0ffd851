"""``rocketmq-offsets``: consumer offsets as a table.

::

    spark.read.format("rocketmq-offsets").load("/backup/offsets/*.json")

Options: ``columns``, ``optional``. A path is a store directory or a copy of consumerOffset.json or
lmqConsumerOffset.json, which replaces it with ``enableLmq``; a store that has both has two
snapshots. Stores without these files are skipped if another path has offsets, with ``optional``
always.
``snapshot_time`` is the time in the file name (``consumerOffset-20260102T030405Z.json``, or epoch
seconds or milliseconds), otherwise the modification time of the file.
"""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from broker.errors import ConfigError, RemoteProtocolError, StoreError
from broker.store.format import config, state
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.files import read_all
from mqadmin.pipeline.sources.options import Options, option_true
from mqadmin.pipeline.sources.partitions.splits import store_label
from mqadmin.pipeline.sources.partitions.table import (
    ColumnTypes,
    Rows,
    TableFormat,
    TableSource,
    TableTask,
)

NAME: Final = "rocketmq-offsets"
FILES: Final = (config.CONSUMER_OFFSET, config.LMQ_CONSUMER_OFFSET)
TYPES: Final = {
    "topic": "string",
    "group": "string",
    "queue_id": "int",
    "consumer_offset": "bigint",
    "snapshot_time": "timestamp",
    "file": "string",
    "store": "string",
}

_DAY: Final = r"(20\d\d)-?(\d\d)-?(\d\d)"
_TIME: Final = r"(?:[T_ -]?(\d\d)[:.-]?(\d\d)(?:[:.-]?(\d\d))?)?"
_CALENDAR: Final = re.compile(_DAY + _TIME)
_EPOCH: Final = re.compile(r"(?<!\d)(\d{13}|\d{10})(?!\d)")


class OffsetsSource(TableSource):
    """The data source ``rocketmq-offsets``."""

    SOURCE = NAME

    def column_types(self) -> ColumnTypes:
        """Return the Spark type of each column."""
        return TYPES

    def table_format(self) -> TableFormat:
        """Return the reader of the files."""
        return OffsetsFormat()


class OffsetsFormat:
    """Reads consumer offsets, one file per task."""

    def tasks(self, paths: list[str], options: Options) -> Iterator[TableTask]:
        """Return one task per file. ConfigError without any file unless ``optional``."""
        files = [TableTask([(store, str(file))]) for file, store in _offset_files(paths)]
        if not files and not option_true(options, "optional"):
            raise ConfigError(
                f"{NAME}: {paths[0]} contains no {' and no '.join(FILES)}",
                "give copies of config/consumerOffset.json, or a store directory that has it",
            )
        yield from files

    def rows(self, store: str, item: str) -> Iterator[Rows]:
        """Return one batch per file."""
        path, offsets = read_offsets(Path(item))
        rows = [
            (topic, group, queue_id, offset)
            for (topic, group), queues in sorted(offsets.items())
            for queue_id, offset in sorted(queues.items())
        ]
        if not rows:
            return
        topics, groups, queue_ids, values = zip(*rows, strict=True)
        columns = {
            "topic": list(topics),
            "group": list(groups),
            "queue_id": list(queue_ids),
            "consumer_offset": list(values),
            "snapshot_time": snapshot_time_ms(path) * 1000,
            "file": str(path),
        }
        yield columns, len(rows)


def _offset_files(paths: list[str]) -> Iterator[tuple[Path, str]]:
    """Return the files of the paths with their stores, "" for a copy outside a store."""
    for name in paths:
        path = Path(name)
        if path.is_file():
            yield path, ""
            continue
        directory = StoreDirectory(path)
        for file_name in FILES:
            file = (directory.root or path) / state.CONFIG_DIR / file_name
            backup = file.with_name(file.name + ".bak")
            if file.exists() or backup.exists():
                yield file, store_label(directory)


def read_offsets(path: Path) -> tuple[Path, dict[tuple[str, str], dict[int, int]]]:
    """Read (topic, group) → queue id → consumer offset, and return the file that was read.

    The backup is read if the file is missing or damaged. StoreError if neither can be read.
    """
    problem = f"cannot read {path}: no such file"
    for file in (path, path.with_name(path.name + ".bak")):
        try:
            data = read_all(file)
            if data is None:
                continue
            table = config.decode_consumer_offset(data)
        except (RemoteProtocolError, StoreError) as error:
            problem = f"{file}: {error.message}"
            continue
        light = {key: {0: offset} for key, offset in (table.lmq_offsets or {}).items()}
        return file, {
            config.split_topic_group(key): dict(queues)
            for key, queues in (*table.offsets.items(), *light.items())
        }
    raise StoreError(problem, "give a copy of config/consumerOffset.json", path=str(path))


def snapshot_time_ms(path: Path) -> int:
    """Return the time of a snapshot (epoch ms): from its name (UTC), else its modification time."""
    epoch = _EPOCH.search(path.name)
    if epoch is not None:
        return int(epoch[1]) * (1000 if len(epoch[1]) == 10 else 1)
    found = _CALENDAR.search(path.name)
    if found is not None:
        try:
            parts = [int(part or 0) for part in found.groups()]
            moment = datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]
            return int(moment.timestamp()) * 1000
        except ValueError:
            pass
    return os.stat(path).st_mtime_ns // 1_000_000
