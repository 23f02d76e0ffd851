"""The shape of a command's output: schema name, row type, columns."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

FORMATS = ("table", "wide", "json", "ndjson", "yaml", "csv", "markdown", "schema")
DOCUMENT_FORMS = ("json", "yaml", "jsonpath")
"""Forms that are one document, complete only at its end."""
JSONPATH = "jsonpath"
"""The format ``jsonpath=EXPR``, in addition to FORMATS."""
PROMETHEUS = "prometheus"
"""The format of ``mqadmin check`` in addition to FORMATS."""


class ExpressionError(ValueError):
    """An expression that cannot be applied; the message names the position in it."""


def query_of(form: str) -> str | None:
    """Return EXPR of the format ``jsonpath=EXPR``, None for another format."""
    word, equals, text = form.partition("=")
    return text if word == JSONPATH and equals else None


class View:
    """One kind of output, declared next to the command that emits it.

    ``name`` is the schema name without its program and version (``topic.list``); ``columns`` are
    the fields of the table in order, ``wide`` those of ``-o wide`` (all fields of the row when
    empty). ``keep`` lists columns shown even without a value; ``texts`` maps a field to the
    function that formats its value in a table (``perm`` 6 as ``RW-``); a field whose name ends in
    a unit (``ageMs``, ``bodyBytes``) needs none. The struct type of a row is
    not part of a view: only ``-o schema`` and an empty CSV need it, and it would have to be
    imported for every command.
    """

    __slots__ = ("columns", "keep", "name", "single", "texts", "version", "wide")

    def __init__(
        self,
        name: str,
        columns: Sequence[str] = (),
        *,
        wide: Sequence[str] = (),
        keep: Sequence[str] = (),
        single: bool = False,
        version: int = 1,
        texts: Mapping[str, Callable[[Any], str]] | None = None,
    ) -> None:
        self.name = name
        self.columns = tuple(columns)
        self.wide = tuple(wide)
        self.keep = frozenset(keep)
        self.single = single
        self.version = version
        self.texts = texts or {}

    @property
    def schema(self) -> str:
        """The schema name in the output: ``mqadmin.topic.list/1``."""
        return f"mqadmin.{self.name}/{self.version}"


class Arrangement:
    """How a list is printed if not as its view declares: fields, headings, order.

    ``columns`` empty: those of the view. ``sort`` is a field or empty, ``descending`` its order;
    a sorted list is held in memory. Names may be fields or headings (``brokerName``,
    ``BROKER-NAME``).
    """

    __slots__ = ("columns", "descending", "headers", "sort")

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        headers: bool = True,
        sort: str = "",
        descending: bool = False,
    ) -> None:
        self.columns = tuple(columns)
        self.headers = headers
        self.sort = sort
        self.descending = descending

    @property
    def is_default(self) -> bool:
        """True when the list is printed as its view declares."""
        return not self.columns and self.headers and not self.sort


class Outcome:
    """The result of a run apart from its rows; a generator may fill it while it runs.

    ``truncated`` is true when rows were left out by a limit; ``reason`` names the limit, in one
    sentence; ``asked`` is true when the user specified that limit: the result is then complete as
    requested, else partial (status 5). ``errors`` contains one mapping per failed target (the
    shape of the error object).
    """

    __slots__ = ("asked", "errors", "reason", "truncated")

    def __init__(
        self,
        *,
        truncated: bool = False,
        reason: str = "",
        asked: bool = False,
        errors: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.truncated = truncated
        self.reason = reason
        self.asked = asked
        self.errors: list[dict[str, Any]] = list(errors)
