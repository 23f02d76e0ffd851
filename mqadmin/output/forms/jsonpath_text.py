"""Values selected by a JSONPath expression (RFC 9535), one per line: ``-o jsonpath=EXPR``.

Loaded only for that form: importing the library takes longer than a whole short command. The
expression is applied to the document that ``-o json`` prints.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import jsonpath
from msgspec import json

from mqadmin.output.stdio import flush_out, write_out
from mqadmin.output.view import ExpressionError, Outcome, View
from mqadmin.safe_text import json_text, one_line

#: An expression can select any part of the document, so that all of it is held in memory.
MAX_DOCUMENT_BYTES = 64 * 1024 * 1024


class Query:
    """A compiled expression; ``matches`` counts the values printed so far."""

    def __init__(self, text: str) -> None:
        """ExpressionError for an expression that cannot be used."""
        self.text = text
        self.matches = 0
        if not text.strip():
            raise ExpressionError("the expression is empty")
        try:
            self._path = jsonpath.compile(text)
        except RecursionError as error:
            raise ExpressionError("the expression is nested too deeply") from error
        except jsonpath.JSONPathError as error:
            raise ExpressionError(_reason(error, text)) from error

    def write_rows(self, view: View, rows: Iterator[dict[str, Any]], outcome: Outcome) -> int:
        """Print the values selected in a list; return the number of rows, selected or not.

        ExpressionError for a document of more than MAX_DOCUMENT_BYTES; nothing is printed then, nor
        when ``rows`` raises.
        """
        items: list[str] = []
        size = 0
        for row in rows:
            items.append(json_text(row))
            size += len(items[-1])
            if size > MAX_DOCUMENT_BYTES:
                raise ExpressionError(
                    f"the document has more than {MAX_DOCUMENT_BYTES >> 20} MiB; use -o ndjson"
                )
        end = {"truncated": outcome.truncated, "errors": outcome.errors}
        text = f'{{"schema":{json_text(view.schema)},"items":[{",".join(items)}],'
        self._write(text + json_text(end).lstrip()[1:])
        return len(items)

    def write_one(self, view: View, fields: Mapping[str, Any]) -> None:
        """Print the values selected in one object."""
        self._write(json_text({"schema": view.schema, **fields}))

    def _write(self, document: str) -> None:
        try:
            for match in self._path.finditer(json.decode(document)):
                self.matches += 1
                write_out(_line(match.obj))
        except jsonpath.JSONPathError as error:
            raise ExpressionError(_reason(error, self.text)) from error
        flush_out()


def _line(value: object) -> str:
    """Return a text without quotes, control characters escaped; any other value as JSON."""
    return (one_line(value) if isinstance(value, str) else json_text(value)) + "\n"


def _reason(error: jsonpath.JSONPathError, text: str) -> str:
    """Return the reason with the position, counted from 1; the end if the library names none."""
    reason = str(error.args[0]) if error.args else "invalid expression"
    if error.token is None:
        return reason
    position = error.token.index if error.token.index >= 0 else len(text)
    return f"position {position + 1}: {reason}"
