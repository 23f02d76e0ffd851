"""The door to the disk: space, locks, ranges of data, small files."""

import fcntl
import os
import subprocess
import sys

import pytest

from broker.errors import DiskFullError, FileNameError, StoreError, StoreLockedError
from broker.store.config_file import ConfigFile
from broker.store.logfile import disk as files
from broker.store.logfile.disk import Disk


@pytest.fixture
def disk():
    return Disk()


def test_a_named_pipe_is_not_read(disk, tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is a named pipe"):
        disk.read(str(tmp_path / "pipe"))


HOLD = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
print("held", flush=True)
sys.stdin.read()
"""

TRY = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
except OSError:
    sys.exit(3)
"""


def test_a_lock_of_another_process_conflicts(disk, tmp_path):
    path = str(tmp_path / "lock")
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(StoreLockedError) as caught:
            disk.lock(path)
        assert caught.value.path == path
    finally:
        other.communicate()
    disk.lock(path).release()


def test_our_lock_keeps_others_out_until_it_is_released(disk, tmp_path):
    path = str(tmp_path / "lock")

    def attempt():
        return subprocess.run([sys.executable, "-c", TRY, path], check=False).returncode

    held = disk.lock(path)
    assert attempt() == 3
    with pytest.raises(StoreLockedError):
        disk.lock(path)
    # The refused second attempt in this process has not given the lock away.
    assert attempt() == 3
    held.release()
    held.release()
    assert attempt() == 0
    disk.lock(path).release()


def test_a_byte_range_lock_is_reported_as_lock(disk, tmp_path):
    held = disk.lock(str(tmp_path / "lock"))
    assert (tmp_path / "lock").read_bytes() == b"lock"
    held.release()
    assert fcntl.LOCK_EX


def test_a_limit_on_the_file_size_is_a_full_disk(disk, tmp_path):
    import resource

    path = str(tmp_path / "f")
    fd = disk.open(path, create=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(DiskFullError) as caught:
            disk.reserve(fd, 5000, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        disk.close(fd)
    assert path in caught.value.message
    assert caught.value.hint


def test_errors_name_the_file(disk, tmp_path):
    missing = str(tmp_path / "no" / "file")
    with pytest.raises(StoreError, match="no/file"):
        disk.open(missing)
    with pytest.raises(StoreError, match="no/file"):
        disk.write(missing, b"")
    (tmp_path / "plain").write_text("x")
    with pytest.raises(StoreError, match="plain"):
        disk.make_folder(str(tmp_path / "plain" / "below"))


def random_bytes(path) -> int:
    """Mapped bytes of a file for which the kernel was advised not to read ahead."""
    total = size = 0
    mapped = False
    with open("/proc/self/smaps", encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if words[0].endswith(":"):
                if words[0] == "VmFlags:" and mapped and "rr" in words:
                    total += size
                continue
            first, last = (int(word, 16) for word in words[0].split("-"))
            mapped, size = words[-1] == str(path), last - first
    return total


@pytest.mark.skipif(sys.platform != "linux", reason="reads the flags of mappings from /proc")
def test_small_syncs_are_expected_from_a_position_on_until_undone(disk, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(bytes(16 * 4096))
    fd = disk.open(str(path))
    mapping = disk.map(fd, 16 * 4096)
    disk.close(fd)
    assert random_bytes(path) == 0
    disk.expect_single_pages(mapping, 3 * 4096)
    assert random_bytes(path) == 13 * 4096
    disk.expect_reads(mapping)
    assert random_bytes(path) == 0
    disk.unmap(mapping)


def test_a_write_at_a_position_continues_after_a_short_one(disk, tmp_path, monkeypatch):
    path = tmp_path / "f"
    fd = disk.open(str(path), create=True)
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:3], at))
    disk.write_at(fd, b"0123456789", 2)
    disk.close(fd)
    assert path.read_bytes() == b"\0\x000123456789"


def test_ranges_of_data_pass_over_reserved_space(disk, tmp_path):
    path = str(tmp_path / "f")
    fd = disk.open(path, create=True)
    disk.reserve(fd, 1 << 20, path)
    disk.write_at(fd, b"x", 500_000)
    disk.sync_data(fd)
    start, end = disk.next_data(path, 0)
    assert 0 <= start <= 500_000 < end
    position = end
    while position < 1 << 20:
        start, end = disk.next_data(path, position)
        if start < 0:
            break
        position = end
    assert disk.next_data(path, 1 << 20) == (-1, -1)
    disk.close(fd)


def test_pages_read_ahead_are_not_requested_again(disk, tmp_path, monkeypatch):
    """Reserved space that was read ahead into counts as data; reading it would never end."""
    path = tmp_path / "f"
    path.write_bytes(bytes(64 << 20))
    known = 3 << 20
    read = 0
    pread = os.pread

    def seek(fd, position, size):
        return (position, min(known, size)) if position < known else (size, size)

    def read_ahead(fd, length, position):
        nonlocal known, read
        read += length
        known = max(known, position + length + (8 << 20))
        return pread(fd, length, position)

    monkeypatch.setattr(files, "find_data_range", seek)
    monkeypatch.setattr(files.os, "pread", read_ahead)
    assert disk.next_data(str(path), 1000) == (-1, -1)
    assert read == (3 << 20) - 1000


def test_list_sorts_and_contains_folders(disk, tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "a").write_text("")
    assert disk.list(str(tmp_path)) == [("a", False), ("b", True)]
    assert disk.list(str(tmp_path / "none")) == []
    assert disk.list(str(tmp_path / "a")) == []


def test_small_files(disk, tmp_path):
    path = str(tmp_path / "f")
    disk.write(path, b"one")
    disk.link(path, path + "2")
    disk.write(path + "3", b"three")
    disk.rename(path + "3", path)
    assert disk.read(path) == b"three"
    assert disk.read(path + "2") == b"one"
    assert disk.size(path) == 5
    assert disk.exists(path)
    disk.touch(path, 1_700_000_000_123)
    assert disk.modified_ms(path) == 1_700_000_000_123
    disk.unlink(path)
    disk.unlink(path)
    assert not disk.exists(path)
    disk.remove_folder(str(tmp_path / "none"))
    disk.sync_folder(str(tmp_path))


def test_space_and_identity(disk, tmp_path):
    used, usable = disk.space(str(tmp_path))
    assert used > 0
    assert usable >= 0
    assert disk.identity(str(tmp_path)) == (
        os.stat(tmp_path).st_dev,
        os.stat(tmp_path).st_ino,
    )
    assert disk.boot_id() == disk.boot_id()


def test_mapped_memory_is_the_file(disk, tmp_path):
    path = str(tmp_path / "f")
    fd = disk.open(path, create=True)
    disk.reserve(fd, 100, path)
    mapping = disk.map(fd, 100)
    mapping[3:6] = b"abc"
    assert disk.read(path)[3:6] == b"abc"
    with memoryview(mapping)[:1], pytest.raises(BufferError):
        disk.unmap(mapping)
    disk.unmap(mapping)
    disk.close(fd)


# --- permissions ----------------------------------------------------------------------------------


@pytest.fixture
def no_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(root):
    return {oct(path.stat().st_mode & 0o777) for path in root.rglob("*") if path.is_file()}


def folder_modes(root):
    return {oct(path.stat().st_mode & 0o777) for path in (root, *root.rglob("*")) if path.is_dir()}


def test_others_cannot_read_a_store(no_umask, stores, inner):
    store = stores.start()
    for number in range(60):
        store.put_message(inner(topic=f"T{number % 3}", properties={"KEYS": f"k{number}"}))
    store.worker.drain()
    assert modes(stores.root) == {"0o640"}
    assert folder_modes(stores.root) == {"0o750"}
    stores.close(store)
    assert modes(stores.root) == {"0o640"}
    names = {path.name for path in stores.root.iterdir()}
    assert {"lock", "checkpoint", "queueEnds.json", "commitlog", "consumequeue"} <= names


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_an_existing_file_keeps_its_mode(no_umask, stores, inner, mode):
    store = stores.start()
    store.put_message(inner())
    stores.close(store)
    folders = [path for path in (stores.root, *stores.root.rglob("*")) if path.is_dir()]
    for path in stores.root.rglob("*"):
        path.chmod(mode)
    for path in folders:
        path.chmod(0o755)
    store = stores.start()
    store.put_message(inner())
    stores.close(store)
    assert modes(stores.root) - {oct(mode)} <= {"0o640"}
    assert oct((stores.root / "queueEnds.json").stat().st_mode & 0o777) == oct(mode)
    assert {oct(path.stat().st_mode & 0o777) for path in folders} == {"0o755"}


def test_a_configuration_file_keeps_its_mode(no_umask, tmp_path):
    file = ConfigFile(str(tmp_path / "config" / "topics.json"))
    file.persist("1")
    assert modes(tmp_path / "config") == {"0o640"}
    os.chmod(file.path, 0o600)
    file.persist("2")
    file.persist("3")
    assert modes(tmp_path / "config") == {"0o600"}


def test_a_file_in_the_place_of_a_folder_is_an_error(disk, tmp_path):
    (tmp_path / "store").write_bytes(b"")
    with pytest.raises(StoreError):
        disk.make_folder(str(tmp_path / "store" / "commitlog"))
    with pytest.raises(StoreError):
        disk.make_folder(str(tmp_path / "store"))


def test_a_name_that_is_too_long_is_an_error_of_its_own(disk, tmp_path):
    with pytest.raises(FileNameError, match="File name too long"):
        disk.make_folder(str(tmp_path / ("x" * 256)))
    with pytest.raises(FileNameError):
        disk.open(str(tmp_path / ("x" * 256)), create=True)
