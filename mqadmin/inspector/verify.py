"""Verification: everything a store holds against everything else it holds.

Theory of operation
    The log is read once. Every record says which ConsumeQueue unit must stand where and which
    keys the index must hold; both are compared at once, batch by batch, with what stands in the
    files (:mod:`~mqadmin.inspector.verify_queues`, :mod:`~mqadmin.inspector.verify_index`). When
    the log has ended, what was never asked for is judged (:mod:`~mqadmin.inspector.verify_judge`),
    then configuration, checkpoint and markers (:mod:`~mqadmin.inspector.verify_config`).

    With numpy plain records go by in columns, without it one by one; what is wrong is always said
    by the same code.

What it cannot see
    Fields that no checksum covers and no other file repeats: flag, bornTimestamp, bornHost,
    storeHost, reconsumeTimes, properties other than TAGS, KEYS and UNIQ_KEY, the lowest bits of
    storeTimestamp. With the property CRC of 5.x (enabledAppendPropCRC) all of them are covered.
    Bytes left behind by a truncation that happen to be whole records at their right places.

Nothing is written; files are mapped read-only.
"""

import itertools
import time
from collections.abc import Callable

import msgspec

from broker.errors import RemoteProtocolError
from broker.store.format import state
from broker.store.format.commitlog import check_record
from broker.store.format.consumequeue import UNIT_SIZE, UNIT_STRUCT
from mqadmin.inspector.damage import AT_END, ERROR, WARNING, found
from mqadmin.inspector.directory import (
    CHECKPOINT,
    COMMITLOG,
    CONSUMEQUEUE,
    INDEX,
    LogFile,
    StoreDirectory,
)
from mqadmin.inspector.files import open_bytes
from mqadmin.inspector.log import LogItem, LogReader, LogWalk, torn_record
from mqadmin.inspector.messages import start_by_time
from mqadmin.inspector.rows import CheckpointRow, DamageRow, StateRow
from mqadmin.inspector.verify_config import (
    ConfigChecks,
    check_checkpoint,
    check_queue_ends,
    check_state,
)
from mqadmin.inspector.verify_index import IndexChecks, plain_columns
from mqadmin.inspector.verify_judge import Bounds, Judge, Misfit
from mqadmin.inspector.verify_log import ColumnWalk, has_columns
from mqadmin.inspector.verify_queues import OpenFiles, QueueTable
from mqadmin.inspector.verify_records import RecordChecks
from mqadmin.inspector.verify_rows import NOTICE, Findings, QueueState, VerifySummary

Progress = Callable[[str, int, int], None]

# Damages after which the record is not there to be compared with anything.
_LOST = frozenset({"crc"})
_PART_KEYS = 8192
_PAGE = 4096
_NO_MARKERS = StateRow(
    path="", clean_stop=True, abort=False, abort_pid=None, lock=False, held_by=None
)


class VerifyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at. ``check_crc`` compares every body with its CRC (full), or does not (fast).

    ``since_ms``: only what was stored from that time on. ``columns`` None takes the quick way
    where it can be had.
    """

    topic: str | None = None
    since_ms: int | None = None
    check_crc: bool = True
    columns: bool | None = None


class Verification(msgspec.Struct, kw_only=True):
    """What came out: findings in the order they were met, and the summary.

    For surgery also ``damages``, all of the log's one by one; ``broken_queues`` (topic, queue id)
    and ``behind_queues``, which the next start after a crash goes on with; when the newest record
    was stored; each queue's bounds; units and records that contradict each other.
    """

    findings: list[DamageRow]
    summary: VerifySummary
    damages: list[DamageRow]
    broken_queues: set[tuple[str, int]]
    behind_queues: set[tuple[str, int]]
    newest_timestamp: int
    queues: list[QueueState]
    misfits: list[Misfit]


def verify(
    store: StoreDirectory,
    options: VerifyOptions | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Verify a store, a part of one or a single file.

    ``progress`` is called now and then with (what is being done, bytes done, bytes in all).
    StoreError if the files cannot be read at all.
    """
    return _Run(store, options or VerifyOptions(), progress).run()


class _Run:
    def __init__(
        self, store: StoreDirectory, options: VerifyOptions, progress: Progress | None
    ) -> None:
        self.path = store.path
        self.options = options
        self.progress = progress or (lambda what, done, total: None)
        self.columns = has_columns() if options.columns is None else options.columns
        self.findings = Findings()
        self.notes: list[str] = []
        # A single file, or a folder without its store around it, is judged by itself.
        self.alone = store.root is None or (store.path.is_file() and store.kind == COMMITLOG)
        self.topic = options.topic
        if store.kind == CONSUMEQUEUE and store.root is not None:
            # One queue alone does not tell what was deleted or not dispatched: its sisters do.
            self.topic = options.topic or _topic_of(store)
            store = StoreDirectory(store.root)
            if self.topic is not None:
                self.notes.append(f"the topic {self.topic} was looked at, with all its queues")
        self.store = store
        files = store.log_files()
        self.log_bytes = sum(file.length for file in files)
        self.start = 0
        if options.since_ms is not None:
            self.start = start_by_time(store, options.since_ms)
        self.damaged: list[tuple[int, int]] = []
        self.damaged_bytes = 0
        self.unreadable: list[tuple[int, int]] = []
        self.moved: DamageRow | None = None
        self.blank_end = -1
        self.torn: set[int] = set()
        self.log_damages: list[DamageRow] = []
        self.done = 0

    def run(self) -> Verification:
        """Do it."""
        began = time.monotonic()
        store = self.store
        markers = store.state() if store.root is not None else _NO_MARKERS
        running = bool(markers.held_by)
        state_word = "running" if running else ("crashed" if markers.abort else "clean")
        row = self._checkpoint()
        if store.kind in (CHECKPOINT, INDEX) and store.path.is_file():
            self.alone = True
        queues = QueueTable(
            store if not self.alone else _Nothing(store),
            self.topic,
            self.findings,
            running=running,
        )
        moving = running or markers.abort
        index = IndexChecks(
            store if not self.alone or store.kind == INDEX else _Nothing(store),
            self.findings,
            moving=moving,
            running=running,
            topic=self.topic,
        )
        index.damaged = self.damaged
        config = ConfigChecks(store, self.findings) if not self.alone else None
        with LogReader(store) as log:
            records = RecordChecks(queues, log, self.findings)
            walk = self._walk(records, index)
            self._check_last_file(walk)
            if not running:
                self._check_torn(walk.end, WARNING)
                self._check_behind(walk)
            least = log.min_offset or 0
            bounds = Bounds(
                max(least, self.start), walk.end, clean_stop=not markers.abort, running=running
            )
            topics = None if config is None else config.topics()
            if self.topic is not None and not self.alone:
                queues.matched_end = max(queues.matched_end, self._dispatched_end(walk.end))
            judge = Judge(queues, log, self.findings, bounds, topics)
            judge.damaged, judge.unreadable = self.damaged, self.unreadable
            if not self.alone:
                judge.run(self._judged)
        if config is not None:
            self._finish_index(index, config, bounds)
            config.compare(judge, records)
            self._check_only_file(config.settings.number("mappedFileSizeCommitLog"))
            check_state(store, markers, self.findings)
            if not running and (records.records or not self.start):
                newest = records.newest_timestamp
                check_checkpoint(store, row, self.findings, end=walk.end, newest=newest)
            if state_word == "clean":
                check_queue_ends(store, self.findings, walk.end)
        queues.close()
        summary = self._summary(walk, records, judge, index)
        summary.state = state_word
        summary.checkpoint = row
        summary.seconds = round(time.monotonic() - began, 3)
        self._note(config, summary)
        return Verification(
            findings=self.findings.rows,
            summary=summary,
            damages=self.log_damages,
            broken_queues=self.findings.broken_queues,
            behind_queues=judge.behind,
            newest_timestamp=records.newest_timestamp,
            queues=judge.states,
            misfits=judge.misfits,
        )

    def _checkpoint(self) -> CheckpointRow | None:
        store = self.store
        path = (store.root or store.path) / state.CHECKPOINT
        try:
            row = store.checkpoint()
            length = path.stat().st_size if row is not None and path.is_file() else 4096
        except RemoteProtocolError as error:
            self.findings.add("checkpoint", path, error.message, severity=WARNING)
            return None
        if length != 4096:
            self.findings.add(
                "checkpoint", path, f"the file has {length} bytes instead of 4096", severity=WARNING
            )
        return row

    # --- the pass over the log ------------------------------------------------------------------

    def _walk(self, records: RecordChecks, index: IndexChecks) -> LogWalk:
        if self.columns:
            return self._walk_columns(records, index)
        walk = LogWalk(self.store, start=self.start, check_crc=self.options.check_crc)
        begin = max(self.start, walk.min_offset)  # what lies below has expired
        for item in walk:
            self._note_item(item)
            record = item.record
            if record is None:
                continue
            end = record.physical_offset + record.total_size
            if not self._is_lost(record.physical_offset):
                records.take(item.file, record)
            if len(records.keys) >= _PART_KEYS:
                index.compare(plain_columns(records.keys), begin, end)
                records.keys.clear()
                begin = end
                self._report(end)
        index.compare(plain_columns(records.keys), begin, walk.end)
        return walk

    def _walk_columns(self, records: RecordChecks, index: IndexChecks) -> LogWalk:
        from mqadmin.inspector.verify_columns import ColumnChecks

        checks = ColumnChecks(records)
        done = 0

        def take(file: object, batch: object, untrusted: frozenset[int]) -> None:
            nonlocal done
            checks.take(file, batch, untrusted)  # type: ignore[arg-type]
            end = int(
                batch.physical_offset[-1] + batch.column("total_size")[-1]  # type: ignore[attr-defined]
            )
            index.compare(checks.take_keys(), done, end)
            done = end
            self._report(end)

        walk = ColumnWalk(self.store, take, start=self.start, check_crc=self.options.check_crc)
        done = max(self.start, walk.min_offset)  # what lies below has expired
        for item in walk:
            self._note_item(item)
        checks.flush()
        index.compare(checks.take_keys(), done, walk.end)
        return walk

    def _check_behind(self, walk: LogWalk) -> None:
        """Files behind the end of the log: the one made in advance is empty."""
        for file in self._readable():
            if file.start < walk.end or file.length == 0:
                continue
            with open_bytes(file.path) as opened:
                if not any(opened.data[:4096]) or check_record(opened.data, 0, check_crc=False) > 0:
                    continue  # the walk has said what a record there means
                row = found(
                    "magic",
                    str(file.path),
                    "the file lies behind the end of the log and is not empty",
                    physical_offset=file.start,
                    length=file.length,
                    severity=WARNING,
                )
                self.findings.take(row)

    def _check_last_file(self, walk: LogWalk) -> None:
        """A file cut behind a record looks whole, but brokers end one with a blank record."""
        files = [file for file in self.store.log_files() if file.length]
        if not files:
            return
        end = files[-1].start + files[-1].length
        if walk.end == end and self.blank_end != end:
            self.findings.add(
                "fileSize",
                files[-1].path,
                "the file ends right behind a record, without a blank record: it was cut here",
                physical_offset=end,
                severity=WARNING,
            )

    def _finish_index(self, index: IndexChecks, config: ConfigChecks, bounds: Bounds) -> None:
        folder = self.store.folder(state.INDEX_DIR)
        assert folder is not None
        enabled = config.settings.index_enabled
        index.finish(bounds.start, bounds.end, folder=folder, enabled=enabled)

    def _check_only_file(self, told: int) -> None:
        """The length of a file without neighbours: only the broker.conf tells the right one."""
        files = self.store.log_files()
        if len(files) != 1 or not files[0].length or files[0].length == told:
            return
        length = files[0].length
        if told:
            why = f"broker.conf says {told}"
        elif length % _PAGE:
            why = "a broker starts on it only if that is its mappedFileSizeCommitLog"
        else:
            return
        self.findings.add(
            "fileSize",
            files[0].path,
            f"the file has {length} bytes, {why}",
            physical_offset=files[0].start + length,
            severity=WARNING if told else NOTICE,
        )

    def _readable(self) -> list[LogFile]:
        """The files of the log but those that have been said to be unreadable."""
        gone = {start for start, _ in self.unreadable}
        return [file for file in self.store.log_files() if file.start not in gone]

    def _check_torn(self, end: int, severity: str) -> None:
        """The last record before a damage, or of the log: its end may be missing, too."""
        for file in self._readable():
            if not file.start < end <= file.start + file.length:
                continue
            with open_bytes(file.path) as opened:
                record = torn_record(opened.data, file.start, end - file.start)
            if record is None or record.physical_offset in self.torn:
                return
            self.torn.add(record.physical_offset)
            topic = record.topic.decode("utf-8", "replace")
            row = found(
                "content",
                str(file.path),
                f"the properties of {topic}/{record.queue_id}, queue offset {record.queue_offset},"
                " end in zeros: the record was not written to its end",
                physical_offset=record.physical_offset,
                length=record.total_size,
                severity=severity,
                suggestion=AT_END if severity == WARNING else "",
            )
            self.log_damages.append(row)
            self.damaged.append((record.physical_offset, end))
            self.damaged_bytes += record.total_size
            self.findings.take(row)
            self.findings.broken_queues.add((topic, record.queue_id))

    def _note_item(self, item: LogItem) -> None:
        row = item.damage
        if row is not None and row.kind == "position" and row.severity == WARNING:
            self._end_moved()
            self.findings.take(row)  # a file behind the end of the log, no part of it
            return
        if row is not None:
            self.log_damages.append(row)
        if item.blank is not None:
            self.blank_end = item.blank.physical_offset + item.blank.length
        if row is None:
            return
        if row.physical_offset is not None and row.length:
            if row.kind not in ("fileSize", *_LOST):
                end = row.physical_offset + row.length
                self.damaged.append((row.physical_offset, end))
                if row.kind == "unreadable":
                    self.unreadable.append((row.physical_offset, end))
            if row.kind != "fileSize":
                self.damaged_bytes += row.length
        if row.kind not in ("fileSize", "name", "unreadable"):
            self._check_torn(row.physical_offset or 0, row.severity)
        if row.kind == "position" and self._joins(row):
            return
        self._end_moved()
        if row.kind == "position":
            self.moved = row
        else:
            self.findings.take(row)

    def _joins(self, row: DamageRow) -> bool:
        """Whether a record that lies elsewhere goes on where the last one ended."""
        last = self.moved
        if last is None or last.path != row.path:
            return False
        assert last.physical_offset is not None
        assert last.length is not None
        if last.physical_offset + last.length != row.physical_offset:
            return False
        self.moved = msgspec.structs.replace(last, length=last.length + (row.length or 0))
        return True

    def _end_moved(self) -> None:
        """Report records that say that they belong elsewhere, neighbours as one."""
        if self.moved is not None:
            self.findings.take(self.moved)
            self.moved = None

    def _is_lost(self, physical_offset: int) -> bool:
        """Whether the damage just met makes the fields of this record worthless."""
        return bool(self.damaged) and self.damaged[-1][0] == physical_offset

    def _report(self, end: int) -> None:
        self.progress("log", end, self.log_bytes)

    def _judged(self, length: int) -> None:
        self.done += length
        self.progress("queues", self.done, 0)

    def _dispatched_end(self, end: int) -> int:
        """How far the log was dispatched, by the last unit of every queue."""
        files = OpenFiles(1)
        most = 0
        for queue in self.store.queue_files():
            if queue.kind != "classic" or not queue.files:
                continue
            file = files.get(queue.files[-1][0])
            data = bytes(file.data[: file.data_end]).rstrip(b"\0")
            at = (len(data) - 1) // UNIT_SIZE * UNIT_SIZE
            if at >= 0 and at + UNIT_SIZE <= len(file.data):
                physical, size, _ = UNIT_STRUCT.unpack_from(file.data, at)
                if physical + size <= end:
                    most = max(most, physical + size)
        files.close()
        return most

    # --- the summary ----------------------------------------------------------------------------

    def _summary(
        self, walk: LogWalk, records: RecordChecks, judge: Judge, index: IndexChecks
    ) -> VerifySummary:
        self._end_moved()
        begin = max(walk.min_offset, self.start)
        whole = max(walk.end - walk.min_offset, 0)
        checked = max(walk.end - begin, 0)
        findings = self.findings
        return VerifySummary(
            path=str(self.path),
            ok=not findings.damaged,
            state="",
            bodies_checked=self.options.check_crc,
            min_physical_offset=walk.min_offset,
            max_physical_offset=walk.end,
            log_bytes=whole,
            checked_bytes=checked,
            damaged_bytes=self.damaged_bytes,
            coverage=round(checked / whole, 4) if whole else 1.0,
            records=records.records,
            queues=len(judge.states),
            units=judge.units,
            units_checked=judge.units_checked,
            before_recreation=judge.before_recreation,
            not_yet_dispatched=judge.not_yet_dispatched,
            index_files=index.present,
            index_entries=index.entries,
            index_entries_checked=index.entries_checked,
            keys=index.keys,
            keys_indexed=index.keys_indexed,
            errors=findings.severities[ERROR],
            warnings=findings.severities[WARNING],
            notices=findings.severities[NOTICE],
            kinds=dict(sorted(findings.counts.items())),
            notes=self.notes,
            checkpoint=None,
            seconds=0.0,
        )

    def _note(self, config: ConfigChecks | None, summary: VerifySummary) -> None:
        if self.findings.left_out:
            self.notes.append(f"{self.findings.left_out} more findings of the kinds above")
        if not self.options.check_crc:
            self.notes.append("bodies were not compared with their checksums (--fast)")
        if self.alone:
            self.notes.append("files outside a store are judged by themselves")
        elif config is not None and (config.folder is None or not config.folder.is_dir()):
            self.notes.append("there is no config/ folder to compare with")
        if config is not None and config.settings.index_enabled is False:
            self.notes.append("messageIndexEnable is false: missing keys are not reported")
        if summary.not_yet_dispatched:
            self.notes.append(
                f"{summary.not_yet_dispatched} records are not dispatched yet: the next start does"
            )


class _Nothing(StoreDirectory):
    """A store of which only the log is looked at."""

    def __init__(self, store: StoreDirectory) -> None:
        self.path = store.path
        self.root = None
        self.kind = COMMITLOG

    def queue_files(self, topic: str | None = None, queue_id: int | None = None):  # type: ignore[no-untyped-def]
        """No queues."""
        return iter(())

    def index_files(self):  # type: ignore[no-untyped-def]
        """No index."""
        return []


def _topic_of(store: StoreDirectory) -> str | None:
    """The topic whose folder, or queue's folder or file, was given."""
    folders = [store.path.resolve(), *store.path.resolve().parents]
    for folder, above in itertools.pairwise(folders):
        if above.name in (state.CONSUMEQUEUE_DIR, state.BATCH_CONSUMEQUEUE_DIR):
            return folder.name
    return None
