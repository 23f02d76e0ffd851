"""Store directories made from the formats alone, and a guard that nothing in them changes."""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import encode_record
from broker.store.format.checkpoint import Checkpoint, encode_checkpoint
from broker.store.format.commitlog import encode_blank, file_name, fits
from broker.store.format.consumequeue import encode_unit, tags_code

NOW = 1_700_000_000_000


class MadeStore:
    """A store under ``root``: messages appended by :meth:`put`, files written by :meth:`write`.

    ``places`` lists (physical offset, size, file name) of each record in order.
    """

    def __init__(self, root: Path, file_size: int = 4096, start: int = 0) -> None:
        self.root = root
        self.file_size = file_size
        self.start = start
        self.log = bytearray()
        self.places: list[tuple[int, int]] = []
        self.queues: dict[tuple[str, int], list[bytes]] = {}

    @property
    def end(self) -> int:
        return self.start + len(self.log)

    def put(self, topic: str = "TopicA", queue_id: int = 0, **fields: Any) -> int:
        """Append a message; its physical offset."""
        units = self.queues.setdefault((topic, queue_id), [])
        number = len(self.places)
        properties = {"KEYS": f"key{number}", "TAGS": "TagA", **fields.pop("properties", {})}
        given = {
            "queue_id": queue_id,
            "queue_offset": len(units),
            "store_timestamp": NOW + number * 1000,
            "born_timestamp": NOW + number * 1000 - 5,
            "born_host_raw": bytes((10, 1, 2, 3, 0, 0, 0xD4, 0x31)),
            "store_host_raw": bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F)),
            **fields,
        }
        body = given.pop("body", b"body %d" % number + b"." * (90 + number % 50))
        message = MessageExt(topic, body, encode_properties(properties), **given)
        size = len(encode_record(message))
        left = self.file_size - len(self.log) % self.file_size
        if not fits(size, left):
            self.log += encode_blank(left).ljust(left, b"\0")
        message.physical_offset = self.end
        self.log += encode_record(message)
        self.places.append((message.physical_offset, size))
        units.append(encode_unit(message.physical_offset, size, tags_code(properties.get("TAGS"))))
        return message.physical_offset

    def write(self, *, queues: bool = True, checkpoint: bool = True, spare: bool = True) -> Path:
        """Write the files of the store, with a pre-created empty log file if ``spare``."""
        log = self.root / "commitlog"
        log.mkdir(parents=True, exist_ok=True)
        whole = -(-len(self.log) // self.file_size) * self.file_size
        data = bytes(self.log).ljust(whole, b"\0")
        for at in range(0, len(data), self.file_size):
            (log / file_name(self.start + at)).write_bytes(data[at : at + self.file_size])
        if spare:
            (log / file_name(self.start + len(data))).write_bytes(bytes(self.file_size))
        for (topic, queue_id), units in self.queues.items() if queues else ():
            folder = self.root / "consumequeue" / topic / str(queue_id)
            folder.mkdir(parents=True, exist_ok=True)
            for first in range(0, len(units), 30):
                text = b"".join(units[first : first + 30]).ljust(600, b"\0")
                (folder / file_name(first * 20)).write_bytes(text)
        if checkpoint:
            (self.root / "checkpoint").write_bytes(encode_checkpoint(Checkpoint(NOW, NOW, 0)))
        return self.root

    def file_of(self, physical_offset: int) -> tuple[Path, int]:
        """The file that holds a physical offset, and the position in it."""
        at = (physical_offset - self.start) % self.file_size
        return self.root / "commitlog" / file_name(physical_offset - at), at

    def poke(self, physical_offset: int, change: Callable[[bytes], bytes] | bytes) -> None:
        """Change written bytes of the log."""
        path, at = self.file_of(physical_offset)
        data = bytearray(path.read_bytes())
        new = change if isinstance(change, bytes) else change(bytes(data[at:]))
        data[at : at + len(new)] = new
        path.write_bytes(data)

    def flip(self, physical_offset: int, mask: int = 1) -> None:
        """Turn bits of one byte of the log over."""
        self.poke(physical_offset, lambda data: bytes([data[0] ^ mask]))


def fingerprint(folder: Path) -> dict[str, Any]:
    """Everything about a folder that reading must not change: names, bytes, sizes, times."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        status = os.lstat(path)
        kept = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (*kept, content)
    return found


@pytest.fixture
def make_store(tmp_path: Path) -> Callable[..., MadeStore]:
    """``make_store(file_size=..., start=...)``: an empty store to put messages into."""

    def make(name: str = "store", **settings: int) -> MadeStore:
        return MadeStore(tmp_path / name, **settings)

    return make


@pytest.fixture
def made(make_store: Callable[..., MadeStore]) -> MadeStore:
    """A written store: 40 messages of two topics over three log files, and a spare file."""
    store = make_store()
    for number in range(40):
        store.put("TopicA" if number % 3 else "TopicB", number % 2)
    store.write()
    return store


@pytest.fixture
def untouched() -> Iterator[Callable[[Path], None]]:
    """``untouched(folder)``: at the end of the test the folder must be as it is now."""
    kept: list[tuple[Path, dict[str, Any]]] = []

    def watch(folder: Path) -> None:
        kept.append((folder, fingerprint(folder)))

    yield watch
    for folder, before in kept:
        assert fingerprint(folder) == before


@pytest.fixture
def forbid(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """``forbid(path)``: opening the file fails from now on."""

    def make(path: Path) -> None:
        before = os.open

        def refuse(name: Any, *args: Any, **kwargs: Any) -> int:
            if Path(name) == path:
                raise PermissionError(13, "Permission denied", str(name))
            return before(name, *args, **kwargs)

        monkeypatch.setattr("mqadmin.inspector.files.os.open", refuse)

    return make
