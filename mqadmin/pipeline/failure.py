"""What went wrong in a task or a planner, told in the words of our own errors.

An exception of a worker reaches the driver as a long text: Java frames, Python frames, and in
their midst ours. So an error of ours takes a note along (:func:`noted`): one line that holds its
fields; :func:`cause_of` finds that line again.
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

# Errors that say only that something else failed; their last Python line is the cause.
_LINE: Final = re.compile(
    r"^(?:pyspark\.errors\.\S+\.)?([A-Za-z_][\w.]*(?:Error|Exception|Interrupt)): (.+)$"
)
_CAUSED: Final = "Caused by: "
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_NO_SPACE: Final = "No space left on device"
_FIELDS: Final = ("path", "physical_offset", "reason")


@contextmanager
def noted() -> Iterator[None]:
    """Let errors of ours that pass take their fields along as a note."""
    try:
        yield
    except errors.RocketMQError as error:
        fields = {"kind": type(error).__name__, "message": error.message, "hint": error.hint}
        fields |= {name: getattr(error, name) for name in _FIELDS if hasattr(error, name)}
        if not any(MARK in note for note in getattr(error, "__notes__", ())):
            error.add_note(MARK + json.dumps(fields))
        raise


def cause_of(error: BaseException, job: str = "") -> BaseException:
    """The error of ours within an error of Spark; what is no error of Spark is given back.

    A full disk is a DiskFullError, whoever of the two met it.

    An error of ours then says in which ``job`` it was met. All that Spark said is a note of it:
    an error of py4j asks its virtual machine for its words, which is gone when ``-v`` shows them.
    """
    cause = _cause(error)
    if cause is not error:
        cause.add_note("".join(traceback.format_exception(error)))
    if job and isinstance(cause, errors.RocketMQError):
        cause.message = f"job {job}: {cause.message.removeprefix(f'job {job}: ')}"
    return cause


def _cause(error: BaseException) -> BaseException:
    if isinstance(error, OSError) and error.errno in _FULL:
        return _disk_full(str(error.filename or ""))
    if isinstance(error, errors.RocketMQError) or not is_spark(error):
        return error
    try:
        text = str(error)
        if _CAUSED not in text:
            text += f"\n{getattr(error, '_stackTrace', None) or ''}"
    except Exception as failed:  # the machine that knows the words is dead
        text = f"{type(failed).__name__}: {failed}"
    at = text.find(MARK)
    if at >= 0:
        line = text[at + len(MARK) :].splitlines()[0]
        try:
            return _rebuilt(json.loads(line))
        except (ValueError, KeyError, TypeError):
            pass
    if _NO_SPACE in text:
        return _disk_full("")
    return errors.RemotingError(f"Spark: {_last_words(text)}", "-v shows all that Spark says")


def _disk_full(path: str) -> errors.DiskFullError:
    return errors.DiskFullError(
        f"no space left on device{f': {path}' if path else ''}",
        "make room in --out, or in TMPDIR where Spark sorts; the same run then goes on with what"
        " is whole",
        path=path,
    )


def is_spark(error: BaseException) -> bool:
    """Whether an error is one of PySpark or of its connection."""
    return type(error).__module__.split(".")[0] in ("pyspark", "py4j")


def _rebuilt(fields: dict[str, Any]) -> errors.RocketMQError:
    kind = getattr(errors, fields["kind"], errors.RemotingError)
    message, hint = str(fields["message"]), str(fields["hint"])
    path = str(fields.get("path", ""))
    if issubclass(kind, errors.CorruptRecordError):
        return errors.CorruptRecordError(
            path, int(fields["physical_offset"]), str(fields["reason"]), hint
        )
    if issubclass(kind, errors.StoreError):
        place = fields.get("physical_offset")
        return errors.StoreError(message, hint, path=path, physical_offset=place)
    made: errors.RocketMQError = kind(message, hint)
    return made


def _last_words(text: str) -> str:
    """The most telling line of what Spark says: the last error of Python, else the cause of all
    others of Java, else the first line.
    """
    text, _, _ = text.partition("During handling of the above exception")
    lines = text.splitlines()
    if not any("Traceback (most recent" in line for line in lines):
        causes = [line.partition(_CAUSED)[2] for line in lines if _CAUSED in line]
        lines = causes[-1:] or lines
    found = [match for line in lines if (match := _LINE.match(line.strip(" :")))]
    if found:
        return f"{found[-1][1].rpartition('.')[2]}: {found[-1][2]}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "no reason given"
