"""The reader shared by the data sources that do not read the CommitLog.

Each source supplies a :class:`TableFormat`: which tasks to run, and the rows of a task.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from mqadmin.pipeline.failure import annotated_errors
from mqadmin.pipeline.sources.options import (
    Options,
    check_columns,
    lower_names,
    option_columns,
    option_paths,
)
from mqadmin.pipeline.sources.partitions.split_reader import freeze_loaded_modules

# Spark type -> Arrow type
_ARROW_TYPES: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}

ColumnTypes = Mapping[str, str]
# Column values: an array, a list, or one value for all rows; and the number of rows.
Rows = tuple[dict[str, Any], int]


class TableTask(InputPartition):
    """The input of one task: (store, item) pairs; the source defines the items."""

    def __init__(self, items: list[tuple[str, Any]]) -> None:
        super().__init__(0)
        self.items = items


class TableFormat(Protocol):
    """The part of a data source that differs: its tasks and how their items are read."""

    def tasks(self, paths: list[str], options: Options) -> Iterator[TableTask]:
        """Return the tasks. StoreError for a path that does not exist."""
        ...

    def rows(self, store: str, item: Any) -> Iterator[Rows]:
        """Return the rows of one item. StoreError for a file that cannot be read."""
        ...


def schema_of(options: Options, types: ColumnTypes, source: str) -> str:
    """Return the selected columns as a Spark schema, by default all.

    ConfigError for an unknown column.
    """
    names = option_columns(options, tuple(types), source) or list(types)
    return ", ".join(f"`{name}` {types[name]}" for name in names)


class TableReader(DataSourceReader):
    """Reads the tasks of a :class:`TableFormat` into Arrow batches."""

    def __init__(
        self,
        schema: StructType,
        options: Options,
        *,
        source: str,
        types: ColumnTypes,
        table_format: TableFormat,
    ) -> None:
        self.names = list(schema.names)
        self.types = types
        self.table_format = table_format
        self.options = lower_names(options)
        with annotated_errors():
            check_columns(self.names, tuple(types), source)
            self.paths = option_paths(self.options, source)

    def partitions(self) -> list[InputPartition]:
        """Return the tasks."""
        with annotated_errors():
            return [*self.table_format.tasks(self.paths, self.options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return Arrow batches of one task."""
        if isinstance(partition, TableTask):  # without tasks Spark passes an empty partition
            freeze_loaded_modules()
            with annotated_errors():
                for store, item in partition.items:
                    for columns, count in self.table_format.rows(store, item):
                        yield self._batch({**columns, "store": store}, count)

    def _batch(self, columns: dict[str, Any], count: int) -> pa.RecordBatch:
        arrays = []
        fields = []
        for name in self.names:
            arrow_type = _ARROW_TYPES[self.types[name]]
            value = columns[name]
            if value is None or isinstance(value, str | int):
                value = [value] * count
            array = pa.array(value)
            arrays.append(array if array.type == arrow_type else array.cast(arrow_type))
            fields.append(pa.field(name, arrow_type))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


class TableSource(DataSource):
    """A data source with one table; a subclass sets the class attribute SOURCE and the two methods.

    The name is a class method because Spark registers classes.
    """

    SOURCE: str

    @classmethod
    def name(cls) -> str:
        """Return the name used in ``format(...)``."""
        return cls.SOURCE

    def schema(self) -> str:
        """Return the selected columns, by default all. ConfigError for an unknown column."""
        with annotated_errors():
            return schema_of(self.options, self.column_types(), self.SOURCE)

    def reader(self, schema: StructType) -> TableReader:
        """Return a batch reader."""
        return TableReader(
            schema,
            dict(self.options),
            source=self.SOURCE,
            types=self.column_types(),
            table_format=self.table_format(),
        )

    @abstractmethod
    def column_types(self) -> ColumnTypes:
        """Return the Spark type of each column, as selected by the options."""

    @abstractmethod
    def table_format(self) -> TableFormat:
        """Return the reader of the table's files, as selected by the options."""
