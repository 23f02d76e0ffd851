"""mqbroker --check: what it says about a store."""

from pathlib import Path

import pytest

from broker.errors import StoreError
from broker.server.check import check_configuration_files

GOOD = '{"topicConfigTable":{"T":{"topicName":"T"}}}'


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "config").mkdir()
    return tmp_path


def lines(store: Path) -> list[str]:
    return list(check_configuration_files(str(store)))


def test_store_that_is_not_there_will_be_made(tmp_path: Path) -> None:
    (line,) = lines(tmp_path / "new" / "store")
    assert line.endswith("will be made")
    assert not (tmp_path / "new").exists()


def test_readable_files_are_named(store) -> None:
    (store / "config" / "topics.json").write_text(GOOD, encoding="utf-8")
    assert lines(store) == [f"{store}/config/topics.json: readable"]


def test_backup_stands_in_for_a_damaged_file(store) -> None:
    (store / "config" / "topics.json").write_text("{", encoding="utf-8")
    (store / "config" / "topics.json.bak").write_text(GOOD, encoding="utf-8")
    assert lines(store) == [f"{store}/config/topics.json.bak: readable"]


def test_empty_file_is_an_empty_table(store) -> None:
    (store / "config" / "topics.json").write_text("", encoding="utf-8")
    assert lines(store) == [f"{store}/config/topics.json: empty"]


def test_damaged_file_without_backup_is_an_error(store) -> None:
    (store / "config" / "consumerOffset.json").write_text("[1", encoding="utf-8")
    with pytest.raises(StoreError, match=r"consumerOffset\.json"):
        lines(store)


def test_looking_changes_nothing(store) -> None:
    file = store / "config" / "topics.json"
    file.write_text(GOOD, encoding="utf-8")
    before = sorted((path, path.stat().st_mtime_ns) for path in store.rglob("*"))
    lines(store)
    assert sorted((path, path.stat().st_mtime_ns) for path in store.rglob("*")) == before
