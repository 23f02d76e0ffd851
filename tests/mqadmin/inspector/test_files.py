"""The read-only door: bytes, maps, holes, locks."""

import os
import sys
from pathlib import Path

import pytest

from broker.errors import StoreError
from mqadmin.inspector import files
from mqadmin.inspector.files import lock_holder, open_bytes, read_all


def test_small_files_are_read_and_large_ones_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc" * 5000)
    with open_bytes(path) as whole:
        assert type(whole.data) is bytes
        assert len(whole) == whole.data_end == 15000
    monkeypatch.setattr(files, "READ_WHOLE_BYTES", 100)
    with open_bytes(path, sequential=True) as mapped:
        assert type(mapped.data).__name__ == "mmap"
        assert mapped.data[3:6] == b"abc"
        with pytest.raises(TypeError):
            mapped.data[0] = 1  # type: ignore[index]


def test_an_empty_file_is_empty_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with open_bytes(path) as file:
        assert file.data == b""


def test_holes_of_sparse_files_are_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "READ_WHOLE_BYTES", 100)
    path = tmp_path / "sparse"
    path.write_bytes(b"data")
    os.truncate(path, 50 << 20)
    with open_bytes(path) as file:
        assert len(file) == 50 << 20
        # Some file systems know no holes: then everything counts as data.
        assert 4 <= file.data_end <= len(file)
        assert file.data_end < 10 << 20 or file.data_end == len(file)


def test_unreadable_files_are_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "nothing", tmp_path, tmp_path / "pipe"):
        with pytest.raises(StoreError) as caught, open_bytes(path):
            pass
        assert caught.value.path == str(path)
    assert read_all(tmp_path / "nothing") is None
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(StoreError):
            read_all(path)


def test_errors_of_the_reader_are_not_the_files(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    with pytest.raises(BrokenPipeError), open_bytes(path):
        raise BrokenPipeError


def test_an_unlocked_queue_has_no_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    assert lock_holder(path) in (0, None)
    assert lock_holder(tmp_path / "nothing") is None


def test_a_lock_that_one_read_of_the_table_lacks_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    path.touch()
    status = path.stat()
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    other = "1: FLOCK  ADVISORY  WRITE 17 fe:00:1 0 EOF\n"
    reads = [other, other, f"{other}2: POSIX  ADVISORY  WRITE 4242 {place} 0 0\n"]

    class Table:
        def read_text(self, **options: str) -> str:
            return reads.pop(0)

    monkeypatch.setattr(files, "LOCK_TABLE", Table())
    assert lock_holder(path) == 4242
    assert reads == []
    reads += [other] * files.LOCK_TABLE_READS
    assert lock_holder(path) == 0
    assert reads == []


def test_an_error_is_not_hidden_by_columns_that_are_still_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when ^C ends a walk between two batches."""
    monkeypatch.setattr(files, "READ_WHOLE_BYTES", 100)
    path = tmp_path / "file"
    path.write_bytes(b"abc" * 5000)
    kept = []
    with pytest.raises(KeyboardInterrupt), open_bytes(path) as file:
        kept.append(memoryview(file.data))
        raise KeyboardInterrupt
    assert kept[0][3:6] == b"abc"


@pytest.mark.skipif(sys.platform != "linux", reason="needs smaps")
def test_a_released_part_is_not_in_memory_and_still_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    content = bytes(range(256)) * (1 << 14)
    path.write_bytes(content)
    monkeypatch.setattr(files, "RELEASE_BYTES", 1 << 20)
    with open_bytes(path) as mapped:
        assert mapped.data[:] == content
        whole = resident_kib(path)
        assert whole >= 4096
        mapped.release((1 << 20) - 1)  # too little
        assert resident_kib(path) == whole
        mapped.release((2 << 20) + 5)
        assert (mapped.released, resident_kib(path)) == (2 << 20, whole - 2048)
        assert mapped.data[:] == content


def resident_kib(path: Path) -> int:
    """Memory of this process in which the pages of a file are mapped."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    for line in lines:
        if line.endswith(str(path)):
            return next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))
    raise AssertionError(f"{path} is not mapped")
