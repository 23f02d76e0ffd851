"""Check that the CommitLog files of a store that is being opened have their own names.

A scan would take the end of a file with a wrong name for the end of the log, and remove the files
after it.
"""

import os

from broker.errors import StoreError
from broker.store.format.commitlog import check_record, file_start, own_offset
from broker.store.logfile.mapped_file import MappedFileQueue
from broker.store.recovery.store_manifest import StoreManifest


def check_log_files(log: MappedFileQueue, manifest: StoreManifest) -> None:
    """Raise StoreError for missing or misnamed files of a surveyed log; changes nothing.

    Two pages of each file are read.
    """
    files = [(name, length) for name, length, _ in log.surveyed or () if length]
    # The folder may be a file system that is not mounted: do not start an empty log there.
    if manifest.log_end > 0 and not files:
        raise StoreError(
            f"{log.folder}: no files, but the log ended at {manifest.log_end}",
            "mount or restore the folder; for a new store move the whole store directory away",
            path=log.folder,
        )
    starts = {start for name, _ in files if (start := file_start(name)) is not None}
    for name, length in files:
        start = file_start(name)
        assert start is not None
        path = os.path.join(log.folder, name)
        fd = log.disk.open(path)
        try:
            mapping = log.disk.map(fd, length)
        finally:
            log.disk.close(fd)
        try:
            refuse_moved(path, mapping, 0, start)
            if _is_of_missing_file(mapping, starts, log.file_size):
                raise _misnamed(path, own_offset(mapping, 0), start)
        finally:
            log.disk.unmap(mapping)
        if start % log.file_size:
            raise StoreError(
                f"{path}: the name is not a multiple of the file size {log.file_size}",
                "the file was renamed, or is of another store: restore its name, or move it away",
                path=path,
            )


def refuse_moved(path: str, data: bytearray, position: int, start: int) -> None:
    """StoreError if the record at ``position`` and the one after it are moved equally far.

    A damaged field concerns one record. Records that agree on another position are in a file with
    a wrong name: all of them would be hidden, and the log truncated. ``start`` is that of the name.
    """
    size = check_record(data, position, check_crc=False)
    if size <= 0 or own_offset(data, position) == start + position:
        return
    home = own_offset(data, position) - position
    after = position + size
    if check_record(data, after) > 0 and own_offset(data, after) == after + home:
        raise _misnamed(path, home, start)


def _is_of_missing_file(data: bytearray, starts: set[int], file_size: int) -> bool:
    """Whether the first record is that of a file missing between others: no damage, also alone."""
    home = own_offset(data, 0) if check_record(data, 0, check_crc=False) > 0 else -1
    return home % file_size == 0 and home not in starts and min(starts) < home < max(starts)


def _misnamed(path: str, home: int, start: int) -> StoreError:
    return StoreError(
        f"{path}: its records are those of physical offset {home}, the name is that of {start}",
        "the file was renamed or copied: restore the right one",
        path=path,
    )
