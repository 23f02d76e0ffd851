"""The log: records to the byte, rolling, reading within bounds."""

import struct
from itertools import pairwise

import pytest

from broker.errors import StoreError
from broker.message.batch import encode_batch
from broker.message.message import Message
from broker.message.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, decode_record, encode_record
from broker.store.commitlog import GATHERED_BYTES, CommitLog
from broker.store.consumequeue.consume_queue import Topic
from broker.store.encoded_batch import EncodedBatch
from broker.store.format.commitlog import Blank, scan_commitlog
from broker.store.logfile.disk import Disk
from broker.store.logfile.file_preparer import FilePreparer
from broker.store.logfile.mapped_file import MappedFile, MappedFileQueue
from broker.store.logfile.page_loader import LOADED_BYTES, READ_AHEAD_BYTES
from broker.store.results import RecordTooLargeError

SIZE = 4096


@pytest.fixture
def log(tmp_path):
    files = MappedFileQueue(Disk(), str(tmp_path / "commitlog"), SIZE, keep_open=True)
    made = CommitLog(files, FilePreparer(files, lambda job: None))
    made.open_at(0, 0)
    yield made
    files.close()


class LoadingDisk(Disk):
    """Notes the ranges of pages that are loaded into a mapping, and of those that are read."""

    def __init__(self) -> None:
        self.loaded: list[tuple[int, int]] = []
        self.read_ranges: list[tuple[int, int]] = []

    def load_pages(self, mapping, start, end):
        super().load_pages(mapping, start, end)
        self.loaded.append((start, end))

    def page_reader(self, path):
        reader = super().page_reader(path)
        read = reader.read

        def note(start, end):
            took_ns = read(start, end)
            self.read_ranges.append((start, end))
            return took_ns

        reader.read = note
        return reader


@pytest.fixture
def large(tmp_path):
    """A log with files of 8 MiB, whose worker runs at once, and its disk."""
    disk = LoadingDisk()
    files = MappedFileQueue(disk, str(tmp_path / "commitlog"), 8 << 20, keep_open=True)
    made = CommitLog(files, FilePreparer(files, lambda job: job()))
    made.open_at(0, 0)
    yield made, disk
    files.close()
    made.pages.close()
    made.preparer.release()


TOPIC = Topic("TopicA")


def append(log, *arguments):
    """Append one message and write it."""
    stored = log.append(*arguments)
    log.write_gathered()
    return stored


def put(log, inner, now=1_700_000_000_000, queue_offset=0, **fields):
    return append(log, inner(**fields), TOPIC, queue_offset, now)


def sized(log, inner, size):
    """A message whose record has ``size`` bytes."""
    return inner(body=bytes(size - log.record_size(inner(body=b""), TOPIC)))


@pytest.mark.parametrize("born", [8, 20])
@pytest.mark.parametrize("stored", [8, 20])
def test_a_record_equals_the_output_of_the_codec(log, inner, born, stored):
    message = inner(
        queue_id=3,
        body=b"hello",
        flag=-7,
        sys_flag=0x2,
        reconsume_times=2,
        prepared_transaction_offset=99,
        properties={"KEYS": "k", "TAGS": "t"},
    )
    message.born_host = bytes(range(born))
    message.store_host = bytes(range(stored))
    physical_offset, size = append(log, message, TOPIC, 42, 1_700_000_000_123)
    record = bytes(log.read(physical_offset, size))
    found = decode_record(record, check_crc=True)
    assert encode_record(found) == record
    assert (found.queue_id, found.queue_offset, found.flag) == (3, 42, -7)
    assert (found.store_timestamp, found.reconsume_times) == (1_700_000_000_123, 2)
    assert found.prepared_transaction_offset == 99
    assert found.sys_flag == 0x2 | (born == 20) << 4 | (stored == 20) << 5
    assert (found.born_host_raw, found.store_host_raw) == (message.born_host, message.store_host)


def test_the_worked_example(log, inner):
    """The record of store.md's layout ruler, field by field."""
    message = inner(
        queue_id=3,
        body=b"hello RocketMQ",
        flag=7,
        properties={
            "KEYS": "key1 key2",
            "TAGS": "TagA",
            "UNIQ_KEY": "AC1000011092018B47B71A18B4AA0007",
            "CLUSTER": "DefaultCluster",
        },
    )
    message.store_host = bytes((192, 168, 7, 8, 0, 0, 0x2A, 0x9F))
    append(log, message, TOPIC, 42, 1_700_000_000_012)
    record = bytes(log.read(0, 201))
    assert record[:20].hex() == "000000c9daa320a724ac1d350000000300000007"
    assert record[28:36] == bytes(8)
    assert record[40:72].hex() == (
        "0000018bcfe568000a0102030000d4310000018bcfe5680cc0a8070800002a9f"
    )
    assert log.max_offset == 201


def test_a_long_retry_topic_makes_a_v2_record(log, inner):
    topic = Topic("%RETRY%" + "g" * 200)
    append(log, inner(topic=topic.name), topic, 0, 1)
    found = decode_record(log.read(0, log.max_offset))
    assert (found.magic, found.topic) == (MAGIC_V2, topic.name)
    assert Topic("t" * 127).magic == MAGIC_V1


def test_eight_bytes_stay_free_after_a_record(log, inner):
    append(log, sized(log, inner, SIZE - 8), TOPIC, 0, 1)
    assert len(log.files.files) == 1
    put(log, inner)
    assert len(log.files.files) == 2
    first = bytes(log.files.files[0].mapping)
    assert first[-8:] == (8).to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big")


def test_a_record_that_does_not_fit_begins_the_next_file(log, inner):
    append(log, sized(log, inner, 1000), TOPIC, 0, 1)
    place, size = append(log, sized(log, inner, SIZE - 1000 - 7), TOPIC, 1, 1)
    assert place == SIZE
    assert log.max_offset == SIZE + size
    found = list(scan_commitlog(bytes(log.files.files[0].mapping), 0))
    assert isinstance(found[-1], Blank)
    assert found[-1].length == SIZE - 1000


def test_a_record_that_just_fits_stays(log, inner):
    append(log, sized(log, inner, 1000), TOPIC, 0, 1)
    place, _ = append(log, sized(log, inner, SIZE - 1000 - 8), TOPIC, 1, 1)
    assert place == 1000


def test_a_record_longer_than_a_file_is_refused(log, inner):
    with pytest.raises(RecordTooLargeError):
        append(log, sized(log, inner, SIZE - 7), TOPIC, 0, 1)
    assert log.max_offset == 0
    assert log.files.files == []


def test_times_never_go_back(log, inner):
    put(log, inner, now=2000)
    put(log, inner, now=1000)
    records = list(scan_commitlog(bytes(log.files.files[0].mapping), 0))[:2]
    assert [record.store_timestamp for record in records] == [2000, 2000]


def test_reading_stays_within_the_log(log, inner):
    place, size = put(log, inner)
    assert log.read(place, size) is not None
    for offset, length in ((0, size + 1), (size, 1), (-1, 1), (0, 0), (0, -1), (1 << 40, 1)):
        assert log.read(offset, length) is None
    assert log.record_at(0) is not None
    assert log.record_at(1) is None
    assert log.store_timestamp_at(0) == 1_700_000_000_000
    assert log.store_timestamp_at(SIZE) == -1
    assert log.store_timestamp_at(size) == -1


def test_rest_of_file_ends_at_the_last_record(log, inner):
    _, size = put(log, inner)
    put(log, inner)
    assert len(log.rest_of_file(size)) == size
    assert log.rest_of_file(2 * size) is None


def test_the_log_continues_where_it_is_opened(log, inner):
    for _ in range(3):
        append(log, sized(log, inner, 1500), TOPIC, 0, 5)
    log.open_at(1500, 5)
    assert len(log.files.files) == 1
    assert (log.max_offset, log.flushed_where) == (1500, 1500)
    place, _ = append(log, sized(log, inner, 1500), TOPIC, 0, 5)
    assert place == 1500


def test_a_log_whose_first_files_are_gone(log, inner):
    for _ in range(5):
        append(log, sized(log, inner, 3000), TOPIC, 0, 5)
    log.files.remove_first()
    assert log.min_offset == SIZE
    assert log.read(0, 10) is None
    assert [file.start for file in log.files_from(2 * SIZE + 10)] == [2 * SIZE, 3 * SIZE, 4 * SIZE]


def test_make_room_keeps_a_batch_together(log, inner):
    append(log, sized(log, inner, 3000), TOPIC, 0, 5)
    log.ensure_capacity(1000)
    assert len(log.files.files) == 1
    log.ensure_capacity(1200)
    assert len(log.files.files) == 2


def test_replicated_bytes_are_stored_unchanged_and_roll_at_the_end_of_a_file(log, inner):
    source = bytes(range(256)) * (2 * SIZE // 256)
    log.append_replica(source[:1000], 0, 5)
    log.append_replica(source[1000:SIZE], 1000, 7)
    log.append_replica(source[SIZE : SIZE + 10], SIZE, 6)
    assert log.max_offset == SIZE + 10
    assert log.last_store_timestamp == 7
    assert bytes(log.read(0, SIZE)) == source[:SIZE]
    assert bytes(log.read(SIZE, 10)) == source[SIZE : SIZE + 10]
    assert [file.start for file in log.files.files] == [0, SIZE]


def test_replicated_bytes_continue_the_log_or_are_refused(log, inner):
    with pytest.raises(StoreError, match=f"physical offset {SIZE + 5}, which is not the start"):
        log.append_replica(b"x", SIZE + 5, 0)
    log.append_replica(b"abc", 3 * SIZE, 0)
    assert log.min_offset == 3 * SIZE
    for offset in (3 * SIZE, 3 * SIZE + 4, 0):
        with pytest.raises(StoreError, match=f"the log ends at {3 * SIZE + 3}"):
            log.append_replica(b"x", offset, 0)


def fail_after_roll(log, inner) -> None:
    """A put that fails after the log has rolled to its second file."""
    put(log, inner, body=bytes(1_000))
    with pytest.raises(struct.error):
        append(log, inner(body=bytes(3_000), flag=1 << 40), TOPIC, 1, 0)


def test_the_next_record_starts_a_file_after_a_put_that_failed_there(log, inner):
    fail_after_roll(log, inner)
    end = log.max_offset
    assert end < SIZE == log.next_offset
    assert log.next_place(1, 0).physical_offset == SIZE
    log.append_encoded(b"r" * 100, 0)
    assert bytes(log.read(SIZE, 100)) == b"r" * 100
    assert log.max_offset == log.next_offset == SIZE + 100


def test_bytes_of_a_master_continue_the_log_after_a_put_that_failed(log, inner):
    fail_after_roll(log, inner)
    end = log.max_offset
    log.append_replica(b"s" * 50, end, 0)
    assert bytes(log.read(end, 50)) == b"s" * 50
    assert log.max_offset == log.next_offset == end + 50
    assert [file.start for file in log.files.files] == [0]
    log.append_replica(b"t" * (SIZE - end - 50), end + 50, 0)
    log.append_replica(b"u" * 10, SIZE, 0)
    assert bytes(log.read(SIZE, 10)) == b"u" * 10


def test_a_file_that_cannot_be_removed_costs_no_bytes_of_the_log(log, inner, monkeypatch):
    fail_after_roll(log, inner)
    end = log.max_offset

    def fail(path: str) -> None:
        raise OSError(5, "input/output error", path)

    with monkeypatch.context() as patch:
        patch.setattr(log.files.disk, "unlink", fail)
        with pytest.raises(OSError, match="input/output"):
            log.append_replica(b"s" * 50, end, 0)
    log.append_replica(b"s" * 50, end, 0)
    assert [file.start for file in log.files.files] == [0]
    assert bytes(log.read(end, 50)) == b"s" * 50
    assert log.record_at(0) is not None


@pytest.mark.parametrize("failing", ["map", "request"])
def test_a_file_that_cannot_be_used_leaves_no_wrong_offset(log, inner, monkeypatch, failing):
    put(log, inner, body=bytes(1_000))

    def fail(*args) -> None:
        raise OSError(12, "no memory")

    with monkeypatch.context() as patch:
        if failing == "map":
            patch.setattr(log.files.disk, "map", fail)
        else:
            patch.setattr(log.preparer, "request", fail)
        with pytest.raises(OSError, match="no memory"):
            put(log, inner, body=bytes(3_000))
    physical_offset, size = put(log, inner, body=bytes(3_000))
    assert physical_offset == SIZE
    found = decode_record(bytes(log.read(physical_offset, size)), check_crc=True)
    assert found.physical_offset == SIZE


# --- gathered records -----------------------------------------------------------------------------


def test_gathered_records_are_unseen_until_one_write_writes_them(log, inner, monkeypatch):
    writes = []
    write = MappedFile.write
    monkeypatch.setattr(
        MappedFile, "write", lambda file, *of: (writes.append(len(of[1])), write(file, *of))
    )
    write_gathered = log.gather()
    stored = [log.append(inner(body=b"%d" % n), TOPIC, n, 5 + n) for n in range(3)]
    end = sum(stored[-1])
    assert (log.max_offset, log.written_store_timestamp) == (0, 0)
    assert (log.next_offset, log.appended_offset, log.last_store_timestamp) == (end, end, 7)
    assert log.record_at(0) is None
    assert writes == []
    write_gathered()
    write_gathered()
    assert writes == [end]
    assert (log.max_offset, log.appended_offset, log.written_store_timestamp) == (end, end, 7)
    assert [decode_record(bytes(log.record_at(place))).body for place, _ in stored] == [
        b"0",
        b"1",
        b"2",
    ]


def test_gathered_records_are_written_when_they_are_many(large, inner):
    log, _ = large
    log.gather()
    sizes = [log.append(inner(body=bytes(1000)), TOPIC, n, 5)[1] for n in range(300)]
    assert GATHERED_BYTES <= log.max_offset < GATHERED_BYTES + sizes[0]


def _appends(rng):
    """A script of appends of every kind, some of which fail, and of writes of gathered records."""
    for _ in range(rng.randrange(60)):
        kind = rng.choice(("append", "append", "append", "broken", "batch", "encoded", "write"))
        yield kind, rng.choice((10, 100, 1_500, SIZE - 200, SIZE)), rng.randrange(5)


def _run_appends(log, inner, script, write):
    """Positions or errors of the script, and the end of the log."""
    results = []
    now = 1_700_000_000_000
    for number, (kind, size, later) in enumerate(script):
        now += later
        message = inner(body=bytes([number]) * size)
        try:
            if kind in ("append", "broken"):
                message.flag = 1 << 40 if kind == "broken" else 0
                results.append(log.append(message, TOPIC, number, now))
            elif kind == "batch":
                place = log.next_place(number, now)
                shared = inner(body=b"")
                batch = EncodedBatch(TOPIC, shared, place, 1 << 20)
                body = encode_batch([Message("TopicA", message.body)] * 2)
                for _ in batch.encode_items(body):
                    pass
                results.append(log.append_batch(batch, number, now))
            elif kind == "encoded" and 0 < size <= log.capacity:
                results.append(log.next_offset)
                log.append_encoded(message.body, now)
            elif kind == "write":
                write()
        except (struct.error, RecordTooLargeError) as error:
            results.append(type(error))
        results.append((log.next_offset, log.appended_offset, log.capacity))
    write()
    return results, log.max_offset, log.written_store_timestamp


def test_gathering_changes_no_byte(tmp_path, inner, rng):
    for number in range(200):
        script = list(_appends(rng))
        outcomes = []
        for gathers in (False, True):
            folder = tmp_path / f"{number}-{gathers}"
            files = MappedFileQueue(Disk(), str(folder), SIZE, keep_open=True)
            log = CommitLog(files, FilePreparer(files, lambda job: None))
            log.open_at(0, 0)
            write = log.gather() if gathers else log.write_gathered
            done = _run_appends(log, inner, script, write)
            outcomes.append((done, [bytes(file.view) for file in files.files]))
            files.close()
        assert outcomes[0] == outcomes[1]


# --- pages that are loaded ahead ------------------------------------------------------------------


def test_short_writes_load_the_next_pages_after_the_first_mebibyte(large, inner):
    log, disk = large
    file = None
    while file is None or file.written < 7 << 20:
        before = len(disk.loaded)
        put(log, inner, body=bytes(4000))
        log.load_ahead(sync_flush=False)
        (file,) = log.files.files
        if len(disk.loaded) > before:
            start, end = disk.loaded[-1]
            assert end == min(file.size, file.written // 4096 * 4096 + LOADED_BYTES)
            assert start <= file.written if not before else start == disk.loaded[-2][1]
    assert disk.loaded[0][0] == pytest.approx(LOADED_BYTES // 2, abs=8192)
    assert disk.loaded[-1][1] == file.size
    assert sum(end - start for start, end in disk.loaded) == file.size - disk.loaded[0][0]


def test_a_log_that_is_rolled_loads_the_first_pages_at_once(large, inner):
    log, disk = large
    while len(log.files.files) < 2:
        put(log, inner, body=bytes(4000))
    assert disk.loaded == []
    log.load_ahead(sync_flush=False)
    start = log.files.files[1].written // 4096 * 4096
    assert disk.loaded == [(start, start + LOADED_BYTES)]


@pytest.fixture
def slow_pages(monkeypatch):
    """Reading a page takes so long that all pages are read ahead."""
    monkeypatch.setattr("broker.store.logfile.page_loader.SLOW_PAGE_NS", 0)


@pytest.mark.usefixtures("slow_pages")
@pytest.mark.parametrize(("body", "sync_flush"), [(9000, False), (9000, True), (4000, True)])
def test_pages_that_no_mapping_needs_are_read_ahead(large, inner, body, sync_flush):
    log, disk = large
    while not disk.read_ranges:
        put(log, inner, body=bytes(body))
        log.load_ahead(sync_flush=sync_flush)
    (file,) = log.files.files
    start = file.written // 4096 * 4096
    assert file.written == pytest.approx(LOADED_BYTES // 2, abs=16384)
    assert disk.read_ranges == [(start, start + LOADED_BYTES)]
    while len(log.files.files) < 2:
        put(log, inner, body=bytes(body))
        log.load_ahead(sync_flush=sync_flush)
    ends = [end for _, end in disk.read_ranges]
    of_first = disk.read_ranges[: ends.index(file.size) + 1]
    assert all(end == start for (_, end), (start, _) in pairwise(of_first))
    assert disk.loaded == []


@pytest.mark.parametrize(
    ("bytes_per_ms", "expected"),
    [(1_000, LOADED_BYTES), (20_000, 10_000_000), (1_000_000, READ_AHEAD_BYTES)],
)
@pytest.mark.usefixtures("slow_pages")
def test_the_bytes_read_ahead_follow_the_rate(tmp_path, inner, bytes_per_ms, expected):
    disk = LoadingDisk()
    files = MappedFileQueue(disk, str(tmp_path / "commitlog"), 64 << 20, keep_open=True)
    log = CommitLog(files, FilePreparer(files, lambda job: job()))
    log.open_at(0, 0)
    now = 1_700_000_000_000
    while len(disk.read_ranges) < 2:
        put(log, inner, now + log.max_offset // bytes_per_ms, body=bytes(9000))
        log.load_ahead(sync_flush=False)
    end = files.files[0].written + expected
    assert disk.read_ranges[1][1] == pytest.approx(end, rel=0.05)
    log.pages.close()
    log.preparer.release()
    files.close()


@pytest.mark.usefixtures("slow_pages")
def test_bytes_read_ahead_are_those_of_the_file(large, inner, monkeypatch):
    monkeypatch.setattr("broker.store.logfile.page_loader.LOADED_BYTES", 1 << 20)
    monkeypatch.setattr("broker.store.logfile.page_loader.READ_AHEAD_BYTES", 1 << 20)
    log, disk = large
    expected = []
    while log.max_offset < 7 << 20:
        expected.append(put(log, inner, body=bytes([len(expected) % 256]) * 9000))
        log.load_ahead(sync_flush=False)
    assert len(disk.read_ranges) > 10
    assert all(end == start for (_, end), (start, _) in pairwise(disk.read_ranges))
    for number, (physical_offset, size) in enumerate(expected):
        record = log.record_at(physical_offset)
        assert record is not None
        assert decode_record(record, check_crc=True).body == bytes([number % 256]) * 9000
        assert len(record) == size
