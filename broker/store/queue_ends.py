"""QueueEnds: a small file of ours beside Java's, by which a start knows what must be there.

``queueEnds.json`` in the store directory; the Java broker does not look at it:

=========  =======================================================================
logMin     begin of the log when the file was written
logEnd     end of the log then
queues     topic → queue id → max offset: a queue that is missing or shorter was lost
begins     topic → queue id → where its first file begins, bytes; those at 0 are left out
damaged    [start, end] in the log that do not hold what was stored
deleted    topic → end of the log at its deletion: records before it are nobody's
indexed    physical offset of the last record in the index, -1 without one
index      names of the index files
sizes      lengths of files: CommitLog, ConsumeQueue, batch queue; slots and entries of the index
reread     true: a start has begun to mend files, and has not come to the end of the log yet
=========  =======================================================================
"""

import json
import os
from typing import TYPE_CHECKING, Any, Final

import msgspec

from broker.store.files import Disk

if TYPE_CHECKING:
    from broker.store.queue_table import ConsumeQueueTable

NAME: Final = "queueEnds.json"


class Bounds(msgspec.Struct, kw_only=True):
    """Begin and end of the log, the index's end and files, the lengths of files, at one moment."""

    log_min: int = -1
    log_end: int = -1
    indexed: int = -1
    index: list[str] = msgspec.field(default_factory=list)
    sizes: list[int] = msgspec.field(default_factory=list)


class QueueEnds:
    """What the file says; ``found`` tells whether there was one that could be read."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self.path = os.path.join(root, NAME)
        self.found = False
        self.bounds = Bounds()
        self.queues: dict[str, dict[int, int]] = {}
        self.begins: dict[str, dict[int, int]] | None = None
        self.damaged: list[tuple[int, int]] = []
        self.deleted: dict[str, int] = {}
        self.reread = False
        self._content: dict[str, Any] = {"logEnd": -1, "queues": {}}

    @property
    def log_end(self) -> int:
        """End of the log when the file was written, -1 if that is not known."""
        return self.bounds.log_end

    @property
    def indexed(self) -> int:
        """Physical offset of the last record in the index then, -1 without one."""
        return self.bounds.indexed

    def size(self, kind: int) -> int:
        """Length of files then: 0 CommitLog, 1 ConsumeQueue, 2 batch queue; 0 if not known."""
        sizes = self.bounds.sizes
        return sizes[kind] if kind < len(sizes) else 0

    def load(self) -> None:
        """Read the file; one that is missing or makes no sense says nothing.

        OSError when it is there and cannot be read: what it says must not be passed over then.
        """
        try:
            data = self._disk.read(self.path)
        except FileNotFoundError:
            return
        try:
            content = json.loads(data)
            bounds = Bounds(
                log_min=int(content.get("logMin", -1)),
                log_end=int(content["logEnd"]),
                indexed=int(content.get("indexed", -1)),
                index=[str(name) for name in content.get("index", ())],
                sizes=[int(size) for size in content.get("sizes", ())],
            )
            queues = _by_queue(content["queues"])
            begins = _by_queue(content["begins"]) if "begins" in content else None
            damaged = [(int(start), int(end)) for start, end in content.get("damaged", ())]
            deleted = {str(t): int(end) for t, end in content.get("deleted", {}).items()}
        except (ValueError, TypeError, KeyError, AttributeError):
            return
        self.bounds, self.queues, self.begins = bounds, queues, begins
        self.damaged, self.deleted = damaged, deleted
        self.reread = bool(content.get("reread"))
        self._content = content
        self.found = True

    def is_deleted(self, topic: str, physical_offset: int) -> bool:
        """Whether a record of ``topic`` there belongs to a life of the topic that has ended."""
        return physical_offset < self.deleted.get(topic, 0)

    def write(self, bounds: Bounds, queues: "ConsumeQueueTable") -> None:
        """Write the state of now; what lies below the log's begin is forgotten."""
        self.bounds = bounds
        self.queues = {}
        self.begins = {}
        for queue in queues.all():
            name, queue_id = queue.topic.name, queue.queue_id
            if queue.max_offset > 0:
                self.queues.setdefault(name, {})[queue_id] = queue.max_offset
            files = queue.files.files
            if files and files[0].start > 0:
                self.begins.setdefault(name, {})[queue_id] = files[0].start
        # In place: the store reads the same list.
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

    def demand_reading(self) -> None:
        """Before files are mended: until that is done every start must read all of the log."""
        self.reread = True
        self._content["reread"] = True
        self._store()

    def _store(self) -> None:
        temporary = self.path + ".tmp"
        self._disk.write(temporary, json.dumps(self._content, sort_keys=True).encode())
        self._disk.rename(temporary, self.path)
        self._disk.sync_folder(os.path.dirname(self.path))


def _by_queue(content: dict[str, dict[str, int]]) -> dict[str, dict[int, int]]:
    return {
        str(topic): {int(queue_id): int(value) for queue_id, value in values.items()}
        for topic, values in content.items()
    }
