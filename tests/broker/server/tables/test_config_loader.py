"""Files of config/ and their backups: the first that can be decoded counts."""

import json
import logging
from pathlib import Path

import pytest

from broker.errors import RemoteProtocolError, StoreError
from broker.server.tables.config_loader import load_config
from broker.store.config_file import ConfigFile

GOOD, OLD, BAD = '{"value": 2}', '{"value": 1}', '{"value":'


def decode(text: str) -> int:
    try:
        value = json.loads(text)["value"]
    except ValueError as error:
        raise RemoteProtocolError(f"not JSON: {error}") from None
    assert isinstance(value, int)
    return value


@pytest.fixture
def file(tmp_path: Path) -> ConfigFile:
    return ConfigFile(str(tmp_path / "topics.json"))


def write(file: ConfigFile, text: str | None, backup: str | None) -> None:
    for path, content in ((file.path, text), (file.backup_path, backup)):
        if content is not None:
            Path(path).write_text(content)


@pytest.mark.parametrize(
    ("text", "backup", "value", "from_backup"),
    [
        (GOOD, None, 2, False),
        (GOOD, OLD, 2, False),
        (GOOD, BAD, 2, False),
        (BAD, OLD, 1, True),
        ("", OLD, 1, True),
        ("\0" * 50, OLD, 1, True),
        (None, OLD, 1, True),
        (None, None, None, False),
        ("", "", None, False),
    ],
)
def test_the_backup_counts_only_where_the_file_cannot_be_used(
    file: ConfigFile,
    caplog: pytest.LogCaptureFixture,
    text: str | None,
    backup: str | None,
    value: int | None,
    from_backup: bool,
) -> None:
    write(file, text, backup)
    with caplog.at_level(logging.WARNING, "broker.server"):
        assert load_config(file, decode) == value
    assert file.backup_counts is from_backup
    assert (file.backup_path in caplog.text) is from_backup


@pytest.mark.parametrize(
    ("text", "backup"), [(BAD, None), (BAD, BAD), (BAD, ""), (None, BAD), ("", BAD)]
)
def test_the_start_ends_if_neither_can_be_decoded(
    file: ConfigFile, text: str | None, backup: str | None
) -> None:
    """An empty table would be written over both at the next change."""
    write(file, text, backup)
    before = {path.name: path.read_bytes() for path in Path(file.path).parent.iterdir()}
    with pytest.raises(StoreError, match=r"topics\.json: not JSON") as caught:
        load_config(file, decode)
    assert caught.value.path == file.path
    assert before == {path.name: path.read_bytes() for path in Path(file.path).parent.iterdir()}


def test_a_file_that_cannot_be_read_is_not_replaced_by_its_backup(file: ConfigFile) -> None:
    Path(file.path).mkdir()
    write(file, None, OLD)
    with pytest.raises(StoreError, match=r"topics\.json") as caught:
        load_config(file, decode)
    assert caught.value.hint == "check the disk; nothing was changed"


def test_a_check_before_the_start_reports_nothing(
    file: ConfigFile, caplog: pytest.LogCaptureFixture
) -> None:
    """The load that follows reports it once."""
    write(file, BAD, OLD)
    assert load_config(file, decode, report=False) == 1
    assert caplog.text == ""


def test_the_next_write_keeps_a_backup_that_was_used(file: ConfigFile) -> None:
    write(file, BAD, OLD)
    assert load_config(file, decode) == 1
    file.persist(GOOD)
    assert (Path(file.path).read_text(), Path(file.backup_path).read_text()) == (GOOD, OLD)


@pytest.mark.parametrize("text", ["", "\0" * 50, " \n", None])
def test_a_file_that_lost_its_text_is_reported(
    file: ConfigFile, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Java starts without the table, and without a message."""
    write(file, text, None)
    assert load_config(file, decode) is None
    assert [file.path in line for line in caplog.messages] == ([] if text is None else [True])
