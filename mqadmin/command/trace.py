"""``-v``: each request and its answer on stderr."""

from mqadmin.output.errors import emit_note


def trace_line(name: str, code: int | None, address: str, elapsed_ms: float) -> None:
    """Print one exchange: request name, response code (none: no answer), address, duration."""
    if code is None:
        answer = "no answer"
    else:
        from broker.remoting.protocol.codes import response_name

        answer = f"{code} {response_name(code)}"
    emit_note(f"{name} {address} -> {answer} in {elapsed_ms:.1f} ms")
