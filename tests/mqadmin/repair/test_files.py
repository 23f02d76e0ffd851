"""Disk access of repair: claims of the output, links, sparse copies, writing into copies."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from broker.errors import ConfigError, DiskFullError, StoreError
from mqadmin.repair import files
from mqadmin.repair.files import CLAIM, Output, check_output, copy_file, is_full


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "output"


def refusing(number: int):
    def refuse(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    return refuse


# ---- the claim


def test_a_new_directory_is_claimed_until_it_is_complete(root: Path) -> None:
    output = Output(root)
    assert (root / CLAIM).exists()
    output.write("a/b", b"x")
    output.sync()
    assert not (root / CLAIM).exists()
    assert (root / "a" / "b").read_bytes() == b"x"


def test_an_empty_directory_may_be_used(root: Path) -> None:
    root.mkdir()
    check_output(root)
    Output(root).discard()
    assert not root.exists()


@pytest.mark.parametrize("name", ["notes.txt", "commitlog"])
def test_a_directory_with_content_is_refused_and_unchanged(root: Path, name: str) -> None:
    root.mkdir()
    (root / name).write_bytes(b"mine")
    for refused in (check_output, Output):
        with pytest.raises(ConfigError, match="not empty"):
            refused(root)
    assert [path.name for path in root.iterdir()] == [name]


def test_a_file_in_place_of_the_directory_is_refused(root: Path) -> None:
    root.write_bytes(b"mine")
    for refused in (check_output, Output):
        with pytest.raises(ConfigError):
            refused(root)
    assert root.read_bytes() == b"mine"


def test_the_output_of_a_killed_run_is_emptied_and_claimed_again(root: Path) -> None:
    (root / "commitlog").mkdir(parents=True)
    (root / "checkpoint").write_bytes(b"half")
    (root / CLAIM).write_bytes(b"")
    check_output(root)
    output = Output(root)
    assert [path.name for path in root.iterdir()] == [CLAIM]
    output.discard()


def test_the_output_of_a_running_repair_is_refused(root: Path) -> None:
    first = Output(root)
    first.write("a", b"x")
    with pytest.raises(ConfigError, match="not empty"):
        Output(root)
    assert (root / "a").read_bytes() == b"x"
    first.discard()


def test_a_lock_of_another_process_on_a_new_claim_is_respected(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(fd: int, operation: int) -> None:
        raise BlockingIOError(errno.EAGAIN, "locked")

    monkeypatch.setattr(fcntl, "flock", locked)
    with pytest.raises(ConfigError, match="not empty"):
        Output(root)


def test_without_locks_a_new_directory_can_be_used_and_a_left_over_one_cannot(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", refusing(errno.ENOLCK))
    output = Output(root)
    output.write("a", b"x")
    with pytest.raises(ConfigError):
        Output(root)  # whether its run still works on it is unknown
    output.discard()


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.ENOSPC, DiskFullError),
        (errno.EDQUOT, DiskFullError),
        (errno.EIO, StoreError),
        (errno.EACCES, ConfigError),
    ],
)
def test_a_failing_write_names_the_path_and_the_class_of_the_error(
    root: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception]
) -> None:
    output = Output(root)
    blocks = output.create("log", 100)
    monkeypatch.setattr(files.os, "pwrite", refusing(number))
    with pytest.raises(error, match="log"):
        blocks.put(0, b"x")
    monkeypatch.setattr(files.os, "ftruncate", refusing(number))
    for call in (lambda: blocks.resize(5), lambda: blocks.clear(0, 100)):
        with pytest.raises(error, match="log"):
            call()
    with pytest.raises(error, match="other"):
        output.create("other", 100)


def test_only_a_full_disk_or_quota_counts_as_full() -> None:
    full = [number for number in errno.errorcode if is_full(OSError(number, ""))]
    assert sorted(full) == sorted([errno.ENOSPC, errno.EDQUOT])


def test_a_directory_that_cannot_be_created_is_an_error_with_its_path(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "mkdir", refusing(errno.EROFS))
    with pytest.raises(ConfigError, match="output"):
        Output(root)


# ---- links and copies


def test_sealed_files_are_linked_and_others_copied(root: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"log")
    output = Output(root)
    linked = output.take(source, "commitlog/0", sealed=True)
    copied = output.take(source, "commitlog/1", sealed=False)
    assert linked.stat().st_ino == source.stat().st_ino
    assert copied.stat().st_ino != source.stat().st_ino
    assert copied.read_bytes() == b"log"
    assert (output.linked, output.copied) == (1, 1)
    output.discard()


@pytest.mark.parametrize("possible", [True, False])
def test_files_are_copied_if_links_are_unwanted_or_impossible(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, possible: bool
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"log")
    output = Output(root, links=not possible)
    if not possible:
        monkeypatch.setattr(files.os, "link", refusing(errno.EXDEV))
    assert output.take(source, "a", sealed=True).stat().st_nlink == 1
    assert (output.linked, output.copied) == (0, 1)
    output.discard()


def test_writing_into_a_linked_file_does_not_change_the_source(root: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"0123456789")
    output = Output(root)
    output.take(source, "log", sealed=True)
    with output.open("log") as blocks:
        blocks.put(3, b"xyz")
    assert source.read_bytes() == b"0123456789"
    assert (root / "log").read_bytes() == b"012xyz6789"
    assert [path.name for path in root.iterdir() if path.name != CLAIM] == ["log"]
    output.discard()


def test_opening_a_missing_file_is_an_error_with_its_path(root: Path) -> None:
    output = Output(root)
    with pytest.raises(ConfigError, match="missing"):
        output.open("missing")
    output.discard()


def test_a_copy_has_the_bytes_times_and_holes_of_the_source(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    with source.open("wb") as file:
        file.write(b"head")
        file.seek(3 << 20)
        file.write(b"tail")
        file.truncate(5 << 20)
    os.utime(source, ns=(5, 123_456_789))
    copy_file(source, target)
    assert target.read_bytes() == source.read_bytes()
    assert target.stat().st_mtime_ns == 123_456_789
    assert target.stat().st_blocks <= source.stat().st_blocks + 8


@pytest.mark.parametrize("size", [0, 1, (1 << 20) + 3])
def test_without_clones_and_hole_detection_all_bytes_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    data = bytes(at % 251 for at in range(size))
    source.write_bytes(data)
    monkeypatch.setattr(fcntl, "ioctl", refusing(errno.ENOTTY))
    monkeypatch.setattr(files.os, "lseek", refusing(errno.EINVAL))
    copy_file(source, target)
    assert target.read_bytes() == data


def test_a_source_that_cannot_be_read_is_an_error_with_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreError, match="absent"):
        copy_file(tmp_path / "absent", tmp_path / "target")
    source = tmp_path / "source"
    source.write_bytes(b"log")
    monkeypatch.setattr(fcntl, "ioctl", refusing(errno.ENOTTY))
    monkeypatch.setattr(files.os, "pread", refusing(errno.EIO))
    with pytest.raises(StoreError, match="source"):
        copy_file(source, tmp_path / "target")


# ---- blocks


def test_blocks_are_written_at_their_positions_and_extended_by_zeros(root: Path) -> None:
    output = Output(root)
    with output.create("f", 10) as blocks:
        blocks.put(8, b"abcd")
        blocks.resize(14)
    assert (root / "f").read_bytes() == bytes(8) + b"abcd" + bytes(2)
    blocks.close()  # again: nothing to close
    assert output.written == 1
    output.discard()


@pytest.mark.parametrize(("begin", "end"), [(0, 10), (3, 7), (4, 10), (4, 12), (5, 5)])
def test_a_cleared_range_is_zero_and_the_length_stays(root: Path, begin: int, end: int) -> None:
    output = Output(root)
    with output.create("f", 10) as blocks:
        blocks.put(0, b"x" * 10)
        blocks.clear(begin, end)
    stop = min(end, 10)
    expected = b"x" * begin + bytes(stop - begin) + b"x" * (10 - stop)
    assert (root / "f").read_bytes() == expected
    output.discard()


def test_a_short_write_is_continued(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(files.os, "pwrite", lambda fd, data, at: real(fd, data[:3], at))
    output = Output(root)
    with output.create("f", 0) as blocks:
        blocks.put(2, b"0123456789")
    assert (root / "f").read_bytes() == b"\0\x000123456789"
    output.discard()


def test_a_file_is_created_once(root: Path) -> None:
    output = Output(root)
    output.create("f", 1).close()
    with pytest.raises(ConfigError, match="File exists"):
        output.create("f", 1)
    output.discard()


def test_completing_syncs_every_file_and_folder_before_the_claim_is_removed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool]] = []
    real = os.fsync

    def noting(fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        synced.append((path.name, (root / CLAIM).exists()))
        real(fd)

    monkeypatch.setattr(files.os, "fsync", noting)
    output = Output(root)
    output.write("a/one", b"1")
    output.write("b/two", b"2")
    output.sync()
    claimed = [name for name, has_claim in synced if has_claim]
    assert {"one", "two", "a", "b", "output"} <= set(claimed)
    assert claimed.index("one") < claimed.index("a") < claimed.index("output")
    # The removal of the claim is made durable, too.
    assert [name for name, has_claim in synced if not has_claim] == ["output", root.parent.name]


def test_a_failed_sync_is_an_error_and_the_claim_stays(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = Output(root)
    output.write("a", b"1")
    monkeypatch.setattr(files.os, "fsync", refusing(errno.EIO))
    with pytest.raises(StoreError, match="cannot write"):
        output.sync()
    assert (root / CLAIM).exists()
