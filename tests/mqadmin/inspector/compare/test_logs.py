"""Two logs compared: equal, shorter, different, disjoint, whatever the lengths of their files."""

import copy
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.errors import StorePathError
from mqadmin.inspector.compare import logs as module
from mqadmin.inspector.compare.logs import diff
from mqadmin.inspector.directory import StoreDirectory

Make = Callable[..., Any]


@pytest.fixture
def pair(made: Any, tmp_path: Path) -> tuple[Any, Any]:
    """A store over three log files and a copy of it."""
    other = copy.copy(made)
    other.root = tmp_path / "copy"
    shutil.copytree(made.root, other.root)
    return made, other


def compared(one: Any, other: Any) -> module.StoreDiff:
    return diff(StoreDirectory(one.root), StoreDirectory(other.root))


def test_a_copy_is_equal(pair: tuple[Any, Any]) -> None:
    found = compared(*pair)
    assert found.verdict == "equal"
    assert found.compared_from == 0
    assert found.same_until == found.max_offset_a == found.max_offset_b > 0
    assert (found.first_difference, found.missing_bytes) == (None, 0)


@pytest.mark.parametrize("part", [1, 7, 4096, 1 << 20])
def test_the_first_different_byte_and_its_records_are_named(
    pair: tuple[Any, Any], part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART_BYTES", part)
    places = pair[0].places
    seed = random.randrange(1 << 30)
    start, size = random.Random(seed).choice(places)
    offset = start + random.Random(seed).randrange(20, size)  # magic and length stay as they are
    pair[1].flip(offset)
    found = compared(*pair)
    assert found.verdict == "different", f"seed {seed}"
    assert (found.first_difference, found.same_until) == (offset, offset), f"seed {seed}"
    assert found.record_a is not None
    assert (found.record_a.physical_offset, found.record_a.store_size) == (start, size)


def test_a_log_that_lacks_the_end_is_shorter_by_its_bytes(pair: tuple[Any, Any]) -> None:
    last, size = pair[0].places[-1]
    pair[1].poke(last, bytes(size))
    for one, other in (pair, pair[::-1]):
        found = compared(one, other)
        assert found.verdict == "shorter"
        assert found.same_until == min(found.max_offset_a, found.max_offset_b) == last
        assert found.missing_bytes == size


def test_a_log_whose_first_files_were_deleted_is_compared_from_there(pair: tuple[Any, Any]) -> None:
    path, _ = pair[1].file_of(0)
    path.unlink()
    found = compared(*pair)
    assert found.verdict == "equal"
    assert found.compared_from == found.min_offset_b == pair[0].file_size


def test_logs_without_a_common_offset_are_disjoint(make_store: Make) -> None:
    stores = []
    for number, start in enumerate((0, 1 << 20)):
        made = make_store(str(number), start=start)
        made.put()
        made.write()
        stores.append(made)
    found = compared(*stores)
    assert found.verdict == "disjoint"
    assert found.first_difference is None


def test_a_folder_without_a_log_is_refused(pair: tuple[Any, Any], tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    (empty / "config").mkdir(parents=True)
    (empty / "config" / "topics.json").write_text("{}")
    with pytest.raises(StorePathError, match="no CommitLog"):
        diff(StoreDirectory(pair[0].root), StoreDirectory(empty))
