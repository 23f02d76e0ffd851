from pathlib import Path

import pytest

from broker.errors import ConfigError
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.metadata.secrets import VARIABLE_PREFIX, user_passwords


def test_lines_are_users_and_passwords(tmp_path: Path) -> None:
    path = tmp_path / "secrets"
    path.write_text("# users\n\nalice = a=b \nbob=x\n")
    assert user_passwords(str(path)) == {"alice": "a=b", "bob": "x"}


def test_variables_are_taken_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{VARIABLE_PREFIX}ALICE", "v")
    assert user_passwords(None) == {f"{VARIABLE_PREFIX}ALICE": "v"}


@pytest.mark.parametrize("line", ["topsecret", "=topsecret", "alice=", "alice=x\nalice=topsecret"])
def test_an_invalid_line_is_named_by_its_number_and_not_shown(tmp_path: Path, line: str) -> None:
    path = tmp_path / "secrets"
    path.write_text(f"{line}\n")
    with pytest.raises(UsageFault) as found:
        user_passwords(str(path))
    assert f"line {len(line.splitlines())}" in str(found.value)
    assert "topsecret" not in str(found.value)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secrets"
    path.write_bytes(b"alice=\xff\n")
    with pytest.raises(ConfigError, match="line 1: not UTF-8"):
        user_passwords(str(path))
