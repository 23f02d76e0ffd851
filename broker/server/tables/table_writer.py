"""TableWriter: write one configuration table to its file, many changes at a time, in a thread.

::

    changed(before) ─┐                        ┌─ file written: the changes are persisted
    changed(before) ─┼─ one write in a thread ┤
    changed(before) ─┘                        └─ write failed: the changes are rolled back

A write starts at the end of the event-loop iteration of the first change; changes made while it
runs share the next one. A thousand changes therefore cost two writes. Meanwhile the table in
memory is ahead of its file: :meth:`TableWriter.is_persisted` reports whether an entry is written,
and a request that changed the table is answered after :meth:`TableWriter.persist`.

A failed write rolls memory back: entries get the value that the file holds. Repeating the request
changes the table, and writes the file, again. Java logs the failure and keeps the change in memory
only; this is not copied.

**Source:** RocketMQ ConfigManager#persist (called per change, in the request's thread).
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from broker.errors import RocketMQError

Value = TypeVar("Value")
Job = Callable[[], None]
Done = Callable[[BaseException | None], None]
CallSoon = Callable[[Callable[[], None]], object]
RunJob = Callable[[Job, Done], None]


def run_in_place(job: Job, done: Done) -> None:
    """Run a job immediately in the calling thread; for programs without an event loop."""
    try:
        job()
    except (RocketMQError, OSError) as error:
        done(error)
    else:
        done(None)


def run_at_once(call: Callable[[], None]) -> None:
    """Replace the end of an event-loop iteration with an immediate call."""
    call()


class TableWriter(Generic[Value]):
    """The writes of one table; all methods are called in the event loop's thread.

    ``take()`` copies the table and returns the job that writes the copy. ``run(job, done)`` runs
    it in another thread and calls ``done(error or None)`` on the event loop. ``restore(entries)``
    gives entries of the table the value that they have in the file.
    """

    def __init__(
        self,
        take: Callable[[], Job],
        restore: Callable[[Mapping[str, Value]], None],
        on_failed: Callable[[BaseException], None],
        *,
        soon: CallSoon = run_at_once,
        run: RunJob = run_in_place,
    ) -> None:
        self._take = take
        self._restore = restore
        self._on_failed = on_failed
        self._call_soon = soon
        self._run = run
        self._changes = 0  # changes of the table so far
        self._persisted = 0  # the file holds the table as of this change
        self._scheduled = False
        self._writing = False
        # The value in the file of each entry that differs: changed since the last write started,
        # and covered by the running write.
        self._changed: dict[str, Value] = {}
        self._being_written: dict[str, Value] = {}
        self._waiting: list[tuple[int, Done]] = []

    @property
    def dirty(self) -> bool:
        """Whether the table has changes that its file does not contain."""
        return self._persisted < self._changes

    def is_persisted(self, name: str) -> bool:
        """Return whether the file contains the table's value of this entry."""
        return name not in self._changed and name not in self._being_written

    def changed(self, before: Mapping[str, Value]) -> None:
        """Record one change of the table; ``before`` holds the former values of changed entries.

        Entries that are left out of ``before`` are not rolled back if the write fails.
        """
        self._changes += 1
        for name, value in before.items():
            self._changed.setdefault(name, value)
        self._schedule()

    def when_persisted(self, done: Done) -> None:
        """Call ``done(None)`` once the file contains every change so far, or ``done(error)``."""
        if not self.dirty:
            done(None)
            return
        self._waiting.append((self._changes, done))
        self._schedule()

    async def persist(self) -> None:
        """Wait until the file contains every change so far; StoreError or OSError if it fails."""
        if not self.dirty:
            return
        written = asyncio.get_running_loop().create_future()

        def done(error: BaseException | None) -> None:
            if written.done():
                return  # the request was cancelled
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)

        self.when_persisted(done)
        await written

    def retry(self) -> None:
        """Start a write if the table is dirty."""
        if self.dirty:
            self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and not self._writing:
            self._scheduled = True
            self._call_soon(self._start)

    def _start(self) -> None:
        self._scheduled = False
        if self._writing or not self.dirty:
            return
        self._writing = True
        number = self._changes
        self._being_written, self._changed = self._changed, {}
        self._run(self._take(), lambda error: self._finished(number, error))

    def _finished(self, number: int, error: BaseException | None) -> None:
        self._writing = False
        undone, self._being_written = self._being_written, {}
        if error is None:
            self._persisted = number
        else:
            self._on_failed(error)
            self._take_back(undone)
        served = [done for change, done in self._waiting if change <= number]
        self._waiting = [entry for entry in self._waiting if entry[0] > number]
        for done in served:
            done(error)
        if self._changes > number:
            self._schedule()

    def _take_back(self, undone: dict[str, Value]) -> None:
        """Restore the entries of a failed write; one that was changed again keeps that change."""
        for name in self._changed.keys() & undone.keys():
            self._changed[name] = undone.pop(name)
        if undone:
            self._restore(undone)


class WrittenTable(Generic[Value]):
    """A table of named entries with a file; without a ``writer`` it is in memory only."""

    def __init__(self) -> None:
        self.writer: TableWriter[Value] | None = None

    @property
    def dirty(self) -> bool:
        """Whether the table has changes that its file does not contain."""
        return self.writer is not None and self.writer.dirty

    def is_persisted(self, name: str) -> bool:
        """Return whether the file contains the table's value of this entry.

        A response must not rely on an entry that would be lost by a restart.
        """
        return self.writer is None or self.writer.is_persisted(name)

    async def persist(self) -> None:
        """Wait until the file contains every change so far; StoreError or OSError if it fails."""
        if self.writer is not None:
            await self.writer.persist()

    def retry_write(self) -> None:
        """Repeat a write that failed; called periodically."""
        if self.writer is not None:
            self.writer.retry()

    def _note(self, before: Mapping[str, Value]) -> None:
        if self.writer is not None:
            self.writer.changed(before)
