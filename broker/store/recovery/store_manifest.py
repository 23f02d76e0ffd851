"""StoreManifest: a file that records the expected files and ends of the store for the next start.

``queueEnds.json`` in the store directory; the Java broker ignores it:

=========  =======================================================================
crc        CRC32 of the bytes after this member
logMin     physical offset of the start of the log when the file was written
logEnd     physical offset up to which the log was flushed then
queues     topic → queue id → max offset: a queue that is missing or shorter has lost units
begins     topic → queue id → file position of its first file, bytes; 0 is left out
damaged    [start, end] of damaged regions of the log, physical offsets
deleted    topic → end of the log at its deletion: earlier records of the topic are ignored
indexed    physical offset of the last record in the index, -1 without one
index      names of the index files
sizes      bytes of one file: CommitLog, SimpleCQ, BatchCQ; then slots and entries of an IndexFile
reread     true: repair of files has started, and no start has read the log to its end since
=========  =======================================================================
"""

import os
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from broker.common.java import INT32_MAX
from broker.errors import StoreError
from broker.store.format.state import QUEUE_ENDS, decode_queue_ends, encode_queue_ends
from broker.store.logfile.disk import Disk

if TYPE_CHECKING:
    from broker.store.consumequeue.consume_queue import ConsumeQueue, Topic
    from broker.store.consumequeue.consume_queue_store import ConsumeQueueStore

QUEUES_PER_STEP: Final = 16_384
"""Queues of one step of :meth:`StoreManifest.write_in_steps`, about 5 ms."""


class Bounds(msgspec.Struct, kw_only=True):
    """Start and end of the log, end and files of the index, and file lengths at one moment."""

    log_min: int = -1
    log_end: int = -1
    indexed: int = -1
    index: list[str] = msgspec.field(default_factory=list)
    sizes: list[int] = msgspec.field(default_factory=list)


class StoreManifest:
    """Content of the file; ``found``: whether load() found a valid one.

    ``damaged`` is one list for the life of the object: StoreReader shares it.
    """

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self.path = os.path.join(root, QUEUE_ENDS)
        self.found = False
        self.bounds = Bounds()
        self.queues: dict[str, dict[int, int]] = {}
        self.begins: dict[str, dict[int, int]] | None = None
        self.damaged: list[tuple[int, int]] = []
        self.deleted: dict[str, int] = {}
        self.reread = False
        self._content: dict[str, Any] = {"logEnd": -1, "queues": {}}
        # Of the latest call of write_in_steps.
        self._bounds_to_write = self.bounds

    @property
    def log_end(self) -> int:
        """Flushed end of the log when the file was written, -1 if unknown."""
        return self.bounds.log_end

    @property
    def indexed(self) -> int:
        """Physical offset of the last record in the index at that time, -1 without one."""
        return self.bounds.indexed

    def size(self, kind: int) -> int:
        """Bytes of one file: kind 0 CommitLog, 1 SimpleCQ, 2 BatchCQ; 0 if unknown."""
        sizes = self.bounds.sizes
        return sizes[kind] if kind < len(sizes) else 0

    def load(self, notes: list[str]) -> None:
        """Read the file; a missing one, or with a line in ``notes`` an invalid one, is ignored.

        OSError if it exists and cannot be read: its content must not be ignored then.
        """
        try:
            data = self._disk.read(self.path)
        except FileNotFoundError:
            return
        try:
            content = decode_queue_ends(data)
            bounds = Bounds(
                log_min=int(content.get("logMin", -1)),
                log_end=int(content["logEnd"]),
                indexed=int(content.get("indexed", -1)),
                index=[str(name) for name in content.get("index", ())],
                sizes=_sizes(content.get("sizes", ())),
            )
            queues = _by_queue(content["queues"])
            begins = _by_queue(content["begins"]) if "begins" in content else None
            damaged = [(int(start), int(end)) for start, end in content.get("damaged", ())]
            deleted = {str(t): int(end) for t, end in content.get("deleted", {}).items()}
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            notes.append(
                f"{self.path}: not used, the whole log is read: {error!r:.80}; messages from before"
                " the deletion of a topic that was created again may be back"
            )
            return
        self.bounds, self.queues, self.begins = bounds, queues, begins
        self.damaged[:], self.deleted = damaged, deleted
        self.reread = bool(content.get("reread"))
        self._content = content
        self.found = True

    def is_deleted(self, topic: str, physical_offset: int) -> bool:
        """Whether a record of ``topic`` at this physical offset precedes the topic's deletion."""
        return physical_offset < self.deleted.get(topic, 0)

    def write(self, bounds: Bounds, queues: "ConsumeQueueStore") -> None:
        """Write the current state; drop entries that end before the start of the log."""
        for _ in self.write_in_steps(bounds, queues):
            pass

    def add_deletion(self, topic: str, end: int) -> None:
        """Write that the records of a topic before physical offset ``end`` are deleted.

        Else the file keeps its content: recovery may call this. OSError or StoreError if the write
        fails; the deletion is then not recorded.
        """
        content = self._content
        deleted = {**self.deleted, topic: end}
        self._content = {**content, "deleted": deleted}
        try:
            self._store()
        except (OSError, StoreError):
            self._content = content
            raise
        self.deleted = deleted

    def write_in_steps(self, bounds: Bounds, queues: "ConsumeQueueStore") -> Iterator[None]:
        """As :meth:`write`, in steps of QUEUES_PER_STEP queues; the last step writes the file.

        Other work may run between the steps: records that are stored meanwhile are after the end
        of the log in ``bounds``. A later call replaces this one, which then writes nothing.
        """
        self._bounds_to_write = bounds
        ends: dict[str, dict[int, int]] = {}
        begins: dict[str, dict[int, int]] = {}
        done = 0
        for topic in list(queues.topics.values()):
            if done >= QUEUES_PER_STEP:
                done = 0
                yield
                if self._bounds_to_write is not bounds:
                    return
            done += len(topic.queues)
            _add_topic(topic, bounds.log_end, ends, begins)
        self.bounds, self.queues, self.begins = bounds, ends, begins
        self.damaged[:] = sorted(place for place in self.damaged if place[1] > bounds.log_min)
        self.deleted = {topic: end for topic, end in self.deleted.items() if end > bounds.log_min}
        self.reread = False
        self._content = {
            "logMin": bounds.log_min,
            "logEnd": bounds.log_end,
            "queues": self.queues,
            "begins": self.begins,
            "damaged": self.damaged,
            "deleted": self.deleted,
            "indexed": bounds.indexed,
            "index": bounds.index,
            "sizes": bounds.sizes,
        }
        self._store()

    def require_full_scan(self) -> None:
        """Mark that every start must read the whole log until the next :meth:`write`.

        Called before files are repaired: a kill during the repair must not leave a part undone.
        """
        self.reread = True
        self._content["reread"] = True
        self._store()

    def _store(self) -> None:
        temporary = self.path + ".tmp"
        self._disk.write(temporary, encode_queue_ends(self._content))
        self._disk.keep_mode(self.path, temporary)
        self._disk.rename(temporary, self.path)
        self._disk.sync_folder(os.path.dirname(self.path))


def _add_topic(
    topic: "Topic", log_end: int, ends: dict[str, dict[int, int]], begins: dict[str, dict[int, int]]
) -> None:
    """Add the end of each queue of a topic, and its begin if its first files are gone."""
    topic_ends, topic_begins = {}, {}
    for queue_id, queue in topic.queues.items():
        if end := _flushed_end(queue, log_end):
            topic_ends[queue_id] = end
        files = queue.files.files
        if files and files[0].start > 0:
            topic_begins[queue_id] = files[0].start
    if topic_ends:
        ends[topic.name] = topic_ends
    if topic_begins:
        begins[topic.name] = topic_begins


def _flushed_end(queue: "ConsumeQueue", log_end: int) -> int:
    """Queue offset after the last unit whose record starts below ``log_end``.

    With ASYNC_FLUSH units are dispatched before their records are flushed; a power cut may lose
    those records, so the next start must not expect their units.
    """
    if queue.max_physical_offset <= log_end:
        return queue.max_offset

    def is_unflushed(queue_offset: int) -> bool:
        unit = queue.unit(queue_offset)
        return unit is not None and unit[0] >= log_end

    first = max(0, queue.first_offset)
    return bisect_left(range(first, queue.max_offset), True, key=is_unflushed) + first


def _sizes(values: list[Any]) -> list[int]:
    """Return file lengths; ValueError for one that no setting can have: files would get it."""
    sizes = [int(size) for size in values]
    if not all(0 <= size <= INT32_MAX for size in sizes):
        raise ValueError(f"sizes {sizes}")
    return sizes


def _by_queue(content: dict[str, dict[str, int]]) -> dict[str, dict[int, int]]:
    return {
        str(topic): {int(queue_id): int(value) for queue_id, value in values.items()}
        for topic, values in content.items()
    }
