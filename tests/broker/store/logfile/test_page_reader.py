"""Pages are read ahead, in any number of calls, and the file does not change."""

import errno
import os
import sys
import time

import pytest

from broker.errors import StoreError
from broker.store.logfile import page_reader
from broker.store.logfile.disk import Disk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pages are read on Linux only")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_part_is_read_in_any_number_of_calls_and_the_file_does_not_change(tmp_path, monkeypatch):
    path = tmp_path / "f"
    content = bytes(range(256)) * 4096
    path.write_bytes(content)
    ranges = []
    sendfile = os.sendfile

    def in_steps(target, fd, position, count):
        done = sendfile(target, fd, position, min(count, 100_000))
        ranges.append((position, done))
        return done

    before = descriptors()
    reader = Disk().page_reader(str(path))
    monkeypatch.setattr(page_reader.os, "sendfile", in_steps)
    before_ns = time.thread_time_ns()
    took_ns = reader.read(8192, 400_000)
    assert 0 < took_ns <= time.thread_time_ns() - before_ns
    assert [position for position, _ in ranges] == [8192, 108_192, 208_192, 308_192]
    assert sum(done for _, done in ranges) == 400_000 - 8192
    ranges.clear()
    reader.read(1 << 20, 2 << 20)  # past the end
    assert ranges == [(1 << 20, 0)]
    assert path.read_bytes() == content
    reader.close()
    assert descriptors() == before


def is_cached(path, position: int) -> bool:
    """Whether a read at ``position`` needs no block of the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.preadv(fd, [bytearray(1)], position, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False
    except OSError as error:  # a file system in memory: all pages are cached
        if error.errno != errno.EOPNOTSUPP:
            raise
        return True
    finally:
        os.close(fd)


def test_pages_of_reserved_space_are_cached(tmp_path):
    path = tmp_path / "f"
    disk = Disk()
    fd = disk.open(str(path), create=True)
    disk.reserve(fd, 1 << 20, str(path))
    disk.close(fd)
    before = is_cached(path, 65_536)
    reader = disk.page_reader(str(path))
    reader.read(65_536, 131_072)
    reader.close()
    assert all(is_cached(path, position) for position in range(65_536, 131_072, 4096))
    assert is_cached(path, 61_440) == is_cached(path, 131_072) == before
    assert path.read_bytes() == bytes(1 << 20)


def test_a_file_that_cannot_be_opened_or_advised_leaves_no_descriptor(tmp_path, monkeypatch):
    disk = Disk()
    with pytest.raises(StoreError, match="absent"):
        disk.page_reader(str(tmp_path / "absent"))
    path = tmp_path / "f"
    path.write_bytes(b"data")

    def refuse(*arguments):
        raise OSError(22, "Invalid argument")

    before = descriptors()
    monkeypatch.setattr(page_reader.os, "posix_fadvise", refuse)
    with pytest.raises(OSError, match="Invalid argument"):
        disk.page_reader(str(path))
    assert descriptors() == before


def test_other_systems_read_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(page_reader.sys, "platform", "darwin")
    monkeypatch.delattr(page_reader.os, "sendfile")
    path = tmp_path / "f"
    path.write_bytes(b"data")
    reader = Disk().page_reader(str(path))
    assert reader.read(0, 4) == 0
    reader.close()
