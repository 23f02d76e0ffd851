"""Copy the directory of a stopped or running broker, consistently, and verify the copy.

Theory of operation
    The CommitLog is authoritative and append-only. Of a running broker every other file is copied
    before the end of the log is determined, and the log is cut at that end. So each unit, index
    entry and offset in the copy refers to a record that the copy contains; records that the other
    files lack are dispatched when a broker opens the copy. The order is:

    1. checkpoint and queueEnds.json: progress must not be ahead of the files that it describes;
    2. configuration: offsets of consumers must not be past the end of their queues;
    3. timer files and others, ConsumeQueues, their extensions, IndexFiles; all ConsumeQueues are
       cut at the record that was the newest dispatched one before this step: a later copied queue
       must not have units of records that an earlier one lacks;
    4. end of the log, CommitLog files;
    5. topics.json and subscriptionGroup.json: every topic of the log must be defined.

    The copy of a running broker contains its ``abort`` file: a broker opens it as after a crash.
    A reader that copies an IndexFile from its first byte sees the header before the slots and these
    before the entries, so that no slot refers to an entry that is missing.

    A stopped store is copied in the same order, byte for byte, with the bytes past the end.

**Source:** RocketMQ ``CommitLog#recoverAbnormally`` (files before the checkpoint are trusted),
``IndexFile#putKey`` (order of writes).
"""

from pathlib import Path
from typing import Final

import msgspec

from broker.errors import ConfigError, RocketMQError, StoreError
from broker.store.format import config, state
from broker.store.format.commitlog import file_name
from mqadmin.inspector.damage import ERROR, NOTICE
from mqadmin.inspector.directory import LogFile, QueueFiles, StoreDirectory
from mqadmin.inspector.log import LogWalk
from mqadmin.inspector.rows import DamageRow
from mqadmin.inspector.verify.report import VerifySummary
from mqadmin.inspector.verify.verifier import Progress, VerifyOptions, verify
from mqadmin.repair.files import Output
from mqadmin.repair.queue_tail import cut_units, dispatched_end

_FIRST: Final = (state.CHECKPOINT, state.QUEUE_ENDS)
# Defined last: a topic that is created during the copy is then known.
_DEFINITIONS: Final = (config.TOPICS, config.SUBSCRIPTION_GROUP)
# Copied by a step of their own, or not at all.
_SEPARATE: Final = frozenset(
    {
        *_FIRST,
        state.CONFIG_DIR,
        state.CONSUMEQUEUE_DIR,
        state.BATCH_CONSUMEQUEUE_DIR,
        state.CONSUMEQUEUE_EXT_DIR,
        state.INDEX_DIR,
        state.COMMITLOG_DIR,
        state.LOCK,
    }
)
# Warnings about the copy of a running broker that has not flushed its timer files yet; after a
# crash a broker builds them again.
_UNFLUSHED: Final = frozenset({"timerCheck", "timerWheel", "timerLog"})
_BACKUP: Final = ".bak"
_TEMPORARY: Final = ".tmp"


class CopyPlan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The files of a store and their allocated bytes; ``running``: a broker holds its lock."""

    path: str
    output: str
    running: bool
    min_physical_offset: int
    max_physical_offset: int
    files: int
    bytes: int


class StoreCopy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of a copy.

    ``maxPhysicalOffset`` is the end of the log in the copy. ``findings`` are those of the copy
    without notices; ``ok``: there are none. ``skipped`` are files that the broker removed during
    the copy.
    """

    path: str
    output: str
    running: bool
    ok: bool
    min_physical_offset: int
    max_physical_offset: int
    files_linked: int
    files_copied: int
    skipped: list[str]
    findings: list[DamageRow]
    summary: VerifySummary


def plan_copy(store: StoreDirectory, output: Path) -> CopyPlan:
    """Return the extent of a copy; raises as :func:`copy_store`, but writes nothing."""
    root = check_places(store, output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ConfigError(f"{output} exists and is not empty", "name a directory that is new")
    running = store.is_running()
    _check_databases(root, running=running)
    sizes = []
    for path in root.rglob("*"):
        try:
            if path.is_file() and path.name != state.LOCK:
                sizes.append(path.stat().st_blocks * 512)
        except OSError:
            continue  # a running broker has removed the file
    begin, end = find_bounds(store)
    return CopyPlan(
        path=str(store.path),
        output=str(output),
        running=running,
        min_physical_offset=begin,
        max_physical_offset=end,
        files=len(sizes),
        bytes=sum(sizes),
    )


def copy_store(
    store: StoreDirectory,
    output: Path,
    *,
    links: bool = False,
    check_crc: bool = True,
    progress: Progress | None = None,
) -> StoreCopy:
    """Copy a store into ``output``, a directory that does not exist or is empty, and verify it.

    With ``links`` full files that are not written any more are hard links. Raises ConfigError if
    ``output`` cannot be used, StoreError if the store cannot be read or changes although no process
    holds its lock, DiskFullError; the incomplete output is removed.
    """
    root = check_places(store, output)
    running = store.is_running()
    _check_databases(root, running=running)
    made = Output(output, links=links)
    try:
        copier = StoreCopier(store, made, running=running)
        begin, end = copier.run()
        made.sync()
        found = verify(StoreDirectory(output), VerifyOptions(check_crc=check_crc), progress)
    except BaseException:
        made.discard()
        raise
    findings = [row for row in found.findings if row.severity != NOTICE]
    if running:
        findings = [r for r in findings if r.severity == ERROR or r.kind not in _UNFLUSHED]
    return StoreCopy(
        path=str(store.path),
        output=str(output),
        running=running,
        ok=not findings,
        min_physical_offset=begin,
        max_physical_offset=end,
        files_linked=made.linked,
        files_copied=made.copied,
        skipped=copier.skipped,
        findings=findings,
        summary=found.summary,
    )


def check_places(store: StoreDirectory, output: Path) -> Path:
    """Return the root of the store; ConfigError for a part of a store or an output inside it."""
    root = store.root
    if root is None or store.path != root:
        raise ConfigError(f"{store.path} is not the directory of a store", "give its root")
    if output.resolve().is_relative_to(root.resolve()):
        raise ConfigError(f"{output} is inside the store", "name a directory outside of it")
    return root


def _check_databases(root: Path, *, running: bool) -> None:
    """Refuse a RocksDB database in use: its files are replaced while they are copied."""
    for marker in root.rglob("CURRENT") if running else ():
        if any(marker.parent.glob("MANIFEST-*")):
            raise StoreError(
                f"{marker.parent} is a RocksDB database in use; its files change together",
                "stop the broker first",
                path=str(marker.parent),
            )


def find_bounds(store: StoreDirectory) -> tuple[int, int]:
    """Return the physical offsets of the log's begin and end; reads only its last files."""
    files = store.log_files()
    if not files:
        return 0, 0
    walk = LogWalk(store, check_crc=False)
    last = max((n for n in range(len(files) - 1) if walk.is_followed(n)), default=-1) + 1
    walk = LogWalk(store, start=files[last].start, check_crc=False, counting=True)
    for _ in walk:
        pass
    return files[0].start, max(walk.end, files[last].start)


class StoreCopier:
    """Copies the files of a store into an output, in the order that the module explains."""

    def __init__(self, store: StoreDirectory, made: Output, *, running: bool) -> None:
        root = store.root
        assert root is not None
        self._root = root
        self._store = store
        self._made = made
        self._running = running
        self.skipped: list[str] = []

    def run(self) -> tuple[int, int]:
        """Copy everything; returns the physical offsets of begin and end of the copied log."""
        _, first_end = find_bounds(self._store)
        for name in _FIRST:
            self._take_all(self._root / name)
        self._config(definitions=False)
        for entry in sorted(self._root.iterdir()):
            if entry.name not in _SEPARATE:
                self._take_all(entry)
        dispatched = dispatched_end(self._store) if self._running else 0
        for queue in self._store.queue_files():
            self._queue(queue, dispatched)
        self._take_all(self._root / state.CONSUMEQUEUE_EXT_DIR)
        paths = self._store.index_files()
        for number, path in enumerate(paths):
            self._take(path, sealed=number + 1 < len(paths))
        begin, end = find_bounds(self._store)
        begin = self._log(begin, end)
        self._config(definitions=True)
        if not self._running:
            self._check_unchanged(first_end)
        return begin, end

    def _check_unchanged(self, end: int) -> None:
        """Refuse a store that a broker has started to use, or uses with a lock not visible here."""
        if find_bounds(self._store)[1] != end or self._store.is_running():
            raise StoreError(
                f"{self._root}: a broker has written to the store during the copy",
                "rerun the command; a broker in a container needs it to run in the same container",
                path=str(self._root),
            )

    def _take(self, path: Path, *, sealed: bool) -> bool:
        """Copy or link a file; False if a running broker has removed it."""
        name = str(path.relative_to(self._root))
        try:
            self._made.take(path, name, sealed=sealed)
        except RocketMQError:
            if not self._running or path.exists():
                raise
            (self._made.root / name).unlink(missing_ok=True)
            self.skipped.append(name)
            return False
        return True

    def _take_all(self, entry: Path) -> None:
        for path in [entry] if entry.is_file() else sorted(entry.rglob("*")):
            if path.is_file() and not (self._running and path.name.endswith(_TEMPORARY)):
                self._take(path, sealed=False)

    def _config(self, *, definitions: bool) -> None:
        """Copy configuration files: a backup before its file, which a broker replaces meanwhile."""
        folder = self._root / state.CONFIG_DIR
        for path in sorted(folder.rglob("*"), key=lambda p: (not p.name.endswith(_BACKUP), p)):
            is_definition = path.name.removesuffix(_BACKUP) in _DEFINITIONS
            if is_definition == definitions:
                self._take_all(path)

    def _queue(self, queue: QueueFiles, dispatched: int) -> None:
        if not queue.files:
            (self._made.root / queue.path.relative_to(self._root)).mkdir(
                parents=True, exist_ok=True
            )
        for number, (path, _) in enumerate(queue.files):
            self._take(path, sealed=number + 1 < len(queue.files))
        if self._running:
            cut_units(self._made, self._root, queue, dispatched)

    def _log(self, begin: int, end: int) -> int:
        """Copy the log up to ``end``; returns its begin, later if the first files expired."""
        files = self._store.log_files()
        done: list[LogFile] = []
        for number, file in enumerate(files):
            if self._running and number and file.start >= end:
                break  # preallocated, or with records that are newer than the copy
            is_last = file.start + file.length >= end
            if not self._take(file.path, sealed=not is_last):
                for expired in done:
                    (self._made.root / state.COMMITLOG_DIR / expired.path.name).unlink()
                done.clear()
                continue
            done.append(file)
            if is_last and self._running:
                self._cut(file, end)
        if files and not done:
            raise StoreError(
                f"{self._root}: the broker has removed all log files during the copy",
                "rerun the command",
                path=str(self._root),
            )
        return done[0].start if done else begin

    def _cut(self, file: LogFile, end: int) -> None:
        if end < file.start + file.length:
            with self._made.open(f"{state.COMMITLOG_DIR}/{file_name(file.start)}") as blocks:
                blocks.clear(end - file.start, file.length)
