"""Consumer offsets: how far each group has come in each queue, and resets not taken up yet.

Three tables under the key ``topic@group``: committed offsets (persisted), last pulled offsets
(memory, for the in-flight figure) and pending resets (memory). While a queue has a pending
reset, commits for it are ignored; the next pull takes the reset up. The last commit wins, a
lower value included.

**Source:** RocketMQ ConsumerOffsetManager.
"""

from collections.abc import Mapping
from typing import Final

from broker.common.clock import Clock
from broker.server.data_version import DataVersion
from broker.store.format.config import DataVersion as VersionOfFile

NOT_FOUND: Final = -1
COMMITS_PER_VERSION: Final = 500  # one change of the data version per so many commits


def offset_key(topic: str, group: str) -> str:
    """The key of a group's offsets in one topic, as consumerOffset.json spells it."""
    return f"{topic}@{group}"


class ConsumerOffsets:
    """Committed, pulled and pending offsets of every group.

    ``changed`` is true when something has to be written; the writer clears it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.table: dict[str, dict[int, int]] = {}
        self.data_version = DataVersion()
        self.changed = False
        self._pulled: dict[str, dict[int, int]] = {}
        self._resets: dict[str, dict[int, int]] = {}
        self._commits = 0

    def load(self, table: Mapping[str, Mapping[int, int]], version: VersionOfFile | None) -> None:
        """Take over the content of consumerOffset.json."""
        self.table = {key: dict(queues) for key, queues in table.items()}
        self.data_version.assign(version)

    def snapshot(self) -> dict[str, dict[int, int]]:
        """A copy of the committed offsets that later commits do not touch."""
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

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The pending reset if there is one, else the committed offset, else :data:`NOT_FOUND`."""
        key = f"{topic}@{group}"
        if self._resets:
            reset = self._resets.get(key, {}).get(queue_id)
            if reset is not None:
                return reset
        queues = self.table.get(key)
        return NOT_FOUND if queues is None else queues.get(queue_id, NOT_FOUND)

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """queue id → committed offset of one topic; empty when nothing was ever committed."""
        return dict(self.table.get(f"{topic}@{group}", {}))

    def note_pull(self, group: str, topic: str, queue_id: int, next_offset: int) -> None:
        """Remember the end of the last pull; shown as pullOffset."""
        key = f"{topic}@{group}"
        queues = self._pulled.get(key)
        if queues is None:
            queues = self._pulled[key] = {}
        queues[queue_id] = next_offset

    def pulled(self, group: str, topic: str, queue_id: int) -> int:
        """End of the last pull since the broker started, :data:`NOT_FOUND` if none."""
        return self._pulled.get(f"{topic}@{group}", {}).get(queue_id, NOT_FOUND)

    def reset(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Set the committed offset and hold it until the group's next pull takes it up."""
        key = f"{topic}@{group}"
        self.commit(group, topic, queue_id, queue_offset)
        self._resets.setdefault(key, {})[queue_id] = queue_offset

    def reset_pending(self, group: str, topic: str, queue_id: int) -> bool:
        """True while a reset waits for the next pull of that queue."""
        return bool(self._resets) and queue_id in self._resets.get(f"{topic}@{group}", ())

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The pending reset of a queue, once; None when there is none."""
        if not self._resets:
            return None
        key = f"{topic}@{group}"
        queues = self._resets.get(key)
        if queues is None:
            return None
        queue_offset = queues.pop(queue_id, None)
        if not queues:
            del self._resets[key]
        return queue_offset

    def topics_of(self, group: str) -> list[str]:
        """Topics the group has offsets in, sorted."""
        tail = f"@{group}"
        return sorted(
            key[: -len(tail)] for key in self.table if key.endswith(tail) and key.count("@") == 1
        )

    def groups_of(self, topic: str) -> list[str]:
        """Groups that have offsets in the topic, sorted."""
        head = f"{topic}@"
        return sorted(
            key[len(head) :] for key in self.table if key.startswith(head) and key.count("@") == 1
        )

    def clone(self, source: str, target: str, topic: str) -> None:
        """Give ``target`` the offsets ``source`` has in ``topic``."""
        queues = self.table.get(offset_key(topic, source))
        if queues:
            self.table[offset_key(topic, target)] = dict(queues)
            self.changed = True

    def remove_topic(self, topic: str) -> None:
        """Forget every group's offsets in a deleted topic."""
        self._remove([key for key in self.table if key.startswith(f"{topic}@")])

    def remove_group(self, group: str) -> None:
        """Forget a deleted group's offsets in every topic."""
        self._remove([key for key in self.table if key.partition("@")[2] == group])

    def _remove(self, keys: list[str]) -> None:
        for key in keys:
            del self.table[key]
            self._pulled.pop(key, None)
            self._resets.pop(key, None)
            self.changed = True
