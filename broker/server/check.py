"""``mqbroker --check``: check whether this store can be opened; read-only, starts nothing.

It checks the directory and its lock, the file lengths against the settings, and the files of
``config/``. It does not read messages: ``mqadmin store inspect --summary`` does that.
"""

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from broker.errors import RocketMQError, StoreError, StoreLockedError
from broker.store.config import DEFAULTS, MessageStoreConfig
from broker.store.format import config as files
from broker.store.format.consumequeue import UNIT_SIZE
from broker.store.format.indexfile import ENTRIES, SLOTS, file_size
from broker.store.format.state import ABORT, COMMITLOG_DIR, CONSUMEQUEUE_DIR, INDEX_DIR, LOCK

DECODERS: dict[str, Callable[[str], object]] = {
    files.TOPICS: files.decode_topics,
    files.SUBSCRIPTION_GROUP: files.decode_subscription_group,
    files.CONSUMER_OFFSET: files.decode_consumer_offset,
    files.DELAY_OFFSET: files.decode_delay_offset,
}


def check_store(config: MessageStoreConfig) -> Iterator[str]:
    """Yield one line per finding; StoreError for one that prevents the broker from starting."""
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
    _check_lock(root / LOCK)
    crashed = (root / ABORT).exists()
    if crashed:
        yield f"{root}: not stopped in order, the start recovers it"
    for kind in _kinds(config):
        yield from _check_lengths(kind, crashed)
    yield from check_configuration_files(config.root)


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


def _check_lengths(kind: _Kind, crashed: bool) -> Iterator[str]:
    """Check that the files of one kind have one length and that it matches the settings.

    After a crash, shorter files are accepted.
    """
    lengths = {path: path.stat().st_size for path in kind.paths if path.name.isdecimal()}
    if not lengths:
        return
    wanted, found = kind.length, set(lengths.values())
    if wanted == kind.default and len(found) == 1:
        wanted = found.pop()  # default setting: the broker adopts the existing length
    odd = [path for path, length in lengths.items() if length != wanted]
    if odd and not (crashed and all(lengths[path] < wanted for path in odd)):
        raise StoreError(
            f"{odd[0]}: {lengths[odd[0]]} bytes long, by {kind.keys} it has {wanted}",
            "set the file size in broker.conf to the one of the files, or restore the file",
            path=str(odd[0]),
        )
    yield f"{kind.name}: {len(lengths)} files of {wanted} bytes"


def check_configuration_files(root: str) -> Iterator[str]:
    """Yield one line per file of ``config/``; StoreError if one and its backup are unreadable."""
    folder = Path(root) / "config"
    for name, decode in DECODERS.items():
        path = folder / name
        if not path.exists() and not path.with_name(f"{name}.bak").exists():
            continue
        yield _check_file(path, decode)


def _check_file(path: Path, decode: Callable[[str], object]) -> str:
    reasons = []
    for candidate in (path, path.with_name(f"{path.name}.bak")):
        if not candidate.exists():
            reasons.append(f"{candidate.name} is missing")
            continue
        text = candidate.read_text(encoding="utf-8", errors="replace").strip("\0")
        if not text.strip():
            reasons.append(f"{candidate.name} is empty")
            continue
        try:
            decode(text)
        except RocketMQError as error:
            reasons.append(f"{candidate.name}: {error.message}")
        else:
            return f"{candidate}: readable"
    if all("empty" in reason or "missing" in reason for reason in reasons):
        return f"{path}: empty"
    raise StoreError(f"{path}: {'; '.join(reasons)}", "repair the file", path=str(path))
