"""Descriptors in reserve: a full table of descriptors stops neither a sync nor, for good, a put."""

import gc
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from broker.errors import DescriptorLimitError
from broker.store.logfile.descriptors import MAX_RESERVED, DescriptorReserve
from broker.store.message_store import PutMessageStatus as P

LEAST_LIMIT = 256


class Descriptors:
    """Takes the descriptors that this process has left."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken: list[int] = []

    def take_all(self) -> None:
        while True:
            try:
                self.taken.append(os.dup(0))
            except OSError:
                return

    def give_back(self) -> None:
        while self.taken:
            os.close(self.taken.pop())


@pytest.fixture
def descriptors():
    """``descriptors.take_all()``; the limit is low, and given back at the end.

    The garbage collector is off: it closes sockets that earlier tests of this process left.
    """
    gc.collect()
    gc.disable()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))  # by this process, whatever ran in it before
    made = Descriptors(LEAST_LIMIT + used // 8 * 8)
    resource.setrlimit(resource.RLIMIT_NOFILE, (made.limit, hard))
    yield made
    made.give_back()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    gc.enable()


@pytest.fixture
def reserve(descriptors):
    made = DescriptorReserve()
    made.acquire()
    yield made
    made.release()


def test_a_call_without_a_descriptor_gets_one_of_the_reserve(reserve, descriptors):
    size = reserve.spare
    assert size == min(MAX_RESERVED, descriptors.limit // 8)
    descriptors.take_all()
    fds = [reserve.call(lambda: os.open(os.devnull, os.O_RDONLY)) for _ in range(size)]
    assert reserve.spare == 0
    with pytest.raises(OSError, match="Too many open files"):
        reserve.call(lambda: os.open(os.devnull, os.O_RDONLY))
    for fd in fds:
        reserve.close(fd)
    assert reserve.spare == size
    # Closed descriptors went back into the reserve, not to another caller.
    with pytest.raises(OSError, match="Too many open files"):
        os.dup(0)


def test_other_errors_cost_nothing(reserve):
    size = reserve.spare
    with pytest.raises(FileNotFoundError):
        reserve.call(lambda: os.open("/nowhere/at/all", os.O_RDONLY))
    assert reserve.spare == size


HELD_BY_STORES = """
import os, resource, sys
from broker.errors import DescriptorLimitError
from broker.store.logfile.disk import Disk

def take_all():
    try:
        while True:
            os.dup(0)
    except OSError:
        pass

resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
disk, folder = Disk(), sys.argv[1]
first = disk.lock(os.path.join(folder, "lock"))
os.mkdir(os.path.join(folder, "other"))
second = disk.lock(os.path.join(folder, "other", "lock"))
first.release()
first.release()  # a second release does not count
take_all()
disk.close(disk.open(os.path.join(folder, "lock")))
print("open while a store is")
second.release()
take_all()  # the descriptors of the lock and of the reserve
try:
    disk.open(os.path.join(folder, "lock"))
except DescriptorLimitError:
    print("refused")
"""


def test_the_reserve_is_held_as_long_as_a_store_is_open(tmp_path: Path) -> None:
    """In a process without other stores: all stores of a process share the reserve."""
    done = subprocess.run(
        [sys.executable, "-c", HELD_BY_STORES, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.splitlines() == ["open while a store is", "refused"], done.stderr


def test_everything_is_flushed_while_no_descriptor_is_left(stores, inner, descriptors):
    store = stores.start(stores.config(mapped_file_size_commit_log=1 << 16))
    for queue_id in range(8):
        store.put_message(inner(queue_id=queue_id, properties={"KEYS": "k"}))
    descriptors.take_all()
    for number in range(64):
        result = store.put_message(inner(queue_id=number % 8))
        assert result.status is P.PUT_OK
    assert store.flush()
    store.queue_flush.sync(thorough=True)
    store.checkpoint.flush()
    store.write_manifest()
    assert store.writable
    assert store.disk.read(str(stores.root / "checkpoint"))  # the reserve is refilled
    stores.close(store)
    assert not (stores.root / "abort").exists()


def test_a_put_that_needs_a_file_is_refused_and_taken_once_there_is_one(stores, inner, descriptors):
    store = stores.start(stores.config(mapped_file_size_commit_log=1 << 16))
    store.put_message(inner())
    descriptors.take_all()
    topics = [f"T{number}" for number in range(60)]
    refused = [
        topic for topic in topics if store.put_message(inner(topic=topic)).status is not P.PUT_OK
    ]
    assert refused
    assert store.put_message(inner()).status is P.PUT_OK
    assert store.writable
    assert store.flush()
    # Mappings of new files have not taken all of the reserve.
    store.queue_flush.sync(thorough=True)
    store.checkpoint.flush()
    descriptors.give_back()
    for topic in refused:
        assert store.put_message(inner(topic=topic)).queue_offset == 0


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_sync_that_found_no_descriptor_is_repeated(stores, inner, faulty_disk, flush):
    config = stores.config(flush_disk_type=flush, flush_interval_consume_queue=3_600_000)
    store = stores.start(config, disk=faulty_disk)
    for number in range(6):
        store.put_message(inner(queue_id=number % 3, properties={"KEYS": "k"}))
        if number == 2:
            assert store.flush()
    faulty_disk.fail["sync_folder"] = DescriptorLimitError("no descriptor")
    faulty_disk.fail["sync_data"] = DescriptorLimitError("no descriptor")
    end = store.max_physical_offset
    assert store.flush() is False
    with pytest.raises(DescriptorLimitError):
        store.queue_flush.sync(thorough=True)
    store.faults.background_failed(DescriptorLimitError("no descriptor"))
    assert (store.writable, store.flusher.failed) == (True, "")
    del faulty_disk.fail["sync_folder"], faulty_disk.fail["sync_data"]
    assert store.flush() is True
    assert store.flushed_where == end
    dirty = set(store.queue_table.dirty)
    assert dirty == set(store.queue_table.all())
    store.queue_flush.sync(thorough=True)
    assert all(queue.flushed_bytes == 40 and queue.named for queue in dirty)


def test_an_index_file_whose_sync_failed_is_synced_again(stores, inner, faulty_disk):
    store = stores.start(disk=faulty_disk)
    store.put_message(inner(properties={"KEYS": "k"}))
    (index,) = store.index.files
    faulty_disk.fail["sync_data"] = DescriptorLimitError("no descriptor")
    with pytest.raises(DescriptorLimitError):
        index.sync()
    del faulty_disk.fail["sync_data"]
    faulty_disk.calls.clear()
    index.sync()
    assert faulty_disk.calls.count("sync_data") == 1


def test_dispatch_without_a_descriptor_waits(stores, inner, faulty_disk, monkeypatch):
    store = stores.start(disk=faulty_disk)
    store.put_message(inner())
    with monkeypatch.context() as patch:

        def fail(*_):
            raise DescriptorLimitError("no descriptor")

        patch.setattr(store.index, "put_keys", fail)
        store.put_message(inner(properties={"KEYS": "k"}))
    assert store.writable
    assert store.dispatch_behind_bytes > 0
    store.clean_expired()
    assert store.dispatch_behind_bytes == 0
    assert len(store.query_message("TopicA", "k", 9, 0, 1 << 62).buffers) == 1


def descriptors_of(files):
    """Number of descriptors of this process for each file."""
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue  # the descriptor of the listing itself
    return [links.count(file.path) for file in files]


def test_log_files_that_are_full_and_flushed_need_no_descriptor(stores, inner):
    """Besides the one that a mapping holds before Python 3.13."""
    store = stores.start()
    for _ in range(8):
        store.put_message(inner(body=bytes(2000)))
    store.flush()
    files = store.log.files.files
    assert len(files) == 4 + 4
    mapped = descriptors_of(files)[0]
    assert descriptors_of(files) == [mapped] * 7 + [mapped + 1]
    store = stores.reopen(store)
    *full, last = descriptors_of(store.log.files.files)  # full files are mapped when they are read
    assert (max(full) <= mapped, last) == (True, mapped + 1)
