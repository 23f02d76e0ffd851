"""BlockWriter: append records that vectorized ingest has encoded, under the rules of a put.

The caller asks for the destination, encodes, and appends in one step, without serving other
requests between. Any condition under which a put could be refused, or needs another kind of
record, is a None here: the caller then leaves the message to :class:`StoreWriter`.

**Source:** RocketMQ CommitLog#asyncPutMessage.
"""

from collections.abc import Iterable
from typing import NamedTuple

from broker.errors import StoreError
from broker.store.commitlog import CommitLog
from broker.store.consumequeue.consume_queue import ConsumeQueue
from broker.store.dispatch.block import RecordBlock
from broker.store.dispatch.reput import ReputService
from broker.store.dispatch.scheduler import DispatchScheduler
from broker.store.faults.running_flags import RunningFlags
from broker.store.results import RecordTooLargeError
from broker.store.writer import StoreWriter

PlainQueue = ConsumeQueue
"""A queue that plain records are appended to."""


class Destination(NamedTuple):
    """Where the next record goes; ``capacity`` in bytes, ``store_timestamp`` in epoch ms."""

    physical_offset: int
    capacity: int
    store_timestamp: int


class BlockWriter:
    """The write side of a store for encoded records of plain messages."""

    def __init__(
        self,
        writer: StoreWriter,
        log: CommitLog,
        reput: ReputService,
        scheduler: DispatchScheduler,
        flags: RunningFlags,
    ) -> None:
        self._writer = writer
        self._log = log
        self._reput = reput
        self._queues = reput.queues
        self._scheduler = scheduler
        self._flags = flags

    def destination(self, now_ms: int) -> Destination | None:
        """Return the place of the next record, None if puts are refused or need more checks."""
        if self._flags.refusal is not None:
            return None
        log = self._log
        return Destination(log.next_offset, log.capacity, max(now_ms, log.last_store_timestamp))

    def queue(self, topic: str, queue_id: int, count: int) -> ConsumeQueue | None:
        """Return a plain queue with reserved space for ``count`` further units, None if none is.

        A queue that does not exist yet is left to its first put.
        """
        found = self._queues.topics.get(topic)
        if found is None or found.special or found.batch:
            return None
        queue = found.queues.get(queue_id)
        if queue is None or queue.ext is not None:
            return None
        last = queue.next_offset + count - 1
        if last >= queue.reserved_offset:
            try:
                queue.ensure_capacity(last)
            except (RecordTooLargeError, StoreError, OSError):
                return None  # a put has the same error and reports it
        return queue

    def append(
        self,
        data: bytes | memoryview,
        block: RecordBlock,
        taken: Iterable[tuple[ConsumeQueue, int]],
    ) -> None:
        """Append the records ``data``, encoded for the destination, and schedule their dispatch.

        ``block`` describes them for dispatch, ``taken`` has the number of records per queue.
        """
        self._log.append_encoded(data, block.store_timestamp)
        for queue, count in taken:
            queue.next_offset += count
        self._writer.put_count += block.records
        self._writer.put_bytes += len(data)
        self._reput.note_block(block)
        if not self._scheduler.scheduled:
            self._scheduler.schedule()
