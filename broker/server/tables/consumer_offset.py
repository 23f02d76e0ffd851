"""Consumer offsets: the progress of each group in each queue, and pending resets.

Three tables with the key ``topic@group``: committed offsets (persisted), last pulled offsets
(memory only, for the in-flight figure) and pending resets (memory only). While a queue has a
pending reset, commits for it are ignored; the next pull applies the reset. The last commit wins,
even with a lower value.

**Source:** RocketMQ ConsumerOffsetManager.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from broker.common.clock import Clock
from broker.server.tables.data_version import DataVersion
from broker.store.format.config import DataVersion as VersionOfFile

if TYPE_CHECKING:
    from broker.server.tables.progress_writer import ProgressWriter

NOT_FOUND: Final = -1
COMMITS_PER_VERSION: Final = 500  # commits per change of the data version


def offset_key(topic: str, group: str) -> str:
    """Return the key of a group's offsets in one topic, as in consumerOffset.json."""
    return f"{topic}@{group}"


class ConsumerOffsetManager:
    """Committed, pulled and pending offsets of every group.

    ``changed`` is True when the committed offsets must be written; a write clears it. ``resets``
    are the pending ones, by key and queue id; mostly none. Without a ``writer`` the tables are in
    memory only.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.table: dict[str, dict[int, int]] = {}
        self.data_version = DataVersion()
        self.changed = False
        self.writer: ProgressWriter | None = None
        self._pulled: dict[str, dict[int, int]] = {}
        self.resets: dict[str, dict[int, int]] = {}
        self._commits = 0

    def load(self, table: Mapping[str, Mapping[int, int]], version: VersionOfFile | None) -> None:
        """Load the content of consumerOffset.json."""
        self.table = {key: dict(queues) for key, queues in table.items()}
        self.data_version.assign(version)

    async def persist(self) -> None:
        """Wait until the file contains every change so far; StoreError or OSError if it fails."""
        if self.writer is not None:
            await self.writer.persist()

    def snapshot(self) -> dict[str, dict[int, int]]:
        """Return a copy of the committed offsets that later commits do not change."""
        return {key: dict(queues) for key, queues in self.table.items()}

    def commit(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Store the next offset to consume."""
        key = f"{topic}@{group}"
        queues = self.table.get(key)
        if queues is None:
            queues = self.table[key] = {}
        queues[queue_id] = queue_offset
        self.changed = True
        self._commits += 1
        if self._commits % COMMITS_PER_VERSION == 0:
            self.data_version.bump(self._clock.now_ms())

    def merge(self, table: Mapping[str, Mapping[int, int]]) -> None:
        """Take over the entries of another broker's table; other entries stay."""
        for key, queues in table.items():
            own = self.table.setdefault(key, {})
            if any(own.get(queue_id) != offset for queue_id, offset in queues.items()):
                own.update(queues)
                self.changed = True

    def forget(self, group: str, topic: str, queue_id: int) -> None:
        """Remove the committed offset and the pending reset of one queue."""
        key = f"{topic}@{group}"
        for table in (self.table, self.resets):
            queues = table.get(key)
            if queues is not None and queues.pop(queue_id, None) is not None:
                self.changed = True
                if not queues:
                    del table[key]

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Return the pending reset, else the committed offset, else :data:`NOT_FOUND`."""
        key = f"{topic}@{group}"
        if self.resets:
            reset = self.resets.get(key, {}).get(queue_id)
            if reset is not None:
                return reset
        queues = self.table.get(key)
        return NOT_FOUND if queues is None else queues.get(queue_id, NOT_FOUND)

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """Return queue id → committed offset of one topic; empty if none was committed."""
        return dict(self.table.get(f"{topic}@{group}", {}))

    def note_pull(self, key: str, queue_id: int, next_offset: int) -> None:
        """Record the next offset after a pull of ``topic@group``; reported as pullOffset."""
        queues = self._pulled.get(key)
        if queues is None:
            queues = self._pulled[key] = {}
        queues[queue_id] = next_offset

    def pulled(self, group: str, topic: str, queue_id: int) -> int:
        """Return the next offset after the last pull, :data:`NOT_FOUND` if none since the start."""
        return self._pulled.get(f"{topic}@{group}", {}).get(queue_id, NOT_FOUND)

    def reset(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Set the committed offset and keep the reset pending until the queue's next pull."""
        key = f"{topic}@{group}"
        self.commit(group, topic, queue_id, queue_offset)
        self.resets.setdefault(key, {})[queue_id] = queue_offset

    def reset_pending(self, group: str, topic: str, queue_id: int) -> bool:
        """Return True while a reset of that queue is pending."""
        return bool(self.resets) and queue_id in self.resets.get(f"{topic}@{group}", ())

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Remove and return the pending reset of a queue, None if it has none."""
        if not self.resets:
            return None
        key = f"{topic}@{group}"
        queues = self.resets.get(key)
        if queues is None:
            return None
        queue_offset = queues.pop(queue_id, None)
        if not queues:
            del self.resets[key]
        return queue_offset

    def topics_of(self, group: str) -> list[str]:
        """Return the topics in which the group has offsets, sorted."""
        tail = f"@{group}"
        return sorted(
            key[: -len(tail)] for key in self.table if key.endswith(tail) and key.count("@") == 1
        )

    def topics_by_group(self) -> dict[str, list[str]]:
        """Return :meth:`topics_of` for every group with offsets, in one pass over the table."""
        topics: dict[str, list[str]] = {}
        for key in sorted(self.table):
            topic, _, group = key.partition("@")
            if "@" not in group:
                topics.setdefault(group, []).append(topic)
        return topics

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have offsets in the topic, sorted."""
        head = f"{topic}@"
        return sorted(
            key[len(head) :] for key in self.table if key.startswith(head) and key.count("@") == 1
        )

    def clone(self, source: str, target: str, topic: str) -> None:
        """Replace the offsets of ``target`` in ``topic`` with those of ``source``, if any."""
        queues = self.table.get(offset_key(topic, source))
        if queues:
            self.table[offset_key(topic, target)] = dict(queues)
            self.changed = True

    def remove_topic(self, topic: str) -> None:
        """Remove every group's offsets in a deleted topic."""
        self._remove([key for key in self.table if key.startswith(f"{topic}@")])

    def remove_group(self, group: str) -> None:
        """Remove a deleted group's offsets in every topic."""
        self._remove([key for key in self.table if key.partition("@")[2] == group])

    def _remove(self, keys: list[str]) -> None:
        for key in keys:
            del self.table[key]
            self._pulled.pop(key, None)
            self.resets.pop(key, None)
            self.changed = True
