"""Check that files and directories of a store are not in each other's place, nor pipes in either.

A start would fail on such an entry where it first uses it, possibly after it has changed others.

**Source:** no Java counterpart; RocketMQ fails late, or continues without the file.
"""

import os

from broker.errors import StoreError
from broker.store.format.state import CONFIG_DIR, TIMERLOG_DIR, wrong_type
from broker.store.logfile.disk import Disk, list_files


def check_file_types(disk: Disk, root: str) -> None:
    """Raise StoreError for an entry of the root, ``config`` or ``timerlog`` of the wrong type."""
    for folder in ("", CONFIG_DIR):
        parent = os.path.join(root, folder) if folder else root
        for name, is_folder in disk.list(parent):
            path = os.path.join(parent, name)
            found = wrong_type(
                folder,
                name,
                is_file=not is_folder and disk.is_file(path),
                is_folder=is_folder,
                exists=is_folder or disk.exists(path),
            )
            if found is not None:
                raise StoreError(f"{path}: {found.cause}", found.hint, path=path)
    list_files(disk, os.path.join(root, TIMERLOG_DIR))  # its owner comes after recovery
