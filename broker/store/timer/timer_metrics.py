"""TimerMetrics: the number of pending messages of each topic.

The same table counts undecided half messages (``config/transactionMetrics``).

**Source:** RocketMQ TimerMetrics.
"""

import msgspec

from broker.common.java import INT64_MAX, INT64_MIN
from broker.errors import RemoteProtocolError
from broker.store.format.config import (
    TIMER_METRICS,
    ConfigFile,
    DataVersion,
    decode_config,
    encode_config,
)


class TopicCount(msgspec.Struct):
    """Pending messages of one topic, and the time of the last change, epoch ms."""

    count: int = 0
    time_stamp: int = 0


class TimerMetrics:
    """The counts by topic, with the version that slaves and tools compare; ``name`` of the file."""

    def __init__(self, name: str = TIMER_METRICS) -> None:
        self._name = name
        self.topics: dict[str, TopicCount] = {}
        self.counter = 0
        self.timestamp = 0
        self.changed = False

    def add(self, topic: bytes, number: int, now_ms: int) -> None:
        """Add ``number`` to a topic's count; recalls subtract."""
        name = topic.decode("utf-8", "replace")
        entry = self.topics.get(name)
        if entry is None:
            entry = self.topics[name] = TopicCount()
        entry.count += number
        entry.time_stamp = self.timestamp = now_ms
        self.counter += 1
        self.changed = True

    def replace(self, counts: dict[str, int], now_ms: int) -> None:
        """Set all counts; topics that are not in ``counts`` have no pending messages."""
        for topic in self.topics.keys() | counts.keys():
            entry = self.topics.setdefault(topic, TopicCount())
            if entry.count != counts.get(topic, 0):
                entry.count = counts.get(topic, 0)
                entry.time_stamp = now_ms
        self.counter += 1
        self.timestamp = now_ms
        self.changed = True

    def remove(self, topic: str) -> None:
        """Forget a deleted topic."""
        if self.topics.pop(topic, None) is not None:
            self.counter += 1
            self.changed = True

    def take_changed(self) -> "TimerMetrics | None":
        """A copy to be written in another thread; None if nothing changed since the last one."""
        if not self.changed:
            return None
        self.changed = False
        copy = TimerMetrics(self._name)
        copy.counter, copy.timestamp = self.counter, self.timestamp
        copy.topics = {
            topic: TopicCount(entry.count, entry.time_stamp) for topic, entry in self.topics.items()
        }
        return copy

    def encode(self) -> str:
        """The text of the file."""
        table = {
            topic: {"count": entry.count, "timeStamp": entry.time_stamp}
            for topic, entry in sorted(self.topics.items())
        }
        version = DataVersion(counter=self.counter, timestamp=self.timestamp)
        return encode_config(ConfigFile(name=self._name, data_version=version, table=table))

    def decode(self, text: str) -> None:
        """Take over the text of a file; RemoteProtocolError if it is malformed."""
        file = decode_config(self._name, text)
        topics = {}
        for topic, entry in file.table.items():
            if not isinstance(entry, dict):
                raise RemoteProtocolError(f"{self._name}: {topic!r:.80}: an object is expected")
            topics[str(topic)] = TopicCount(
                _number(self._name, entry.get("count", 0)),
                _number(self._name, entry.get("timeStamp", 0)),
            )
        self.topics = topics
        if file.data_version is not None:
            self.counter = file.data_version.counter
            self.timestamp = file.data_version.timestamp


def _number(name: str, value: object) -> int:
    if isinstance(value, int) and INT64_MIN <= value <= INT64_MAX:
        return int(value)
    raise RemoteProtocolError(f"{name}: a number is expected, not {str(value)[:40]!r}")
