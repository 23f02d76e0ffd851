"""Verification: compare log, queues, index, configuration and checkpoint with each other.

Theory of operation
    The log is read once. Each record determines its ConsumeQueue unit and its index entries; both
    are compared with the files batch by batch (:mod:`~mqadmin.inspector.verify.queue_checks`,
    :mod:`~mqadmin.inspector.verify.index_checks`). After the scan, units and entries without a
    record are examined (:mod:`~mqadmin.inspector.verify.verdict`), then configuration, checkpoint
    and markers (:mod:`~mqadmin.inspector.verify.config_checks`).

    With numpy, plain records are compared in columns; without it, one by one. The same code
    reports every finding.

Limits
    Fields that no checksum covers and no other file repeats are not verified: flag, bornTimestamp,
    bornHost, storeHost, reconsumeTimes, properties other than TAGS, KEYS and UNIQ_KEY, the lowest
    bits of storeTimestamp. The property CRC of 5.x (enabledAppendPropCRC) covers all of them.
    Bytes that remain from a truncation and are complete records at their offsets are accepted.

The store is not modified; files are mapped read-only.
"""

import itertools
import time
from collections.abc import Callable

import msgspec

from broker.errors import RemoteProtocolError, StoreError
from broker.store.format import state
from broker.store.format.commitlog import check_record
from broker.store.format.consumequeue import UNIT_SIZE, UNIT_STRUCT
from mqadmin.inspector.damage import AT_END, ERROR, LAST_MS, NOTICE, WARNING, found
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
from mqadmin.inspector.queries.loss import QueueLoss, total
from mqadmin.inspector.queries.messages import start_by_time
from mqadmin.inspector.rows import CheckpointRow, DamageRow, StateRow
from mqadmin.inspector.store_manifest import StoreManifest
from mqadmin.inspector.verify.config_checks import (
    ConfigChecks,
    Settings,
    check_checkpoint,
    check_file_types,
    check_queue_ends,
    check_state,
    count_losses,
    queue_ends,
)
from mqadmin.inspector.verify.derived.ext_checks import check_extensions
from mqadmin.inspector.verify.derived.static_topic_checks import check_static_topics
from mqadmin.inspector.verify.derived.timer_checks import check_timers
from mqadmin.inspector.verify.expiry import while_files_stay
from mqadmin.inspector.verify.index_checks import IndexChecks, plain_columns
from mqadmin.inspector.verify.log_walk import ColumnWalk, has_columns
from mqadmin.inspector.verify.queue_checks import OpenFiles, QueueTable, written_units
from mqadmin.inspector.verify.record_checks import RecordChecks
from mqadmin.inspector.verify.report import Findings, QueueState, VerifySummary
from mqadmin.inspector.verify.verdict import Bounds, Mismatch, Verdict

Progress = Callable[[str, int, int], None]

# Kinds that damage only the body: the record's fields are valid and compared like any other's.
_LOST = frozenset({"crc"})
_PART_KEYS = 8192
_PAGE = 4096
_NO_MARKERS = StateRow(
    path="", clean_stop=True, abort=False, abort_pid=None, lock=False, held_by=None
)


class VerifyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Scope of a verification. ``check_crc`` compares every body with its CRC.

    ``since_ms`` restricts the scan to records stored at or after that time (epoch ms). ``columns``
    None selects the fast path if numpy is installed.
    """

    topic: str | None = None
    since_ms: int | None = None
    check_crc: bool = True
    columns: bool | None = None


class Verification(msgspec.Struct, kw_only=True):
    """The result: findings in the order of detection, and the summary.

    Repair also uses ``damaged_regions`` of the log; ``broken_queues`` (topic, queue
    id) to rebuild; ``lagging_queues``, which the next start after a crash dispatches to;
    ``newest_timestamp``, the latest storeTimestamp in ms; the bounds of each queue; units and
    records that contradict each other; ``losses`` by topic and queue; ``deleted``, by topic the
    physical offset below which its records are of the deleted topic; ``batch_topics``, those of
    queue type BatchCQ in topics.json.
    """

    findings: list[DamageRow]
    summary: VerifySummary
    damaged_regions: list[DamageRow]
    broken_queues: set[tuple[str, int]]
    lagging_queues: set[tuple[str, int]]
    newest_timestamp: int
    queues: list[QueueState]
    mismatches: list[Mismatch]
    losses: list[QueueLoss]
    deleted: dict[bytes, int]
    batch_topics: set[str]


def verify(
    store: StoreDirectory,
    options: VerifyOptions | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Verify a store, a part of one or a single file.

    ``progress`` is called repeatedly with (phase, bytes done, total bytes; total 0: unknown).
    Raises StoreError if the files cannot be read.
    """
    return while_files_stay(store, lambda: _Run(store, options or VerifyOptions(), progress).run())


class _Run:
    def __init__(
        self, store: StoreDirectory, options: VerifyOptions, progress: Progress | None
    ) -> None:
        self.path = store.path
        self.options = options
        self.progress = progress or (lambda subject, done, total: None)
        self.columns = has_columns() if options.columns is None else options.columns
        self.findings = Findings()
        self.notes: list[str] = []
        # A single file, or a folder outside a store, is verified without the other files.
        self.alone = store.root is None or (store.path.is_file() and store.kind == COMMITLOG)
        self.topic = options.topic
        if store.kind == CONSUMEQUEUE and store.root is not None:
            # Deleted and undispatched records show only in all queues of the topic together.
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
        self.damaged_regions_of_log: list[DamageRow] = []
        self.done = 0

    def run(self) -> Verification:
        """Scan the log, then check queues, index, configuration and markers."""
        began = time.monotonic()
        store = self.store
        markers = store.state() if store.root is not None else _NO_MARKERS
        running = bool(markers.held_by)
        state_word = "running" if running else ("crashed" if markers.abort else "clean")
        row = self._checkpoint()
        if store.kind in (CHECKPOINT, INDEX) and store.path.is_file():
            self.alone = True
        inside = store if not self.alone else _EmptyDirectory(store)
        queues = QueueTable(inside, self.topic, self.findings, running=running)
        index = self._index_checks(inside, moving=running or markers.abort, running=running)
        config = ConfigChecks(store, self.findings) if not self.alone else None
        with LogReader(store) as log:
            records = RecordChecks(queues, log, self.findings)
            walk = self._walk(records, index)
            self._check_last_file(walk)
            if not running:
                self._check_torn(walk.end, WARNING)
                self._check_after_end(walk)
            newest = records.newest_timestamp
            flushed = 0 if row is None else row.physic_msg_timestamp or 0
            bounds = Bounds(
                max(log.min_offset or 0, self.start),
                walk.end,
                clean_stop=not markers.abort,
                running=running,
                end_missing=newest < flushed <= LAST_MS or queues.recorded.log_end > walk.end,
            )
            topics = None if config is None else config.topics()
            if self.topic is not None and not self.alone:
                queues.matched_end = max(queues.matched_end, self._dispatched_end(walk.end))
            verdict = Verdict(queues, log, self.findings, bounds, topics)
            verdict.damaged, verdict.unreadable = self.damaged, self.unreadable
            if not self.alone:
                verdict.run(self._queue_progress)
                self._derived(verdict, log)
        if config is not None:
            self._finish_index(index, config, bounds)
            config.compare(verdict, records)
            ends = None if running else queue_ends(verdict)
            check_static_topics(store, self.findings, topics, ends, self.topic)
            self._check_only_file(config.settings, queues.recorded)
            check_file_types(store, self.findings)
            check_state(store, markers, self.findings)
            if not running and (records.records or not self.start):
                check_checkpoint(store, row, self.findings, end=walk.end, newest=newest)
            if state_word == "clean":
                extent = (log.min_offset or 0, walk.end)
                check_queue_ends(store, queues.recorded, self.findings, extent)
        queues.close()
        summary = self._summary(walk, records, verdict, index)
        summary.state = state_word
        summary.checkpoint = row
        summary.seconds = round(time.monotonic() - began, 3)
        self._note(config, summary)
        return Verification(
            findings=self.findings.rows,
            summary=summary,
            damaged_regions=self.damaged_regions_of_log,
            broken_queues=self.findings.broken_queues,
            lagging_queues=verdict.behind,
            newest_timestamp=records.newest_timestamp,
            queues=verdict.states,
            mismatches=verdict.mismatches,
            losses=summary.lost,
            deleted=verdict.recreated.deleted,
            batch_topics=set() if config is None else config.batch_topics(),
        )

    def _index_checks(self, inside: StoreDirectory, *, moving: bool, running: bool) -> IndexChecks:
        directory = self.store if self.store.kind == INDEX else inside
        checks = IndexChecks(
            directory, self.findings, moving=moving, running=running, topic=self.topic
        )
        checks.damaged = self.damaged
        return checks

    def _derived(self, verdict: Verdict, log: LogReader) -> None:
        """Count losses; check extension files and, unless a topic is selected, timer files."""
        bounds = verdict.bounds
        count_losses(verdict, self.damaged_regions_of_log, moving=bounds.running or self.start > 0)
        check_extensions(self.store, log, self.findings, self.topic)
        if self.topic is None:
            check_timers(
                self.store,
                log,
                self.findings,
                queue_ends(verdict),
                running=bounds.running,
                clean=bounds.clean_stop,
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
        except StoreError as error:
            self.findings.add("checkpoint", path, error.message)
            return None
        if length != 4096:
            self.findings.add(
                "checkpoint", path, f"the file has {length} bytes instead of 4096", severity=WARNING
            )
        return row

    # --- the scan of the log --------------------------------------------------------------------

    def _walk(self, records: RecordChecks, index: IndexChecks) -> LogWalk:
        """Scan the log; its findings are in the order of the log."""
        scanned = len(self.findings.rows)
        take = self._walk_columns if self.columns else self._walk_records
        walk = take(records, index)
        self._end_moved()
        self.findings.sort(scanned)
        return walk

    def _walk_records(self, records: RecordChecks, index: IndexChecks) -> LogWalk:
        walk = LogWalk(self.store, start=self.start, check_crc=self.options.check_crc)
        begin = max(self.start, walk.min_offset)  # records below it have expired
        for item in walk:
            self._note_item(item)
            record = item.record
            if record is None:
                continue
            if len(records.keys) >= _PART_KEYS:
                # Only now: damage after a record may show that its end was not written.
                index.compare(plain_columns(records.keys), begin, record.physical_offset)
                records.keys.clear()
                begin = record.physical_offset
                self._report(begin)
            if not self._is_lost(record.physical_offset):
                records.take(item.file, record)
        index.compare(plain_columns(records.keys), begin, walk.end)
        return walk

    def _walk_columns(self, records: RecordChecks, index: IndexChecks) -> LogWalk:
        from mqadmin.inspector.verify.vectorized.column_checks import ColumnChecks

        records.queues.defer()
        checks = ColumnChecks(records)
        done = end = 0

        def take(file: object, batch: object, untrusted: frozenset[int]) -> None:
            nonlocal done, end
            # The keys of the batch before, only now: damage after a record may show that its end
            # was not written.
            index.compare(checks.take_keys(), done, end)
            done = end
            self._report(end)
            checks.take(file, batch, untrusted)  # type: ignore[arg-type]
            end = int(
                batch.physical_offset[-1] + batch.column("total_size")[-1]  # type: ignore[attr-defined]
            )

        walk = ColumnWalk(self.store, take, start=self.start, check_crc=self.options.check_crc)
        done = end = max(self.start, walk.min_offset)  # records below it have expired
        for item in walk:
            self._note_item(item)
        checks.flush()
        index.compare(checks.take_keys(), done, walk.end)
        self._report(walk.end)
        return walk

    def _check_after_end(self, walk: LogWalk) -> None:
        """Report files past the end of the log; the preallocated next file is empty."""
        for file in self._readable():
            if file.start < walk.end or file.length == 0:
                continue
            with open_bytes(file.path) as opened:
                if not any(opened.data[:4096]) or check_record(opened.data, 0, check_crc=False) > 0:
                    continue  # the scan has reported a record there
                row = found(
                    "magic",
                    str(file.path),
                    "the file is past the end of the log and not empty",
                    physical_offset=file.start,
                    length=file.length,
                    severity=WARNING,
                )
                self.findings.take(row)

    def _check_last_file(self, walk: LogWalk) -> None:
        """Report a last file cut after a record; brokers end a full file with a blank record."""
        files = [file for file in self.store.log_files() if file.length]
        if not files:
            return
        end = files[-1].start + files[-1].length
        if walk.end == end and self.blank_end != end:
            self.findings.add(
                "fileSize",
                files[-1].path,
                "the file ends after a record, without a blank record: it was truncated here",
                physical_offset=end,
                severity=WARNING,
            )

    def _finish_index(self, index: IndexChecks, config: ConfigChecks, bounds: Bounds) -> None:
        folder = self.store.folder(state.INDEX_DIR)
        assert folder is not None
        enabled = config.settings.index_enabled
        index.finish(bounds.start, bounds.end, folder=folder, enabled=enabled)

    def _check_only_file(self, settings: Settings, recorded: StoreManifest) -> None:
        """Compare the length of a single CommitLog file with broker.conf or queueEnds.json."""
        configured = settings.number("mappedFileSizeCommitLog") or recorded.file_sizes[0]
        files = self.store.log_files()
        if len(files) != 1 or not files[0].length or files[0].length == configured:
            return
        length = files[0].length
        if configured:
            why = f"the length in broker.conf or queueEnds.json is {configured}"
        elif length % _PAGE:
            why = "a broker starts on it only if that is its mappedFileSizeCommitLog"
        else:
            return
        self.findings.add(
            "fileSize",
            files[0].path,
            f"the file has {length} bytes, {why}",
            physical_offset=files[0].start + length,
            severity=WARNING if configured else NOTICE,
        )

    def _readable(self) -> list[LogFile]:
        """Return the CommitLog files except those reported as unreadable."""
        gone = {start for start, _ in self.unreadable}
        return [file for file in self.store.log_files() if file.start not in gone]

    def _check_torn(self, end: int, severity: str) -> None:
        """Report the last record before a damaged region, or of the log, if its end is missing."""
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
                " are zeros in part: the record was not written completely",
                physical_offset=record.physical_offset,
                length=record.total_size,
                severity=severity,
                suggestion=AT_END if severity == WARNING else "",
            )
            self.damaged_regions_of_log.append(row)
            self.damaged.append((record.physical_offset, end))
            self.damaged_bytes += record.total_size
            self.findings.take(row)
            self.findings.broken_queues.add((topic, record.queue_id))

    def _note_item(self, item: LogItem) -> None:
        row = item.damage
        if row is not None and row.kind == "position" and row.severity == WARNING:
            self._end_moved()
            self.findings.take(row)  # a file past the end, not part of the log
            return
        if row is not None:
            self.damaged_regions_of_log.append(row)
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
        """Merge a record at a wrong position into the last such one; False if not adjacent."""
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
        """Report the pending records at wrong positions, merged by ``_joins``, as one finding."""
        if self.moved is not None:
            self.findings.take(self.moved)
            self.moved = None

    def _is_lost(self, physical_offset: int) -> bool:
        """Whether the last damaged region starts at this record: its fields are not trusted."""
        return bool(self.damaged) and self.damaged[-1][0] == physical_offset

    def _report(self, end: int) -> None:
        self.progress("log", end, self.log_bytes)

    def _queue_progress(self, length: int) -> None:
        self.done += length
        self.progress("queues", self.done, 0)

    def _dispatched_end(self, end: int) -> int:
        """Return the physical offset up to which the last units of all queues were dispatched."""
        files = OpenFiles(1)
        most = 0
        for queue in self.store.queue_files():
            if queue.kind != "classic" or not queue.files:
                continue
            file = files.get(queue.files[-1][0])
            count = written_units(file)
            if not count and len(queue.files) > 1:  # a put has just created the file
                file = files.get(queue.files[-2][0])
                count = written_units(file)
            if 0 < count * UNIT_SIZE <= len(file.data):
                physical, size, _ = UNIT_STRUCT.unpack_from(file.data, (count - 1) * UNIT_SIZE)
                if physical + size <= end:
                    most = max(most, physical + size)
        files.close()
        return most

    # --- the summary ----------------------------------------------------------------------------

    def _summary(
        self, walk: LogWalk, records: RecordChecks, verdict: Verdict, index: IndexChecks
    ) -> VerifySummary:
        self._end_moved()
        begin = max(walk.min_offset, self.start)
        whole = max(walk.end - walk.min_offset, 0)
        checked = max(walk.end - begin, 0)
        findings = self.findings
        lost = verdict.losses.rows()
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
            queues=len(verdict.states),
            units=verdict.units,
            units_checked=verdict.units_checked,
            before_recreation=verdict.recreated.records + verdict.queues.deleted.records,
            not_yet_dispatched=verdict.not_yet_dispatched,
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
            lost_messages=total(lost),
            lost=lost,
        )

    def _note(self, config: ConfigChecks | None, summary: VerifySummary) -> None:
        if self.findings.left_out:
            self.notes.append(f"{self.findings.left_out} more findings of the kinds above")
        if not self.options.check_crc:
            self.notes.append("bodies were not compared with their checksums (--fast)")
        if self.alone:
            self.notes.append("files outside a store are checked separately")
        elif config is not None and (config.folder is None or not config.folder.is_dir()):
            self.notes.append("there is no config/ folder to compare with")
        if config is not None and config.settings.index_enabled is False:
            self.notes.append("messageIndexEnable is false: missing keys are not reported")
        if summary.not_yet_dispatched:
            self.notes.append(
                f"{summary.not_yet_dispatched} records are not dispatched yet: the next start does"
            )


class _EmptyDirectory(StoreDirectory):
    """A store without queues and index, so that only the log is verified."""

    def __init__(self, store: StoreDirectory) -> None:
        self.path = store.path
        self.root = None
        self.kind = COMMITLOG

    def queue_files(self, topic: str | None = None, queue_id: int | None = None):  # type: ignore[no-untyped-def]
        """Return no queues."""
        return iter(())

    def index_files(self):  # type: ignore[no-untyped-def]
        """Return no IndexFiles."""
        return []


def _topic_of(store: StoreDirectory) -> str | None:
    """Return the topic if the path is a topic's folder or inside one."""
    folders = [store.path.resolve(), *store.path.resolve().parents]
    for folder, above in itertools.pairwise(folders):
        if above.name in (state.CONSUMEQUEUE_DIR, state.BATCH_CONSUMEQUEUE_DIR):
            return folder.name
    return None
