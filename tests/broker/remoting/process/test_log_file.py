"""The log file of a daemon: rotated, and continued where that fails."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.remoting.process.log_file import RotatedLogFile


@pytest.fixture
def file_log(tmp_path: Path) -> Iterator[logging.Logger]:
    """A logger with the file x.log, which is rotated at 1000 bytes."""
    handler = RotatedLogFile(tmp_path / "x.log", max_bytes=1000, count=2)
    root = logging.getLogger()
    root.addHandler(handler)
    yield logging.getLogger("broker.some")
    root.removeHandler(handler)
    handler.close()


def write_lines(log: logging.Logger) -> None:
    for n in range(10):
        log.warning("line %d %s", n, "x" * 200)


def test_a_file_is_rotated_at_its_limit(file_log: logging.Logger, tmp_path: Path) -> None:
    write_lines(file_log)
    assert {path.name for path in tmp_path.iterdir()} == {"x.log", "x.log.1", "x.log.2"}
    assert all(path.stat().st_size <= 1000 for path in tmp_path.iterdir())


def test_a_file_that_cannot_be_rotated_is_continued(
    file_log: logging.Logger,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(source: str, target: str) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as unwritable:
        unwritable.setattr(os, "rename", refuse)
        write_lines(file_log)
    text = (tmp_path / "x.log").read_text()
    assert [n for n in range(10) if f"line {n} " in text] == list(range(10))
    refusals = [line for line in caplog.messages if "not rotated: Permission denied" in line]
    assert 1 <= len(refusals) < 5
    write_lines(file_log)
    assert (tmp_path / "x.log.1").exists()
    assert (tmp_path / "x.log").stat().st_size <= 1000
