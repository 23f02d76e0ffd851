"""``mqadmin help`` and ``mqadmin man``."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqadmin.command.guide import pages

Run = Callable[..., Any]


def test_help_lists_tasks_concepts_and_pages(mqadmin: Run) -> None:
    done = mqadmin("help")
    assert done.status == 0
    for part in ("mqadmin cluster doctor", "durability", "mqadmin-store", "mqadmin help TOPIC"):
        assert part in done.out


@pytest.mark.parametrize("name", ["lag", "Retention"])
def test_a_concept_is_explained_with_its_commands(mqadmin: Run, name: str) -> None:
    done = mqadmin("help", name)
    assert done.status == 0
    assert done.out.startswith(f"{name.upper()}: ")
    assert "Commands:\n  mqadmin " in done.out


def test_an_unknown_topic_or_page_is_a_usage_error_that_names_the_known_ones(mqadmin: Run) -> None:
    done = mqadmin("help", "nosuch")
    assert (done.status, "offsets" in done.err) == (2, True)
    done = mqadmin("man", "nosuch")
    assert (done.status, "mqadmin-store" in done.err) == (2, True)


def test_every_page_of_the_package_is_found(golden: Path) -> None:
    found = pages.man_pages()
    files = {path.stem for path in (golden.parents[1] / "man").iterdir()}
    assert files == set(found)


def test_without_the_program_man_the_source_of_a_page_is_printed(
    mqadmin: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "find_program", lambda *_: None)
    done = mqadmin("man", "mqadmin")
    assert done.status == 0
    assert done.out.startswith('.TH "MQADMIN"')


def test_the_program_man_shows_the_file(
    mqadmin: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "man"
    program.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/shown\n')
    program.chmod(0o755)
    monkeypatch.setattr(pages, "find_program", lambda *_: str(program))
    assert mqadmin("man").status == 0
    assert (tmp_path / "shown").read_text().strip().endswith("mqadmin.1")


@pytest.fixture
def program_man(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program ``man`` that, as groff does, reports an output that cannot be written."""
    program = tmp_path / "bin" / "man"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\n/bin/cat "$1" || { echo "output error" >&2; exit 2; }\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)


@pytest.mark.usefixtures("program_man")
def test_a_page_on_a_closed_pipe_is_not_an_error(closed_pipe: Run) -> None:
    assert closed_pipe("man", "mqadmin-store") == (0, "")


@pytest.mark.usefixtures("program_man")
def test_a_page_that_is_not_shown_on_a_terminal_is_the_output_of_man(mqadmin: Run) -> None:
    done = mqadmin("man", "mqadmin-store")
    assert (done.status, done.err) == (0, "")
    assert done.out == pages.man_pages()["mqadmin-store"].read_text(encoding="utf-8")


def test_a_page_that_man_cannot_show_is_its_source(
    mqadmin: Run, program_man: None, tmp_path: Path
) -> None:
    (tmp_path / "bin" / "man").write_text("#!/bin/sh\necho half; exit 1\n")
    done = mqadmin("man", "mqadmin-store")
    assert done.out == pages.man_pages()["mqadmin-store"].read_text(encoding="utf-8")
