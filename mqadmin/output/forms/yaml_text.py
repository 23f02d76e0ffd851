"""YAML documents and list items in block style, written by PyYAML.

Imported only for ``-o yaml``: PyYAML takes as long to import as the bare interpreter to start.
"""

from collections.abc import Iterator
from typing import Any

import yaml

from mqadmin.output.stdio import flush_out, write_gathered, write_out
from mqadmin.output.view import Outcome, View

WIDTH = 1 << 30  # characters of a line: text is never folded


def write_rows(
    view: View, rows: Iterator[dict[str, Any]], outcome: Outcome, live: bool, row_type: Any
) -> int:
    """Write the envelope of the JSON form as YAML, its items streamed."""
    head = [yaml_document({"schema": view.schema}) + "items:\n"]

    def pieces() -> Iterator[str]:
        for row in rows:
            yield (head.pop() if head else "") + yaml_item(row)

    finished = False
    count = 0
    try:
        count = write_gathered(pieces(), live=False)
        finished = True
    finally:
        if head:
            write_out(yaml_document({"schema": view.schema, "items": []}))
        truncated = outcome.truncated or not finished
        write_out(yaml_document({"truncated": truncated, "errors": outcome.errors}))
        flush_out()
    return count


def write_one(view: View, fields: dict[str, Any]) -> None:
    """Write one object with its ``schema``."""
    write_out(yaml_document({"schema": view.schema, **fields}))


def yaml_document(value: dict[str, Any]) -> str:
    """Return the text of a mapping; its keys stay in order."""
    return _dump(value)


def yaml_item(value: Any) -> str:
    """Return the text of one list item, which starts with a dash."""
    return _dump([value])


def _dump(value: Any) -> str:
    """Encode a value; as ASCII with escapes if it contains control or bidi characters."""
    text = _encode(value, allow_unicode=True)
    if text.replace("\n", "").isprintable():
        return text
    return _encode(value, allow_unicode=False)


def _encode(value: Any, *, allow_unicode: bool) -> str:
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=allow_unicode, width=WIDTH
    )
    return text


class _Dumper(yaml.SafeDumper):
    """The safe dumper without anchors: a value that occurs twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
