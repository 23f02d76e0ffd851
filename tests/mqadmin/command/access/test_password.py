"""Where the password of a user comes from."""

from pathlib import Path

import pytest

from mqadmin.command.access import password
from mqadmin.command.access.password import VARIABLE, read_password
from mqadmin.command.execution.failure import UsageFault


def test_the_line_end_of_a_file_is_not_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(" pass word \n")
    assert read_password(str(path), "alice") == " pass word "


def test_the_file_wins_over_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "from variable")
    assert read_password(None, "alice") == "from variable"
    path = tmp_path / "key"
    path.write_text("from file")
    assert read_password(str(path), "alice") == "from file"


def test_a_terminal_is_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ["one", "one", "one", "two"]
    monkeypatch.setattr(password, "stdin_is_terminal", lambda: True)
    monkeypatch.setattr(password, "getpass", lambda question: answers.pop(0))
    assert read_password(None, "alice") == "one"
    with pytest.raises(UsageFault, match="differ"):
        read_password(None, "alice")


def test_at_the_end_of_the_input_no_password_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(question: str) -> str:
        raise EOFError

    monkeypatch.setattr(password, "stdin_is_terminal", lambda: True)
    monkeypatch.setattr(password, "getpass", end)
    with pytest.raises(UsageFault, match="no password is given for user alice"):
        read_password(None, "alice")


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff"])
def test_an_empty_or_unreadable_password_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(UsageFault, match=r"empty|UTF-8"):
        read_password(str(path), "alice")


def test_without_a_terminal_a_password_must_be_given() -> None:
    with pytest.raises(UsageFault, match="no password is given for user alice"):
        read_password(None, "alice")
