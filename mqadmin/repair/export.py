"""Write exports: one file of lines, or a folder of Parquet files; both can be resumed.

Each export has a state file (``NAME.state``, or ``_state.json`` in the folder) with its query, the
physical offset reached, and the length of the output at that time. It is written before the first
row and updated as the export grows. A rerun resumes from it; bytes that a crash left after the
last state are truncated. A periodic rerun of the same command exports the new messages.

The output is locked: one export at a time writes to it.
"""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from broker.errors import ConfigError, DiskFullError, StoreLockedError
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.export.pieces import (
    FORMATS,
    PARQUET,
    Piece,
    batch_pieces,
    batch_schema,
    text_pieces,
)
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import DamageRow
from mqadmin.repair.files import is_full

# Bytes of lines between two states: the most that an interruption loses.
STATE_BYTES: Final = 16 << 20
# Rows and bytes after which a Parquet file ends and the state is saved; the same for a row group,
# which is buffered in memory.
PART_ROWS: Final = 1_000_000
PART_BYTES: Final = 1 << 30
GROUP_ROWS: Final = 100_000
GROUP_BYTES: Final = 16 << 20
STATE_FILE: Final = "_state.json"


class ExportResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of an export: rows of this run and in total; forecasts in a dry run.

    ``nextPhysicalOffset`` is where the next run resumes. ``bytes`` and ``files`` are None in a dry
    run for Parquet, whose compressed size is unknown.
    """

    output: str
    format: str
    rows: int
    total_rows: int
    bytes: int | None
    files: int | None
    resumed: bool
    next_physical_offset: int
    damages: int


class _State(msgspec.Struct):
    query: dict[str, Any]
    format: str
    next_offset: int = 0
    length: int = 0
    rows: int = 0
    files: int = 0


def export(
    store: StoreDirectory,
    query: Query,
    output: Path,
    form: str,
    *,
    damaged_regions: list[DamageRow] | None = None,
    dry_run: bool = False,
) -> ExportResult:
    """Write the messages that match to ``output``, resuming where an earlier run stopped.

    With ``dry_run`` they are only counted: nothing is written or locked.
    ``damaged_regions`` collects
    corruption. Raises ConfigError if ``output`` exists and is not an export of the same query, if
    it cannot be written, or if a library is missing; StoreLockedError while another export writes
    to it; DiskFullError if the disk is full (a rerun resumes).
    """
    if form not in FORMATS:
        raise ConfigError(f"no format {form!r}", f"one of {', '.join(FORMATS)}")
    made = make_export(store, query, output, form, damaged_regions)
    return made.count() if dry_run else made.run()


def make_export(
    store: StoreDirectory,
    query: Query,
    output: Path,
    form: str,
    damaged_regions: list[DamageRow] | None = None,
) -> "_Export":
    """Return the export of a format; nothing is read or written before ``run`` or ``count``."""
    run = _Parquet if form == PARQUET else _Lines
    return run(store, query, output, form, [] if damaged_regions is None else damaged_regions)


def _question(query: Query) -> dict[str, Any]:
    """Return the conditions that must be equal to resume; see :meth:`_Export._is_same`."""
    asked: dict[str, Any] = msgspec.to_builtins(query)
    names = ("topic", "queue_id", "key", "body", "raw", "begin_ms", "end_ms", "from_offset")
    return {name: asked[name] for name in (*names, "to_offset")}


class _Export(ABC):
    def __init__(
        self,
        store: StoreDirectory,
        query: Query,
        output: Path,
        form: str,
        damaged_regions: list[DamageRow],
    ) -> None:
        self.store = store
        self.query = query
        self.output = output
        self.damaged_regions = damaged_regions
        self.state = _State(_question(query), form)
        self.resumed = False
        self.rows = 0

    def run(self) -> ExportResult:
        """Write the export and its state under the lock."""
        try:
            self.load()
            with self.locked():
                self.load()  # another run may have finished before the lock was taken
                self.save()
                self.write()
                self.save()
        except OSError as error:
            message = f"cannot write {self.output}: {error.strerror or error}"
            hint = "rerun the command to resume"
            if is_full(error):
                raise DiskFullError(
                    message, f"free disk space; {hint}", path=str(self.output)
                ) from error
            raise ConfigError(message, f"check path and permissions; {hint}") from error
        return self.result()

    def count(self) -> ExportResult:
        """Count the rows that a run would write; nothing is written."""
        self.load()
        self.count_pieces()
        return self.result()

    @abstractmethod
    def count_pieces(self) -> None:
        """Count the matching messages from the offset in the state."""

    @abstractmethod
    def write(self) -> None:
        """Write the matching messages from the offset in the state."""

    @abstractmethod
    def state_path(self) -> Path:
        """Return the path of the state file."""

    @abstractmethod
    def locked(self) -> AbstractContextManager[None]:
        """Lock the output exclusively; StoreLockedError if another export has locked it."""

    @abstractmethod
    def is_foreign(self) -> bool:
        """Whether the output, which has no state, already has contents."""

    def load(self) -> None:
        """Load the state of an earlier run, if any; ConfigError if it does not match."""
        path = self.state_path()
        if not path.exists():
            if self.is_foreign():
                raise ConfigError(
                    f"{self.output} exists and has no state next to it",
                    "name another file, or remove it",
                )
            return
        try:
            known = msgspec.convert(json.loads(path.read_text("utf-8")), _State)
        except (ValueError, msgspec.ValidationError) as error:
            raise ConfigError(f"{path} is not an export state: {error}", "remove both") from None
        if not self._is_same(known):
            raise ConfigError(
                f"{self.output} is the export of another question",
                "ask the same (times that are reckoned from now: only the begin may be one),"
                " or name another file",
            )
        files = self.store.log_files()
        if files and known.next_offset > files[-1].start + files[-1].length:
            raise ConfigError(
                f"{self.output} has been exported up to physical offset {known.next_offset},"
                f" the log of {self.store.path} ends before",
                "this is another store: name another file",
            )
        self.state = known
        self.query = msgspec.structs.replace(self.query, begin_ms=known.query.get("begin_ms"))
        self.resumed = known.next_offset > 0

    def _is_same(self, known: _State) -> bool:
        """Whether a state has this query; a ``begin_ms`` relative to now may be later."""
        wanted, stored = dict(self.state.query), dict(known.query)
        begin, first = wanted.pop("begin_ms"), stored.pop("begin_ms", None)
        later = begin == first or (begin is not None and first is not None and begin >= first)
        return later and (stored, known.format) == (wanted, self.state.format)

    def save(self) -> None:
        """Save the state atomically: write a temporary file, fsync and rename it."""
        path = self.state_path()
        spare = path.with_name(path.name + ".tmp")
        with spare.open("w", encoding="utf-8") as file:
            json.dump(msgspec.to_builtins(self.state), file)
            file.flush()
            os.fsync(file.fileno())
        spare.replace(path)

    def wanted(self) -> Query:
        """Return the query from the offset where the export resumes."""
        start = max(self.state.next_offset, self.query.from_offset or 0)
        return msgspec.structs.replace(self.query, from_offset=start or None)

    def note(self, piece: Piece) -> None:
        """Add a written piece to the counts and the state."""
        self.rows += piece.rows
        self.state.rows += piece.rows
        self.state.next_offset = max(self.state.next_offset, piece.next_offset)
        self.damaged_regions.extend(piece.damaged_regions)

    def result(self) -> ExportResult:
        """Return the result so far."""
        return ExportResult(
            output=str(self.output),
            format=self.state.format,
            rows=self.rows,
            total_rows=self.state.rows,
            bytes=self.state.length,
            files=self.state.files,
            resumed=self.resumed,
            next_physical_offset=self.state.next_offset,
            damages=len(self.damaged_regions),
        )


def _lock(fd: int, output: Path) -> None:
    try:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StoreLockedError(
            f"{output}: another export is writing to it",
            "wait for it, or name another file",
            path=str(output),
        ) from None
    except (ImportError, OSError):
        pass  # the system or file system does not support flock


class _Lines(_Export):
    def state_path(self) -> Path:
        return self.output.with_name(self.output.name + ".state")

    def is_foreign(self) -> bool:
        return self.output.exists() and (not self.output.is_file() or self._length() > 0)

    def _length(self) -> int:
        return self.output.stat().st_size

    @contextmanager
    def locked(self) -> Iterator[None]:
        self.output.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.output, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with os.fdopen(fd, "r+b") as self.file:
            _lock(fd, self.output)
            yield

    def load(self) -> None:
        super().load()
        there = self._length() if self.output.exists() else 0
        if there < self.state.length:
            raise ConfigError(
                f"{self.output} has {there} bytes, {self.state.length} were exported to it",
                f"restore it, or remove {self.state_path()} to restart",
            )

    def write(self) -> None:
        file = self.file
        file.truncate(self.state.length)
        file.seek(self.state.length)
        self.state.files = 1
        saved = self.state.length
        for piece in text_pieces(self.store, self.wanted(), self.state.format):
            file.write(piece.data)
            self.note(piece)
            self.state.length += len(piece.data)
            if self.state.length - saved >= STATE_BYTES:
                self._sync(file)
                self.save()
                saved = self.state.length
        self._sync(file)

    def count_pieces(self) -> None:
        self.state.files = 1
        for piece in text_pieces(self.store, self.wanted(), self.state.format):
            self.note(piece)
            self.state.length += len(piece.data)

    def _sync(self, file: IO[bytes]) -> None:
        file.flush()
        os.fsync(file.fileno())


class _Parquet(_Export):
    def run(self) -> ExportResult:
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError as error:
            raise ConfigError(
                "Parquet needs the library pyarrow, which is not installed",
                "install the extra 'arrow', or export NDJSON or CSV",
            ) from error
        return super().run()

    def state_path(self) -> Path:
        return self.output / STATE_FILE

    def is_foreign(self) -> bool:
        if not self.output.exists():
            return False
        # A crash during the first save leaves only the temporary file.
        own = {STATE_FILE + ".tmp"}
        return self.output.is_file() or any(p.name not in own for p in self.output.iterdir())

    @contextmanager
    def locked(self) -> Iterator[None]:
        self.output.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.output, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _lock(fd, self.output)
            yield
        finally:
            os.close(fd)

    def write(self) -> None:
        self._tidy()
        part = _Part(self.output, bodies=self.query.body != "none")
        try:
            for piece in batch_pieces(self.store, self.wanted(), bodies=self.query.body != "none"):
                if piece.data is not None:
                    part.add(piece.data)
                self.note(piece)
                # A part ends only at a piece without data: all rows up to its offset are in it.
                if part.is_full and piece.data is None:
                    self._end(part)
            self._end(part)
        finally:
            part.drop()

    def count_pieces(self) -> None:
        for piece in batch_pieces(self.store, self.wanted(), bodies=False):
            self.note(piece)

    def count(self) -> ExportResult:
        """Count the rows; the size of compressed files is unknown."""
        return msgspec.structs.replace(super().count(), bytes=None, files=None)

    def _tidy(self) -> None:
        """Remove the files that an interrupted run wrote after its last state."""
        for path in self.output.glob("part-*.parquet*"):
            first = path.name.removeprefix("part-").partition(".")[0]
            if path.suffix == ".tmp" or (
                first.isdecimal() and int(first) >= self.state.next_offset
            ):
                path.unlink()

    def _end(self, part: "_Part") -> None:
        path = part.end()
        if path is not None:
            self.state.files += 1
            self.state.length += path.stat().st_size
        self.save()


class _Part:
    """Writes Parquet files one after another, in row groups of bounded size."""

    def __init__(self, folder: Path, *, bodies: bool) -> None:
        self.folder = folder
        self.schema = batch_schema(bodies=bodies)
        self._held: list[Any] = []
        self._held_rows = self._held_bytes = 0
        self._rows = self._bytes = 0
        self._path: Path | None = None
        self._writer: Any = None

    @property
    def is_full(self) -> bool:
        """Whether the current file has reached its bound."""
        return self._rows >= PART_ROWS or self._bytes >= PART_BYTES

    def add(self, batch: Any) -> None:
        """Add a record batch; the first one of a file gives its name, by physical offset."""
        if self._path is None:
            first = batch.column(batch.schema.get_field_index("physical_offset"))[0].as_py()
            self._path = self.folder / f"part-{first:020d}.parquet"
        self._held.append(batch)
        self._held_rows += batch.num_rows
        self._held_bytes += batch.nbytes
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._held_rows >= GROUP_ROWS or self._held_bytes >= GROUP_BYTES:
            self._group()

    def _group(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as parquet

        if not self._held:
            return
        if self._writer is None:
            assert self._path is not None
            self._writer = parquet.ParquetWriter(
                self._path.with_name(self._path.name + ".tmp"), self.schema, compression="zstd"
            )
        table = pa.Table.from_batches(self._held, schema=self.schema)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._held = []
        self._held_rows = self._held_bytes = 0

    def end(self) -> Path | None:
        """Complete, fsync and rename the file; returns its path, None if it has no rows."""
        self._group()
        path, writer = self._path, self._writer
        if path is None or writer is None:
            return None
        self._path = self._writer = None
        self._rows = self._bytes = 0
        writer.close()
        spare = path.with_name(path.name + ".tmp")
        with spare.open("rb") as file:
            os.fsync(file.fileno())
        spare.replace(path)
        return path

    def drop(self) -> None:
        """Discard an incomplete file."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            try:
                writer.close()
            finally:
                assert self._path is not None
                self._path.with_name(self._path.name + ".tmp").unlink(missing_ok=True)
