"""``-o schema``: the JSON schema of a command's output."""

from collections.abc import Sequence
from typing import Any

from msgspec import json

from mqadmin.output.stdio import write_out
from mqadmin.output.values import time_name
from mqadmin.output.view import View

ERROR_FIELDS: dict[str, Any] = {
    "kind": {"type": "string"},
    "message": {"type": "string"},
    "hint": {"type": ["string", "null"]},
    "address": {"type": ["string", "null"]},
    "requestCode": {"type": ["integer", "null"]},
    "responseCode": {"type": ["integer", "null"]},
    "path": {"type": ["string", "null"]},
    "physicalOffset": {"type": ["integer", "null"]},
}

# Additional fields of a damage record, which is listed under "errors".
DAMAGE_FIELDS: dict[str, Any] = {
    "severity": {"type": "string"},
    "length": {"type": ["integer", "null"]},
    "detail": {"type": "string"},
    "suggestion": {"type": ["string", "null"]},
}


def emit_schema(views: Sequence[tuple[View, Any]]) -> None:
    """Write the schema of the output of a command: its views, each with the struct of a row."""
    documents = [view_schema(view, row) for view, row in views]
    document = documents[0] if len(documents) == 1 else _any_of(documents)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    write_out(json.format(json.encode({**head, **document}), indent=2).decode() + "\n")


def _any_of(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Combine several outputs; definitions move to the root, where ``#/$defs/…`` resolves them."""
    shared: dict[str, Any] = {}
    for document in documents:
        for name, definition in document.pop("$defs", {}).items():
            assert shared.setdefault(name, definition) == definition, f"two structs named {name}"
    return {"anyOf": documents, **({"$defs": shared} if shared else {})}


def view_schema(view: View, row: Any) -> dict[str, Any]:
    """Return the JSON schema of one view: of the object, or of the envelope around its rows.

    ``row`` is the struct type of a row.
    """
    schema = json.schema(row)
    definitions: dict[str, Any] = schema.pop("$defs", {})
    reference = schema.get("$ref", "")
    fields = definitions.pop(reference.removeprefix("#/$defs/"), schema) if reference else schema
    for definition in (fields, *definitions.values()):
        _add_time_fields(definition)
    if view.single:
        properties = {"schema": {"const": view.schema}, **fields.get("properties", {})}
        required = ["schema", *fields.get("required", [])]
        document = {**fields, "title": view.schema, "properties": properties, "required": required}
    else:
        document = {
            "title": view.schema,
            "type": "object",
            "properties": {
                "schema": {"const": view.schema},
                "items": {"type": "array", "items": fields},
                "truncated": {"type": "boolean"},
                "errors": {
                    "type": "array",
                    "items": {"type": "object", "properties": {**ERROR_FIELDS, **DAMAGE_FIELDS}},
                },
            },
            "required": ["schema", "items", "truncated", "errors"],
        }
    if definitions:
        document["$defs"] = definitions
    return document


def _add_time_fields(definition: dict[str, Any]) -> None:
    properties = definition.get("properties")
    if not properties:
        return
    widened: dict[str, Any] = {}
    for name, value in properties.items():
        widened[name] = value
        time_field = time_name(name)
        if time_field is not None and time_field not in properties:
            widened[time_field] = {
                "type": ["string", "null"],
                "format": "date-time",
                "description": f"{name} as RFC 3339 in UTC",
            }
    definition["properties"] = widened
