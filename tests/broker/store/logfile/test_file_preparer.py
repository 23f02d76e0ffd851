"""The next file: created ahead by a worker, discarded if another one is needed."""

import os

import pytest

from broker.errors import DiskFullError, StoreError
from broker.store.logfile.disk import Disk
from broker.store.logfile.file_preparer import FilePreparer
from broker.store.logfile.mapped_file import MappedFile, MappedFileQueue

SIZE = 4096


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "files"


@pytest.fixture
def queue(folder):
    made = MappedFileQueue(Disk(), str(folder), SIZE)
    yield made
    made.close()


def test_a_prepared_file_is_taken(queue, folder):
    jobs = []
    preparer = FilePreparer(queue, jobs.append)
    preparer.request(SIZE)
    assert not folder.exists()
    jobs.pop()()
    assert os.listdir(folder) == [f"{SIZE:020d}"]
    assert queue.files == []
    file = preparer.take(SIZE)
    assert isinstance(file, MappedFile)
    assert file.start == SIZE
    file.destroy()


def test_a_file_that_is_not_ready_is_made_in_place(queue):
    jobs = []
    preparer = FilePreparer(queue, jobs.append)
    preparer.request(0)
    file = preparer.take(0)
    assert os.path.exists(file.path)
    jobs.pop()()  # comes too late, makes nothing
    preparer.discard()
    assert os.path.exists(file.path)
    file.destroy()


def test_another_file_than_the_prepared_one_is_wanted(queue, folder):
    jobs = []
    preparer = FilePreparer(queue, jobs.append)
    preparer.request(SIZE)
    jobs.pop()()
    file = preparer.take(3 * SIZE)
    assert os.listdir(folder) == [f"{3 * SIZE:020d}"]
    file.destroy()


def test_an_unused_file_is_removed(queue, folder):
    jobs = []
    preparer = FilePreparer(queue, jobs.append)
    preparer.request(0)
    jobs.pop()()
    preparer.discard()
    assert os.listdir(folder) == []


def test_no_space_ahead_of_time_is_met_again_by_the_writer(folder, faulty_disk):
    queue = MappedFileQueue(faulty_disk, str(folder), SIZE)
    jobs = []
    preparer = FilePreparer(queue, jobs.append)
    faulty_disk.fail["reserve"] = DiskFullError("no space")
    preparer.request(0)
    jobs.pop()()
    with pytest.raises(DiskFullError):
        preparer.take(0)


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


@pytest.mark.parametrize("end", ["discard", "release"])
def test_a_file_is_read_ahead_by_one_reader(folder, end):
    disk = ReadingDisk()
    queue = MappedFileQueue(disk, str(folder), SIZE)
    files = [queue.create(number * SIZE) for number in range(2)]
    preparer = FilePreparer(queue, lambda job: job())
    preparer.read_ahead(files[0], 0, 100)
    preparer.read_ahead(files[0], 100, 200)
    preparer.read_ahead(files[1], 0, 100)
    assert disk.events == [
        ("open", 0),
        ("read", 0, 0, 100),
        ("read", 0, 100, 200),
        ("close", 0),
        ("open", 1),
        ("read", 1, 0, 100),
    ]
    getattr(preparer, end)()
    getattr(preparer, end)()
    assert disk.events[6:] == [("close", 1)]
    queue.close()


def test_a_full_file_is_closed_when_the_next_one_is_requested(folder):
    disk = ReadingDisk()
    queue = MappedFileQueue(disk, str(folder), SIZE)
    preparer = FilePreparer(queue, lambda job: job())
    preparer.read_ahead(queue.create(0), 0, 100)
    preparer.request(SIZE)
    assert disk.events[2:] == [("close", 0)]
    preparer.discard()
    queue.close()


@pytest.mark.parametrize("error", [OSError(5, "I/O error"), StoreError("not opened")])
def test_a_file_that_cannot_be_read_ahead_is_still_written(folder, error):
    queue = MappedFileQueue(ReadingDisk(error), str(folder), SIZE)
    file = queue.create(0)
    preparer = FilePreparer(queue, lambda job: job())
    preparer.read_ahead(file, 0, SIZE)
    preparer.discard()
    file.write(0, b"data")
    assert bytes(file.view[:4]) == b"data"
    queue.close()
