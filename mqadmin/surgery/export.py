"""Exports written to files: one file of lines, or a folder of Parquet files; both resumable.

Beside an export stands its state (``NAME.state``, ``_state.json`` in a folder): what was asked
for, the physical offset reached, and how long the file was then. Started again, an export goes on
there; what a crash left behind the last state is cut off. So the same command at night exports
what has come since.
"""

import json
import os
from pathlib import Path
from typing import Any, Final

import msgspec

from broker.errors import ConfigError, StoreError
from mqadmin.inspector.directory import Query, StoreDirectory
from mqadmin.inspector.export import FORMATS, PARQUET, Piece, batch_pieces, text_pieces
from mqadmin.inspector.rows import DamageRow

# Rows of one Parquet file and of one state.
PART_ROWS: Final = 1_000_000
STATE_FILE: Final = "_state.json"


class ExportResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an export has written: this time, and in all.

    ``nextPhysicalOffset`` is where the next run goes on.
    """

    output: str
    format: str
    rows: int
    total_rows: int
    bytes: int
    files: int
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
    damages: list[DamageRow] | None = None,
) -> ExportResult:
    """Write the messages that match to ``output``, going on where an earlier run stopped.

    ``damages`` collects what is damaged. ConfigError if ``output`` is there but no export of the
    same question, or if a library is missing.
    """
    if form not in FORMATS:
        raise ConfigError(f"no format {form!r}", f"one of {', '.join(FORMATS)}")
    run = _Parquet if form == PARQUET else _Lines
    return run(store, query, output, form, [] if damages is None else damages).run()


def _question(query: Query) -> dict[str, Any]:
    """What must be the same for an export to be gone on with."""
    asked: dict[str, Any] = msgspec.to_builtins(query)
    return {name: asked[name] for name in ("topic", "queue_id", "key", "body", "raw", "begin_ms")}


class _Export:
    def __init__(
        self,
        store: StoreDirectory,
        query: Query,
        output: Path,
        form: str,
        damages: list[DamageRow],
    ) -> None:
        self.store = store
        self.query = query
        self.output = output
        self.damages = damages
        self.state = _State(_question(query), form)
        self.resumed = False
        self.rows = 0

    def state_path(self) -> Path:
        """Where the state stands."""
        raise NotImplementedError

    def load(self) -> None:
        """Go on where an earlier run stopped, if there was one."""
        path = self.state_path()
        if not path.exists():
            if self.output.exists() and (self.output.is_file() or any(self.output.iterdir())):
                raise ConfigError(
                    f"{self.output} exists and has no state beside it",
                    "name another file, or remove it",
                )
            return
        try:
            known = msgspec.convert(json.loads(path.read_text("utf-8")), _State)
        except (ValueError, msgspec.ValidationError) as error:
            raise ConfigError(f"{path} is no state of an export: {error}", "remove both") from None
        if (known.query, known.format) != (self.state.query, self.state.format):
            raise ConfigError(
                f"{self.output} is the export of another question",
                "ask the same, or name another file",
            )
        self.state = known
        self.resumed = True

    def save(self) -> None:
        """Keep the state, on the disk and whole."""
        path = self.state_path()
        spare = path.with_name(path.name + ".tmp")
        with spare.open("w", encoding="utf-8") as file:
            json.dump(msgspec.to_builtins(self.state), file)
            file.flush()
            os.fsync(file.fileno())
        spare.replace(path)

    def wanted(self) -> Query:
        """The query from where the export goes on."""
        start = max(self.state.next_offset, self.query.from_offset or 0)
        return msgspec.structs.replace(self.query, from_offset=start or None)

    def note(self, piece: Piece) -> None:
        """Count a piece."""
        self.rows += piece.rows
        self.state.rows += piece.rows
        self.state.next_offset = max(self.state.next_offset, piece.next_offset)
        self.damages.extend(piece.damages)

    def result(self) -> ExportResult:
        """What to tell."""
        return ExportResult(
            output=str(self.output),
            format=self.state.format,
            rows=self.rows,
            total_rows=self.state.rows,
            bytes=self.state.length,
            files=self.state.files,
            resumed=self.resumed,
            next_physical_offset=self.state.next_offset,
            damages=len(self.damages),
        )


class _Lines(_Export):
    def state_path(self) -> Path:
        return self.output.with_name(self.output.name + ".state")

    def run(self) -> ExportResult:
        self.load()
        try:
            self.output.parent.mkdir(parents=True, exist_ok=True)
            with self.output.open("r+b" if self.output.exists() else "w+b") as file:
                file.truncate(self.state.length)
                file.seek(self.state.length)
                self.state.files = 1
                for piece in text_pieces(self.store, self.wanted(), self.state.format):
                    file.write(piece.data)
                    self.note(piece)
                    self.state.length = file.tell()
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(
                f"cannot write {self.output}: {error.strerror}", path=str(self.output)
            ) from error
        self.save()
        return self.result()


class _Parquet(_Export):
    def state_path(self) -> Path:
        return self.output / STATE_FILE

    def run(self) -> ExportResult:
        try:
            import pyarrow as pa
            import pyarrow.parquet as parquet
        except ImportError as error:
            raise ConfigError(
                "Parquet needs the library pyarrow, which is not installed",
                "install the extra 'arrow', or export NDJSON or CSV",
            ) from error
        self.output.mkdir(parents=True, exist_ok=True)
        self.load()
        held: list[Any] = []
        count = 0
        for piece in batch_pieces(self.store, self.wanted(), bodies=self.query.body != "none"):
            if piece.data is not None:
                held.append(piece.data)
                count += piece.rows
            self.note(piece)
            # A part ends only where everything up to the offset is in it.
            if count >= PART_ROWS and piece.data is None:
                self._part(pa.Table.from_batches(held), parquet)
                held, count = [], 0
        if held:
            self._part(pa.Table.from_batches(held), parquet)
        self.save()
        return self.result()

    def _part(self, table: Any, parquet: Any) -> None:
        first = table.column("physical_offset")[0].as_py()
        path = self.output / f"part-{first:020d}.parquet"
        spare = path.with_name(path.name + ".tmp")
        parquet.write_table(table, spare, compression="zstd")
        spare.replace(path)
        self.state.files += 1
        self.state.length += path.stat().st_size
        self.save()
