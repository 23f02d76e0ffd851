"""A store whose directory, lock or log was taken away refuses puts and changes no file in it."""

import os
import shutil
import subprocess
import sys
import threading

import pytest

from broker.errors import StoreLockedError, StoreStateError
from broker.store.config_file import ConfigFile
from broker.store.faults import directory_monitor
from broker.store.message_store import MessageStore
from broker.store.message_store import PutMessageStatus as P


def remove_store(root):
    shutil.rmtree(root)


def replace_store(root):
    os.rename(root, f"{root}.moved")
    shutil.copytree(f"{root}.moved", root)


def remove_lock(root):
    os.unlink(root / "lock")


def replace_lock(root):
    os.rename(root / "lock", root / "lock.old")
    (root / "lock").write_bytes(b"lock")


def remove_log(root):
    shutil.rmtree(root / "commitlog")


def replace_log_file(root):
    path = max((root / "commitlog").iterdir())
    data = path.read_bytes()
    os.unlink(path)
    path.write_bytes(data)


LOSSES = [remove_store, replace_store, remove_lock, replace_lock, remove_log, replace_log_file]


@pytest.fixture
def lost(monkeypatch):
    """An event that is set after a monitor has notified the store of a loss."""
    notified = threading.Event()
    original = MessageStore.directory_lost

    def store_lost(self, reason):
        original(self, reason)
        notified.set()

    monkeypatch.setattr(MessageStore, "directory_lost", store_lost)
    return notified


def listing(root):
    return {
        (path, path.stat().st_mtime_ns, path.stat().st_size)
        for path in (root, *root.rglob("*"))
        if path.exists()
    }


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_is_noticed_and_writes_are_refused(stores, inner, lost, loss):
    store = stores.start()
    store.worker.drain()
    assert store.put_message(inner()).status is P.PUT_OK
    store.worker.drain()
    # The last file counts: the one prepared after it is not a loss.
    store.log.preparer.discard()
    assert store.monitor.check() == ""
    loss(stores.root)
    assert lost.wait(30)
    result = store.put_message(inner())
    assert result.status is P.SERVICE_NOT_AVAILABLE
    assert "while the store was open" in result.remark
    assert not store.writable
    answers = []
    store.await_flush(store.max_physical_offset + 1, answers.append)
    assert answers == [P.FLUSH_DISK_TIMEOUT]
    # Reads continue, from mapped files.
    assert store.get_message("TopicA", 0, 0).message_count == 1
    before = listing(stores.root)
    stores.clock.advance(60_000)
    store.clean_expired()
    with pytest.raises(StoreStateError):
        ConfigFile(str(stores.root / "config" / "topics.json"), store.disk).persist("{}")
    assert not store.writable
    stores.open.remove(store)
    store.shutdown()
    assert listing(stores.root) == before
    shutil.rmtree(stores.root, ignore_errors=True)


def test_the_interval_keeps_a_loss_within_a_second():
    assert directory_monitor.INTERVAL_SECONDS <= 0.5


def test_rolling_and_cleaning_lose_no_messages(stores, inner):
    store = stores.start(stores.config(file_reserved_time=1))
    for _ in range(20):
        store.put_message(inner(body=bytes(3000)))
        assert store.monitor.check() == ""
    store.flush()
    store.clean_expired(store.clock.now_ms() + 10**13, manual=True)
    assert len(store.log.files.files) < 20
    assert store.monitor.check() == ""


def test_an_error_without_a_loss_counts_no_loss(stores, inner, monkeypatch, caplog):
    store = stores.start()
    store.put_message(inner())

    def fail(path):
        raise PermissionError(13, "Permission denied", path)

    with monkeypatch.context() as patch:
        patch.setattr(store.disk, "identity", fail)
        assert store.monitor.check() == store.monitor.check() == ""
    assert store.writable
    assert caplog.text.count("cannot be checked") == 1


OPEN = """
import sys
from broker.errors import StoreLockedError
from broker.store.logfile.disk import Disk
try:
    Disk().lock(sys.argv[1])
except StoreLockedError as error:
    print(error.message)
    sys.exit(3)
"""


def test_a_deleted_lock_file_lets_no_second_broker_in(stores):
    stores.start()
    path = stores.root / "lock"
    path.unlink()
    with pytest.raises(StoreLockedError):
        stores.load()
    attempt = subprocess.run(
        [sys.executable, "-c", OPEN, str(path)], check=False, capture_output=True, text=True
    )
    assert attempt.returncode == 3, attempt.stderr
    assert "another broker uses this store" in attempt.stdout
    assert not path.exists()
    path.write_bytes(b"lock")
    attempt = subprocess.run([sys.executable, "-c", OPEN, str(path)], check=False)
    assert attempt.returncode == 3
    stores.close(stores.open[0])
    subprocess.run([sys.executable, "-c", OPEN, str(path)], check=True)


def test_a_folder_that_cannot_be_locked_is_left_to_the_lock_file(stores, monkeypatch):
    import errno
    import fcntl

    def flock(fd, operation):
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", flock)
    stores.start()
    with pytest.raises(StoreLockedError):
        stores.load()
