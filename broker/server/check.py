"""``mqbroker --check``: check whether this store can be opened; read-only, starts nothing.

It checks the directory and its lock, the file lengths against the settings, the names of the
CommitLog files against their first records, and the files of ``config/``. It does not read
messages: ``mqadmin store inspect --summary`` does that.
"""

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from broker.errors import StoreError, StoreLockedError
from broker.server.role.role_state import RoleFile
from broker.server.static_topic.mapping_table import decode_mappings
from broker.server.tables.config_loader import load_config
from broker.store.config import DEFAULTS, MessageStoreConfig
from broker.store.config_file import ConfigFile
from broker.store.file_types import check_file_types
from broker.store.format import config as files
from broker.store.format.consumequeue import UNIT_SIZE
from broker.store.format.indexfile import ENTRIES, SLOTS, file_size
from broker.store.format.state import (
    ABORT,
    BATCH_CONSUMEQUEUE_DIR,
    COMMITLOG_DIR,
    CONFIG_DIR,
    CONSUMEQUEUE_DIR,
    CONSUMEQUEUE_EXT_DIR,
    INDEX_DIR,
    LOCK,
    TIMERLOG_DIR,
)
from broker.store.logfile.disk import Disk, list_files
from broker.store.message_store import MessageStore

DECODERS: dict[str, Callable[[str], object]] = {
    files.TOPICS: files.decode_topics,
    files.SUBSCRIPTION_GROUP: files.decode_subscription_group,
    files.CONSUMER_OFFSET: files.decode_consumer_offset,
    files.LMQ_CONSUMER_OFFSET: files.decode_consumer_offset,
    files.DELAY_OFFSET: files.decode_delay_offset,
    files.TOPIC_QUEUE_MAPPING: decode_mappings,
    **{
        name: partial(files.decode_config, name)
        for name in (
            files.CONSUMER_FILTER,
            files.CONSUMER_ORDER_INFO,
            files.MESSAGE_REQUEST_MODE,
        )
    },
}
"""The files of ``config/`` without which a broker does not start, if they exist."""


def check_store(config: MessageStoreConfig) -> Iterator[str]:
    """Yield one line per finding; StoreError for one that prevents the broker from starting."""
    try:
        yield from _check_store(config)
    except OSError as error:
        path = str(error.filename or config.root)
        raise StoreError(
            f"{path}: {error.strerror or error}", "check the disk", path=path
        ) from error


def _check_store(config: MessageStoreConfig) -> Iterator[str]:
    root = Path(config.root)
    if not root.exists():
        _check_parent(root)
        yield f"{root}: will be made"
        return
    if not root.is_dir():
        raise StoreError(
            f"{root}: not a directory", "choose another store directory", path=str(root)
        )
    if not os.access(root, os.W_OK | os.X_OK):
        raise StoreError(f"{root}: not writable", "give this user the directory", path=str(root))
    disk = Disk()
    check_file_types(disk, config.root)
    _check_lock(root / LOCK)
    for folder in _numbered_folders(config):
        for name in list_files(disk, str(folder)):
            disk.size(str(folder / name))  # OSError for a link to a missing target
    crashed = (root / ABORT).exists()
    if crashed:
        yield f"{root}: not stopped in order, the start recovers it"
    refusal = _survey(config, disk)
    for kind in _kinds(config):
        yield from _check_lengths(kind, refusal)
    if refusal is not None:
        raise refusal
    yield from _check_places(config)
    yield from check_configuration_files(config, disk)


def _check_parent(root: Path) -> None:
    parent = root.absolute().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        reason = "not writable" if parent.is_dir() else "not a directory"
        raise StoreError(f"{root}: cannot be made", f"{parent} is {reason}", path=str(root))


def _check_lock(path: Path) -> None:
    """Raise StoreLockedError if a broker, this one or Java's, has the store open."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        # A brief shared lock: a read-only descriptor cannot test for a lock in another way.
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
    except OSError as error:
        raise StoreLockedError(
            f"{path}: another broker uses this store",
            "stop it, or choose another store directory (storePathRootDir)",
            path=str(path),
        ) from error
    finally:
        os.close(fd)


class _Kind(NamedTuple):
    """Files of one kind: the settings that define their length, that length, its default, paths."""

    name: str
    keys: str
    length: int
    default: int
    paths: Iterable[Path]


def _kinds(config: MessageStoreConfig) -> list[_Kind]:
    root = Path(config.root)
    whole_units = -(-config.mapped_file_size_consume_queue // UNIT_SIZE) * UNIT_SIZE
    return [
        _Kind(
            COMMITLOG_DIR,
            "mappedFileSizeCommitLog",
            config.mapped_file_size_commit_log,
            DEFAULTS.mapped_file_size_commit_log,
            Path(config.commit_log_folder).glob("*"),
        ),
        _Kind(
            CONSUMEQUEUE_DIR,
            "mappedFileSizeConsumeQueue",
            whole_units,
            DEFAULTS.mapped_file_size_consume_queue,
            (root / CONSUMEQUEUE_DIR).glob("*/*/*"),
        ),
        _Kind(
            INDEX_DIR,
            "maxHashSlotNum and maxIndexNum",
            file_size(config.max_hash_slot_num, config.max_index_num),
            file_size(SLOTS, ENTRIES),
            (root / INDEX_DIR).glob("*"),
        ),
    ]


def _numbered_folders(config: MessageStoreConfig) -> Iterator[Path]:
    """Yield the folders whose files are named by numbers."""
    root = Path(config.root)
    yield from (Path(config.commit_log_folder), root / INDEX_DIR, root / TIMERLOG_DIR)
    for name in (CONSUMEQUEUE_DIR, BATCH_CONSUMEQUEUE_DIR, CONSUMEQUEUE_EXT_DIR):
        yield from (root / name).glob("*/*")


def _survey(config: MessageStoreConfig, disk: Disk) -> StoreError | None:
    """Check names and lengths of all files as the start does; return its refusal."""
    try:
        MessageStore(config, disk=disk).survey([])
    except StoreError as error:
        return error
    return None


def _check_lengths(kind: _Kind, refusal: StoreError | None) -> Iterator[str]:
    """Compare the lengths of the files of one kind with each other and with the settings.

    If the start refuses the store, the error for a file of another length names the settings.
    """
    lengths = {path: path.stat().st_size for path in kind.paths if path.name.isdecimal()}
    if not lengths:
        return
    wanted, found = kind.length, set(lengths.values())
    if wanted == kind.default and len(found) == 1:
        wanted = found.pop()  # default setting: the broker adopts the existing length
    for path, length in lengths.items():
        if length == wanted:
            continue
        if refusal is not None:
            raise StoreError(
                f"{path}: {length} bytes long, by {kind.keys} it has {wanted}",
                "set the file size in broker.conf to the one of the files, or restore the file",
                path=str(path),
            )
        yield f"{path}: {length} bytes long instead of {wanted}, the start repairs it"
    yield f"{kind.name}: {len(lengths)} files of {wanted} bytes"


def _check_places(config: MessageStoreConfig) -> Iterator[str]:
    """Report missing CommitLog files."""
    end = -1
    for path in sorted(Path(config.commit_log_folder).glob("*")):
        size = path.stat().st_size
        if not path.name.isdecimal() or not size:
            continue
        if 0 <= end < int(path.name):
            missing = int(path.name) - end
            yield f"{path}: no file has the {missing} bytes before it: their messages are lost"
        end = int(path.name) + size


def check_configuration_files(config: MessageStoreConfig, disk: Disk) -> Iterator[str]:
    """Yield one line per file of ``config/``; StoreError if one and its backup are unreadable."""
    RoleFile(config.root, disk).load()
    folder = Path(config.root) / CONFIG_DIR
    for name, decode in DECODERS.items():
        path = folder / name
        # As at the start: without LMQ the file is not read.
        if name == files.LMQ_CONSUMER_OFFSET and not config.enable_lmq:
            continue
        if not path.exists() and not path.with_name(f"{name}.bak").exists():
            continue
        yield _check_file(ConfigFile(str(path), disk), decode)


def _check_file(file: ConfigFile, decode: Callable[[str], object]) -> str:
    if load_config(file, decode, report=False) is None:
        return f"{file.path}: empty"
    return f"{file.backup_path if file.backup_counts else file.path}: readable"
