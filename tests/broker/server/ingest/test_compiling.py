"""The child that compiles ends when the broker stops; it fills a folder that it alone can write."""

import sys
from pathlib import Path

import pytest

from broker.server.ingest import compiling


def test_stopping_ends_the_child_that_compiles(monkeypatch, tmp_path: Path) -> None:
    child = compiling.CompilingChild(tmp_path)
    monkeypatch.setattr(child, "arguments", [sys.executable, "-c", "import time; time.sleep(600)"])
    monkeypatch.setattr(child, "on_started", child.stop)
    child.run()  # returns because the child was ended


def test_the_child_fills_the_given_folder_with_private_files(monkeypatch, tmp_path: Path) -> None:
    child = compiling.CompilingChild(tmp_path)
    report = (
        "import os; folder = os.environ['NUMBA_CACHE_DIR'];"
        " open(folder + '/made', 'x'); os.mkdir(folder + '/f')"
    )
    monkeypatch.setattr(child, "arguments", [sys.executable, "-c", report])
    child.run()
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o700


def test_the_child_runs_no_code_of_the_current_folder(monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "__init__.py").write_text("open('run', 'x')")
    monkeypatch.chdir(tmp_path)
    child = compiling.CompilingChild(tmp_path)
    *options, module = child.arguments
    assert module == "broker.server.ingest.warm_up"
    monkeypatch.setattr(child, "arguments", [*options, "broker.errors"])
    child.run()
    assert not (tmp_path / "run").exists()


def test_other_threads_get_the_interpreter_lock_often_while_code_is_loaded() -> None:
    before = sys.getswitchinterval()
    with compiling.short_turns():
        assert sys.getswitchinterval() <= 0.001
    assert sys.getswitchinterval() == before


def test_large_libraries_are_loaded_before_their_import() -> None:
    pytest.importorskip("numba", reason="the libraries belong to the extra 'fast'")
    assert compiling.preload_libraries(("numpy", "llvmlite")) >= 2
    assert compiling.preload_libraries(("no_such_package",)) == 0
