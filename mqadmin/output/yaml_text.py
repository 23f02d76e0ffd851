"""YAML documents and list items in block style, written by PyYAML.

Imported only for ``-o yaml``: PyYAML takes as long to import as the bare interpreter to start.
"""

from typing import Any

import yaml

WIDTH = 1 << 30  # characters of a line: text is never folded


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
