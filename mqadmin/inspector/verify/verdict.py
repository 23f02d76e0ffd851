"""Decide, after the scan of the log, which deviations of the ConsumeQueues are corruption.

A deviation appears as a record without its unit (a run of the queue) or as a unit without its
record (a unit that was not seen). If it appears as both, only the record's finding is reported.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from broker.common.sysflag import TRANSACTION_MASK
from broker.common.topic import LMQ_PREFIX, is_system_topic
from broker.errors import RemoteProtocolError
from broker.store.format.commitlog import LogRecord, check_record
from broker.store.format.consumequeue import (
    PRE_BLANK_SIZE,
    UNIT_SIZE,
    UNIT_STRUCT,
    decode_ext_unit,
    ext_offset,
    holds_unit,
    is_ext_address,
    place_of,
)
from broker.store.format.state import CONSUMEQUEUE_DIR
from mqadmin.inspector.damage import ERROR, NOTICE, WARNING
from mqadmin.inspector.log import LogReader
from mqadmin.inspector.queries.loss import LossTally
from mqadmin.inspector.queries.queues import belongs
from mqadmin.inspector.units import Unit as PlacedUnit
from mqadmin.inspector.verify.queue_checks import (
    MISSING,
    TAGS,
    MissingQueue,
    Queue,
    QueueTable,
    Run,
)
from mqadmin.inspector.verify.record_checks import tags_code
from mqadmin.inspector.verify.recreated_topics import Recreations
from mqadmin.inspector.verify.report import Findings, QueueState
from mqadmin.inspector.verify.unit_view import Anomaly, UnitView

MAX_MISMATCHES: Final = 10_000


class Bounds(NamedTuple):
    """The scanned range of the log, and the state of the store."""

    start: int  # units of records below it are not checked
    end: int
    clean_stop: bool
    running: bool
    end_missing: bool = False  # checkpoint or queueEnds.json records a later end


class Mismatch(NamedTuple):
    """A unit that points to a complete record of its size with another topic, queue or offset.

    Either the unit or the record is corrupt.
    """

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int


class Verdict:
    """Checks all queues of a table; ``topics`` are queue counts by topic, None if unknown."""

    def __init__(
        self,
        queues: QueueTable,
        log: LogReader,
        findings: Findings,
        bounds: Bounds,
        topics: dict[str, int] | None,
    ) -> None:
        self.queues = queues
        self.log = log
        self.findings = findings
        self.bounds = bounds
        self.topics = topics
        self.damaged: list[tuple[int, int]] = []
        self.unreadable: list[tuple[int, int]] = []  # CommitLog files that cannot be read
        # (topic, queue id) -> queue offset after the last unit that points into an unreadable file
        self.unread_ends: dict[tuple[str, int], int] = {}
        self.states: list[QueueState] = []
        self.mismatches: list[Mismatch] = []
        self._past_end: list[int] = []  # queue offsets of units past the end, of one queue
        self._empty_ends: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self.units = 0
        self.units_checked = 0
        self.not_yet_dispatched = 0
        self.behind: set[tuple[str, int]] = set()  # queues of records not dispatched yet
        self.recreated = Recreations(queues)
        self.losses = LossTally(bounds.end)

    def run(self, progress: Callable[[int], None]) -> None:
        """Check every queue, then the records of queues that have no files."""
        looked = []
        for queue in self.queues:
            if queue.is_batch:
                self._batch(queue)
            else:
                looked.append((queue, *self._look(queue)))
            progress(sum(file.count for file in queue.files) * UNIT_SIZE)
        for queue, odd, state, first in looked:
            self._classic(queue, odd, state, first)
        for (topic, queue_id), absent in sorted(self.queues.absent.items()):
            self._missing_queue(topic.decode("utf-8", "replace"), queue_id, absent)

    # --- queues with files ----------------------------------------------------------------------

    def _classic(self, queue: Queue, odd: list[Anomaly], state: QueueState, first: int) -> None:
        self.states.append(state)
        reported: list[tuple[int, int]] = []
        for run in queue.runs:
            if self.recreated.take_run(queue, run, state, first):
                continue
            if run.code != TAGS:
                self.recreated.note_first(queue.topic, run.first_physical)
            for part in self._split_seen(queue, run):
                self._record_side(queue, part, state)
                reported.append((part.first, part.last))
        holes: list[Anomaly] = []
        bridges = self._filler_units(queue, odd)
        for unit in odd:
            at = unit.queue_offset
            if at in bridges or any(low <= at <= high for low, high in reported):
                continue
            if unit.unit.size in (0, PRE_BLANK_SIZE):
                holes.append(unit)
            else:
                self._unit_side(queue, unit)
        self._lost(queue)
        self._holes(queue, holes)
        for begin, end in self._empty_ends[queue.topic, queue.queue_id]:
            if not any(low < end and begin <= high for low, high in reported):
                self._hole(queue, begin, end - begin)

    def _look(self, queue: Queue) -> tuple[list[Anomaly], QueueState, int]:
        """Return the anomalies of a queue, its bounds, and its first good unit's physical offset.

        That offset is the smallest one of all good units.
        """
        view = UnitView(self.bounds.start)
        for file in queue.files:
            data = self.queues.files.get(file.path).data
            if len(data) < file.count * UNIT_SIZE:
                self.queues.report_unreadable(file.path)
                continue
            view.look(data, file)
        odd = [unit._replace(followed=view.last_seen > unit.queue_offset) for unit in view.odd]
        self._empty_ends[queue.topic, queue.queue_id] = view.holes
        self.units += view.units
        self.units_checked += view.units - view.expired
        end = max(view.last_seen, view.last_expired) + 1
        state = QueueState(
            topic=queue.topic,
            queue_id=queue.queue_id,
            min_offset=view.first_seen if view.first_seen >= 0 else end,
            max_offset=end,
            units=view.seen,
        )
        first = view.first_physical
        self.recreated.note_queue(queue, state, first)
        return odd, state, first

    def _split_seen(self, queue: Queue, run: Run) -> Iterator[Run]:
        """Split a run into parts whose units were all seen (they have other records) or all not."""
        if run.code == TAGS:
            yield run
            return
        begin = run.first
        for offset in range(run.first, run.last + 1):
            is_end = offset == run.last
            if not is_end and queue.was_seen(offset) == queue.was_seen(offset + 1):
                continue
            # Of a run, the physical offsets of the first and last record only are known.
            whole = run._replace(first=begin, last=offset)
            yield whole if begin == run.first else whole._replace(first_physical=-1)
            begin = offset + 1

    def _record_side(self, queue: Queue, run: Run, state: QueueState) -> None:
        """Report records that have no unit or a wrong one."""
        if run.code == TAGS:
            self._tags(queue, run)
            return
        at, length = run.first * UNIT_SIZE, run.records * UNIT_SIZE
        span = _span(run)
        if queue.was_seen(run.first):
            self.findings.add(
                "superseded",
                queue.path_of(run.first),
                f"{_name(queue)}: the units of {run.records} records with {span} are of others"
                + _log_place(run.first_physical),
                file_position=at,
                length=length,
            )
        elif run.code == MISSING:
            self._missing(queue, run, state)
        else:
            unit = queue.unit(run.first)
            prefix = (
                ""
                if unit is None or run.records > 1
                else f": it has physical offset {unit.physical_offset}, size {unit.size}"
            )
            self.findings.add(
                "unit",
                queue.path_of(run.first),
                f"{_name(queue)}: {run.records} units at {span} do not point to their records"
                + _log_place(run.first_physical)
                + prefix,
                file_position=at,
                length=length,
                queue=(queue.topic, queue.queue_id),
            )

    def _missing(self, queue: Queue, run: Run, state: QueueState) -> None:
        if self._came_later(queue.found.path, run):
            return
        if run.first_physical >= self.queues.matched_end and run.first >= state.max_offset:
            if not self.bounds.clean_stop or self.bounds.running:
                self.not_yet_dispatched += run.records
                self.behind.add((queue.topic, queue.queue_id))
                return
            kind, severity = "undispatched", WARNING
        else:
            # After a crash the next start dispatches the records after the checkpoint again.
            kind, severity = "unitMissing", WARNING if not self.bounds.clean_stop else ERROR
        self.findings.add(
            kind,
            queue.path_of(run.first),
            f"{_name(queue)}: no units for {run.records} records with {_span(run)}"
            + _log_place(run.first_physical),
            file_position=run.first * UNIT_SIZE,
            length=run.records * UNIT_SIZE,
            severity=severity,
            queue=(queue.topic, queue.queue_id),
        )

    def _came_later(self, folder: Path, run: Run | MissingQueue) -> bool:
        """Whether a running broker has written the units since the queue was read."""
        if not self.bounds.running:
            return False
        return fresh_unit(folder, run.last) == run.last_physical and (
            run.first_physical < 0 or fresh_unit(folder, run.first) == run.first_physical
        )

    def _tags(self, queue: Queue, run: Run) -> None:
        """Report units with a wrong tags code; an extension unit's address is resolved first."""
        wrong: list[int] = []
        for offset in range(run.first, run.last + 1):
            unit = queue.unit(offset)
            place = None if unit is None else self.log.record(unit.physical_offset)
            if unit is None or place is None:
                continue
            expected = tags_code(place[1])
            if is_ext_address(unit.tags_code):
                if self._ext_code(queue, unit.tags_code) == expected:
                    continue
            elif unit.tags_code == expected:
                continue
            wrong.append(offset)
        if wrong:
            unit = queue.unit(wrong[0])
            assert unit is not None
            self.findings.add(
                "tagsCode",
                queue.path_of(wrong[0]),
                f"{_name(queue)}: {len(wrong)} units from queue offset {wrong[0]} have a tags code"
                f" that is not their record's (the first: {unit.tags_code})",
                file_position=wrong[0] * UNIT_SIZE,
                length=UNIT_SIZE,
                queue=(queue.topic, queue.queue_id),
            )

    def _ext_code(self, queue: Queue, address: int) -> int | None:
        folder = queue.found.path.parent.parent.parent / "consumequeue_ext"
        folder = folder / queue.topic / str(queue.queue_id)
        at = ext_offset(address)
        try:
            files = sorted(path for path in folder.iterdir() if path.name.isdecimal())
        except OSError:
            return None
        for path in reversed(files):
            if int(path.name) <= at:
                data = self.queues.files.get(path).data
                try:
                    return decode_ext_unit(data, at - int(path.name)).tags_code
                except RemoteProtocolError:
                    return None
        return None

    def _unit_side(self, queue: Queue, odd: Anomaly) -> None:
        """Report a unit whose record was not scanned, or that goes back in the log."""
        unit = odd.unit
        at = odd.queue_offset * UNIT_SIZE
        path = queue.path_of(odd.queue_offset)
        key = (queue.topic, queue.queue_id)
        prefix = f"{_name(queue)}: the unit at queue offset {odd.queue_offset}"
        if odd.seen:
            self.findings.add(
                "order",
                path,
                f"{prefix} points back in the log, to {unit.physical_offset}",
                file_position=at,
                length=UNIT_SIZE,
                queue=key,
            )
            return
        if unit.physical_offset >= 0 and unit.size > 0:
            if any(low <= unit.physical_offset < high for low, high in self.unreadable):
                end = max(self.unread_ends.get(key, 0), odd.queue_offset + 1)
                self.unread_ends[key] = end
                return
            found = self.log.record(unit.physical_offset)
            if found is not None and self.bounds.running:
                placed = PlacedUnit(odd.queue_offset, *unit, None, str(path))
                if belongs(queue.found, placed, found[1]):
                    return  # written while the log was read
            if self._is_past_end(unit.physical_offset) and not odd.followed:
                if not self.bounds.running:  # else it was written while the log was read
                    self._past_end.append(odd.queue_offset)
                    self.losses.add(key, odd.queue_offset, place=unit.physical_offset)
                return
            if any(low <= unit.physical_offset < high for low, high in self.damaged):
                if not self._holds_record(unit.physical_offset):
                    self.losses.add(key, odd.queue_offset, place=unit.physical_offset)
                return  # the scan has reported the corruption of its record
            if found is not None:
                self._other_record(queue, odd, found[1], prefix)
                return
        if self.losses.is_possible(unit.physical_offset) and unit.size > 0:
            self.losses.add(key, odd.queue_offset)
        self.findings.add(
            "unit",
            path,
            f"{prefix} points to physical offset {unit.physical_offset}, size {unit.size}:"
            " no record starts there",
            file_position=at,
            length=UNIT_SIZE,
            queue=(queue.topic, queue.queue_id),
        )

    def _other_record(self, queue: Queue, odd: Anomaly, record: LogRecord, prefix: str) -> None:
        """Report a unit that points to a record of another topic, queue or queue offset."""
        unit = odd.unit
        if record.physical_offset < self.recreated.deleted.get(record.topic, 0):
            target = "a message that was deleted with its topic"
        else:
            alone = self._is_alone(queue, odd.queue_offset) and not queue.is_renamed_at(
                odd.queue_offset, record.queue_offset
            )
            if alone and record.total_size == unit.size and len(self.mismatches) < MAX_MISMATCHES:
                self.mismatches.append(
                    Mismatch(queue.topic, queue.queue_id, odd.queue_offset, unit.physical_offset)
                )
            target = (
                f"a record of {record.topic.decode('utf-8', 'replace')}/{record.queue_id} with"
                f" queue offset {record.queue_offset} and {record.total_size} bytes, transaction"
                f" type {record.sys_flag & TRANSACTION_MASK:#x}; the unit has size {unit.size}"
            )
        self.findings.add(
            "unit",
            queue.path_of(odd.queue_offset),
            f"{prefix} points to {target}",
            file_position=odd.queue_offset * UNIT_SIZE,
            length=UNIT_SIZE,
            queue=(queue.topic, queue.queue_id),
        )

    def _holds_record(self, physical_offset: int) -> bool:
        """Whether a complete record starts there; its physical offset field is not checked."""
        place = self.log.place(physical_offset)
        if place is None:
            return False
        file, opened = place
        if opened is None:
            return False
        return check_record(opened.data, physical_offset - file.start, check_crc=False) > 0

    def _lost(self, queue: Queue) -> None:
        """Report the units past the end of the log, one finding per queue."""
        offsets, self._past_end = self._past_end, []
        if not offsets:
            return
        kind, severity = self._past_end_verdict()
        self.findings.add(
            kind,
            queue.path_of(offsets[0]),
            f"{_name(queue)}: {len(offsets)} messages with {_offsets(offsets[0], offsets[-1])} are"
            f" lost: their units lead past the end of the log, which is at {self.bounds.end}",
            severity=severity,
            file_position=offsets[0] * UNIT_SIZE,
            length=len(offsets) * UNIT_SIZE,
            queue=(queue.topic, queue.queue_id),
        )

    def _is_past_end(self, physical_offset: int) -> bool:
        """Whether a lost or stale message can have been there, past the end of the log."""
        return physical_offset >= self.bounds.end and self.losses.is_possible(physical_offset)

    def _past_end_verdict(self) -> tuple[str, str]:
        """Return kind and severity of units past the end of the log.

        Java does not zero units when it truncates a queue. After a clean stop they may remain from
        an earlier crash, unless checkpoint or queueEnds.json shows that the log lost its end.
        """
        if not self.bounds.clean_stop:
            return "lost", WARNING
        return ("lost", ERROR) if self.bounds.end_missing else ("stale", NOTICE)

    def _is_alone(self, queue: Queue, queue_offset: int) -> bool:
        """Whether both neighbours of a unit are good, so that only one record or unit is wrong."""
        for neighbour in (queue_offset - 1, queue_offset + 1):
            unit = queue.unit(neighbour)
            if unit is not None and unit.size not in (0, PRE_BLANK_SIZE):
                expired = unit.physical_offset < self.bounds.start
                if not queue.was_seen(neighbour) and not expired:
                    return False
        return True

    def _filler_units(self, queue: Queue, odd: list[Anomaly]) -> set[int]:
        """Return filler units: equal to the good unit after them; repair writes them for losses."""
        found: set[int] = set()
        last = 0
        for unit in reversed(odd):
            at = unit.queue_offset
            if unit.seen or unit.unit.size in (0, PRE_BLANK_SIZE):
                continue
            if (queue.was_seen(at + 1) or at + 1 in found) and queue.unit(at + 1) == unit.unit:
                found.add(at)
                last = max(last, at)
        if found:
            self.findings.add(
                "bridge",
                queue.path_of(last),
                f"{_name(queue)}: {len(found)} units up to queue offset {last} replace lost"
                " messages and point to the next one",
                file_position=last * UNIT_SIZE,
                severity=NOTICE,
            )
        return found

    def _holes(self, queue: Queue, holes: list[Anomaly]) -> None:
        """Report empty units between written ones, adjacent ones as one finding."""
        begin = 0
        for at, hole in enumerate(holes):
            last = at + 1 == len(holes) or holes[at + 1].queue_offset != hole.queue_offset + 1
            if not last:
                continue
            self._hole(queue, holes[begin].queue_offset, at - begin + 1)
            begin = at + 1

    def _hole(self, queue: Queue, first: int, count: int) -> None:
        self.findings.add(
            "unitHole",
            queue.path_of(first),
            f"{_name(queue)}: {count} empty units from queue offset {first} on",
            file_position=first * UNIT_SIZE,
            length=count * UNIT_SIZE,
            queue=(queue.topic, queue.queue_id),
        )

    def _batch(self, queue: Queue) -> None:
        """Report units of a BatchConsumeQueue for which no record was scanned."""
        end = following = 0
        low = -1
        for base, (unit, path) in sorted(queue.batch_units.items()):
            follows, following = base == following, base + unit.batch_size
            self.units += 1
            if unit.physical_offset < self.bounds.start:
                continue
            self.units_checked += 1
            if base in queue.batch_seen:
                low = base if low < 0 else low
                end = base + unit.batch_size
                continue
            if any(begin <= unit.physical_offset < stop for begin, stop in self.damaged):
                if not any(low <= unit.physical_offset < high for low, high in self.unreadable):
                    key = (queue.topic, queue.queue_id)
                    self.losses.add(key, base, unit.batch_size, place=unit.physical_offset)
                continue
            key = (queue.topic, queue.queue_id)
            beyond = self._is_past_end(unit.physical_offset)
            found = self.log.record(unit.physical_offset)
            if found is not None and follows:
                self._batch_mismatch(queue, base, found[1])
            if beyond or found is None:
                self.losses.add(key, base, unit.batch_size, place=unit.physical_offset)
            kind, severity = self._past_end_verdict() if beyond else ("unit", ERROR)
            self.findings.add(
                kind,
                path,
                f"{_name(queue)}: the unit of queue offset {base} points to physical offset"
                f" {unit.physical_offset}, size {unit.size}: not its record",
                severity=severity,
                queue=key,
            )
        self.states.append(
            QueueState(
                topic=queue.topic,
                queue_id=queue.queue_id,
                min_offset=max(low, 0),
                max_offset=end,
                units=len(queue.batch_seen),
            )
        )

    def _batch_mismatch(self, queue: Queue, base: int, record: LogRecord) -> None:
        """Note a record whose unit shows another queue offset, unless it has one at its own."""
        unit, own = queue.batch_units[base][0], queue.batch_units.get(record.queue_offset)
        if (
            record.total_size == unit.size
            and (own is None or own[0].physical_offset != unit.physical_offset)
            and len(self.mismatches) < MAX_MISMATCHES
        ):
            place = record.physical_offset
            self.mismatches.append(Mismatch(queue.topic, queue.queue_id, base, place))

    # --- queues without files -------------------------------------------------------------------

    def _missing_queue(self, topic: str, queue_id: int, absent: MissingQueue) -> None:
        """Classify records of a queue without files: topic deleted, not dispatched, or lost."""
        light = topic.startswith(LMQ_PREFIX)
        if not light and self.topics is not None:
            count = self.topics.get(topic)
            alive = any(queue.topic == topic for queue in self.queues)
            # Java 4.9 has no entry for some system topics, which cannot be deleted.
            if count is None and not alive and not is_system_topic(topic):
                self.recreated.records += absent.records  # the topic was deleted
                return
            if count is not None and queue_id >= count:
                self.recreated.records += absent.records  # it has fewer queues now
                return
        if self.recreated.take_absent(topic, absent.last_physical, absent.records):
            return
        folder = self._folder(topic, queue_id)
        if folder is not None and self._came_later(folder, absent):
            return
        undispatched = absent.first_physical >= self.queues.matched_end and self.queues.matched_end
        if undispatched and (not self.bounds.clean_stop or self.bounds.running):
            self.not_yet_dispatched += absent.records
            self.behind.add((topic, queue_id))
            return
        self.findings.add(
            "undispatched" if undispatched else "queueMissing",
            folder or "",
            f"{topic}/{queue_id} has no ConsumeQueue, the log holds {absent.records} of its"
            f" messages (queue offsets {absent.first} to {absent.last})"
            + _log_place(absent.first_physical),
            file_position=absent.first * UNIT_SIZE,
            length=(absent.last - absent.first + 1) * UNIT_SIZE,
            severity=WARNING if undispatched else ERROR,
            queue=(topic, queue_id),
        )

    def _folder(self, topic: str, queue_id: int) -> Path | None:
        root = self.queues.root
        return None if root is None else root / CONSUMEQUEUE_DIR / topic / str(queue_id)


def fresh_unit(folder: Path, queue_offset: int) -> int:
    """Read the unit at a queue offset from disk: its physical offset, -1 if there is no unit."""
    try:
        # A file that the broker is creating may still be empty.
        size = max((path.stat().st_size for path in folder.iterdir()), default=0)
        if size < UNIT_SIZE:
            return -1
        name, at = place_of(queue_offset, size)
        with (folder / name).open("rb") as file:
            file.seek(at)
            data = file.read(UNIT_SIZE)
    except OSError:
        return -1
    return int(UNIT_STRUCT.unpack(data)[0]) if len(data) == UNIT_SIZE and holds_unit(data) else -1


def _name(queue: Queue) -> str:
    return f"{queue.topic}/{queue.queue_id}"


def _log_place(physical_offset: int) -> str:
    return f", in the log from physical offset {physical_offset} on" if physical_offset >= 0 else ""


def _span(run: Run) -> str:
    return _offsets(run.first, run.last)


def _offsets(first: int, last: int) -> str:
    return f"queue offset {first}" if first == last else f"queue offsets {first} to {last}"
