"""Damage of the timer files is found; the files of Java brokers are not reported."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.messages import scan_messages
from mqadmin.inspector.verify.verifier import VerifyOptions, verify
from mqadmin.message_row import MessageRow

SLOT = 4_352_704  # position of the first pending slot of the recorded wheel


@pytest.fixture
def folder(golden_store: Callable[..., Path]) -> Path:
    return golden_store("delay-533", copy=True) / "store"


def kinds(folder: Path) -> set[str]:
    found = verify(StoreDirectory(folder), VerifyOptions(columns=False)).findings
    assert all(row.suggestion for row in found)
    return {row.kind for row in found}


def poke(path: Path, position: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(data)


@pytest.mark.parametrize("name", ["delay-533", "pop-533"])
def test_the_timer_files_of_a_java_broker_have_no_findings(
    golden_store: Callable[..., Path], name: str
) -> None:
    assert kinds(golden_store(name) / "store") == set()


@pytest.mark.parametrize(
    ("file", "position", "data", "expected"),
    [
        ("timerwheel", SLOT + 16, (1 << 40).to_bytes(8, "big"), {"timerWheel", "timerMissing"}),
        ("timerwheel", SLOT + 24, b"\0\0\0\7", {"timerWheel"}),
        ("timerwheel", SLOT, bytes(32), {"timerMissing"}),
        ("timerlog/00000000000000000000", 52, b"\0\0\0\0", None),
        ("timerlog/00000000000000000000", 52 + 28, bytes(8), {"timerRecord", "timerMissing"}),
        ("timerlog/00000000000000000000", 52 + 40, b"\1\1\1\1", {"timerRecord"}),
        ("config/timercheck", 8, (1 << 40).to_bytes(8, "big"), {"timerCheck"}),
        ("config/timercheck", 16, (1 << 40).to_bytes(8, "big"), {"timerCheck"}),
        ("config/timercheck", 0, b"\xff" * 8, {"timerCheck"}),
    ],
)
def test_a_changed_byte_is_found(
    folder: Path, file: str, position: int, data: bytes, expected: set[str] | None
) -> None:
    poke(folder / file, position, data)
    found = kinds(folder)
    assert found == expected if expected is not None else "timerLog" in found


@pytest.mark.parametrize("missing", ["timerwheel", "timerlog", "config/timercheck"])
def test_a_missing_file_is_found(folder: Path, missing: str) -> None:
    path = folder / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert kinds(folder) & {"timerWheel", "timerCheck"}


def test_a_wheel_of_another_length_is_found(folder: Path) -> None:
    with open(folder / "timerwheel", "r+b") as file:
        file.truncate(1000)
    assert kinds(folder) == {"timerWheel"}


# Bytes of the first unit of a timer log: its previous position at 4, the time at 16, the delay at
# 24, the record at 28, its size at 36, the hash of its topic at 40.
UNIT = 52
LOG = "timerlog/00000000000000000000"


def details(folder: Path, kind: str) -> list[str]:
    found = verify(StoreDirectory(folder), VerifyOptions(columns=False)).findings
    return [row.detail for row in found if row.kind == kind]


@pytest.mark.parametrize("length", [0, 7, 31])
def test_a_checkpoint_that_is_cut_is_found_and_the_wheel_is_not_checked(
    folder: Path, length: int
) -> None:
    path = folder / "config" / "timercheck"
    path.write_bytes(path.read_bytes()[:length])
    poke(folder / "timerwheel", SLOT + 24, b"\0\0\0\7")
    assert kinds(folder) == {"config", "timerCheck"}


def test_a_slot_at_the_position_of_another_time_is_found(folder: Path) -> None:
    with open(folder / "timerwheel", "rb") as file:
        file.seek(SLOT)
        slot = file.read(32)
    poke(folder / "timerwheel", SLOT, (int.from_bytes(slot[:8], "big") + 1).to_bytes(8, "big"))
    assert any("is not at the position of its time" in one for one in details(folder, "timerWheel"))


def test_a_slot_whose_chain_starts_elsewhere_is_a_warning(folder: Path) -> None:
    poke(folder / "timerwheel", SLOT + 8, (520).to_bytes(8, "big"))
    found = verify(StoreDirectory(folder), VerifyOptions(columns=False)).findings
    (row,) = [row for row in found if row.kind == "timerWheel"]
    assert row.severity == "warning"
    assert "starts at 520, its chain at" in row.detail


def test_a_chain_into_nothing_names_the_position(folder: Path) -> None:
    poke(folder / "timerwheel", SLOT + 16, (1 << 40).to_bytes(8, "big"))
    (detail,) = details(folder, "timerWheel")
    assert f"the timer log has no unit at {1 << 40}" in detail


def test_a_unit_of_another_slot_is_found(folder: Path) -> None:
    with open(folder / "timerwheel", "rb") as file:
        file.seek(SLOT + 16)
        last = int.from_bytes(file.read(8), "big")
    poke(folder / LOG, last + 24, (1).to_bytes(4, "big"))
    assert any(
        f"the unit at {last} is of another slot" in one for one in details(folder, "timerWheel")
    )


@pytest.mark.parametrize(
    ("field", "data", "problem"),
    [
        (28, (3).to_bytes(8, "big"), "there is no record"),
        (36, (9).to_bytes(4, "big"), "bytes, not 9"),
        (40, b"\1\1\1\1", "the real topic is LaterA, whose hash is another one"),
    ],
)
def test_a_unit_that_disagrees_with_its_record_names_the_difference(
    folder: Path, field: int, data: bytes, problem: str
) -> None:
    with open(folder / "timerwheel", "rb") as file:
        file.seek(SLOT + 16)
        last = int.from_bytes(file.read(8), "big")
    poke(folder / LOG, last + field, data)
    (detail,) = details(folder, "timerRecord")
    assert f"the unit at position {last}" in detail
    assert problem in detail


def test_a_unit_that_points_to_a_record_of_another_topic_is_found(folder: Path) -> None:
    other = next(
        row.physical_offset
        for row in scan_messages(StoreDirectory(folder))
        if isinstance(row, MessageRow) and row.topic == "LaterA"
    )
    with open(folder / "timerwheel", "rb") as file:
        file.seek(SLOT + 16)
        last = int.from_bytes(file.read(8), "big")
    poke(folder / LOG, last + 28, other.to_bytes(8, "big"))
    assert any("the record is of topic LaterA" in one for one in details(folder, "timerRecord"))


def test_a_missing_timer_log_file_between_two_is_a_gap(folder: Path) -> None:
    path = folder / LOG
    length = path.stat().st_size
    (folder / "timerlog" / f"{length * 2:020d}").write_bytes(b"")
    assert any(
        f"no file has the {length} bytes before this one" in one
        for one in details(folder, "timerLog")
    )


def test_after_a_crash_missing_files_are_warnings(folder: Path) -> None:
    (folder / "timerwheel").unlink()
    (folder / "abort").write_bytes(b"")
    found = verify(StoreDirectory(folder), VerifyOptions(columns=False)).findings
    assert {row.severity for row in found if row.kind == "timerWheel"} == {"warning"}


def test_timer_log_files_that_overlap_are_found_and_no_bytes_are_missing(folder: Path) -> None:
    length = (folder / LOG).stat().st_size
    (folder / "timerlog" / f"{length - 52:020d}").write_bytes(b"")
    found = verify(StoreDirectory(folder), VerifyOptions(columns=False)).findings
    (row,) = [row for row in found if "the file before it ends at" in row.detail]
    assert (row.kind, row.length) == ("timerLog", 0)
    assert f"it starts at {length - 52}, the file before it ends at {length}" in row.detail
    assert not any("no file has the -" in row.detail for row in found)
