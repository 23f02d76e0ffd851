"""Pages that are read ahead: one reader per file, closed with it; errors leave the writes alone."""

import os
from collections.abc import Callable

import pytest

from broker.errors import StoreError
from broker.store.logfile.disk import Disk
from broker.store.logfile.mapped_file import PAGE, MappedFile, MappedFileQueue
from broker.store.logfile.page_loader import (
    LOADED_BYTES,
    PROBE_BYTES,
    PROBE_DISTANCE_BYTES,
    READ_AHEAD_BYTES,
    SLOW_PAGE_NS,
    PageLoader,
)

SIZE = 4 * LOADED_BYTES
HALF = LOADED_BYTES // 2


class ReadingDisk(Disk):
    """Notes the readers that are opened and closed, and the parts that are read."""

    def __init__(self, error: Exception | None = None) -> None:
        self.events: list[tuple[object, ...]] = []
        self.error = error
        self.page_ns = 0

    def page_reader(self, path):
        if self.error is not None:
            raise self.error
        disk, name = self, int(os.path.basename(path)) // SIZE
        self.events.append(("open", name))

        class Reader:
            def read(self, start, end):
                disk.events.append(("read", name, start, end))
                return (end - start) // PAGE * disk.page_ns

            def close(self):
                disk.events.append(("close", name))

        return Reader()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "files"


def write(loader: PageLoader, file: MappedFile, size: int) -> None:
    """One long write and the request after it, at one byte per second."""
    file.write(file.written, b"x" * size)
    file.written += size
    loader.note_write(file, size)
    loader.request(file, 1_000 * (file.start + file.written), sync_flush=False)


def test_a_file_is_read_ahead_by_one_reader(folder):
    disk = ReadingDisk()
    disk.page_ns = SLOW_PAGE_NS
    queue = MappedFileQueue(disk, str(folder), SIZE)
    loader = PageLoader(lambda job: job())
    first = queue.create(0)
    loader.start_file(HALF)
    write(loader, first, HALF - 4096)
    assert disk.events == []
    write(loader, first, 8192)
    start = HALF + 4096
    expected: list[tuple[object, ...]] = [("open", 0), ("read", 0, start, start + LOADED_BYTES)]
    assert disk.events == expected
    second = queue.create(SIZE)
    loader.start_file(0)
    write(loader, second, 8192)
    expected += [("close", 0), ("open", 1), ("read", 1, 8192, 8192 + LOADED_BYTES)]
    assert disk.events == expected
    loader.close()
    loader.close()
    assert disk.events == [*expected, ("close", 1)]
    queue.close()


@pytest.mark.parametrize("error", [OSError(5, "I/O error"), StoreError("not opened")])
def test_a_file_that_cannot_be_read_ahead_is_still_written(folder, error):
    queue = MappedFileQueue(ReadingDisk(error), str(folder), SIZE)
    file = queue.create(0)
    loader = PageLoader(lambda job: job())
    write(loader, file, 8192)
    write(loader, file, LOADED_BYTES)
    loader.close()
    assert bytes(file.view[: file.written]) == b"x" * (8192 + LOADED_BYTES)
    queue.close()


def bytes_read(disk: ReadingDisk) -> int:
    return sum(event[3] - event[2] for event in disk.events if event[0] == "read")


def test_pages_are_read_ahead_while_they_are_slow(folder):
    disk = ReadingDisk()
    queue = MappedFileQueue(disk, str(folder), 8 * READ_AHEAD_BYTES)
    file = queue.create(0)
    loader = PageLoader(lambda job: job())

    def written(size: int) -> int:
        before = bytes_read(disk)
        for _ in range(size // HALF):
            write(loader, file, HALF)
        return bytes_read(disk) - before

    disk.page_ns = SLOW_PAGE_NS - 1
    assert written(PROBE_DISTANCE_BYTES) == LOADED_BYTES + PROBE_BYTES
    assert written(4 * PROBE_DISTANCE_BYTES) == 4 * PROBE_BYTES
    disk.page_ns = SLOW_PAGE_NS
    assert written(READ_AHEAD_BYTES) >= READ_AHEAD_BYTES - LOADED_BYTES
    assert written(READ_AHEAD_BYTES) == READ_AHEAD_BYTES
    disk.page_ns = SLOW_PAGE_NS - 1
    assert written(PROBE_DISTANCE_BYTES) <= 2 * LOADED_BYTES
    assert written(4 * PROBE_DISTANCE_BYTES) == 4 * PROBE_BYTES
    queue.close()


@pytest.mark.parametrize("slow", [False, True])
def test_reading_pages_that_were_written_is_not_measured(folder, slow):
    disk = ReadingDisk()
    queue = MappedFileQueue(disk, str(folder), 2 * READ_AHEAD_BYTES)
    file = queue.create(0)
    jobs: list[Callable[[], None]] = []
    loader = PageLoader(jobs.append)

    disk.page_ns = SLOW_PAGE_NS if slow else 0
    write(loader, file, HALF)
    jobs.pop()()
    assert loader.slow_pages is slow
    disk.page_ns = 0 if slow else SLOW_PAGE_NS
    write(loader, file, PROBE_DISTANCE_BYTES)
    write(loader, file, PROBE_DISTANCE_BYTES)
    late, in_time = jobs
    late()
    assert loader.slow_pages is slow
    in_time()
    assert loader.slow_pages is not slow
    queue.close()


def test_short_writes_are_noticed_after_many_long_ones(folder, monkeypatch):
    loaded: list[int] = []
    monkeypatch.setattr(MappedFile, "load_pages", lambda _, start, end: loaded.append(start))
    disk = ReadingDisk()
    queue = MappedFileQueue(disk, str(folder), 2 * READ_AHEAD_BYTES)
    file = queue.create(0)
    loader = PageLoader(lambda job: job())
    for _ in range(READ_AHEAD_BYTES // HALF):
        write(loader, file, HALF)
    assert loader.slow_pages is False
    assert loaded == []
    end = file.written + LOADED_BYTES
    while not loaded and file.written < end:
        write(loader, file, file.long_write - 1)
    assert loaded
    queue.close()
