"""What the queues are worth before the log is read: units without a record, queues cut short.

A start knows of its queues what the files say, what the log says of their last units, and what
``queueEnds.json`` noted when the store was last opened or stopped. What they disagree on is told;
recovery reads the log from where it has to.
"""

from typing import Final

from broker.common.topic import is_system_topic
from broker.message.properties import peek_property
from broker.store.commitlog import CommitLog
from broker.store.consumequeue import ConsumeQueue, Topic
from broker.store.format.commitlog import check_record
from broker.store.queue_ends import QueueEnds
from broker.store.queue_table import ConsumeQueueTable
from broker.store.reput import ReputService
from broker.store.results import RecoveryReport

# Notes of single queues beyond so many are not worth reading.
_MOST_NOTES: Final = 100


class QueueCheck:
    """The queues of a store that is being opened; ``known`` are the topics of topics.json.

    None there means that they are not known: then every topic counts.
    """

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueueTable,
        reput: ReputService,
        ends: QueueEnds,
        report: RecoveryReport,
    ) -> None:
        self.known: set[str] | None = None
        self._log = log
        self._queues = queues
        self._reput = reput
        self._ends = ends
        self._notes = report.notes

    def drop_unproven(self, *, intact: bool) -> None:
        """Drop units at the end of each queue that no record of the log stands for.

        ``intact``: files hold what was stored, so the end of each queue is where it was found.
        """
        for queue in self._queues.all():
            if self._ends.is_deleted(queue.topic.name, queue.max_physical_offset - 1):
                # The deletion was noted and then cut short.
                queue.destroy()
                continue
            if not intact:
                queue.scan_end()
            end = queue.max_offset
            while end > 0:
                unit = queue.unit(end - 1)
                if unit is None or self._stands_for(queue, end - 1, unit):
                    break
                end -= 1
            if end < queue.max_offset:
                self._notes.append(
                    f"{queue.topic.name}/{queue.queue_id}: {queue.max_offset - end} units behind"
                    " the end dropped"
                )
                queue.truncate_units(end)

    def full(self) -> list[tuple[ConsumeQueue, int]]:
        """Queues that end where their last file ends, with that end.

        After a crash nobody knows how many files a queue had: these may have had one more.
        """
        return [
            (queue, queue.max_offset)
            for queue in self._queues.all()
            if queue.files.files and queue.files.files[-1].written == queue.files.file_size
        ]

    def tell_mended(self, full: list[tuple[ConsumeQueue, int]]) -> None:
        """Say which of these queues had gone on."""
        for queue, end in full:
            if queue.max_offset > end:
                what = f"ended at {end} where a file ends, the log knows units up to"
                self._tell(queue.topic.name, queue.queue_id, what, queue.max_offset)

    def _stands_for(
        self, queue: ConsumeQueue, queue_offset: int, unit: tuple[int, int, int]
    ) -> bool:
        """Whether the unit's record is in the log and says that it belongs to the queue."""
        physical_offset, size, _ = unit
        if physical_offset < self._log.min_offset:
            return True  # its file is gone, or it is a filler: nothing speaks against it
        file = self._log.files.find(physical_offset)
        if file is None:
            return False
        position = physical_offset - file.start
        if check_record(file.mapping, position, file.size, check_crc=False) != size:
            return False
        entry = self._reput.read(file.mapping, position, file.start)
        owner = entry[5]
        if owner is queue:
            return entry[4] == queue_offset
        names = peek_property(entry[6], b"INNER_MULTI_DISPATCH") or b""
        return queue.topic.data in names.split(b",")

    def missing(self) -> bool:
        """Whether a queue that was there at the last stop is gone or has lost units."""
        missing = False
        for name, queues in self._ends.queues.items():
            topic = self._queues.topics.get(name)
            if self.known is not None and self._is_unknown(topic or Topic(name)):
                continue
            for queue_id, max_offset in queues.items():
                queue = self._queues.find(name, queue_id)
                if queue is None or queue.max_offset < max_offset:
                    there = 0 if queue is None else queue.max_offset
                    self._tell(name, queue_id, f"ends at {there}, it had come to", max_offset)
                    missing = True
        # A queue that is not noted has been made since, and begins at 0.
        begins = self._ends.begins
        for queue in self._queues.all() if begins is not None else ():
            name, queue_id = queue.topic.name, queue.queue_id
            was = begins.get(name, {}).get(queue_id, 0) if begins is not None else 0
            if queue.files.files and queue.files.files[0].start > was:
                begin = queue.files.files[0].path
                self._tell(name, queue_id, f"begins with {begin}, not with file", was)
                missing = True
        return missing

    def _tell(self, topic: str, queue_id: int, what: str, value: int) -> None:
        if len(self._notes) < _MOST_NOTES:
            self._notes.append(f"{self._queues.folder_of(topic, queue_id)}: {what} {value}")

    def is_gone(self, topic: Topic, physical_offset: int) -> bool:
        """Whether a record is of a topic that was deleted: it must not bring its queue back."""
        if self._ends.is_deleted(topic.name, physical_offset):
            return True
        return self.known is not None and self._is_unknown(topic)

    def _is_unknown(self, topic: Topic) -> bool:
        """Whether topics.json does not name a topic, and no queue of it is there."""
        assert self.known is not None
        if topic.name in self.known:
            return False
        if is_system_topic(topic.name) or topic.name.startswith("%"):
            return False
        return not any(queue.files.files for queue in topic.queues.values())
