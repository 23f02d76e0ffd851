"""Translation of Spark errors back into the errors of ``broker.errors``.

An exception of a worker reaches the driver as one long text of Java and Python stack traces.
:func:`annotated_errors` therefore attaches the fields of an error as a one-line note, which is part
of that text; :func:`cause_of` finds the line and rebuilds the error.
"""

import errno
import json
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from broker import errors

MARK: Final = "mqadmin-error: "

# The last line of a Python or Java stack trace: class and message.
_ERROR_LINE: Final = re.compile(
    r"^(?:pyspark\.errors\.\S+\.)?([A-Za-z_][\w.]*(?:Error|Exception|Interrupt)): (.+)$"
)
_CAUSED_BY: Final = "Caused by: "
_DISK_FULL_CODES: Final = (errno.ENOSPC, errno.EDQUOT)
_NO_SPACE: Final = "No space left on device"


@contextmanager
def annotated_errors() -> Iterator[None]:
    """Attach the fields of a RocketMQError as a note to the error when it is raised."""
    try:
        yield
    except errors.RocketMQError as error:
        fields: dict[str, str | int | None] = {
            "kind": type(error).__name__,
            "message": error.message,
            "hint": error.hint,
        }
        if isinstance(error, errors.StoreError):
            fields |= {"path": error.path, "physical_offset": error.physical_offset}
        if isinstance(error, errors.CorruptRecordError):
            fields["reason"] = error.reason
        if not any(MARK in note for note in getattr(error, "__notes__", ())):
            error.add_note(MARK + json.dumps(fields))
        raise


def cause_of(error: BaseException, job: str = "") -> BaseException:
    """Return the RocketMQError contained in a Spark error; other errors are returned unchanged.

    A full disk becomes a DiskFullError, whether Python or Spark reported it; any other Spark error
    becomes a RemotingError with its most specific line. ``job`` is prefixed to the message. The
    complete text is attached as a note now: py4j requests the text of a Java exception from the
    JVM, which has ended when ``-v`` prints it.
    """
    cause = _cause(error)
    if cause is not error:
        cause.add_note("".join(traceback.format_exception(error)))
    if job and isinstance(cause, errors.RocketMQError):
        cause.message = f"job {job}: {cause.message.removeprefix(f'job {job}: ')}"
    return cause


def _cause(error: BaseException) -> BaseException:
    if isinstance(error, OSError) and error.errno in _DISK_FULL_CODES:
        return _disk_full(str(error.filename or ""))
    if isinstance(error, errors.RocketMQError) or not is_spark_error(error):
        return error
    try:
        text = str(error)
        if _CAUSED_BY not in text:
            text += f"\n{getattr(error, '_stackTrace', None) or ''}"
    except Exception as failed:  # the JVM that holds the text has ended
        text = f"{type(failed).__name__}: {failed}"
    at = text.find(MARK)
    if at >= 0:
        line = text[at + len(MARK) :].splitlines()[0]
        try:
            return _rebuild(json.loads(line))
        except (ValueError, KeyError, TypeError):
            pass
    if _NO_SPACE in text:
        return _disk_full("")
    return errors.RemotingError(f"Spark: {_most_specific_line(text)}", "-v shows the full error")


def _disk_full(path: str) -> errors.DiskFullError:
    return errors.DiskFullError(
        f"no space left on device{f': {path}' if path else ''}",
        "free space in --out, or in TMPDIR where Spark sorts, and repeat the run: it resumes",
        path=path,
    )


def is_spark_error(error: BaseException) -> bool:
    """Whether PySpark or its connection to the JVM (py4j) raised an error."""
    return type(error).__module__.split(".")[0] in ("pyspark", "py4j")


def _rebuild(fields: dict[str, Any]) -> errors.RocketMQError:
    kind = getattr(errors, fields["kind"], errors.RemotingError)
    message, hint = str(fields["message"]), str(fields["hint"])
    path = str(fields.get("path", ""))
    if issubclass(kind, errors.CorruptRecordError):
        return errors.CorruptRecordError(
            path, int(fields["physical_offset"]), str(fields["reason"]), hint
        )
    if issubclass(kind, errors.StoreError):
        physical_offset = fields.get("physical_offset")
        store_error = kind if kind is errors.StorePathError else errors.StoreError
        return store_error(message, hint, path=path, physical_offset=physical_offset)
    rebuilt: errors.RocketMQError = kind(message, hint)
    return rebuilt


def _most_specific_line(text: str) -> str:
    """Return the last Python error of a Spark error, else its root Java cause or first line."""
    text, _, _ = text.partition("During handling of the above exception")
    lines = text.splitlines()
    if not any("Traceback (most recent" in line for line in lines):
        causes = [line.partition(_CAUSED_BY)[2] for line in lines if _CAUSED_BY in line]
        lines = causes[-1:] or lines
    found = [match for line in lines if (match := _ERROR_LINE.match(line.strip(" :")))]
    if found:
        return f"{found[-1][1].rpartition('.')[2]}: {found[-1][2]}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "no reason given"
