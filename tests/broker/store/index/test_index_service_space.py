"""The index without disk space, under failing calls, and against a list as its model."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from broker.common.java import string_hash
from broker.errors import DiskFullError, StoreError
from broker.store.format.indexfile import HEADER_SIZE, SLOT_SIZE, file_size
from broker.store.index.index_file import IndexFile
from broker.store.index.index_service import IndexService
from broker.store.logfile.disk import Disk
from tests.support.key_columns import key_columns
from tests.support.simulated_disk import SimDisk

FOLDER = "/store/index"
T = string_hash("T#") & 0xFFFFFFFF
U = string_hash("U#") & 0xFFFFFFFF
START_MS = 1_700_000_000_000
EVER = 1 << 62


class Clock:
    """Names of files follow it; a second passes between two."""

    def __init__(self) -> None:
        self.ms = START_MS

    def __call__(self) -> int:
        self.ms += 1_000
        return self.ms


def service_on(disk: Disk, folder: str = FOLDER, slots: int = 7, entries: int = 5) -> IndexService:
    service = IndexService(disk, folder, slots, entries)
    service.now_ms = Clock()
    return service


def full_disk(disk: SimDisk) -> Callable[[], None]:
    """Have the disk refuse new space; the returned function ends that."""

    def fail(name: str, path: str) -> None:
        if name in ("reserve", "create", "open", "truncate", "resize"):
            raise DiskFullError("no space", path=path)

    disk.fail = fail

    def end() -> None:
        disk.fail = None

    return end


@pytest.fixture
def disk() -> SimDisk:
    made = SimDisk()
    made.make_folder("/store")
    return made


def offsets(service: IndexService, key: bytes, *, prefix: int = T, limit: int = 100) -> list[int]:
    return service.query(prefix, key, limit, 0, EVER)[0]


# ---- no space


def test_without_a_listener_a_full_disk_is_an_error_of_the_put(disk: SimDisk) -> None:
    service = service_on(disk)
    full_disk(disk)
    with pytest.raises(DiskFullError):
        service.put_keys(T, [b"k"], 100, START_MS)
    assert service.waiting == []


def test_entries_wait_for_space_and_are_found_meanwhile(disk: SimDisk) -> None:
    service = service_on(disk)
    errors: list[DiskFullError] = []
    service.on_no_space = errors.append
    end = full_disk(disk)
    for number in range(10):
        service.put_keys(T, [b"k%d" % (number % 2), b"all"], number * 100, START_MS + number)
    assert len(errors) == 10
    assert len(service.waiting) == 10
    assert offsets(service, b"k0") == [800, 600, 400, 200, 0]
    assert offsets(service, b"all", limit=3) == [900, 800, 700]
    assert offsets(service, b"k0", prefix=U) == []
    end()
    service.catch_up()
    assert service.waiting == []
    assert offsets(service, b"k0") == [800, 600, 400, 200, 0]
    assert offsets(service, b"all") == [number * 100 for number in reversed(range(10))]


def test_waiting_entries_obey_the_time_range_of_a_query(disk: SimDisk) -> None:
    service = service_on(disk)
    service.on_no_space = lambda error: None
    full_disk(disk)
    for number in range(5):
        service.put_keys(T, [b"k"], number, START_MS + number * 1_000)
    found, _, _ = service.query(T, b"k", 100, START_MS + 1_000, START_MS + 3_000)
    assert found == [3, 2, 1]
    found, _, _ = service.query(T, b"k", 100, START_MS + 5_000, START_MS + 9_000)
    assert found == []


def test_a_message_whose_keys_fit_in_part_waits_with_the_rest_only(disk: SimDisk) -> None:
    service = service_on(disk, entries=5)  # four entries fit
    service.on_no_space = lambda error: None
    service.put_keys(T, [b"a", b"b", b"c"], 100, START_MS)
    end = full_disk(disk)
    service.put_keys(T, [b"x", b"y", b"z"], 200, START_MS)
    assert [(keys, offset) for _, keys, offset, _ in service.waiting] == [([b"y", b"z"], 200)]
    assert [offsets(service, key) for key in (b"x", b"y", b"z")] == [[200]] * 3
    end()
    service.catch_up()
    assert [offsets(service, key) for key in (b"x", b"y", b"z")] == [[200]] * 3
    assert len(service.files) == 2


def test_a_catch_up_that_fails_keeps_the_rest_in_order_and_loses_nothing(disk: SimDisk) -> None:
    service = service_on(disk, entries=3)  # two entries per file
    service.on_no_space = lambda error: None
    end = full_disk(disk)
    for number in range(8):
        service.put_keys(T, [b"k"], number, START_MS + number)
    end()
    created = 0

    def one_file_only(name: str, path: str) -> None:
        nonlocal created
        if name == "reserve":
            created += 1
            if created > 1:
                raise DiskFullError("no space", path=path)

    for _ in range(10):
        created = 0
        disk.fail = one_file_only
        try:
            service.catch_up()
        except DiskFullError:
            assert service.waiting
        assert sorted(offsets(service, b"k")) == list(range(8))
        if not service.waiting:
            break
    disk.fail = None
    service.catch_up()
    assert service.waiting == []
    assert offsets(service, b"k") == list(reversed(range(8)))
    service.put_keys(T, [b"k"], 8, START_MS + 8)
    assert offsets(service, b"k")[0] == 8


def test_entries_put_while_others_wait_keep_their_order(disk: SimDisk) -> None:
    service = service_on(disk)
    service.on_no_space = lambda error: None
    end = full_disk(disk)
    service.put_keys(T, [b"k"], 1, START_MS)
    end()
    service.put_keys(T, [b"k"], 2, START_MS)  # there is space, but the first one waits still
    assert len(service.waiting) == 2
    service.catch_up()
    service.put_keys(T, [b"k"], 3, START_MS)
    assert offsets(service, b"k") == [3, 2, 1]


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.EACCES])
def test_another_error_of_the_disk_is_not_taken_for_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    service = service_on(Disk(), str(tmp_path / "index"))
    service.on_no_space = lambda error: pytest.fail("not a full disk")

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Disk, "create", refuse, raising=False)
    monkeypatch.setattr(Disk, "reserve", refuse, raising=False)
    with pytest.raises(OSError, match=os.strerror(number)):
        service.put_keys(T, [b"k"], 100, START_MS)
    assert service.waiting == []


# ---- a model


def test_random_puts_cuts_expiries_and_restarts_equal_a_list(tmp_path: Path, rng: Random) -> None:
    folder = str(tmp_path / "index")
    service = service_on(Disk(), folder, slots=5, entries=8)
    model: list[tuple[bytes, int]] = []
    physical, now_ms = 0, START_MS
    for _ in range(300):
        action = rng.random()
        if action < 0.55:
            keys = [b"k%d" % rng.randrange(6) for _ in range(rng.randrange(1, 4))]
            service.put_keys(T, keys, physical, now_ms)
            model += [(key, physical) for key in keys]
            physical += rng.randrange(1, 200)
            now_ms += rng.randrange(3_000)
        elif action < 0.8:
            count = rng.randrange(1, 6)
            starts = [physical + n * 50 for n in range(count)]
            words = [[b"k%d" % rng.randrange(6)] * rng.randrange(2) for _ in range(count)]
            columns = key_columns(words)
            service.put_batch([T] * len(starts), starts, columns, [now_ms] * len(starts))
            model += [(key, at) for at, row in zip(starts, words, strict=True) for key in row]
            physical += count * 50
        elif action < 0.88 and model:
            end = rng.choice(model)[1] + rng.randrange(2)
            service.cut(end)
            model = [entry for entry in model if entry[1] < end]
            physical = end
        else:
            service.sync()
            service.close()
            service = service_on(Disk(), folder, slots=5, entries=8)
            service.load(notes=[])
            assert isinstance(service.now_ms, Clock)
            service.now_ms.ms = START_MS + physical * 1_000
        key = b"k%d" % rng.randrange(6)
        expected = [at for word, at in reversed(model) if word == key]
        assert offsets(service, key, limit=10_000) == expected
    service.close()


def test_a_query_is_bounded_by_its_limit_and_newest_first(tmp_path: Path) -> None:
    service = service_on(Disk(), str(tmp_path), slots=3, entries=4)
    for number in range(20):
        service.put_keys(T, [b"k"], number, START_MS + number * 1_000)
    for limit in (1, 2, 3, 7, 19, 20, 21):
        found, last_ms, last_offset = service.query(T, b"k", limit, 0, EVER)
        assert found == list(reversed(range(20)))[:limit]
        assert (last_ms, last_offset) == (START_MS + 19_000, 19)
    service.close()


def test_an_empty_index_answers_with_zeros(tmp_path: Path) -> None:
    service = service_on(Disk(), str(tmp_path / "index"))
    service.load(notes=[])
    assert service.query(T, b"k", 10, 0, EVER) == ([], 0, 0)
    assert service.end_physical_offset == -1
    assert service.full_until() == 0
    assert service.first_unverified() is None
    assert service.cut(0) == []
    assert service.delete_expired(1 << 40) == 0
    assert not (tmp_path / "index").exists(), "an index without entries needs no folder"


# ---- files of other lengths


@pytest.mark.parametrize("delta", [1, 100])
def test_a_file_of_another_length_is_an_error_that_names_both_settings(
    tmp_path: Path, delta: int
) -> None:
    name = "20240101000000000"
    (tmp_path / name).write_bytes(bytes(file_size(7, 5) + delta))
    service = service_on(Disk(), str(tmp_path))
    with pytest.raises(StoreError, match="maxHashSlotNum=7 and maxIndexNum=5") as caught:
        service.survey(sizes_are_default=False)
    assert str(tmp_path / name) in caught.value.message
    assert "set both as when the file was written" in caught.value.hint
    assert (tmp_path / name).exists()


def test_a_shorter_file_of_another_number_of_slots_is_an_error(tmp_path: Path) -> None:
    made = service_on(Disk(), str(tmp_path), slots=3, entries=4)
    made.put_keys(T, [b"k"], 1, START_MS)
    made.close()
    service = service_on(Disk(), str(tmp_path))
    with pytest.raises(StoreError, match="maxHashSlotNum=7 and maxIndexNum=5"):
        service.survey(sizes_are_default=False)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("default", [False, True])
def test_the_only_file_truncated_to_half_is_filled_up_and_validated(
    tmp_path: Path, default: bool
) -> None:
    """As the last one of several: its keys are in the log."""
    made = service_on(Disk(), str(tmp_path), slots=7, entries=5)
    for number in range(4):
        made.put_keys(T, [b"k"], number, START_MS)
    made.close()
    (path,) = tmp_path.iterdir()
    os.truncate(path, file_size(7, 5) // 2)
    service = service_on(Disk(), str(tmp_path))
    service.survey(sizes_are_default=default)
    service.load(notes=[])
    assert path.stat().st_size == file_size(7, 5)
    assert service.first_unverified() == 0
    service.close()


@pytest.mark.parametrize("length", [0, 1, HEADER_SIZE, HEADER_SIZE + 7 * SLOT_SIZE])
def test_a_file_without_entries_is_removed_after_a_crash_and_noted(
    tmp_path: Path, length: int
) -> None:
    path = tmp_path / "20240101000000000"
    path.write_bytes(bytes(length))
    service = service_on(Disk(), str(tmp_path))
    notes: list[str] = []
    service.load(crashed=True, notes=notes)
    assert not path.exists()
    assert notes == [f"{path}: {length} bytes long, removed: rebuilt from the log"]
    assert (service.removed, service.whole_files, service.first_unverified()) == (True, 0, 0)
    service.finalise_removed()
    assert not service.removed


def test_a_missing_file_that_the_manifest_names_is_noted(tmp_path: Path) -> None:
    service = service_on(Disk(), str(tmp_path))
    notes: list[str] = []
    service.load(notes=notes, noted_names=["20240101000000000"])
    assert notes == [f"{tmp_path}/20240101000000000: missing: rebuilt from the log"]
    assert service.whole_files == 0


def test_every_cut_of_the_last_file_keeps_the_files_before_it(tmp_path: Path) -> None:
    made = service_on(Disk(), str(tmp_path), slots=3, entries=4)
    for number in range(6):
        made.put_keys(T, [b"k"], number, START_MS + number * 1_000)
    made.sync()
    names = [file.name for file in made.files]
    made.close()
    path = tmp_path / names[-1]
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        service = service_on(Disk(), str(tmp_path), slots=3, entries=4)
        service.load(crashed=True, notes=[])
        assert [file.name for file in service.files][: len(names) - 1] == names[:-1]
        first = service.first_unverified()
        assert first is not None
        assert first >= len(names) - 1, "a whole file needs no validation"
        service.close()


def test_a_full_file_is_passed_on_once_when_its_successor_exists(tmp_path: Path) -> None:
    service = service_on(Disk(), str(tmp_path), entries=3)
    full: list[IndexFile] = []
    created: list[int] = []
    service.on_full = full.append
    service.on_new = lambda: created.append(len(service.files))
    for number in range(5):
        service.put_keys(T, [b"k"], number, START_MS + number)
    assert created == [1, 2, 3]
    assert full == service.files[:2]
    assert all(file.full and file.header_flushed for file in full)
    service.close()
