"""JSON as the Java tool prints it: fastjson's indented form, with tabs and unquoted integer keys.

**Source:** fastjson 1.2 ``SerializerFeature.PrettyFormat`` and ``MapSerializer``.
"""

import json
from collections.abc import Mapping


def pretty_json(value: object, depth: int = 0) -> str:
    """Return the JSON text of a value; keys of objects keep their order."""
    inner = "\n" + "\t" * (depth + 1)
    end = "\n" + "\t" * depth
    if isinstance(value, Mapping):
        if not value:
            return "{}"
        if all(isinstance(key, int) for key in value):
            rows = [f"{key}:{pretty_json(item, depth + 1)}" for key, item in value.items()]
            return "{" + ",".join(rows) + end + "}"
        rows = [f"{_text(key)}:{pretty_json(item, depth + 1)}" for key, item in value.items()]
        return "{" + inner + f",{inner}".join(rows) + end + "}"
    if isinstance(value, list):
        if not value:
            return "[]"
        return "[" + inner + f",{inner}".join(pretty_json(v, depth + 1) for v in value) + end + "]"
    return _text(value)


def compact_json(value: object) -> str:
    """Return the JSON text of a value in one line without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
