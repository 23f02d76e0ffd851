"""Declaration of a job: its parameters, its tables and their columns.

The command line, the help, ``pipeline schema`` and the tests read the declarations. They do not
import Spark, so ``pipeline list`` works without the extra.

Column names are those of the DataFrames. The command line prints them in camelCase; a ``…_time``
column becomes ``…Timestamp`` (epoch ms) together with ``…Time`` (RFC 3339).
"""

from typing import Any, Final

import msgspec

from broker.errors import ConfigError

# column type -> Python type of the value in JSON
TYPES: Final[dict[str, Any]] = {
    "text": str | None,
    "int": int | None,
    "float": float | None,
    "bool": bool | None,
    "time": int | None,
    "texts": list[str] | None,
    "ints": list[int] | None,
    "map": dict[str, str] | None,
    "bytes": str | None,
}


class Column(msgspec.Struct, frozen=True):
    """One column: name, type (a key of TYPES; times are UTC, bytes are base64 in JSON), meaning."""

    name: str
    type: str
    meaning: str


class Table(msgspec.Struct, frozen=True):
    """One result table; ``shown`` lists the columns printed on a terminal, empty for all."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    shown: tuple[str, ...] = ()


class Parameter(msgspec.Struct, frozen=True):
    """A parameter of a job (``--param NAME=VALUE``); ``default`` "" means that it has none."""

    name: str
    default: str
    meaning: str


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One job; its first table is the one printed by default."""

    name: str
    summary: str
    text: str
    example: str
    tables: tuple[Table, ...]
    parameters: tuple[Parameter, ...] = ()
    plots: bool = False

    def table(self, name: str) -> Table:
        """Return a table by name, the first one for "". ConfigError for an unknown name."""
        if not name:
            return self.tables[0]
        for table in self.tables:
            if table.name == name:
                return table
        names = ", ".join(table.name for table in self.tables)
        raise ConfigError(f"job {self.name} has no table {name!r}", f"available: {names}")

    def settings(self, given: dict[str, str]) -> dict[str, str]:
        """Return every parameter with its value. ConfigError for an unknown parameter."""
        names = [parameter.name for parameter in self.parameters]
        for name in given:
            if name not in names:
                raise ConfigError(
                    f"job {self.name} has no parameter {name!r}",
                    f"available: {', '.join(names) or 'none'}",
                )
        return {p.name: given.get(p.name, p.default) for p in self.parameters}


class WrittenTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A table that a run wrote to files: name, number of rows, file format, path."""

    table: str
    rows: int
    format: str
    path: str


def columns(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    """Build columns from (name, type, meaning) tuples."""
    return tuple(Column(*row) for row in rows)


STORE: Final = ("store", "text", "store directory")
TOPIC: Final = ("topic", "text", "topic")
QUEUE: Final = ("queue_id", "int", "message queue")
TOP: Final = Parameter("top", "20", "number of rows, largest first")
GROUP: Final = Parameter("group", "", "only this consumer group")
BUCKET: Final = Parameter("bucket", "", "length of a time bucket: 1m, 1h, 1d")


def camel(name: str, kind: str = "") -> str:
    """Return a column's name on the command line: camelCase, a time as ``…Timestamp``."""
    if kind == "time":
        name = name.removesuffix("_time") + "_timestamp"
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def row_class(table: Table, job: Job) -> type[msgspec.Struct]:
    """Build the struct type of a table's rows as the command line prints them."""
    fields: list[tuple[str, Any, Any]] = [
        (camel(column.name, column.type), TYPES[column.type], None) for column in table.columns
    ]
    name = "".join(word.capitalize() for word in (*job.name.split("-"), *table.name.split("-")))
    made = msgspec.defstruct(name, fields, kw_only=True)
    made.__doc__ = table.meaning
    return made


def output_name(job: Job, table: Table) -> str:
    """Return the schema name of a table on the command line, without program and version."""
    name = f"pipeline.run.{job.name}"
    return name if table is job.tables[0] else f"{name}.{table.name}"
