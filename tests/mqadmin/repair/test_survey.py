"""The survey of a damaged log: file starts, lengths, extents of good bytes, invalid times."""

import shutil
from pathlib import Path

import pytest

from broker.store.format.commitlog import file_name
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.log_walk import has_columns
from mqadmin.repair import survey
from mqadmin.repair.survey import DEFAULT_FILE, ReorderedQueue, Survey, arrange
from tests.support.made_store import NOW, MadeStore

WAYS = [False, True] if has_columns() else [False]


@pytest.fixture
def made(tmp_path: Path) -> MadeStore:
    """A store of 60 messages in four log files."""
    store = MadeStore(tmp_path / "store")
    for number in range(60):
        store.put(queue_id=number % 2)
    store.write(spare=False)
    return store


@pytest.fixture(params=WAYS, ids=lambda way: "columns" if way else "plain")
def surveyed(request, monkeypatch):
    monkeypatch.setattr(survey, "has_columns", lambda: request.param)

    def run(root: Path) -> Survey:
        store = StoreDirectory(root)
        return Survey(ReorderedQueue(store, arrange(store).files))

    return run


def log(store: MadeStore, start: int) -> Path:
    return store.root / "commitlog" / file_name(start)


# ---- the arrangement of files


def test_named_files_keep_their_starts(made: MadeStore) -> None:
    found = arrange(StoreDirectory(made.root))
    assert [file.start for file in found.files] == [0, 4096, 8192, 12288]
    assert (found.size, found.moved, found.doubles) == (4096, [], [])


def test_a_file_with_a_wrong_name_is_placed_by_its_records(made: MadeStore) -> None:
    log(made, 4096).rename(log(made, 40960))
    found = arrange(StoreDirectory(made.root))
    assert [file.start for file in found.files] == [0, 4096, 8192, 12288]
    assert [file.path for file in found.moved] == [log(made, 40960)]


@pytest.mark.parametrize("name", [file_name(4096)[1:], f"{file_name(4096)}.bak", "lost"])
def test_a_file_without_an_offset_as_name_closes_a_gap(made: MadeStore, name: str) -> None:
    path = log(made, 4096).rename(made.root / "commitlog" / name)
    found = arrange(StoreDirectory(made.root))
    assert [file.start for file in found.files] == [0, 4096, 8192, 12288]
    assert [file.path for file in found.moved] == [path]


def test_a_copy_without_an_offset_as_name_changes_nothing(made: MadeStore) -> None:
    path = made.root / "commitlog" / "copy"
    shutil.copy(log(made, 4096), path)
    found = arrange(StoreDirectory(made.root))
    assert path not in [file.path for file in found.files]
    assert found.moved == []


def test_swapped_files_are_placed_by_their_records(made: MadeStore) -> None:
    other = made.root / "other"
    log(made, 4096).rename(other)
    log(made, 8192).rename(log(made, 4096))
    other.rename(log(made, 8192))
    found = arrange(StoreDirectory(made.root))
    assert [(file.start, file.path.name) for file in found.files] == [
        (0, file_name(0)),
        (4096, file_name(8192)),
        (8192, file_name(4096)),
        (12288, file_name(12288)),
    ]


def test_a_copy_of_a_file_under_another_name_is_a_duplicate(made: MadeStore) -> None:
    shutil.copy(log(made, 4096), log(made, 16384))
    found = arrange(StoreDirectory(made.root))
    assert [file.path for file in found.doubles] == [log(made, 16384)]
    assert [file.start for file in found.files] == [0, 4096, 8192, 12288]


def test_records_that_disagree_do_not_move_a_file(made: MadeStore) -> None:
    first = next(offset for offset, _ in made.places if offset >= 4096)
    made.poke(first + 28, (9 << 20).to_bytes(8, "big"))
    found = arrange(StoreDirectory(made.root))
    assert (found.moved, found.doubles) == ([], [])


@pytest.fixture
def singles(tmp_path: Path) -> MadeStore:
    """A store of four log files with one record each."""
    store = MadeStore(tmp_path / "singles")
    for _ in range(4):
        store.put(body=bytes(3000))
    store.write(spare=False)
    assert [offset for offset, _ in store.places] == [0, 4096, 8192, 12288]
    return store


@pytest.mark.parametrize("number", range(4))
def test_a_damaged_offset_of_an_only_record_neither_moves_nor_drops_its_file(
    singles: MadeStore, number: int
) -> None:
    """Whichever bit it is: the place may be another file's, or petabytes away."""
    start = 4096 * number
    path = log(singles, start)
    whole = path.read_bytes()
    for bit in range(64):
        path.write_bytes(whole[:28] + (start ^ 1 << bit).to_bytes(8, "big") + whole[36:])
        found = arrange(StoreDirectory(singles.root))
        assert [file.path for file in found.files] == [log(singles, 4096 * n) for n in range(4)]
        assert (found.moved, found.doubles) == ([], [])


def test_only_records_place_swapped_misnamed_and_copied_files(singles: MadeStore) -> None:
    other = singles.root / "other"
    log(singles, 0).rename(other)
    log(singles, 4096).rename(log(singles, 0))
    other.rename(log(singles, 4096))
    log(singles, 8192).rename(log(singles, 16384))
    shutil.copy(log(singles, 12288), log(singles, 20480))
    found = arrange(StoreDirectory(singles.root))
    assert [(file.start, file.path) for file in found.files] == [
        (0, log(singles, 4096)),
        (4096, log(singles, 0)),
        (8192, log(singles, 16384)),
        (12288, log(singles, 12288)),
    ]
    assert [file.path for file in found.doubles] == [log(singles, 20480)]


def test_the_length_is_that_of_most_files(made: MadeStore) -> None:
    path = log(made, 12288)
    path.write_bytes(path.read_bytes()[:1000])
    assert arrange(StoreDirectory(made.root)).size == 4096


def test_the_length_follows_from_the_names_if_every_file_is_short(made: MadeStore) -> None:
    for number, start in enumerate((0, 4096, 8192, 12288)):
        path = log(made, start)
        path.write_bytes(path.read_bytes()[: 3000 + number])
    assert arrange(StoreDirectory(made.root)).size == 4096


@pytest.mark.parametrize(
    ("length", "conf", "expected"),
    [
        (4096, "", 4096),  # a usual length
        (3000, "", DEFAULT_FILE),
        (3000, "mappedFileSizeCommitLog=8192", 8192),
    ],
)
def test_the_length_of_a_single_file_follows_from_the_configuration(
    tmp_path: Path, length: int, conf: str, expected: int
) -> None:
    store = MadeStore(tmp_path / "store")
    for _ in range(5):
        store.put()
    store.write(spare=False)
    path = log(store, 0)
    path.write_bytes(path.read_bytes()[:length])
    (store.root / "broker.conf").write_text(f"storePathRootDir={store.root}\n{conf}\n")
    assert arrange(StoreDirectory(store.root)).size == expected


def test_an_empty_log_has_the_default_length(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    assert arrange(StoreDirectory(tmp_path)) == ([], DEFAULT_FILE, [], [])


# ---- extents


def test_a_sound_log_is_one_extent(made: MadeStore, surveyed) -> None:
    found = surveyed(made.root)
    assert found.good == [(0, made.end)]
    assert (found.end, found.records) == (made.end, 60)
    assert (found.torn, found.timeless) == ([], {})
    assert found.bad_parts(0, made.end) == []


@pytest.mark.parametrize("size", [1, 20, 5000])
def test_bytes_past_the_start_of_the_next_file_are_not_in_the_log(
    made: MadeStore, surveyed, size: int
) -> None:
    with log(made, 4096).open("ab") as file:
        file.write(b"x" * size)
    found = surveyed(made.root)
    assert found.good == [(0, made.end)]
    assert found.bad_parts(0, made.end) == []


def test_bytes_past_the_start_of_a_renamed_file_are_not_in_the_log(
    made: MadeStore, surveyed
) -> None:
    with log(made, 0).open("ab") as file:
        file.write(b"x" * 20)
    log(made, 4096).rename(made.root / "commitlog" / f"{file_name(4096)}.bak")
    assert surveyed(made.root).good == [(0, made.end)]


@pytest.mark.parametrize("position", [0, 4, 28, 95], ids=["size", "magic", "offset", "body"])
def test_a_damaged_record_is_a_bad_part_of_its_length(
    made: MadeStore, surveyed, position: int
) -> None:
    begin, size = made.places[20]
    made.flip(begin + position, 0x40)
    found = surveyed(made.root)
    assert found.bad_parts(0, made.end) == [(begin, begin + size)]
    assert found.records == 59
    assert found.good == [(0, begin), (begin + size, made.end)]


def test_bad_parts_are_cut_to_the_requested_range(made: MadeStore, surveyed) -> None:
    begin, size = made.places[20]
    made.poke(begin, bytes(size))
    found = surveyed(made.root)
    assert found.bad_parts(begin + 10, begin + 20) == [(begin + 10, begin + 20)]
    assert found.bad_parts(begin - 50, begin + 20) == [(begin, begin + 20)]
    assert found.bad_parts(made.end, made.end + 7) == [(made.end, made.end + 7)]
    assert found.bad_parts(0, begin) == []


def test_a_missing_file_is_a_bad_part(made: MadeStore, surveyed) -> None:
    log(made, 4096).unlink()
    found = surveyed(made.root)
    assert found.bad_parts(0, made.end) == [(4096, 8192)]


def test_a_torn_end_is_not_part_of_the_log(made: MadeStore, surveyed) -> None:
    begin, size = made.places[-1]
    made.poke(begin + 60, bytes(size - 60))
    assert surveyed(made.root).end == begin


@pytest.mark.parametrize("sector", ["first", "middle", "last"])
def test_a_last_record_with_a_lost_sector_is_not_part_of_the_log(
    tmp_path: Path, surveyed, sector: str
) -> None:
    """Recovery drops it too; its body is intact, and its properties may not end in zeros."""
    made = MadeStore(tmp_path / "store")
    made.put()
    made.put(properties={"a": "x" * 1_300})
    made.write(spare=False)
    begin, _ = made.places[-1]
    start = made.log.index(b"KEYS\x01", begin)
    bounds = {
        "first": (start, start - start % 512 + 512),
        "middle": (start - start % 512 + 512, start - start % 512 + 1024),
        "last": (made.end - made.end % 512, made.end),
    }
    first, last = bounds[sector]
    made.poke(first, bytes(last - first))
    found = surveyed(made.root)
    assert found.end == begin
    assert [record.physical_offset for record in found.torn] == [begin]


def test_the_time_of_a_bad_part_is_that_of_the_extent_before_it(made: MadeStore, surveyed) -> None:
    begin, size = made.places[20]
    made.poke(begin, bytes(size))
    found = surveyed(made.root)
    assert found.time_before(begin) == NOW + 19_000
    assert found.time_before(begin + size) == NOW + 19_000
    assert found.time_before(1 << 40) == NOW + 59_000
    assert found.time_before(0) == NOW + 19_000  # the least one of all extents


@pytest.mark.parametrize("wrong", [-5, 1 << 60])
@pytest.mark.parametrize("number", [0, 20, 59])
def test_an_invalid_time_is_replaced_by_that_of_a_neighbour(
    made: MadeStore, surveyed, number: int, wrong: int
) -> None:
    begin, _ = made.places[number]
    made.poke(begin + 56, wrong.to_bytes(8, "big", signed=True))
    found = surveyed(made.root)
    neighbour = number - 1 if number else 1
    assert found.timeless == {begin: NOW + neighbour * 1000}
    assert found.records == 60


@pytest.mark.parametrize("start", [0, 4096, 12288])
def test_a_file_without_an_offset_in_its_name_gets_the_place_of_its_records(
    made: MadeStore, start: int
) -> None:
    """An operator may have renamed it; a broker does not start until the name is right."""
    whole = arrange(StoreDirectory(made.root))
    renamed = log(made, start).rename(made.root / "commitlog" / "copy.bak")
    found = arrange(StoreDirectory(made.root))
    assert [file.start for file in found.files] == [file.start for file in whole.files]
    assert [file.path for file in found.moved] == [renamed]


def test_a_file_of_another_log_without_an_offset_in_its_name_is_left_out(made: MadeStore) -> None:
    far = MadeStore(made.root / "far", start=1 << 40)
    far.put()
    far.put()
    far.write(spare=False)
    log(far, 1 << 40).rename(made.root / "commitlog" / "far.bak")
    found = arrange(StoreDirectory(made.root))
    assert (found.moved, found.doubles) == ([], [])


def test_a_backup_copy_of_a_file_is_a_duplicate(made: MadeStore) -> None:
    copy = shutil.copy(log(made, 4096), made.root / "commitlog" / "4096.bak")
    found = arrange(StoreDirectory(made.root))
    assert ([file.path for file in found.doubles], found.moved) == ([copy], [])
