"""Request modes: whether a group pulls or pops a topic, set by an administrator.

Kept in messageRequestMode.json. A group without an entry uses the broker's default mode; retry
topics are always pulled.

**Source:** RocketMQ MessageRequestModeManager, QueryAssignmentProcessor#setMessageRequestMode.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from broker.common.topic import is_retry_topic
from broker.remoting.protocol.body.consumer.lock import SetMessageRequestModeRequestBody
from broker.server.tables.table_writer import WrittenTable

PULL: Final = "PULL"
POP: Final = "POP"
MODES: Final = frozenset({PULL, POP})
MAX_MODES: Final = 100_000

RequestMode = SetMessageRequestModeRequestBody
ModeKey = tuple[str, str]
"""topic, group."""


class MessageRequestModeTable(WrittenTable[RequestMode | None]):
    """topic → group → mode; every change is passed to the ``writer`` of messageRequestMode.json."""

    def __init__(self) -> None:
        super().__init__()
        self._modes: dict[str, dict[str, RequestMode]] = {}
        self._size = 0

    def get(self, topic: str, group: str) -> RequestMode | None:
        """Return the mode that was set, None if there is none."""
        return self._modes.get(topic, {}).get(group)

    def effective(self, topic: str, group: str, default: RequestMode) -> RequestMode:
        """Return the mode of a group for a topic; ``default`` applies if none was set."""
        found = self.get(topic, group)
        if found is not None:
            return found
        return RequestMode(mode=PULL) if is_retry_topic(topic) else default

    def put(self, mode: RequestMode) -> bool:
        """Set the mode of a group for a topic; False if the table is full."""
        topic, group = mode.topic or "", mode.consumer_group or ""
        before = self.get(topic, group)
        if before == mode:
            return True
        if before is None and self._size >= MAX_MODES:
            return False
        self._set(topic, group, mode)
        self._note({f"{topic}@{group}": before})
        return True

    def replace_all(self, modes: Mapping[str, Mapping[str, RequestMode]]) -> None:
        """Replace the whole table, as a slave does with its master's; invalid modes are left out.

        **Source:** RocketMQ SlaveSynchronize#syncMessageRequestMode.
        """
        wanted = {
            (topic, group): mode
            for topic, groups in modes.items()
            for group, mode in groups.items()
            if mode.mode in MODES
        }
        before: dict[str, RequestMode | None] = {}
        for topic, groups in self.snapshot().items():
            for group, mode in groups.items():
                if (topic, group) not in wanted:
                    before[f"{topic}@{group}"] = mode
                    self._set(topic, group, None)
        if before:
            self._note(before)
        for (topic, group), mode in wanted.items():
            self.put(msgspec.structs.replace(mode, topic=topic, consumer_group=group))

    def restore(self, before: Mapping[str, RequestMode | None]) -> None:
        """Roll back changes that could not be written; None means that there was no entry."""
        for key, mode in before.items():
            topic, _, group = key.partition("@")
            self._set(topic, group, mode)

    def snapshot(self) -> dict[str, dict[str, RequestMode]]:
        """Return a copy of the table that later changes do not affect."""
        return {topic: dict(groups) for topic, groups in self._modes.items()}

    def to_file(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return the content of messageRequestMode.json as plain values, a copy."""
        return {
            topic: {
                group: {
                    "consumerGroup": group,
                    "mode": mode.mode,
                    "popShareQueueNum": mode.pop_share_queue_num,
                    "topic": topic,
                }
                for group, mode in groups.items()
            }
            for topic, groups in self._modes.items()
        }

    def load(self, table: Mapping[str, Any]) -> None:
        """Load the decoded content of the file."""
        self._modes, self._size = {}, 0
        for topic, groups in table.items():
            for group, wire in groups.items():
                mode = RequestMode(
                    topic=topic,
                    consumer_group=group,
                    mode=wire.get("mode", PULL),
                    pop_share_queue_num=wire.get("popShareQueueNum", 0),
                )
                self._set(topic, group, mode)

    def _set(self, topic: str, group: str, mode: RequestMode | None) -> None:
        groups = self._modes.setdefault(topic, {})
        self._size -= len(groups)
        if mode is None:
            groups.pop(group, None)
        else:
            groups[group] = mode
        self._size += len(groups)
        if not groups:
            del self._modes[topic]
