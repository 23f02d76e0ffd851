"""Validate ConsumeQueues before the log scan: units without a record, truncated queues.

The check compares the ConsumeQueue files, the log records of their last units, and
``queueEnds.json``, written when the store was last opened or stopped. Differences are added to the
recovery report and decide from where recovery scans the log.
"""

from typing import Final

from broker.common.topic import is_system_topic
from broker.store.commitlog import CommitLog
from broker.store.consumequeue import multi_dispatch
from broker.store.consumequeue.consume_queue import ConsumeQueue, Topic
from broker.store.consumequeue.consume_queue_store import ConsumeQueueStore
from broker.store.dispatch.reput import ReputService
from broker.store.dispatch.request import DispatchRequest
from broker.store.format.commitlog import check_record
from broker.store.recovery.store_manifest import StoreManifest
from broker.store.results import RecoveryReport

# Bounds the recovery report of a store with many affected queues.
MAX_NOTES: Final = 100


class ConsumeQueueValidator:
    """Validate the ConsumeQueues of a store that is being opened.

    ``known`` is the set of topics in topics.json; None if the file cannot be read, and then every
    topic is treated as existing.
    """

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueueStore,
        reput: ReputService,
        manifest: StoreManifest,
        report: RecoveryReport,
    ) -> None:
        self.known: set[str] | None = None
        self._log = log
        self._queues = queues
        self._reput = reput
        self._manifest = manifest
        self._notes = report.notes

    def drop_unvalidated(self, *, intact: bool) -> None:
        """Drop units at the end of each queue that have no matching record in the log.

        ``intact``: the files contain everything that was stored, so the queue ends found on opening
        are correct; otherwise each end is searched again.
        """
        for queue in self._queues.visit():
            if self._manifest.is_deleted(queue.topic.name, queue.max_physical_offset - 1):
                # The deletion was recorded, and then interrupted, or a file could not be removed.
                # The topic may have been recreated since: its units replace the first old ones.
                first = queue.unit(queue.first_offset)
                if first is not None and not self._manifest.is_deleted(queue.topic.name, first[0]):
                    self._manifest.require_full_scan()
                queue.destroy()
                continue
            if not intact:
                queue.scan_end()
            self.drop_without_record(queue)

    def drop_without_record(self, queue: ConsumeQueue) -> None:
        """Drop the units at the end of a queue that have no matching record in the log."""
        end = queue.max_offset
        while end > 0:
            base = queue.unit_base(end - 1)  # a unit of a BatchCQ queue has several offsets
            if base >= end:  # corrupt bases are not in order: the log has the units
                end = 0
                break
            unit = queue.unit(base)
            if unit is None or self.has_record(queue, base, unit):
                break
            if self._has_corrupt_offset(queue, base, unit):
                break  # the log scan needs the unit: it shows the right offset
            if 0 <= unit[0] < self._log.min_offset:
                break  # an expired record, or a filler, cannot be checked
            end = base
        if end < queue.max_offset:
            self._notes.append(
                f"{queue.topic.name}/{queue.queue_id}: {queue.max_offset - end} units past"
                " the end removed"
            )
            queue.truncate_units(end)

    def full(self) -> list[tuple[ConsumeQueue, int]]:
        """Queues whose last file is full, each with its max offset.

        After a crash the number of files of a queue is unknown: such a queue may have lost one.
        """
        return [
            (queue, queue.max_offset)
            for queue in self._queues.visit()
            if queue.files.files and queue.files.files[-1].written == queue.files.file_size
        ]

    def report_repaired(self, full: list[tuple[ConsumeQueue, int]]) -> None:
        """Report which of these queues the log scan extended."""
        for queue, end in full:
            if queue.max_offset > end:
                difference = f"ended at {end} at a file boundary, the log has units up to"
                self._report_queue(queue.topic.name, queue.queue_id, difference, queue.max_offset)

    def has_record(
        self, queue: ConsumeQueue, queue_offset: int, unit: tuple[int, int, int]
    ) -> bool:
        """Return whether the unit's record is in the log and belongs to this queue and offset."""
        request = self._request(unit)
        if request is None:
            return False
        owner = request.queue
        if owner is queue:
            if queue.topic.batch and queue.unit_end(queue_offset) - queue_offset != (
                request.messages
            ):
                return False
            return request.queue_offset == queue_offset
        # The topic alone is not enough: the record may not be dispatched to this queue (a delayed
        # message in its schedule queue), or it replaced the unit's record after a power failure.
        further = multi_dispatch.units(owner.topic.name, request.properties)
        return (queue.topic.data, queue_offset) in further

    def _has_corrupt_offset(
        self, queue: ConsumeQueue, queue_offset: int, unit: tuple[int, int, int]
    ) -> bool:
        """Return whether the unit's record has an earlier queue offset, that of another unit.

        The unit must follow the one before it: a unit of a BatchCQ queue can have a corrupt base.
        """
        if queue.unit_end(queue_offset - 1) != queue_offset:
            return False
        request = self._request(unit)
        if request is None or request.queue is not queue or request.queue_offset >= queue_offset:
            return False
        owner = queue.unit(request.queue_offset)
        return owner is None or owner[:2] != unit[:2]

    def _request(self, unit: tuple[int, int, int]) -> DispatchRequest | None:
        """The record that a unit points to, None if the log has no record of its size there."""
        physical_offset, size, _ = unit
        file = self._log.files.find(physical_offset)
        if file is None:
            return None
        position = physical_offset - file.start
        if check_record(file.mapping, position, file.size, check_crc=False) != size:
            return None
        return self._reput.read(file.mapping, position, file.start)

    def missing(self) -> bool:
        """Return whether a queue recorded in the manifest is missing or has lost units."""
        missing = False
        for name, queues in self._manifest.queues.items():
            topic = self._queues.topics.get(name)
            if self.known is not None and self._is_unknown(topic or Topic(name)):
                continue
            for queue_id, max_offset in queues.items():
                queue = self._queues.find(name, queue_id)
                if queue is None or queue.max_offset < max_offset:
                    found = 0 if queue is None else queue.max_offset
                    self._report_queue(name, queue_id, f"ends at {found}, expected", max_offset)
                    missing = True
        # A queue that is not in the manifest was created later and starts at 0.
        begins = self._manifest.begins
        for queue in self._queues.visit() if begins is not None else ():
            name, queue_id = queue.topic.name, queue.queue_id
            was = begins.get(name, {}).get(queue_id, 0) if begins is not None else 0
            if queue.files.files and queue.files.files[0].start > was:
                begin = queue.files.files[0].path
                self._report_queue(name, queue_id, f"starts with {begin}, expected start", was)
                missing = True
        return missing

    def _report_queue(self, topic: str, queue_id: int, difference: str, value: int) -> None:
        if len(self._notes) < MAX_NOTES:
            self._notes.append(f"{self._queues.folder_of(topic, queue_id)}: {difference} {value}")

    def is_gone(self, topic: Topic, physical_offset: int) -> bool:
        """Return whether a record belongs to a deleted topic: it must not recreate its queue."""
        if self._manifest.is_deleted(topic.name, physical_offset):
            return True
        return self.known is not None and self._is_unknown(topic)

    def _is_unknown(self, topic: Topic) -> bool:
        """Return whether a topic is not in topics.json and has no ConsumeQueue files.

        System topics and topics that start with ``%`` are never unknown.
        """
        assert self.known is not None
        if topic.name in self.known:
            return False
        if is_system_topic(topic.name) or topic.name.startswith("%"):
            return False
        return not any(queue.files.files for queue in topic.queues.values())
