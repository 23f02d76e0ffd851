"""Errors on stderr: two lines for a person, one object for a program."""

from typing import Any

from mqadmin.output.stdio import write_err
from mqadmin.output.values import printable


class ErrorReport:
    """One error as it is shown: which kind, what happened, what to do next, and where.

    The attributes are the fields of the error object; None where nothing applies.
    """

    __slots__ = (
        "address",
        "hint",
        "kind",
        "message",
        "path",
        "physical_offset",
        "request_code",
        "response_code",
    )

    def __init__(self, kind: str, message: str, hint: str = "", **where: Any) -> None:
        self.kind = kind
        self.message = message
        self.hint = hint
        self.address: str | None = where.get("address") or None
        self.path: str | None = where.get("path") or None
        self.request_code: int | None = where.get("request_code")
        self.response_code: int | None = where.get("response_code")
        self.physical_offset: int | None = where.get("physical_offset")

    def fields(self) -> dict[str, Any]:
        """Give the error object's inside, camelCase, every field present."""
        return {
            "kind": self.kind,
            "message": self.message,
            "hint": self.hint or None,
            "address": self.address,
            "requestCode": self.request_code,
            "responseCode": self.response_code,
            "path": self.path,
            "physicalOffset": self.physical_offset,
        }


def emit_error(report: ErrorReport, *, form: str = "table") -> None:
    """Write an error to stderr: one JSON object with ``json`` or ``ndjson``, else two lines."""
    if form in ("json", "ndjson"):
        from msgspec import json

        write_err(json.encode({"error": report.fields()}).decode() + "\n")
        return
    text = f"error: {_one_line(report.message)}\n"
    if report.hint:
        text += f"hint: {_one_line(report.hint)}\n"
    write_err(text)


def emit_note(text: str) -> None:
    """Write a line of talk to stderr."""
    write_err(_one_line(text) + "\n")


def _one_line(text: str) -> str:
    # a broker's remark may hold a Java stack trace: its first line is the sentence
    first, _, rest = text.strip().partition("\n")
    return printable(first.rstrip() + (" …" if rest.strip() else ""))
