"""``-v``: each request and its response on stderr."""

from mqadmin.output.errors import emit_note


def trace_line(name: str, code: int | None, address: str, elapsed_ms: float) -> None:
    """Print one request: name, address, response code (None: no response), duration."""
    answer = "no answer" if code is None else f"code {code}"
    emit_note(f"{name} {address}: {answer}, {elapsed_ms:.1f} ms")
