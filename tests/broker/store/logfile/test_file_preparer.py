"""The next file: created ahead by a worker, discarded if another one is needed."""

import os

import pytest

from broker.errors import DiskFullError
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
