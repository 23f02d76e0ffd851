"""``rocketmq-verify``: verification of stores as a table, one task per store.

::

    spark.read.format("rocketmq-verify").load(["/data/a/store", "/data/b/store"])

The rows are the findings of ``mqadmin store verify``; with the option ``what=stores`` there is one
row per store with the extent of its verification.
"""

from collections.abc import Iterator
from typing import Final

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.verifier import verify
from mqadmin.pipeline.sources.options import Options
from mqadmin.pipeline.sources.partitions.table import (
    ColumnTypes,
    Rows,
    TableFormat,
    TableSource,
    TableTask,
)

NAME: Final = "rocketmq-verify"

FINDING_TYPES: Final = {
    "store": "string",
    "kind": "string",
    "severity": "string",
    "path": "string",
    "physical_offset": "bigint",
    "length": "bigint",
    "detail": "string",
    "suggestion": "string",
}
STORE_TYPES: Final = {
    "store": "string",
    "state": "string",
    "records": "bigint",
    "queues": "bigint",
    "units_checked": "bigint",
    "index_entries_checked": "bigint",
    "errors": "bigint",
    "warnings": "bigint",
    "coverage": "double",
    "log_bytes": "bigint",
}


class VerifySource(TableSource):
    """The data source ``rocketmq-verify``."""

    SOURCE = NAME

    def table_format(self) -> TableFormat:
        """Return the reader of the files."""
        return VerifyFormat(one_row_per_store=self._one_row_per_store())

    def _one_row_per_store(self) -> bool:
        return bool(self.options.get("what") == "stores")

    def column_types(self) -> ColumnTypes:
        """Return the Spark type of each column, as selected by the options."""
        return STORE_TYPES if self._one_row_per_store() else FINDING_TYPES


class VerifyFormat:
    """Verifies one store per task."""

    def __init__(self, *, one_row_per_store: bool) -> None:
        self.one_row_per_store = one_row_per_store

    def tasks(self, paths: list[str], options: Options) -> Iterator[TableTask]:
        """Return one task per store. StoreError for a path that is not a store."""
        for path in paths:
            StoreDirectory(path)
            yield TableTask([(path, path)])

    def rows(self, store: str, item: str) -> Iterator[Rows]:
        """Return the findings of a store, or its one row."""
        result = verify(StoreDirectory(item))
        found = [result.summary] if self.one_row_per_store else result.findings
        if found:
            types = STORE_TYPES if self.one_row_per_store else FINDING_TYPES
            names = [name for name in types if name != "store"]
            yield {name: [getattr(row, name) for row in found] for name in names}, len(found)
