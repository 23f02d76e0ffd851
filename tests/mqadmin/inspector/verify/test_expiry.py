"""The verification of a running store is repeated if the broker deletes files meanwhile."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.errors import StoreStateError
from broker.store.config import MessageStoreConfig
from broker.store.message_store import MessageStore
from broker.store.results import MessageExtBrokerInner
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.expiry import ATTEMPTS, while_files_stay
from mqadmin.inspector.verify.verifier import Verification, verify


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[MessageStore]:
    store = MessageStore(
        MessageStoreConfig(
            store_path_root_dir=str(tmp_path), mapped_file_size_commit_log=65_536, max_index_num=200
        )
    )
    store.load()
    store.start()
    yield store
    store.shutdown()


@pytest.mark.parametrize("deleting", [1, ATTEMPTS - 1, ATTEMPTS])
@pytest.mark.parametrize("fails", [False, True])
def test_a_scan_is_repeated_if_files_were_deleted(
    opened: MessageStore, deleting: int, fails: bool
) -> None:
    """Damage that the last scan finds is reported; without a result there is an error."""
    root = Path(opened.config.store_path_root_dir)
    opened.put_message(
        MessageExtBrokerInner(topic="orders", queue_id=0, body=b"1", properties=b"KEYS\x011\x02")
    )
    (root / "index" / "damage").write_bytes(b"")
    oldest = root / "index" / "0"
    oldest.write_bytes(b"")
    scans = 0

    def scan() -> Verification:
        nonlocal scans
        scans += 1
        if scans > deleting:
            return verify(StoreDirectory(root))
        oldest.unlink()
        try:
            if fails:
                raise FileNotFoundError("no such file")
            return verify(StoreDirectory(root))
        finally:
            if scans < deleting:
                later.append(oldest)

    later: list[Path] = []

    class Store(StoreDirectory):
        def is_running(self) -> bool:
            """Asked before each scan."""
            for path in later:
                path.write_bytes(b"")
            later.clear()
            return super().is_running()

    if fails and deleting == ATTEMPTS:
        with pytest.raises(StoreStateError, match="deleted files during each of 5 scans"):
            while_files_stay(Store(root), scan)
        return
    found = while_files_stay(Store(root), scan)
    assert [row.kind for row in found.findings] == ["name"]
    noted = any("deleted files" in note for note in found.summary.notes)
    assert noted == (deleting == ATTEMPTS)
    assert scans == min(deleting + 1, ATTEMPTS)


def test_an_error_without_deleted_files_is_raised(opened: MessageStore) -> None:
    def scan() -> Verification:
        raise IndexError("a defect")

    with pytest.raises(IndexError, match="a defect"):
        while_files_stay(StoreDirectory(opened.config.store_path_root_dir), scan)
