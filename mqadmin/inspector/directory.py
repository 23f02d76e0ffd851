"""Discovery of the files of a store: its root, a folder in it, or one file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from broker.common.config.properties import parse_properties
from broker.errors import ConfigError, StoreError, StorePathError
from broker.message.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from broker.store.format import checkpoint, indexfile, state
from broker.store.format.commitlog import file_start, own_offset
from broker.store.format.consumequeue import decode_batch_unit, decode_unit, is_pre_blank
from mqadmin.inspector.files import file_length, lock_holder, open_bytes, read_all
from mqadmin.inspector.rows import CheckpointRow, StateRow

COMMITLOG: Final = "commitlog"
CONSUMEQUEUE: Final = "consumequeue"
INDEX: Final = "index"
CHECKPOINT: Final = "checkpoint"
CONFIG: Final = "config"
STATE: Final = "state"
TIMERWHEEL: Final = "timerwheel"
TIMERLOG: Final = "timerlog"
EXT: Final = "ext"
POP: Final = "pop"
TRANSACTION: Final = "transaction"
STATIC: Final = "static"
AUTO: Final = "auto"
KINDS: Final = (
    *(AUTO, COMMITLOG, CONSUMEQUEUE, INDEX, CHECKPOINT, CONFIG, STATE),
    *(TIMERWHEEL, TIMERLOG, EXT, POP, TRANSACTION, STATIC),
)

# Any of these makes a folder the root of a store.
_PARTS: Final = (
    state.COMMITLOG_DIR,
    state.CONSUMEQUEUE_DIR,
    state.BATCH_CONSUMEQUEUE_DIR,
    state.INDEX_DIR,
    state.CHECKPOINT,
    state.ABORT,
    f"{state.CONFIG_DIR}/topics.json",
)
_SYNC_MEMBER: Final = "rmq_sys_SYNC_BROKER_MEMBER_"
_CONF_BYTES: Final = 1 << 20  # larger files are not read as a broker.conf


class LogFile(NamedTuple):
    """A file named after its first byte: path, start (in a CommitLog a physical offset), length.

    ``overlap`` are the bytes after ``length`` that a file of the CommitLog has too many: the next
    file starts there.
    """

    path: Path
    start: int
    length: int
    overlap: int = 0


def without_overlaps(files: list[LogFile], size: int) -> list[LogFile]:
    """Return CommitLog files without the bytes of each that belong to the next: see ``overlap``.

    ``size`` is the length that the files should have.
    """
    starts = {file.start for file in files}
    return [
        file._replace(length=size, overlap=file.length - size)
        if file.length > size and file.start + size in starts
        else file
        for file in files
    ]


class QueueFiles(NamedTuple):
    """The files of one ConsumeQueue as (path, start in bytes).

    ``kind`` is "classic" (SimpleCQ) or "batch" (BatchConsumeQueue).
    """

    topic: str
    queue_id: int
    kind: str
    path: Path
    files: tuple[tuple[Path, int], ...]


class StoreDirectory:
    """A store on disk; the value that every query takes.

    Raises StoreError if ``path`` does not exist or is not part of a store.

    ``root`` is the store's root, None for a file or folder outside a store; ``kind`` is one of
    KINDS for ``path`` itself ("auto" for a root). Every method reads the disk again.
    """

    __slots__ = ("kind", "path", "root")

    def __init__(self, path: str | Path, kind: str = AUTO) -> None:
        self.path = Path(path)
        if kind not in KINDS:
            raise StorePathError(f"unknown kind of file: {kind}", f"one of {', '.join(KINDS)}")
        if not self.path.exists():
            raise StorePathError(
                f"no such file or directory: {path}", "is the path right?", path=str(path)
            )
        self.root: Path | None = None
        self.kind = AUTO
        if self.path.is_dir():
            self._place_folder()
        else:
            self._place_file()
        if kind != AUTO:
            self.kind = kind
        elif self.kind == AUTO and self.root is None:
            raise StorePathError(
                f"no store or store file: {path}",
                "give the folder that contains commitlog/, one of its files, or --kind",
                path=str(path),
            )

    def _place_folder(self) -> None:
        path = self.path
        if any((path / part).exists() for part in _PARTS):
            self.root = path
            return
        if any((path / "store" / part).exists() for part in _PARTS):
            self.root = self.path = path / "store"
            return
        for depth, folder in enumerate((path, path.parent, path.parent.parent)):
            kind = _FOLDERS.get(folder.name)
            if kind is not None and (depth == 0 or kind in (CONSUMEQUEUE, EXT)):
                self.kind, self.root = kind, folder.parent
                return
        if self.numbered(path):
            self.kind = self._kind_of_file(self.numbered(path)[0].path)

    def _place_file(self) -> None:
        path = self.path
        self.kind = self._kind_of_file(path)
        parents = path.resolve().parents
        depth = 3 if self.kind in (CONSUMEQUEUE, EXT) else 1
        if len(parents) > depth and _FOLDERS.get(parents[depth - 1].name) == self.kind:
            self.root = parents[depth]
        elif self.kind in (CHECKPOINT, STATE, TIMERWHEEL):
            self.root = path.parent

    def _kind_of_file(self, path: Path) -> str:
        """Return the kind of a file from its name, its folder, or its first bytes."""
        folders = [parent.name for parent in path.resolve().parents]
        if path.name == state.CHECKPOINT:
            return CHECKPOINT
        if path.name in (state.ABORT, state.LOCK):
            return STATE
        if path.name == TIMERWHEEL:
            return TIMERWHEEL
        flat = (state.COMMITLOG_DIR, state.INDEX_DIR, state.CONFIG_DIR, TIMERLOG)
        if folders and folders[0] in flat:
            return _FOLDERS[folders[0]]
        if len(folders) > 2 and _FOLDERS.get(folders[2]) in (CONSUMEQUEUE, EXT):
            return _FOLDERS[folders[2]]
        with open_bytes(path) as file:
            return _kind_of_bytes(file.data)

    def _starts(self, folder: Path) -> tuple[tuple[Path, int], ...]:
        return tuple((path, start) for path, start, *_ in self.numbered(folder))

    def folder(self, name: str) -> Path | None:
        """Return a folder below the root, None without a root."""
        return None if self.root is None else self.root / name

    def log_files(self) -> list[LogFile]:
        """Return the CommitLog files in order of their starts.

        A single file that is not named after its start gets the physical offset of its first
        record.
        """
        if self.path.is_file():
            if self.kind != COMMITLOG:
                return self._log_files_in(self.folder(state.COMMITLOG_DIR))
            start = file_start(self.path.name)
            return [
                LogFile(
                    self.path,
                    _first_offset(self.path) if start is None else start,
                    self.path.stat().st_size,
                )
            ]
        if self.root is None and self.kind == COMMITLOG:
            return self._log_files_in(self.path)
        return self._log_files_in(self.folder(state.COMMITLOG_DIR))

    def _log_files_in(self, folder: Path | None) -> list[LogFile]:
        files = [] if folder is None else self.numbered(folder)
        lengths = [file.length for file in files]
        return without_overlaps(files, max(lengths, key=lengths.count, default=0))

    def numbered(self, folder: Path) -> list[LogFile]:
        """Return the files of a folder that are named after their first byte, in order.

        A running broker creates a file empty and then sets its length: until then it is missing.
        """
        try:
            entries = [(entry, file_start(entry.name)) for entry in folder.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        files = [
            LogFile(path, start, length)
            for path, start in entries
            if start is not None and (length := file_length(path)) is not None
        ]
        if not all(file.length for file in files) and self.is_running():
            files = [file for file in files if file.length]
        return sorted(files, key=lambda file: file.start)

    def unexpected_log_names(self) -> list[Path]:
        """Return files in the CommitLog folder that are not named after a physical offset."""
        folder = self.path if self.path.is_dir() and self.kind == COMMITLOG else None
        if folder is None or folder == self.root:
            folder = self.folder(state.COMMITLOG_DIR)
        if self.path.is_file() or folder is None or not folder.is_dir():
            return []
        return sorted(
            path for path in folder.iterdir() if path.is_file() and file_start(path.name) is None
        )

    def queue_files(
        self, topic: str | None = None, queue_id: int | None = None
    ) -> Iterator[QueueFiles]:
        """Yield the ConsumeQueues of the store or below ``path``, by topic and queue id."""
        if self.path.is_file() and self.kind == CONSUMEQUEUE:
            queue = self._single_queue_file()
            if topic in (None, queue.topic) and queue_id in (None, queue.queue_id):
                yield queue
            return
        if self.root is None:
            if self.kind == CONSUMEQUEUE:
                yield QueueFiles("", 0, "classic", self.path, self._starts(self.path))
            return
        for name, kind in (
            (state.CONSUMEQUEUE_DIR, "classic"),
            (state.BATCH_CONSUMEQUEUE_DIR, "batch"),
        ):
            for topic_folder in _folders(self.root / name):
                if topic is not None and topic_folder.name != topic:
                    continue
                for folder in _folders(topic_folder):
                    if not folder.name.isdecimal() or not self._is_wanted(folder):
                        continue
                    number = int(folder.name)
                    if queue_id is None or number == queue_id:
                        files = self._starts(folder)
                        yield QueueFiles(topic_folder.name, number, kind, folder, files)

    def _is_wanted(self, folder: Path) -> bool:
        """Whether a queue folder is inside ``path`` (the folder of a topic or of a queue)."""
        if self.path == self.root or self.kind != CONSUMEQUEUE:
            return True
        return self.path in (folder, *folder.parents)

    def _single_queue_file(self) -> QueueFiles:
        folders = [parent.name for parent in self.path.resolve().parents]
        start = file_start(self.path.name) or 0
        files = ((self.path, start),)
        if self.root is None or not folders[0].isdecimal():
            kind = "batch" if _is_batch(self.path) else "classic"
            return QueueFiles("", 0, kind, self.path.parent, files)
        kind = "batch" if folders[2] == state.BATCH_CONSUMEQUEUE_DIR else "classic"
        return QueueFiles(folders[1], int(folders[0]), kind, self.path.parent, files)

    def index_files(self) -> list[Path]:
        """Return the IndexFiles, oldest first."""
        if self.path.is_file() and self.kind == INDEX:
            return [self.path]
        folder = self.folder(state.INDEX_DIR) or self.path
        try:
            return sorted(path for path in folder.iterdir() if path.is_file())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def topics(self) -> list[str]:
        """Return the topics that have a ConsumeQueue folder, sorted."""
        if self.root is None:
            return []
        names = (state.CONSUMEQUEUE_DIR, state.BATCH_CONSUMEQUEUE_DIR)
        return sorted({folder.name for name in names for folder in _folders(self.root / name)})

    def broker_name(self) -> str | None:
        """Return the broker's name, None if the directory does not contain it.

        Sources: brokerIdentity (controller mode), a broker.conf in or next to the root whose
        storePathRootDir is this root, the SYNC_BROKER_MEMBER system topic of 5.x.
        """
        if self.root is None:
            return None
        try:
            identity = read_all(self.root / "brokerIdentity")
            if identity is not None and identity.count(b"#") >= 2:
                return identity.split(b"#")[1].decode("utf-8", "replace")
            return own_settings(self.root).get("brokerName") or self._name_in_topics()
        except StoreError:
            return None  # without the name, messages can still be read

    def _name_in_topics(self) -> str | None:
        assert self.root is not None
        text = read_all(self.root / state.CONFIG_DIR / "topics.json") or b""
        at = text.find(_SYNC_MEMBER.encode())
        if at < 0:
            return None
        end = text.find(b'"', at)
        return text[at + len(_SYNC_MEMBER) : end].decode("utf-8", "replace") or None

    def state(self) -> StateRow:
        """Return the state that abort and lock file show."""
        root = self.root or self.path
        abort = read_all(root / state.ABORT)
        lock = root / state.LOCK
        return StateRow(
            path=str(root),
            clean_stop=abort is None,
            abort=abort is not None,
            abort_pid=None if abort is None else state.decode_abort(abort),
            lock=lock.exists(),
            held_by=(lock_holder(lock) or None) if lock.exists() else None,
        )

    def lock_is_free(self) -> bool:
        """Whether it is certain that no process holds the lock."""
        return lock_holder((self.root or self.path) / state.LOCK) == 0

    def is_running(self) -> bool:
        """Whether a process holds the lock of the store."""
        return self.root is not None and bool(self.state().held_by)

    def checkpoint(self) -> CheckpointRow | None:
        """Return the checkpoint, None if it is missing; RemoteProtocolError if it is too short.

        A running broker creates the file with its first flush; while it is empty it is missing.
        """
        path = self.path if self.path.is_file() and self.kind == CHECKPOINT else None
        if path is None and self.root is not None:
            path = self.root / state.CHECKPOINT
        data = None if path is None else read_all(path)
        if data is None or (not data and self.is_running()):
            return None
        fields = checkpoint.decode_checkpoint(data)._asdict()
        for name in fields:
            if name.endswith("_timestamp"):
                fields[name] = fields[name] or None
        return CheckpointRow(path=str(path), **fields)


_FOLDERS: Final = {
    state.COMMITLOG_DIR: COMMITLOG,
    state.CONSUMEQUEUE_DIR: CONSUMEQUEUE,
    state.BATCH_CONSUMEQUEUE_DIR: CONSUMEQUEUE,
    state.INDEX_DIR: INDEX,
    state.CONFIG_DIR: CONFIG,
    TIMERLOG: TIMERLOG,
    "consumequeue_ext": EXT,
}


def _folders(folder: Path) -> list[Path]:
    """Return the sub-folders, sorted by name; numbers by value."""
    try:
        found = [entry for entry in folder.iterdir() if entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found, key=lambda p: (int(p.name) if p.name.isdecimal() else -1, p.name))


def _kind_of_bytes(data: bytes) -> str:
    magic = int.from_bytes(data[4:8], "big")
    if magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK):
        return COMMITLOG
    if data[:1] in (b"{", b"["):
        return CONFIG
    if len(data) == checkpoint.FILE_SIZE and not any(data[40:]):
        return CHECKPOINT
    if len(data) >= indexfile.HEADER_SIZE and _is_index(data):
        return INDEX
    if _is_queue(data):
        return CONSUMEQUEUE
    return AUTO


def _is_queue(data: bytes) -> bool:
    """Whether a file's first units have increasing physical offsets."""
    for size, offset_of in ((20, _classic_offset), (46, _batch_offset)):
        if len(data) % size or len(data) < size:
            continue
        found = [
            offset_of(data[at : at + size]) for at in range(0, min(len(data), 50 * size), size)
        ]
        known = [offset for offset in found if offset is not None]
        if known and min(known) >= 0 and known == sorted(set(known)):
            return True
    return False


def _classic_offset(unit: bytes) -> int | None:
    """Return a unit's physical offset, None for an empty or pre-blank unit, -1 if invalid."""
    value = decode_unit(unit)
    if not any(value) or is_pre_blank(value):
        return None
    return value.physical_offset if value.size > 0 else -1


def _batch_offset(unit: bytes) -> int | None:
    value = decode_batch_unit(unit)
    if not any(value):
        return None
    whole = value.size > 0 and value.batch_size > 0 and value.reserved == 0
    return value.physical_offset if whole else -1


def _is_index(data: bytes) -> bool:
    header = indexfile.decode_header(data)
    used = header.hash_slot_count < header.index_count and header.index_count > 1
    ordered = 0 < header.begin_timestamp <= header.end_timestamp
    return used and ordered and indexfile.probe_slot_count(data) > 0


def _is_batch(path: Path) -> bool:
    """Whether a single queue file contains 46-byte batch units."""
    with open_bytes(path) as file:
        unit = bytes(file.data[:46])
    return (
        path.stat().st_size % 46 == 0 and (_batch_offset(unit) or 0) >= 0 and unit[36:38] > b"\0\0"
    )


def _first_offset(path: Path) -> int:
    with open_bytes(path) as file:
        if len(file) >= 36 and _kind_of_bytes(file.data) == COMMITLOG:
            return max(own_offset(file.data, 0), 0)
    return 0


def own_settings(root: Path) -> dict[str, str]:
    """Return the broker.conf in or next to a store whose storePathRootDir is it, else {}."""
    for folder in (root, root.resolve().parent):
        for path in sorted(folder.glob("*.conf")):
            if not path.is_file() or path.stat().st_size > _CONF_BYTES:
                continue
            try:
                values = parse_properties((read_all(path) or b"").decode("utf-8", "replace"))
            except ConfigError:  # the file of another program
                continue
            store = values.get("storePathRootDir")
            if store and Path(folder, store).resolve() == root.resolve():
                return values
    return {}
