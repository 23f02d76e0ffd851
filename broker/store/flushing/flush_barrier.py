"""FlushBarrier: progress derived from the log is persisted only after the log up to it is flushed.

A progress file records messages as consumed (consumerOffset.json) or delivered
(delayOffset.json). It must not reach the disk before the records that it depends on. Otherwise a
power cut could lose the delivered copy of a delayed message but keep the delay offset after it:
the message would not be delivered again, although its original is on the disk.

The order for every such file::

    thread that appends    copy the progress; note the end of the log       before(write)
    any thread             flush the log up to that end; write the copy     the returned job

Only the thread that appends writes gathered records. Another one can use
:meth:`FlushBarrier.behind` for progress that rests on written records, such as dispatched ones.

If the log cannot be flushed, the file is not written: the older version stays, and the work after
it is repeated after a restart.

**Source:** no Java counterpart; ScheduleMessageService and ConsumerOffsetManager persist on their
own timers, independently of the flush.
"""

from collections.abc import Callable

from broker.errors import StoreStateError
from broker.store.commitlog import CommitLog
from broker.store.flushing.flush import FlushService


class FlushBarrier:
    """Orders log flushes before writes of progress files; all progress files use it."""

    def __init__(self, log: CommitLog, flusher: FlushService) -> None:
        self._log = log
        self._flusher = flusher

    def before(self, write: Callable[[], object]) -> Callable[[], None]:
        """Return a job that flushes the log up to its current end, then calls ``write``.

        Call it in the appending thread after copying the progress; the job may run in any thread.
        The job raises StoreStateError without writing if the log cannot be flushed.
        """
        self._log.write_gathered()
        return self.behind(write)

    def behind(self, write: Callable[[], object]) -> Callable[[], None]:
        """:meth:`before` for progress that rests on written records; call it in any thread."""
        end = self._log.max_offset

        def job() -> None:
            if self._log.flushed_where < end and not self._flusher.flush():
                raise StoreStateError(
                    f"progress is not persisted beyond flushed data: {self._flusher.failed}"
                )
            write()

        return job
