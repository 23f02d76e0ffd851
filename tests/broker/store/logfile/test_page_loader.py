"""Pages that are read ahead: one reader per file, closed with it; errors leave the writes alone."""

import os

import pytest

from broker.errors import StoreError
from broker.store.logfile.disk import Disk
from broker.store.logfile.mapped_file import MappedFile, MappedFileQueue
from broker.store.logfile.page_loader import LOADED_BYTES, PageLoader

SIZE = 4 * LOADED_BYTES
HALF = LOADED_BYTES // 2


class ReadingDisk(Disk):
    """Notes the readers that are opened and closed, and the parts that are read."""

    def __init__(self, error: Exception | None = None) -> None:
        self.events: list[tuple[object, ...]] = []
        self.error = error

    def page_reader(self, path):
        if self.error is not None:
            raise self.error
        disk, name = self, int(os.path.basename(path)) // SIZE
        self.events.append(("open", name))

        class Reader:
            def read(self, start, end):
                disk.events.append(("read", name, start, end))

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
