"""Damage of the timer files is found; the files of Java brokers are not reported."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.verifier import VerifyOptions, verify

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
