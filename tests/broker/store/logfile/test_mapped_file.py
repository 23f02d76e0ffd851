"""Mapped files: reserved before mapped, found by position, gone without taking readers along."""

import os

import pytest

from broker.errors import DiskFullError, StoreError
from broker.store.logfile.disk import Disk
from broker.store.logfile.mapped_file import LONG_WRITE, PAGE, MappedFile, MappedFileQueue

SIZE = 4096


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "files"


@pytest.fixture
def queue(folder):
    made = MappedFileQueue(Disk(), str(folder), SIZE)
    yield made
    made.close()


def loaded(folder, size=SIZE):
    made = MappedFileQueue(Disk(), str(folder), size)
    made.load()
    return made


def test_a_new_file_has_its_length_and_its_space(queue, folder):
    file = queue.create(SIZE)
    path = folder / f"{SIZE:020d}"
    assert file.path == str(path)
    assert path.stat().st_size == SIZE
    assert path.stat().st_blocks * 512 >= SIZE
    file.mapping[10:15] = b"hello"
    assert path.read_bytes()[10:15] == b"hello"
    assert bytes(file.view[10:15]) == b"hello"


def test_views_are_for_reading_only(queue):
    with pytest.raises(TypeError):
        queue.create(0).view[0] = 1


def test_a_full_disk_leaves_no_partial_file(folder, faulty_disk):
    queue = MappedFileQueue(faulty_disk, str(folder), SIZE)
    faulty_disk.fail["reserve"] = DiskFullError("no space")
    with pytest.raises(DiskFullError):
        queue.create(0)
    assert os.listdir(folder) == []
    assert queue.files == []


def test_a_sparse_file_is_reserved_before_it_is_written(folder):
    folder.mkdir()
    path = folder / f"{0:020d}"
    with path.open("wb") as file:
        file.truncate(SIZE)
    assert path.stat().st_blocks == 0
    queue = loaded(folder)
    queue.files[0].reserve()
    assert path.stat().st_blocks * 512 >= SIZE
    queue.close()


def test_slices_outlive_their_file(queue):
    file = queue.create(0)
    file.mapping[:5] = b"alive"
    part = file.view[:5]
    queue.remove_first()
    assert not os.path.exists(file.path)
    assert bytes(part) == b"alive"


def test_a_sync_of_a_deleted_file_is_not_an_error(queue):
    file = queue.create(0)
    queue.remove_first()
    file.sync()


def test_a_sync_of_a_file_that_was_taken_away_is_an_error(queue):
    file = queue.create(0)
    os.unlink(file.path)
    with pytest.raises(StoreError):
        file.sync()


def test_sync_moves_the_flushed_position(queue):
    file = queue.create(0)
    file.written = 100
    file.sync()
    assert file.flushed == 100
    assert file.end == 100


def test_the_first_sync_covers_the_name(faulty_disk, folder):
    queue = MappedFileQueue(faulty_disk, str(folder), SIZE)
    file = queue.create(0)
    faulty_disk.calls.clear()
    file.sync()
    file.sync()
    assert faulty_disk.calls.count("sync_folder") == 1
    queue.close()


# --- the row of files -----------------------------------------------------------------------------


def make(folder, *starts, size=SIZE):
    folder.mkdir(exist_ok=True)
    for start in starts:
        (folder / f"{start:020d}").write_bytes(bytes(size))


def test_load_finds_files_in_order(folder):
    make(folder, 0, SIZE, 3 * SIZE)
    assert [file.start for file in loaded(folder).files] == [0, SIZE, 3 * SIZE]


def test_load_of_no_folder_finds_nothing(folder):
    assert loaded(folder).files == []


def test_load_passes_over_folders_and_removes_an_empty_last_file(folder):
    make(folder, 0)
    (folder / "sub").mkdir()
    empty = folder / f"{SIZE:020d}"
    empty.touch()
    assert len(loaded(folder).files) == 1
    assert not empty.exists()


@pytest.mark.parametrize("name", ["notes.txt", "1", "0" * 21])
def test_a_strange_name_stops_the_load(folder, name):
    make(folder, 0)
    (folder / name).write_bytes(b"x" * SIZE)
    with pytest.raises(StoreError, match="not the name"):
        loaded(folder)


def test_another_length_is_an_error_that_names_both(folder):
    make(folder, 0)
    with pytest.raises(StoreError) as caught:
        loaded(folder, 8192)
    assert "4096" in caught.value.message
    assert "8192" in caught.value.message


def test_the_length_of_the_files_is_detected(folder):
    make(folder, 0, SIZE)
    assert MappedFileQueue(Disk(), str(folder), 1).detect_size() == SIZE
    make(folder, 2 * SIZE, size=100)
    assert MappedFileQueue(Disk(), str(folder), 1).detect_size() == SIZE
    make(folder, 5000, size=200)
    assert MappedFileQueue(Disk(), str(folder), 1).detect_size() == 0


def test_a_short_file_is_filled_up_and_reported(folder):
    make(folder, 0, SIZE)
    short = folder / f"{SIZE:020d}"
    short.write_bytes(b"x" * 100)
    notes = []
    queue = MappedFileQueue(Disk(), str(folder), SIZE)
    queue.load(notes=notes)
    assert short.read_bytes() == (b"x" * 100).ljust(SIZE, b"\0")
    assert queue.short_from == SIZE + 100
    assert len(notes) == 1
    assert str(short) in notes[0]
    assert str(SIZE + 100) in notes[0]


def test_a_short_file_is_recognised_by_the_next_name(folder):
    make(folder, 0, SIZE, size=100)
    assert [file.start for file in loaded(folder).files] == [0, SIZE]


def test_a_survey_changes_nothing(folder):
    make(folder, 0, 3 * SIZE)
    make(folder, SIZE, size=0)
    make(folder, 2 * SIZE, size=7)
    queue = MappedFileQueue(Disk(), str(folder), SIZE)
    queue.survey()
    assert [path.stat().st_size for path in sorted(folder.iterdir())] == [SIZE, 0, 7, SIZE]
    queue.load()
    assert [file.start for file in queue.files] == [0, 2 * SIZE, 3 * SIZE]
    assert queue.cut_at_gap() == str(folder / f"{SIZE:020d}")
    assert [file.start for file in queue.files] == [0]


def test_a_first_file_that_begins_within_a_file_is_removed_with_all_others(folder):
    make(folder, SIZE + 1, 2 * SIZE)
    queue = loaded(folder)
    assert queue.cut_at_gap() == str(folder / f"{SIZE:020d}")
    assert not queue.files


def test_find_by_position(folder):
    make(folder, 2 * SIZE, 3 * SIZE, 5 * SIZE)
    queue = loaded(folder)
    for position, start in (
        (2 * SIZE, 2 * SIZE),
        (4 * SIZE - 1, 3 * SIZE),
        (5 * SIZE, 5 * SIZE),
        (6 * SIZE - 1, 5 * SIZE),
    ):
        assert queue.find(position).start == start
    for position in (-1, 0, 4 * SIZE, 6 * SIZE):
        assert queue.find(position) is None
    assert loaded(folder / "none").find(0) is None


def test_truncation_removes_later_files_and_keeps_bytes(folder):
    make(folder, 0, SIZE, 2 * SIZE)
    (folder / f"{SIZE:020d}").write_bytes(b"x" * SIZE)
    queue = loaded(folder)
    queue.truncate(SIZE + 100)
    assert [(file.start, file.written) for file in queue.files] == [(0, SIZE), (SIZE, 100)]
    assert (folder / f"{SIZE:020d}").read_bytes() == b"x" * SIZE
    assert len(os.listdir(folder)) == 2


def test_truncate_to_the_begin_keeps_one_file(folder):
    make(folder, SIZE, 2 * SIZE)
    queue = loaded(folder)
    queue.truncate(SIZE)
    assert [(file.start, file.written) for file in queue.files] == [(SIZE, 0)]


def test_destroy_removes_the_folder(queue, folder):
    queue.create(0)
    queue.destroy()
    assert not folder.exists()


# --- preparing ------------------------------------------------------------------------------------


class AdvisedDisk(Disk):
    """Records the advice; refuses it with ``error``."""

    def __init__(self, error: Exception | None = None) -> None:
        self.starts: list[int] = []
        self.error = error

    def expect_single_pages(self, mapping, start):
        self.starts.append(start)
        if self.error is not None:
            raise self.error

    def load_pages(self, mapping, start, end):
        self.starts.append(end)
        if self.error is not None:
            raise self.error

    def expect_reads(self, mapping):
        self.starts.append(-1)
        if self.error is not None:
            raise self.error


def advised(folder, disk: Disk) -> MappedFile:
    return MappedFileQueue(disk, str(folder), 4 * PAGE).create(0)


def test_writes_are_expected_from_a_page_on_until_the_file_is_full(folder):
    disk = AdvisedDisk()
    file = advised(folder, disk)
    file.expect_writes(PAGE + 100)
    file.expect_writes(2 * PAGE)
    assert disk.starts == [PAGE]
    file.release_mapping()
    _ = file.mapping
    assert disk.starts == [PAGE, PAGE]
    file.written = file.size
    file.sync()
    file.sync()
    assert disk.starts == [PAGE, PAGE, -1]
    file.close()


def test_a_file_that_grows_expects_writes_from_its_start(folder):
    disk = AdvisedDisk()
    folder.mkdir()
    file = MappedFile(disk, str(folder), 0, 4 * PAGE).create(PAGE)
    assert disk.starts == [0]
    file.close()


def test_a_full_or_closed_file_gets_no_advice(folder):
    disk = AdvisedDisk()
    file = advised(folder, disk)
    file.expect_writes(file.size)
    file.close()
    file.expect_reads()
    assert disk.starts == []


def test_the_end_of_few_bytes_is_searched_in_single_pages(folder):
    disk = AdvisedDisk()
    folder.mkdir()
    size = 64 * PAGE
    files = [MappedFile(disk, str(folder), number * size, size) for number in range(2)]
    files[0].create(PAGE).mapping[0] = 1
    files[1].create().mapping[20 * PAGE] = 1
    assert files[0].search_end() == PAGE
    assert files[1].search_end() > 20 * PAGE
    assert disk.starts == [0]
    for file in files:
        file.release_mapping()
        _ = file.mapping
    assert disk.starts == [0, 0]
    for file in files:
        file.close()


@pytest.mark.parametrize("error", [OSError(12, "no memory"), ValueError("mmap closed")])
def test_advice_that_is_refused_raises_nothing(folder, error):
    disk = AdvisedDisk(error)
    file = advised(folder, disk)
    file.expect_writes()
    file.load_pages(0, PAGE)
    file.expect_reads()
    assert disk.starts == [0, PAGE, -1]
    file.close()


# --- writing --------------------------------------------------------------------------------------


class CountingDisk(Disk):
    """Counts the system calls that write; they fail with ``error``."""

    def __init__(self, error: Exception | None = None) -> None:
        self.writes: list[tuple[int, int]] = []
        self.error = error

    def write_at(self, fd, data, position):
        self.writes.append((position, len(data)))
        if self.error is not None:
            raise self.error
        super().write_at(fd, data, position)


def kept_open(folder, disk: Disk) -> MappedFile:
    return MappedFileQueue(disk, str(folder), 16 * PAGE, keep_open=True).create(0)


@pytest.mark.parametrize("error", [None, OSError(5, "Input/output error")])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_long_data_is_written_by_one_call_or_else_through_the_mapping(folder, error, kind):
    disk = CountingDisk(error)
    file = kept_open(folder, disk)
    short, long = b"s" * (LONG_WRITE - 1), b"l" * LONG_WRITE
    file.write(3, kind(short))
    file.write(3 + len(short), kind(long))
    assert disk.writes == [(3 + len(short), len(long))]
    expected = bytes(3) + short + long
    assert file.mapping[: len(expected) + 1] == expected + b"\0"
    with open(file.path, "rb") as found:
        assert found.read(len(expected)) == expected
    file.close()


def test_without_a_descriptor_long_data_is_written_through_the_mapping(folder):
    disk = CountingDisk()
    file = kept_open(folder, disk)
    file.release_descriptor()
    file.write(PAGE, b"x" * LONG_WRITE)
    assert disk.writes == []
    assert file.mapping[PAGE : PAGE + LONG_WRITE + 1] == b"x" * LONG_WRITE + b"\0"
    file.close()
