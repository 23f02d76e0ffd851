"""How a job is declared: its parameters, its tables and their columns.

Command line, help, ``pipeline schema`` and the tests read the declarations. They import no Spark,
so ``pipeline list`` works without the extra.

Column names are those of the DataFrames. On the command line they are in camelCase, and a
``…_time`` is a ``…Timestamp`` in ms with its RFC 3339 twin.
"""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from broker.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# type -> what the value is in JSON
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


SPARK_TYPES: Final = {
    "text": "string",
    "int": "bigint",
    "float": "double",
    "bool": "boolean",
    "time": "timestamp",
    "texts": "array<string>",
    "ints": "array<bigint>",
    "map": "map<string,string>",
    "bytes": "binary",
}


class Column(msgspec.Struct, frozen=True):
    """One column: name, type (a key of TYPES; times are UTC, bytes base64 in JSON), meaning."""

    name: str
    type: str
    meaning: str


class Table(msgspec.Struct, frozen=True):
    """A result of a job; ``shown`` are the columns of a terminal table, all if empty."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    shown: tuple[str, ...] = ()

    def shape(self, frame: "DataFrame") -> "DataFrame":
        """A DataFrame with exactly these columns, in order and type; absent ones are null."""
        from pyspark.sql import functions as F

        return frame.select(
            *(
                (F.col(c.name) if c.name in frame.columns else F.lit(None))
                .cast(SPARK_TYPES[c.type])
                .alias(c.name)
                for c in self.columns
            )
        )


class Parameter(msgspec.Struct, frozen=True):
    """A setting of a job, given as ``--param NAME=VALUE``; ``default`` "" means none."""

    name: str
    default: str
    meaning: str


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One job; its first table is what it prints. ``entry`` is ``module:function``."""

    name: str
    summary: str
    text: str
    example: str
    entry: str
    tables: tuple[Table, ...]
    parameters: tuple[Parameter, ...] = ()
    plots: bool = False

    def table(self, name: str) -> Table:
        """A table by name, the first for "". ConfigError if there is none of that name."""
        if not name:
            return self.tables[0]
        for table in self.tables:
            if table.name == name:
                return table
        names = ", ".join(table.name for table in self.tables)
        raise ConfigError(f"job {self.name} has no table {name!r}", f"it has {names}")

    def settings(self, given: dict[str, str]) -> dict[str, str]:
        """Every parameter with its value. ConfigError for one the job does not have."""
        names = [parameter.name for parameter in self.parameters]
        for name in given:
            if name not in names:
                raise ConfigError(
                    f"job {self.name} has no parameter {name!r}",
                    f"it has {', '.join(names)}" if names else "it has none",
                )
        return {p.name: given.get(p.name, p.default) for p in self.parameters}


class WrittenTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A table that a run wrote to files: its name, its rows, its format, its place."""

    table: str
    rows: int
    format: str
    path: str


def columns(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    """Columns out of (name, type, meaning)."""
    return tuple(Column(*row) for row in rows)


STORE: Final = ("store", "text", "store directory")
TOPIC: Final = ("topic", "text", "topic")
QUEUE: Final = ("queue_id", "int", "message queue")
TOP: Final = Parameter("top", "20", "how many of the largest are shown")
GROUP: Final = Parameter("group", "", "only this consumer group")
BUCKET: Final = Parameter("bucket", "", "length of a time bucket: 1m, 1h, 1d")


def camel(name: str, kind: str = "") -> str:
    """A column's name on the command line: camelCase, a time as ``…Timestamp``."""
    if kind == "time":
        name = name.removesuffix("_time") + "_timestamp"
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def row_class(table: Table, job: Job) -> type[msgspec.Struct]:
    """The row of a table on the command line as a struct."""
    fields: list[tuple[str, Any, Any]] = [
        (camel(column.name, column.type), TYPES[column.type], None) for column in table.columns
    ]
    name = "".join(word.capitalize() for word in (*job.name.split("-"), *table.name.split("-")))
    made = msgspec.defstruct(name, fields, kw_only=True)
    made.__doc__ = table.meaning
    return made
