"""Writes of progress: one at a time, waited for by requests that remove progress."""

import asyncio
from collections.abc import Callable

import pytest

from broker.errors import DiskFullError
from broker.server.tables.progress_writer import ProgressWriter
from broker.server.tables.table_writer import Done, Job

FULL = DiskFullError("/store/config/consumerOffset.json: No space left on device")


class Progress:
    """A number and its file; the test decides when writes end."""

    def __init__(self) -> None:
        self.number = self.file = 0
        self.changed = False
        self.asked: list[tuple[bool, bool]] = []
        self.running: list[tuple[Job, Done]] = []
        self.writer = ProgressWriter(lambda job, done: self.running.append((job, done)))
        self.writer.sources.append(self.take)

    def take(self, offsets: bool, delays: bool) -> Callable[[], None] | None:
        self.asked.append((offsets, delays))
        if not self.changed:
            return None
        self.changed = False
        copy = self.number

        def job() -> None:
            self.file = copy

        return job

    def set(self, number: int) -> None:
        self.number, self.changed = number, True

    def end_write(self, error: Exception | None = None) -> None:
        job, done = self.running.pop(0)
        if error is None:
            job()
        else:
            self.changed = True
        done(error)


async def end_iteration() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_the_timer_starts_no_write_beside_another(run) -> None:
    async def main() -> None:
        progress = Progress()
        progress.set(1)
        progress.writer.write(offsets=True, delays=False)
        progress.set(2)
        progress.writer.write(offsets=True, delays=True)
        assert progress.asked == [(True, False)]
        assert len(progress.running) == 1
        progress.end_write()
        assert (progress.file, progress.changed) == (1, True)
        progress.writer.write(offsets=False, delays=True)
        progress.end_write()
        assert progress.file == 2
        assert await progress.writer.ended() is None

    run(main())


def test_persist_waits_for_the_running_write_and_writes_later_changes(run) -> None:
    async def main() -> None:
        progress = Progress()
        progress.set(1)
        progress.writer.write(offsets=True, delays=True)
        progress.set(2)
        waiting = [asyncio.ensure_future(progress.writer.persist()) for _ in range(2)]
        await end_iteration()
        progress.end_write()
        await end_iteration()
        assert not any(each.done() for each in waiting)
        progress.end_write()
        await asyncio.gather(*waiting)
        assert progress.file == 2
        assert not progress.running

    run(main())


def test_persist_raises_the_error_of_its_write_only(run, caplog) -> None:
    async def main() -> None:
        progress = Progress()
        progress.set(1)
        progress.writer.write(offsets=True, delays=True)
        waiting = asyncio.ensure_future(progress.writer.persist())
        await end_iteration()
        progress.end_write(FULL)
        await end_iteration()
        progress.end_write(FULL)
        with pytest.raises(DiskFullError):
            await waiting
        assert [record.message for record in caplog.records] == [f"offsets not written: {FULL}"] * 2
        waiting = asyncio.ensure_future(progress.writer.persist())
        await end_iteration()
        progress.end_write()
        await waiting
        assert progress.file == 1

    run(main())


def test_persist_without_changes_writes_nothing(run) -> None:
    async def main() -> None:
        progress = Progress()
        await progress.writer.persist()
        assert not progress.running

    run(main())
