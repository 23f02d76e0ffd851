"""Errors on stderr: two lines of text, or one JSON object."""

from typing import Any

from mqadmin.output.stdio import write_err
from mqadmin.output.values import printable


class ErrorReport:
    """One error as shown: its kind, message, hint and location.

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
        """Return the fields of the error object, camelCase, every field present."""
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
        from mqadmin.safe_text import json_text

        write_err(json_text({"error": report.fields()}) + "\n")
        return
    text = f"error: {_one_line(report.message)}\n"
    if report.hint:
        text += f"hint: {_one_line(report.hint)}\n"
    write_err(text)


def emit_note(text: str) -> None:
    """Write a line that is neither data nor an error to stderr."""
    write_err(_one_line(text) + "\n")


def _one_line(text: str) -> str:
    # a broker's remark may contain a Java stack trace: its first line is the message
    first, _, rest = text.strip().partition("\n")
    return printable(first.rstrip() + (" …" if rest.strip() else ""))
