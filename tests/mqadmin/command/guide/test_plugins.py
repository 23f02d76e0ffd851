"""Plug-ins on PATH."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mqadmin.command.guide.plugins import plugin_names, plugin_path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    program = tmp_path / "mqadmin-greet"
    program.write_text('#!/bin/sh\necho "$NAMESRV_ADDR:$*"; exit 7\n')
    program.chmod(0o755)
    (tmp_path / "mqadmin-data").write_text("not a program")
    return tmp_path


def run(folder: Path, *words: str) -> tuple[int, str]:
    environ = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    environ.pop("NAMESRV_ADDR", None)
    done = subprocess.run(
        [sys.executable, "-m", "mqadmin", *words], capture_output=True, text=True, env=environ
    )
    return done.returncode, done.stdout


def test_a_program_on_the_path_is_a_command_with_its_words_and_status(folder: Path) -> None:
    assert run(folder, "greet", "a", "--b", "-o", "x") == (7, ":a --b -o x\n")
    assert run(folder, "-n", "h:1", "greet") == (7, "h:1:\n")


def test_a_plug_in_does_not_replace_a_command(folder: Path) -> None:
    own = folder / "mqadmin-store"
    own.write_text("#!/bin/sh\necho replaced\n")
    own.chmod(0o755)
    status, out = run(folder, "store", "layout")
    assert (status, "replaced" in out) == (0, False)


def test_files_that_are_not_programs_and_names_with_a_path_are_not_plug_ins(folder: Path) -> None:
    environ = {"PATH": f"{folder}{os.pathsep}/nonexistent"}
    assert plugin_names(environ) == ["greet"]
    assert plugin_path("greet", environ) == str(folder / "mqadmin-greet")
    assert plugin_path("data", environ) is None
    assert plugin_path("../greet", environ) is None
    assert run(folder, "nosuch")[0] == 2
