"""Extension units are compared with the records of their queue."""

from collections.abc import Callable
from pathlib import Path

import pytest

from broker.store.format.consumequeue import (
    UNIT_SIZE,
    UNIT_STRUCT,
    ConsumeQueueExtUnit,
    encode_ext_unit,
    ext_address,
)
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.log import LogReader
from mqadmin.inspector.verify.verifier import VerifyOptions, verify
from mqadmin.repair.plan import make_plan
from mqadmin.repair.store_repair import repair
from tests.support.made_store import MadeStore


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store whose queue T/0 has five units with extension units."""
    made = MadeStore(tmp_path / "store")
    for _ in range(5):
        made.put("T", 0)
    made.write()
    root = tmp_path / "store"
    path = next((root / "consumequeue" / "T" / "0").iterdir())
    data = bytearray(path.read_bytes())
    ext = b""
    with LogReader(StoreDirectory(root)) as log:
        for number in range(5):
            physical, size, code = UNIT_STRUCT.unpack_from(data, number * UNIT_SIZE)
            place = log.record(physical)
            assert place is not None
            unit = (physical, size, ext_address(len(ext)))
            UNIT_STRUCT.pack_into(data, number * UNIT_SIZE, *unit)
            ext += encode_ext_unit(ConsumeQueueExtUnit(code, place[1].store_timestamp, b"\1\2"))
    path.write_bytes(data)
    folder = root / "consumequeue_ext" / "T" / "0"
    folder.mkdir(parents=True)
    (folder / "00000000000000000000").write_bytes(ext + bytes(200))
    return root


def ext_file(store: Path) -> Path:
    return store / "consumequeue_ext" / "T" / "0" / "00000000000000000000"


def findings(store: Path) -> list[str]:
    found = verify(StoreDirectory(store), VerifyOptions(columns=False)).findings
    return [row.detail for row in found if row.kind in ("extUnit", "tagsCode")]


def test_extension_units_that_agree_have_no_findings(store: Path) -> None:
    assert findings(store) == []


@pytest.mark.parametrize(
    ("position", "data", "wording"),
    [
        (22 + 10, b"\xff", "another storeTimestamp"),
        (22 + 2, b"\xff", "another tags code"),
        (22, b"\x7f\xff", "no extension unit at byte 22"),
    ],
)
def test_a_changed_extension_unit_is_found_and_repaired(
    store: Path, tmp_path: Path, position: int, data: bytes, wording: str
) -> None:
    content = bytearray(ext_file(store).read_bytes())
    content[position : position + len(data)] = data
    ext_file(store).write_bytes(content)
    assert any(wording in detail for detail in findings(store))
    done = repair(make_plan(StoreDirectory(store)), tmp_path / "copy")
    assert done.ok
    assert findings(tmp_path / "copy") == []


def test_lost_extension_files_are_found(store: Path, make_empty: Callable[[Path], None]) -> None:
    make_empty(ext_file(store))
    (detail,) = (one for one in findings(store) if "no valid extension unit" in one)
    assert "5 units" in detail


@pytest.fixture
def make_empty() -> Callable[[Path], None]:
    return lambda path: path.write_bytes(bytes(300)) and None
