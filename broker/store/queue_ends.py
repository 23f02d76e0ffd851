"""QueueEnds: a small file of ours beside Java's, by which a start knows what must be there.

``queueEnds.json`` in the store directory; the Java broker does not look at it:

=========  =======================================================================
logEnd     end of the log when the file was written
queues     topic → queue id → max offset: a queue that is missing or shorter was lost
damaged    [start, end] in the log that do not hold what was stored
deleted    topic → end of the log at its deletion: records before it are nobody's
indexed    physical offset of the last record in the index, -1 without one
=========  =======================================================================
"""

import json
import os
from typing import TYPE_CHECKING, Final

from broker.store.files import Disk

if TYPE_CHECKING:
    from broker.store.queue_table import ConsumeQueueTable

NAME: Final = "queueEnds.json"


class QueueEnds:
    """What the file says; ``found`` tells whether there was one that could be read."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self.path = os.path.join(root, NAME)
        self.found = False
        self.log_end = -1
        self.queues: dict[str, dict[int, int]] = {}
        self.damaged: list[tuple[int, int]] = []
        self.deleted: dict[str, int] = {}
        self.indexed = -1

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
            log_end = int(content["logEnd"])
            queues = {
                str(topic): {int(queue_id): int(end) for queue_id, end in ends.items()}
                for topic, ends in content["queues"].items()
            }
            damaged = [(int(start), int(end)) for start, end in content.get("damaged", ())]
            deleted = {str(t): int(end) for t, end in content.get("deleted", {}).items()}
            indexed = int(content.get("indexed", -1))
        except (ValueError, TypeError, KeyError, AttributeError):
            return
        self.log_end, self.queues, self.damaged, self.deleted = log_end, queues, damaged, deleted
        self.indexed = indexed
        self.found = True

    def is_deleted(self, topic: str, physical_offset: int) -> bool:
        """Whether a record of ``topic`` there belongs to a life of the topic that has ended."""
        return physical_offset < self.deleted.get(topic, 0)

    def write(
        self, log_min: int, log_end: int, queues: "ConsumeQueueTable", indexed: int = -1
    ) -> None:
        """Write the state of now; what lies below the log's begin is forgotten."""
        self.indexed = indexed
        self.log_end = log_end
        self.queues = {}
        for queue in queues.all():
            if queue.max_offset > 0:
                self.queues.setdefault(queue.topic.name, {})[queue.queue_id] = queue.max_offset
        # In place: the store reads the same list.
        self.damaged[:] = sorted(place for place in self.damaged if place[1] > log_min)
        self.deleted = {topic: end for topic, end in self.deleted.items() if end > log_min}
        content = {
            "logEnd": log_end,
            "queues": self.queues,
            "damaged": self.damaged,
            "deleted": self.deleted,
            "indexed": self.indexed,
        }
        temporary = self.path + ".tmp"
        self._disk.write(temporary, json.dumps(content, sort_keys=True).encode())
        self._disk.rename(temporary, self.path)
        self._disk.sync_folder(os.path.dirname(self.path))
