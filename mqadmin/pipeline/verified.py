"""``rocketmq-verify``: verification of stores as a table, one task per store.

::

    spark.read.format("rocketmq-verify").load(["/data/a/store", "/data/b/store"])

The rows are the findings of ``mqadmin store verify``; with the option ``what=stores`` there is one
row per store that says what was looked at.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import StructType

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.pipeline.tables import TableReader, TableSource, Work

if TYPE_CHECKING:
    import pyarrow as pa

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

    title = NAME

    def columns(self) -> dict[str, str]:
        """Those of findings, or those of stores."""
        return STORE_TYPES if self.options.get("what") == "stores" else FINDING_TYPES

    def reader(self, schema: StructType) -> "VerifyReader":
        """A batch reader."""
        return VerifyReader(schema, dict(self.options), self.columns(), self.title)


class VerifyReader(TableReader):
    """Verifies a store per task."""

    def work(self) -> Iterator[Work]:
        """A task per store. StoreError for a path that is none."""
        for path in self.paths:
            StoreDirectory(path)
            yield Work([(path, None)])

    def rows(self, work: Work) -> Iterator["pa.RecordBatch"]:
        """One batch per store."""
        from mqadmin.inspector.verify import verify

        for path, _ in work.items:
            result = verify(StoreDirectory(path))
            found = [result.summary] if self.types == STORE_TYPES else result.findings
            if found:
                names = [name for name in self.names if name != "store"]
                columns = {name: [getattr(row, name) for row in found] for name in names}
                yield self.batch({**columns, "store": path}, len(found))
