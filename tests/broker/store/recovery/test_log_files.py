"""Files of the CommitLog with a wrong name are refused before a start changes anything."""

import shutil
from pathlib import Path

import pytest

from broker.errors import StoreError
from broker.store.config import MessageStoreConfig
from broker.store.format.commitlog import file_name
from broker.store.message_store import MessageStore
from tests.support.made_store import MadeStore


@pytest.fixture
def made(tmp_path: Path) -> MadeStore:
    """A store of four log files with many records, after a clean stop."""
    store = MadeStore(tmp_path / "store")
    while store.end < 13000:
        store.put()
    store.write(spare=False)
    return store


def log(made: MadeStore, start: int) -> Path:
    return made.root / "commitlog" / file_name(start)


def opened(made: MadeStore) -> MessageStore:
    config = MessageStoreConfig(
        store_path_root_dir=str(made.root),
        mapped_file_size_commit_log=made.file_size,
        mapped_file_size_consume_queue=600,
    )
    return MessageStore(config)


@pytest.mark.parametrize("start", [0, 4096, 12288])
@pytest.mark.parametrize("name", [20480, 1 << 50])
def test_a_renamed_file_is_refused_and_stays(made: MadeStore, start: int, name: int) -> None:
    """The last one would be taken for a file after the end of the log, and be removed."""
    renamed = log(made, start).rename(log(made, name))
    before = renamed.read_bytes()
    with pytest.raises(StoreError, match=f"records are those of physical offset {start}, the name"):
        opened(made).load()
    assert renamed.read_bytes() == before


def test_swapped_and_copied_files_are_refused(made: MadeStore) -> None:
    shutil.copy(log(made, 0), log(made, 16384))
    with pytest.raises(StoreError, match=file_name(16384)):
        opened(made).load()
    log(made, 16384).rename(log(made, 4096))
    with pytest.raises(StoreError, match=file_name(4096)):
        opened(made).load()


def test_a_name_between_the_starts_of_files_is_refused(made: MadeStore) -> None:
    log(made, 4096).write_bytes(bytes(4096))
    log(made, 4096).rename(log(made, 4196))
    with pytest.raises(StoreError, match="not a multiple of the file size 4096"):
        opened(made).load()


def test_a_renamed_file_with_one_record_is_refused_if_it_is_missing(tmp_path: Path) -> None:
    """After the end of the log it would be removed."""
    made = MadeStore(tmp_path / "store")
    for size in (100, 3900, 3000, 100):
        made.put(body=bytes(size))
    made.write(spare=False)
    renamed = log(made, 4096).rename(log(made, 20480))
    with pytest.raises(StoreError, match="records are those of physical offset 4096, the name"):
        opened(made).load()
    assert renamed.exists()


def test_one_record_with_another_offset_is_a_damaged_one(made: MadeStore) -> None:
    made_file = log(made, 4096)
    data = bytearray(made_file.read_bytes())
    data[28:36] = (1 << 40).to_bytes(8, "big")
    made_file.write_bytes(data)
    store = opened(made)
    report = store.load()
    assert [region.physical_offset for region in report.damaged_regions] == [4096]
    store.halt()
