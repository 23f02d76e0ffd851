"""A queue's units: places, holes, bounds, ends."""

import errno
import os

import pytest

from broker.errors import DiskFullError
from broker.store.consumequeue import consume_queue as consumequeue
from broker.store.consumequeue.consume_queue import ConsumeQueue, Topic
from broker.store.format.consumequeue import NO_UNIT, PRE_BLANK, UNIT_SIZE, UNIT_STRUCT
from broker.store.logfile.disk import Disk
from broker.store.logfile.mapped_file import PAGE, MappedFileQueue
from broker.store.results import PutMessageStatus

UNITS = 10
SIZE = UNITS * 20


@pytest.fixture
def make(tmp_path):
    made = []

    def new(disk=None):
        files = MappedFileQueue(disk or Disk(), str(tmp_path / "q"), SIZE)
        queue = ConsumeQueue(Topic("T"), 0, files, lambda queue: None)
        queue.load()
        made.append(queue)
        return queue

    yield new
    for queue in made:
        queue.close()


def fill(queue, count, start=0, base=1000):
    for offset in range(start, start + count):
        assert queue.append(offset, base + offset * 100, 100, offset)


def test_units_are_at_their_positions(make, tmp_path):
    queue = make()
    fill(queue, 25)
    assert sorted(os.listdir(tmp_path / "q")) == [f"{n * SIZE:020d}" for n in range(3)]
    assert (queue.min_offset, queue.max_offset, queue.max_physical_offset) == (0, 25, 3500)
    for offset in range(25):
        assert queue.unit(offset) == (1000 + offset * 100, 100, offset)
    assert queue.unit(25) is None
    assert queue.unit(-1) is None


def test_reads_end_with_the_file(make):
    queue = make()
    fill(queue, 25)
    assert [unit[2] for unit in queue.read(7, 10)] == [7, 8, 9]
    assert [unit[2] for unit in queue.read(20, 10)] == [20, 21, 22, 23, 24]
    assert [unit[2] for unit in queue.read(3, 2)] == [3, 4]
    assert queue.read(25, 1) == []
    assert queue.read(-1, 1) == []
    assert queue.next_file_offset(7) == 10
    assert queue.next_file_offset(10) == 20


@pytest.mark.parametrize("units", [0, UNITS])
def test_a_file_that_a_put_created_is_marked_as_empty_until_its_first_unit(make, tmp_path, units):
    queue = make()
    fill(queue, units)
    queue.next_offset = units
    queue.ensure_capacity(units)
    path = tmp_path / "q" / f"{units * UNIT_SIZE:020d}"
    assert path.read_bytes().strip(b"\0") == NO_UNIT.strip(b"\0")
    # After a kill the file is taken for an empty one, and used.
    loaded = make()
    assert loaded.max_offset == units
    loaded.next_offset = units
    loaded.ensure_capacity(units)
    fill(loaded, 1, start=units)
    loaded.ensure_capacity(units + 1)
    assert path.read_bytes().strip(b"\0") == UNIT_STRUCT.pack(1000 + units * 100, 100, units).strip(
        b"\0"
    )


def test_a_file_left_by_a_put_that_failed_is_marked_by_the_next_put(make, tmp_path):
    queue = make()
    fill(queue, UNITS)
    queue.next_offset = UNITS
    queue.files.create(SIZE)  # the put found no space for the unit
    queue.ensure_capacity(UNITS)
    path = tmp_path / "q" / f"{SIZE:020d}"
    assert path.read_bytes().strip(b"\0") == NO_UNIT.strip(b"\0")


def test_known_records_are_dropped(make):
    queue = make()
    fill(queue, 5)
    assert queue.append(2, 1200, 100, 7) is False
    assert queue.append(3, 9999, 100, 7) is False
    assert queue.unit(3) == (1300, 100, 3)
    assert queue.max_offset == 5


def test_a_queue_that_begins_above_0_is_filled_up(make, tmp_path):
    queue = make()
    assert queue.append(25, 5000, 100, 1)
    assert os.listdir(tmp_path / "q") == [f"{2 * SIZE:020d}"]
    data = (tmp_path / "q" / f"{2 * SIZE:020d}").read_bytes()
    assert data[:100] == PRE_BLANK * 5
    assert (queue.min_offset, queue.max_offset) == (25, 26)
    assert queue.unit(25) == (5000, 100, 1)
    again = make()
    again.correct_min_offset(4000)
    assert (again.min_offset, again.max_offset) == (25, 26)


def test_a_hole_keeps_later_units_in_their_places(make):
    queue = make()
    fill(queue, 3)
    assert queue.append(12, 5000, 100, 12)
    assert queue.unit(12) == (5000, 100, 12)
    assert queue.max_offset == 13
    offsets = [queue.unit(n)[0] for n in range(13)]
    assert offsets == sorted(offsets)


def test_the_end_is_found_again(make):
    for count in (0, 1, 9, 10, 11, 20, 25):
        queue = make()
        queue.destroy()
        fill(queue, count)
        queue.close()
        again = make()
        assert again.max_offset == again.next_offset == count
        again.scan_end()
        assert again.max_offset == count
        assert again.append(count, 90_000, 100, 5)
        assert again.unit(count) == (90_000, 100, 5)


def test_a_scan_ends_at_the_first_empty_unit(make):
    queue = make()
    fill(queue, 25)
    queue.files.files[1].mapping[60:80] = bytes(20)
    queue.scan_end()
    assert queue.max_offset == 13


def test_a_queue_ends_at_a_missing_or_short_file(make, tmp_path):
    queue = make()
    fill(queue, 35)
    files = [file.path for file in queue.files.files]
    notes = []
    queue.close()
    os.truncate(files[2], 90)
    queue.load(notes=notes)
    assert queue.max_offset == 24
    assert not os.path.exists(files[3])
    queue.close()
    os.unlink(files[1])
    queue.load(notes=notes)
    assert queue.max_offset == 10
    assert files[2] in notes[0]
    assert files[1] in notes[1]
    assert not os.path.exists(files[2])


def test_min_offset_follows_the_log(make):
    queue = make()
    fill(queue, 35)
    for log_min, expected in ((0, 0), (1000, 0), (1001, 1), (2999, 20), (4400, 34), (9999, 35)):
        queue.correct_min_offset(log_min)
        assert queue.min_offset == expected


def test_expired_files_go_but_the_last_stays(make, tmp_path):
    queue = make()
    fill(queue, 35)
    assert queue.delete_expired(1900) == 0
    assert queue.delete_expired(1901) == 1
    assert queue.delete_expired(1 << 40) == 2
    assert len(os.listdir(tmp_path / "q")) == 1
    assert queue.first_offset == 30


DAMAGED_UNITS = [(-5, 100, 0), (0, 0, 0), (1, 100, 0), (1 << 60, 100, 0)]


@pytest.mark.parametrize("log_min", [0, 1000, 1850, 3000, 9999])
@pytest.mark.parametrize("damaged", DAMAGED_UNITS)
@pytest.mark.parametrize("count", [1, 10])
def test_damaged_units_hide_no_message_and_cost_no_file(make, log_min, damaged, count):
    intact = make()
    fill(intact, 35)
    intact.correct_min_offset(log_min)
    expected = intact.min_offset
    intact.destroy()
    for first in range(0, 35 - count, count):
        queue = make()
        fill(queue, 35)
        for offset in range(first, first + count):
            mapping = queue.files.find(offset * UNIT_SIZE).mapping
            UNIT_STRUCT.pack_into(mapping, offset % UNITS * UNIT_SIZE, *damaged)
        queue.delete_expired(log_min)
        assert queue.min_offset <= max(expected, 1)  # no unit before the first one contradicts it
        assert queue.first_offset <= min(expected, 34) // UNITS * UNITS
        queue.destroy()


@pytest.mark.parametrize("damaged", DAMAGED_UNITS)
@pytest.mark.parametrize("units", [35, 15])
def test_a_damaged_unit_costs_no_unit_of_the_log(make, damaged, units):
    for offset in range(34):
        queue = make()
        fill(queue, 35)
        mapping = queue.files.find(offset * UNIT_SIZE).mapping
        UNIT_STRUCT.pack_into(mapping, offset % UNITS * UNIT_SIZE, *damaged)
        queue.truncate_to_log(1000 + units * 100)
        if units == 35 or not units - 2 <= offset <= units + 1:
            assert queue.max_offset == units
        else:  # the end itself is damaged
            assert units - 1 <= queue.max_offset <= units + 2
        queue.destroy()


def test_truncation_drops_units_past_the_end_of_the_log(make, tmp_path):
    queue = make()
    fill(queue, 35)
    assert queue.truncate_to_log(1 << 40) is False
    assert queue.truncate_to_log(2550) is True
    assert (queue.max_offset, queue.max_physical_offset) == (15, 2500)
    assert len(os.listdir(tmp_path / "q")) == 2
    fill(queue, 10, 15)
    assert queue.max_offset == 25
    assert queue.truncate_to_log(0) is True
    assert queue.max_offset == 0


def test_truncation_at_a_file_border(make):
    queue = make()
    fill(queue, 20)
    queue.truncate_units(10)
    assert queue.max_offset == 10
    fill(queue, 3, 10)
    assert queue.unit(12) == (2200, 100, 12)


def test_a_full_disk_changes_nothing(make, faulty_disk):
    queue = make(faulty_disk)
    fill(queue, 10)
    faulty_disk.fail["reserve"] = DiskFullError("no space")
    with pytest.raises(DiskFullError):
        queue.append(10, 2000, 100, 1)
    assert queue.max_offset == 10
    del faulty_disk.fail["reserve"]
    assert queue.append(10, 2000, 100, 1)
    assert queue.unit(10) == (2000, 100, 1)


def test_a_roll_that_cannot_map_a_file_keeps_the_allocated_offsets(make, faulty_disk):
    """Two messages got one queue offset: the queue forgot those that were not dispatched."""
    queue = make(faulty_disk)
    fill(queue, UNITS)
    queue.ensure_capacity(UNITS + 2)
    queue.next_offset = UNITS + 3
    queue.release_mappings()
    faulty_disk.fail["map"] = OSError(errno.EIO, "Input/output error")
    with pytest.raises(OSError, match="Input/output error"):
        queue.append(UNITS, 2000, 100, 1)
    assert (queue.max_offset, queue.next_offset) == (UNITS, UNITS + 3)
    del faulty_disk.fail["map"]
    fill(queue, 3, start=UNITS)
    assert (queue.max_offset, queue.next_offset) == (UNITS + 3, UNITS + 3)
    assert make().unit(UNITS + 2) == (1000 + (UNITS + 2) * 100, 100, UNITS + 2)


def test_a_roll_does_not_read_the_file_before_it(make, faulty_disk):
    queue = make(faulty_disk)
    fill(queue, UNITS)
    queue.ensure_capacity(UNITS)
    queue.files.files[0].release_mapping()
    faulty_disk.fail["map"] = OSError(errno.EIO, "Input/output error")
    fill(queue, 1, start=UNITS)
    assert (queue.max_offset, queue.max_physical_offset) == (UNITS + 1, 1100 + UNITS * 100)


@pytest.mark.parametrize("call", range(1, 12))
def test_a_queue_that_fails_to_begin_above_0_begins_there_later(tmp_path, faulty_disk, call):
    size = 1024 * UNIT_SIZE
    files = MappedFileQueue(faulty_disk, str(tmp_path / "q"), size, reserve_ahead=True)
    queue = ConsumeQueue(Topic("T"), 0, files, lambda queue: None)
    queue.load()
    offset = 1024 + 600
    queue.next_offset = offset + 2
    faulty_disk.fail_call = len(faulty_disk.calls) + call
    try:
        queue.append(offset, 5000, 100, 1)
    except (OSError, DiskFullError):
        assert (queue.max_offset, queue.next_offset) == (0, offset + 2)
        assert queue.append(offset, 5000, 100, 1)
    assert queue.append(offset + 1, 5100, 100, 2)
    assert (queue.min_offset, queue.max_offset, queue.next_offset) == (offset, *[offset + 2] * 2)
    assert queue.unit(offset) == (5000, 100, 1)
    queue.close()
    assert os.listdir(tmp_path / "q") == [f"{size:020d}"]


def test_a_sync_covers_new_data(make, faulty_disk):
    queue = make(faulty_disk)
    fill(queue, 25)
    assert queue.dirty
    faulty_disk.calls.clear()
    queue.sync()
    assert faulty_disk.calls.count("sync_data") == 3
    assert not queue.dirty
    fill(queue, 1, 25)
    faulty_disk.calls.clear()
    queue.sync()
    assert faulty_disk.calls.count("sync_data") == 1


def test_dirty_pages(tmp_path):
    files = MappedFileQueue(Disk(), str(tmp_path / "q"), 20_000)
    reported = []
    queue = ConsumeQueue(Topic("T"), 0, files, reported.append)
    fill(queue, 500)
    assert queue.dirty_pages() == 2
    assert reported == [queue]
    queue.sync()
    assert queue.dirty_pages() == 0
    queue.close()


def test_a_destroyed_queue_restarts_at_offset_0(make, tmp_path):
    queue = make()
    fill(queue, 15)
    queue.destroy()
    assert not (tmp_path / "q").exists()
    fill(queue, 2)
    assert queue.max_offset == 2


@pytest.mark.parametrize(
    ("name", "usable"),
    [("TopicA", True), ("%RETRY%g", True), ("", False), ("..", False), ("a/b", False)],
)
def test_names_that_cannot_be_folders_are_not_usable(name, usable):
    assert Topic(name).usable is usable


# --- space ----------------------------------------------------------------------------------------

LARGE = 300_000 * UNIT_SIZE
QUEUE_FILE = "0" * 20


def used(path) -> int:
    return sum(file.stat().st_blocks * 512 for file in path.rglob(QUEUE_FILE))


def test_a_queue_takes_the_space_of_its_units_and_files_have_their_length(stores, inner):
    """160 queues with a message each took 916 MB: every file was reserved as a whole."""
    store = stores.start(stores.config(mapped_file_size_consume_queue=LARGE))
    for number in range(160):
        store.put_message(inner(topic=f"T{number}"))
    folder = stores.root / "consumequeue"
    assert {file.stat().st_size for file in folder.rglob(QUEUE_FILE)} == {LARGE}
    assert used(folder) <= 160 * 2 * PAGE


def test_a_growing_queue_reserves_in_growing_steps(tmp_path, faulty_disk):
    files = MappedFileQueue(faulty_disk, str(tmp_path / "q"), LARGE, reserve_ahead=True)
    queue = ConsumeQueue(Topic("T"), 0, files, lambda queue: None)
    fill(queue, 100_000)
    # 2 MB in steps of 4 KiB to 1 MiB.
    assert faulty_disk.calls.count("reserve") < 12
    (file,) = files.files
    assert 100_000 * UNIT_SIZE <= file.reserved <= 100_000 * UNIT_SIZE + (1 << 20)
    queue.close()


def test_no_space_for_the_next_step_refuses_the_put(stores, inner, faulty_disk):
    config = stores.config(
        mapped_file_size_consume_queue=LARGE, mapped_file_size_commit_log=1 << 20
    )
    store = stores.start(config, disk=faulty_disk)
    for _ in range(PAGE // UNIT_SIZE):
        assert store.put_message(inner()).status is PutMessageStatus.PUT_OK
    faulty_disk.fail["reserve"] = DiskFullError("consumequeue/x: No space left on device")
    result = store.put_message(inner())
    assert (result.status, store.writable) == (PutMessageStatus.SERVICE_NOT_AVAILABLE, False)
    assert store.get_max_offset("TopicA", 0) == PAGE // UNIT_SIZE
    del faulty_disk.fail["reserve"]
    stores.clock.advance(1_000)
    assert store.put_message(inner()).queue_offset == PAGE // UNIT_SIZE


def test_a_start_reserves_no_space_and_the_next_put_reserves_its_own(stores, inner):
    config = stores.config(mapped_file_size_consume_queue=LARGE)
    store = stores.start(config)
    for number in range(300):
        store.put_message(inner(body=b"%d" % number))
    stores.close(store)
    folder = stores.root / "consumequeue"
    # As Java leaves it: of full length, everything behind the data a hole.
    (path,) = folder.rglob(QUEUE_FILE)
    with path.open("rb+") as file:
        file.truncate(300 * UNIT_SIZE)
        file.truncate(LARGE)
    before = used(folder)
    store = stores.start(config)
    assert used(folder) == before
    for number in range(300, 700):
        store.put_message(inner(body=b"%d" % number))
    assert 700 * UNIT_SIZE <= used(folder) <= 700 * UNIT_SIZE + 4 * PAGE
    found = store.get_message("TopicA", 0, 690, 32)
    assert found.message_count == 10


def test_a_load_reads_no_hole(tmp_path, monkeypatch):
    """On tmpfs a read fault in a hole takes a page: SIGBUS when it is full."""
    files = MappedFileQueue(Disk(), str(tmp_path / "q"), LARGE, reserve_ahead=True)
    queue = ConsumeQueue(Topic("T"), 0, files, lambda queue: None)
    fill(queue, 300)
    queue.sync()
    queue.close()

    read = []

    def unpack_from(mapping, position):
        read.append(position)
        return UNIT_STRUCT.unpack_from(mapping, position)

    monkeypatch.setattr(consumequeue, "UNPACK_FROM", unpack_from)
    files = MappedFileQueue(Disk(), str(tmp_path / "q"), LARGE, reserve_ahead=True)
    again = ConsumeQueue(Topic("T"), 0, files, lambda queue: None)
    again.load()
    assert again.max_offset == 300
    assert max(read) < 3 * PAGE
    again.scan_end()
    assert again.max_offset == 300
    again.close()


def test_checked_offsets_are_one_range(stores, inner):
    store = stores.start()
    store.put_message(inner())
    queue = store.queue_table.find("TopicA", 0)
    seen = []
    for begin, end in ((0, 4), (4, 8), (2, 6), (20, 24), (8, 9)):
        queue.note_checked(begin, end)
        seen.append(queue.checked)
    assert seen == [(0, 4), (0, 8), (0, 8), (20, 24), (8, 9)]


def test_units_flushed_before_a_cut_are_flushed_again(make):
    """The bytes that replace them are new."""
    queue = make()
    fill(queue, 25)
    queue.sync()
    queue.mark_flushed()
    queue.truncate_units(4)
    fill(queue, 2, start=4)
    assert queue.exposed(log_min=1 << 40)
    assert queue.dirty_pages() == 0
    queue.sync()
    assert not queue.exposed(log_min=1 << 40)
