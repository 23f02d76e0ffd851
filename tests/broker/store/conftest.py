"""Stores in temporary folders, checked when they close; recorded stores; disks with faults."""

import lzma
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from broker.store.config import MessageStoreConfig
from broker.store.format.commitlog import Damage, LogRecord
from broker.store.message_store import MessageExtBrokerInner, MessageStore
from tests.support.stores import (
    FaultyDisk,
    RecordedStore,
    Stores,
    check_directory,
    check_store,
    log_records,
    make_inner,
)


@pytest.fixture
def inner() -> Callable[..., MessageExtBrokerInner]:
    """``inner(topic, queue_id, body, properties={…}, …)``."""
    return make_inner


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    made = Stores(tmp_path)
    yield made
    for store in list(made.open):
        made.close(store)
    if made.root.exists():
        check_directory(made.last_config)


@pytest.fixture
def check() -> Callable[[MessageStore], None]:
    """``check(store)``: every queue and key of an open store agrees with its log."""
    return check_store


@pytest.fixture
def records_of() -> Callable[[MessageStoreConfig], tuple[list[LogRecord], list[Damage]]]:
    """``records_of(config)``: (records, damaged) of a closed store's log."""
    return log_records


@pytest.fixture
def faulty_disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def recorded(golden: Path, tmp_path: Path) -> Callable[[str], RecordedStore]:
    """``recorded(name)`` unpacks a recorded store."""

    def unpack(name: str) -> RecordedStore:
        folder = tmp_path / name
        with tarfile.open(golden / "stores" / f"{name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        with lzma.open(golden / "stores" / f"{name}.expect.json.xz") as file:
            expect = msgspec.json.decode(file.read())
        # The files' times are those of the recording: cleaning would take them for expired.
        for path in folder.rglob("*"):
            os.utime(path)
        return RecordedStore(name, folder, expect)

    return unpack
