"""UnitMismatches: ConsumeQueue units that differ from the log, found and reported by pulls.

A start after a clean stop compares only the last units of the queues with the log. The other units
are compared by the first pull that reads them.
"""

import logging
from typing import Final

from broker.errors import RemoteProtocolError
from broker.message.message import MessageExt
from broker.message.record import decode_record
from broker.store.commitlog import CommitLog
from broker.store.consumequeue import multi_dispatch
from broker.store.consumequeue.consume_queue import ConsumeQueue
from broker.store.format.commitlog import RECORD_LEAST, own_extent

_log = logging.getLogger(__name__)

# Every pull looks for its records in the damaged regions.
MAX_REGIONS: Final = 1_000


class UnitMismatches:
    """Decides whether the unit or its record is damaged, and reports it once.

    ``damaged``: damaged regions of the log, (start, end) physical offsets, hidden from readers.
    ``queues``: the queues with a damaged unit.
    """

    def __init__(self, log: CommitLog, damaged: list[tuple[int, int]]) -> None:
        self._commit_log = log
        self._damaged = damaged
        self.queues: set[ConsumeQueue] = set()
        self._reported: set[tuple[str, int, int]] = set()

    def size_in_log(
        self, queue: ConsumeQueue, queue_offset: int, physical_offset: int, size: int
    ) -> int:
        """Return the size of a record that differs from its unit; 0 if it cannot be returned.

        An intact record of this queue offset is returned with its own size. A record of another
        queue offset stays visible to its readers: only the unit that points to it is skipped.
        """
        unit = physical_offset, size
        place = (queue.topic.name, queue.queue_id, queue_offset)
        message = self._message_at(physical_offset)
        if message is None:
            if not self._hide(physical_offset, size):
                self._report(queue, queue_offset, unit, "no record starts there")
            return 0
        own = (message.topic, message.queue_id, message.queue_offset)
        further = multi_dispatch.units(message.topic, message.properties_raw)
        if own == place or (queue.topic.data, queue_offset) in further:
            self._report(queue, queue_offset, unit, f"its record has size {message.total_size}")
            return message.total_size
        self._report(
            queue, queue_offset, unit, "the record there is of {}/{}, queue offset {}".format(*own)
        )
        return 0

    def note_missing(
        self, queue: ConsumeQueue, queue_offset: int, physical_offset: int, size: int
    ) -> None:
        """Report a unit that points past the end of the log."""
        if physical_offset >= self._commit_log.max_offset:
            self._report(queue, queue_offset, (physical_offset, size), "the log ends before it")

    def _message_at(self, physical_offset: int) -> MessageExt | None:
        """The message without body whose record starts there, None if none can be decoded."""
        record = self._commit_log.record_at(physical_offset)
        if record is None:
            return None
        try:
            return decode_record(record, read_body=False)
        except RemoteProtocolError:  # the topic is not UTF-8
            return None

    def _report(
        self, queue: ConsumeQueue, queue_offset: int, unit: tuple[int, int], reason: str
    ) -> None:
        self.queues.add(queue)
        place = (queue.topic.name, queue.queue_id, queue_offset)
        if place in self._reported or len(self._reported) >= MAX_REGIONS:
            return
        self._reported.add(place)
        _log.error(
            "%s/%d: unit of queue offset %d, physical offset %d, size %d: %s;"
            " stop the broker and run mqadmin store repair",
            *place,
            *unit,
            reason,
        )

    def _hide(self, physical_offset: int, size: int) -> bool:
        """Report a damaged record, and hide it from now on; False if nothing shows one.

        Its physical offset or its size must agree with the unit: a unit that points into other
        records must not hide them. Adjacent records are one region. With many regions a record is
        skipped without a region.
        """
        file = self._commit_log.files.find(physical_offset)
        if file is None or not 0 <= physical_offset - file.start <= file.written - RECORD_LEAST:
            return False
        own_size, own = own_extent(file.view, physical_offset - file.start)
        if own != physical_offset and own_size != size:
            return False
        is_plausible = RECORD_LEAST <= size <= file.start + file.written - physical_offset
        damaged = self._damaged
        end = physical_offset + (size if is_plausible else 1)
        if damaged and damaged[-1][1] == physical_offset:
            damaged[-1] = (damaged[-1][0], end)
        elif len(damaged) < MAX_REGIONS:
            damaged.append((physical_offset, end))
            _log.error(
                "commitlog: %d bytes at physical offset %d: wrong %s in the record: skipped by"
                " readers",
                size,
                physical_offset,
                "size" if own == physical_offset else "physical offset",
            )
        return True
