"""Small files: atomic replacement, the old content in .bak."""

import os
from pathlib import Path

import pytest

from broker.errors import StoreError
from broker.namesrv import files


def test_writing_creates_the_folder_and_keeps_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.json"
    files.write_atomically(str(path), b"one")
    assert path.read_text() == "one"
    assert not path.with_name("file.json.bak").exists()
    files.write_atomically(str(path), "zwölf".encode())
    assert path.read_text(encoding="utf-8") == "zwölf"
    assert path.with_name("file.json.bak").read_text() == "one"
    assert not path.with_name("file.json.tmp").exists()


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "file.json"
    files.write_atomically(str(path), b"one")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left") as caught:
        files.write_atomically(str(path), b"two")
    assert caught.value.path == str(path)
    assert path.read_text() == "one"


def test_reading_returns_the_file_then_its_bak(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    assert files.read_copies(str(path)) == []
    files.write_atomically(str(path), b"one")
    files.write_atomically(str(path), b"two")
    assert files.read_copies(str(path)) == [b"two", b"one"]
    path.unlink()
    assert files.read_copies(str(path)) == [b"one"]


def test_an_unreadable_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        files.read_copies(str(tmp_path))
