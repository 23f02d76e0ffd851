"""The child that compiles ends when the broker stops; an unwritable cache folder is replaced."""

import os
import sys
from pathlib import Path

import pytest

from broker.server.ingest import compiling


def test_stopping_ends_the_child_that_compiles(monkeypatch) -> None:
    child = compiling.CompilingChild()
    monkeypatch.setattr(child, "arguments", [sys.executable, "-c", "import time; time.sleep(600)"])
    monkeypatch.setattr(child, "on_started", child.stop)
    child.run()  # returns because the child was ended


def test_a_cache_folder_that_cannot_be_written_is_replaced(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.delenv(compiling.CACHE_VARIABLE, raising=False)
    monkeypatch.setattr(compiling, "can_write", lambda folder: False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    folder = compiling.make_cache_folder()
    assert Path(folder).parent == tmp_path
    assert os.environ[compiling.CACHE_VARIABLE] == folder
    monkeypatch.delenv(compiling.CACHE_VARIABLE)


def test_a_cache_folder_of_the_user_is_kept(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv(compiling.CACHE_VARIABLE, str(tmp_path))
    assert compiling.make_cache_folder() == ""


def test_a_missing_folder_is_created_and_a_file_is_not_a_folder(tmp_path: Path) -> None:
    assert compiling.can_write(tmp_path / "a" / "b")
    (tmp_path / "file").write_bytes(b"")
    assert not compiling.can_write(tmp_path / "file")


def test_other_threads_get_the_interpreter_lock_often_while_code_is_loaded() -> None:
    before = sys.getswitchinterval()
    with compiling.short_turns():
        assert sys.getswitchinterval() <= 0.001
    assert sys.getswitchinterval() == before


def test_large_libraries_are_loaded_before_their_import() -> None:
    pytest.importorskip("numba", reason="the libraries belong to the extra 'fast'")
    assert compiling.preload_libraries(("numpy", "llvmlite")) >= 2
    assert compiling.preload_libraries(("no_such_package",)) == 0
