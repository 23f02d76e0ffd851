"""ProgressWriter: write the progress files, one write at a time, in a thread.

Progress (consumer offsets, delay offsets, POP orders, counters of transactions) changes with every
commit, so that it is written on a timer. A request that removes progress is answered after
:meth:`ProgressWriter.persist`.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from broker.server.tables.table_writer import Job, RunJob

log = logging.getLogger("broker.server")

TakeProgress = Callable[[bool, bool], Job | None]


class ProgressWriter:
    """The writes of one broker's progress; all methods are called in the event loop's thread.

    Each of ``sources``, called with (offsets, delays), copies the progress that is due and has
    changed, and returns the job that writes the copy, or None. ``run(job, done)`` runs it in
    another thread and calls ``done(error or None)`` on the event loop.
    """

    def __init__(self, run: RunJob) -> None:
        self.sources: list[TakeProgress] = []
        self._run = run
        self._running: asyncio.Future[BaseException | None] | None = None

    def write(self, *, offsets: bool, delays: bool) -> None:
        """Start a write, unless one is running: the next call writes these changes, too."""
        if self._running is None:
            self._start(offsets=offsets, delays=delays)

    async def ended(self) -> BaseException | None:
        """Wait until the running write has ended; return its error, None without one."""
        return None if self._running is None else await asyncio.shield(self._running)

    async def persist(self) -> None:
        """Wait until the files contain every change so far; StoreError or OSError if it fails."""
        while self._running is not None:
            await self.ended()
        error = await asyncio.shield(self._start(offsets=True, delays=True))
        if error is not None:
            raise error

    def _start(self, *, offsets: bool, delays: bool) -> "asyncio.Future[BaseException | None]":
        """Start a write; the future gets its error, or None."""
        started = asyncio.get_running_loop().create_future()
        jobs = [job for take in self.sources if (job := take(offsets, delays)) is not None]
        if jobs:
            self._running = started
            self._run(partial(_run_all, jobs), self._ended)
        else:
            started.set_result(None)
        return started

    def _ended(self, error: BaseException | None) -> None:
        if error is not None:
            log.error("offsets not written: %s", error)
        running, self._running = self._running, None
        assert running is not None
        running.set_result(error)


def _run_all(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job()
