"""CommitLog files whose name is not the physical offset of their first record.

Such a file was renamed or copied. Its records are valid, and all of them would be hidden or, past
the end of the log, removed: a start is refused instead.

**Source:** no Java counterpart; RocketMQ compares no physical offset with the name of the file.
"""

from broker.errors import StoreError
from broker.store.commitlog import CommitLog
from broker.store.format.commitlog import check_record, own_offset
from broker.store.logfile.mapped_file import MappedFile


def recorded_start(data: bytes | bytearray, size: int, position: int = 0) -> int | None:
    """Return the start of a file of ``size`` bytes by two adjacent records; None if they differ.

    The first one is at ``position``. A damaged field concerns one record.
    """
    length = check_record(data, position, size)
    if length <= 0:
        return None
    start = own_offset(data, position) - position
    after = position + length
    if check_record(data, after, size) <= 0 or own_offset(data, after) - after != start:
        return None
    return start


def refuse_moved_file(file: MappedFile, position: int = 0) -> None:
    """StoreError if two records at ``position`` agree on another start than that of the name."""
    start = recorded_start(file.mapping, file.size, position)
    if start is not None and start != file.start:
        raise moved(file.path, start)


def refuse_lost_files(log: CommitLog, end: int) -> None:
    """StoreError if a file past the ``end`` of the log has records that are not in the log."""
    for file in log.files.files:
        if file.start < end:
            continue
        start = recorded_start(file.mapping, file.size)
        if start is None or start == file.start:
            continue
        record = log.record_at(start)
        if record is None or record != file.view[: len(record)]:
            raise moved(file.path, start)


def moved(path: str, start: int) -> StoreError:
    """Return the error for a file with the records of another start."""
    return StoreError(
        f"{path}: its records are those of physical offset {start}, the name is of another one",
        "the file was renamed or copied: give it its right name, or move it away;"
        " mqadmin store repair makes a copy with the right names",
        path=path,
    )
