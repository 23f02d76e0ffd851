"""The messages of a store before it was damaged: every operation is checked with them."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.store.format.commitlog import LogRecord
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.log import LogWalk


class Kept(NamedTuple):
    """One original record: place, bytes, and where its parts lie within it."""

    topic: bytes
    queue_id: int
    queue_offset: int
    start: int
    end: int
    data: bytes
    record: LogRecord


@pytest.fixture(scope="session")
def kept() -> Callable[[Path], list[Kept]]:
    """The good records of a store that belong to its messages (no fillers)."""

    def read(root: Path) -> list[Kept]:
        found = []
        for item in LogWalk(StoreDirectory(root)):
            record = item.record
            if record is None or not item.ok or record.sys_flag & 0xC == 0xC:
                continue
            data = bytes(item.file.data[record.position : record.position + record.total_size])
            found.append(
                Kept(
                    record.topic,
                    record.queue_id,
                    record.queue_offset,
                    record.physical_offset,
                    record.physical_offset + record.total_size,
                    data,
                    record,
                )
            )
        return found

    return read


@pytest.fixture(scope="session")
def fingerprint() -> Callable[[Path], dict[str, tuple[int, int, str]]]:
    """Times, lengths and hashes of all files below a folder."""

    def read(root: Path) -> dict[str, tuple[int, int, str]]:
        return {
            str(path.relative_to(root)): (
                path.stat().st_mtime_ns,
                path.stat().st_size,
                hashlib.sha256(path.read_bytes()).hexdigest()
                if path.stat().st_size < 1 << 22
                else "",
            )
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }

    return read


@pytest.fixture
def base_store(golden_store, tmp_path: Path) -> Callable[..., Path]:
    """A recorded store of the test's own: its root."""

    def make(name: str, folder: str = "store") -> Path:
        return golden_store(name, copy=True) / folder

    return make
