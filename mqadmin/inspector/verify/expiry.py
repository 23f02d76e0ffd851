"""Verify the store of a running broker again if the broker deleted expired files meanwhile."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar

from broker.errors import StoreError, StoreStateError
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.rows import DamageRow
from mqadmin.inspector.verify.report import VerifySummary

ATTEMPTS: Final = 5


class _Result(Protocol):
    findings: list[DamageRow]
    summary: VerifySummary


Result = TypeVar("Result", bound=_Result)


def while_files_stay(store: StoreDirectory, scan: Callable[[], Result]) -> Result:
    """Return the result of a scan without findings, or during which no file was deleted.

    Findings of a scan during which files were deleted may be about these files. The last of
    ATTEMPTS such scans is returned with a note; StoreStateError if all of them failed.
    """
    result, failure = None, None
    for _ in range(ATTEMPTS):
        before = _oldest_files(store)
        try:
            result = scan()
        except (OSError, StoreError) as error:
            if not _were_deleted(before):
                raise
            failure = error
        else:
            if not result.findings or not _were_deleted(before):
                return result
    deleted = f"the broker deleted files during each of {ATTEMPTS} scans"
    if result is None:
        path = str(store.path)
        raise StoreStateError(f"{path}: {deleted}", "try again later", path=path) from failure
    result.summary.notes.append(f"{deleted}: findings may be about them")
    return result


def _oldest_files(store: StoreDirectory) -> list[Path]:
    """Return the oldest files of log, index, and each queue, if a broker uses the store."""
    if not store.is_running():
        return []
    log, index = store.log_files(), store.index_files()
    queues = [queue.files[0][0] for queue in store.queue_files() if queue.files]
    return [*(file.path for file in log[:1]), *index[:1], *queues]


def _were_deleted(files: list[Path]) -> bool:
    return not all(path.exists() for path in files)
