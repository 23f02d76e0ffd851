"""What a command shows: schema name, row type, columns."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any


class View:
    """One kind of output, declared beside the command that emits it.

    ``name`` is the schema name without its program and version (``topic.list``); ``row`` the
    struct type of one row as ``package.module:Class``, resolved only for ``-o schema``;
    ``columns`` the fields of the table in order, ``wide`` those of ``-o wide`` (all fields of the
    row when empty). ``keep`` lists columns shown even when no row fills them; ``texts`` says for a
    field how a person reads its value in a table (``perm`` 6 as ``RW-``).
    """

    __slots__ = ("columns", "keep", "name", "row", "single", "texts", "version", "wide")

    def __init__(
        self,
        name: str,
        row: str,
        columns: Sequence[str] = (),
        *,
        wide: Sequence[str] = (),
        keep: Sequence[str] = (),
        single: bool = False,
        version: int = 1,
        texts: Mapping[str, Callable[[Any], str]] | None = None,
    ) -> None:
        self.name = name
        self.row = row
        self.columns = tuple(columns)
        self.wide = tuple(wide)
        self.keep = frozenset(keep)
        self.single = single
        self.version = version
        self.texts = texts or {}

    @property
    def schema(self) -> str:
        """The schema name as it stands in the output: ``mqadmin.topic.list/1``."""
        return f"mqadmin.{self.name}/{self.version}"

    def row_type(self) -> Any:
        """Import the struct type of a row."""
        from importlib import import_module

        module, _, name = self.row.partition(":")
        return getattr(import_module(module), name)


class Outcome:
    """What a run has to say beside its rows; a generator may fill it while it runs.

    ``truncated`` is true when rows were left out (a limit); ``reason`` says which limit, in one
    sentence; ``errors`` holds one mapping per target that failed (the shape of the error object).
    """

    __slots__ = ("errors", "reason", "truncated")

    def __init__(
        self,
        *,
        truncated: bool = False,
        reason: str = "",
        errors: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.truncated = truncated
        self.reason = reason
        self.errors: list[dict[str, Any]] = list(errors)
