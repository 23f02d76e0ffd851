"""Determine which records belong to a deleted topic when the topic was recreated.

Our broker records the physical offset of a deletion in ``queueEnds.json``. A Java broker records
nothing: its deletions show in queues whose offsets restart at 0 after older records with the same
offsets. Records of a deleted topic are neither damaged nor restored.
"""

from mqadmin.inspector.verify.queue_checks import TAGS, Queue, QueueTable, Run
from mqadmin.inspector.verify.report import QueueState
from mqadmin.inspector.verify.unit_view import NO_UNIT


class Recreations:
    """Deletions that the queues of a store show; ``records`` counts records of deleted topics.

    ``deleted`` maps a topic to the physical offset below which its records are of the deleted one.
    """

    def __init__(self, queues: QueueTable) -> None:
        self._recorded = queues.deleted.ends
        self.records = 0
        self.deleted = dict(self._recorded)
        for topic, end in queues.restarts.items():
            self._raise(topic, end)
        # topic -> physical offset of the last record of the earliest run before a restart
        self._restarts: dict[str, int] = {}
        # topic -> first physical offset of a good unit, or of a record without its unit
        self._firsts: dict[str, int] = {}
        # (topic, queue id) -> see _end_from_zero
        self._ends: dict[tuple[str, int], int] = {}

    def _raise(self, topic: bytes, end: int) -> None:
        self.deleted[topic] = max(end, self.deleted.get(topic, 0))

    def note_queue(self, queue: Queue, state: QueueState, first: int) -> None:
        """Add a queue; ``first`` is the physical offset of its first good unit, else NO_UNIT."""
        self.note_first(queue.topic, first)
        end = _end_from_zero(queue.runs)
        self._ends[queue.topic, queue.queue_id] = end
        for run in queue.runs:
            if _is_restart(run, state, first, end):
                known = self._restarts.get(queue.topic, run.last_physical)
                self._restarts[queue.topic] = min(known, run.last_physical)

    def note_first(self, topic: str, physical_offset: int) -> None:
        """Add a record that is not of a deleted topic."""
        self._firsts[topic] = min(physical_offset, self._firsts.get(topic, NO_UNIT))

    def take_run(self, queue: Queue, run: Run, state: QueueState, first: int) -> bool:
        """Whether a run of records without units is of a deleted topic; they are then counted.

        A queue without good units is decided by the other queues of the topic.
        """
        if run.code == TAGS or not queue.files or run.first < queue.files[0].first:
            return False
        if first < NO_UNIT:
            end = self._ends[queue.topic, queue.queue_id]
            # A topic is deleted with all its queues. One record before the first good unit of its
            # queue and after that of another one has a damaged queue id.
            is_whole = run.last_physical < self._firsts[queue.topic]
            found = is_whole and _is_restart(run, state, first, end)
        else:
            found = run.last_physical < self._recreated_at(queue.topic)
        return self._take(queue.topic, run.last_physical, run.records, found=found)

    def take_absent(self, topic: str, last_physical: int, records: int) -> bool:
        """Whether records of a queue without files are of a deleted topic; then counted."""
        end = max(self._recreated_at(topic), self.deleted.get(_raw(topic), 0))
        return self._take(topic, last_physical, records, found=last_physical < end)

    def _take(self, topic: str, last_physical: int, records: int, *, found: bool) -> bool:
        if found:
            self.records += records
            self._raise(_raw(topic), last_physical + 1)
        return found

    def _recreated_at(self, topic: str) -> int:
        """Return the offset below which records without units are of a deleted topic, else -1."""
        if _raw(topic) in self._recorded or topic not in self._restarts:
            return -1  # a recorded deletion is exact, see ``deleted``
        first = self._firsts[topic]
        return first if self._restarts[topic] < first else -1


def _raw(topic: str) -> bytes:
    return topic.encode("utf-8", "surrogateescape")


def _is_restart(run: Run, state: QueueState, first: int, end_from_zero: int) -> bool:
    """Whether queue offsets restarted at 0 after the records of a run.

    That is so if the record of the first good unit, at ``first``, is stored after the run, and the
    run reaches the queue's minOffset. Either the good units or the older records begin at 0: the
    record of a queue's first unit, alone, may have a damaged queue offset.
    """
    is_older = first < NO_UNIT and run.last_physical < first
    if run.code == TAGS or not is_older or run.last < state.min_offset:
        return False
    return state.min_offset == 0 or run.first < end_from_zero


def _end_from_zero(runs: list[Run]) -> int:
    """Return the queue offset up to which runs cover all queue offsets from 0 on."""
    end = 0
    for run in sorted((run for run in runs if run.code != TAGS), key=lambda run: run.first):
        if run.first > end:
            break
        end = max(end, run.last + 1)
    return end
