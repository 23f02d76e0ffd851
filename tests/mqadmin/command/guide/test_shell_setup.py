"""``mqadmin completion install``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqadmin.command.framework.completion import SCRIPTS

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("shell", "place"),
    [
        ("bash", "data/bash-completion/completions/mqadmin"),
        ("zsh", ".zfunc/_mqadmin"),
        ("fish", "config/fish/completions/mqadmin.fish"),
    ],
)
def test_the_script_is_written_where_the_shell_loads_it(
    mqadmin: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shell: str, place: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ZDOTDIR", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("SHELL", f"/bin/{shell}")
    for words in ((), ("--shell", shell)):
        done = mqadmin("completion", "install", *words)
        assert (done.status, done.out) == (0, f"{tmp_path / place}\n")
        assert done.err.startswith("next: ")
        assert (tmp_path / place).read_text() == SCRIPTS[shell]


def test_another_shell_word_or_folder_is_a_usage_error(
    mqadmin: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert mqadmin("completion", "install", "--shell", "tcsh").status == 2
    assert mqadmin("completion", "remove").status == 2
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    assert mqadmin("completion", "install", "--shell", "bash").status == 2
