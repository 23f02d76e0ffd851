"""A store keeps the file sizes it was written with, also without its configuration."""

from pathlib import Path

from broker.store.config import MessageStoreConfig
from broker.store.message_store import MessageExtBrokerInner, MessageStore

SIZES = {"mapped_file_size_commit_log": 65_536, "mapped_file_size_consume_queue": 2_000}


def test_a_store_opens_with_the_sizes_of_its_files(tmp_path: Path) -> None:
    root = str(tmp_path)
    written = MessageStore(MessageStoreConfig(store_path_root_dir=root, **SIZES))
    written.load()
    written.start()
    for _ in range(150):
        assert written.put_message(MessageExtBrokerInner("T", 0, b"x" * 1_000)).queue_offset >= 0
    written.shutdown()

    opened = MessageStore(MessageStoreConfig(store_path_root_dir=root))
    notes = opened.load().notes
    try:
        assert opened.get_max_offset("T", 0) == 150
        assert any("mappedFileSizeCommitLog is not set" in note for note in notes)
        assert any("mappedFileSizeConsumeQueue is not set" in note for note in notes)
    finally:
        opened.shutdown()


def test_configured_sizes_are_not_replaced(tmp_path: Path) -> None:
    config = MessageStoreConfig(store_path_root_dir=str(tmp_path), **SIZES)
    for _ in range(2):
        store = MessageStore(config)
        assert store.load().notes == []
        store.start()
        store.put_message(MessageExtBrokerInner("T", 0, b"x"))
        store.shutdown()
