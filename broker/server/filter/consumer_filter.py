"""ConsumerFilterManager: the SQL92 filters of consumer groups, online or not.

A filter is registered with the heartbeats of its group and marked dead when the last member leaves.
It is kept for a day after that, so that the Bloom bits of messages stored meanwhile are right for
the members that reconnect.

**Source:** RocketMQ ConsumerFilterManager, ConsumerFilterData, CommitLogDispatcherCalcBitMap,
ExpressionMessageFilter#isMatchedByConsumeQueue.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from broker.common.clock import Clock
from broker.common.subscription import SubscriptionData, is_tag_type
from broker.errors import RemoteProtocolError
from broker.filter.bloom import BloomShape, bit_positions, has_bits, set_bits
from broker.filter.sql92 import compile_sql
from broker.message.properties import decode_properties
from broker.remoting.budget import MemoryBudget
from broker.server.filter.message_filter import SQL_BYTES_PER_CHAR, check_expression
from broker.store.format.config import CONSUMER_FILTER, ConfigFile
from broker.store.format.consumequeue import ConsumeQueueExtUnit

log = logging.getLogger("broker.server")

FILTER_LIMIT_BYTES: Final = 32 * 1024 * 1024
"""Memory limit of all filters; beyond it dead ones are removed, and new ones are not kept."""

FILTER_BYTES: Final = 2_048  # one filter without its expression
LOADED_DEAD_MS: Final = 30_000  # at load every group counts as offline since then

Evaluate = Callable[[Mapping[str, str]], bool | None]
Key = tuple[str, str]


class ConsumerFilterData:
    """The filter of one group for one topic; ``dead_ms`` is 0 while the group is online."""

    __slots__ = (
        "born_ms",
        "dead_ms",
        "evaluate",
        "expression",
        "expression_type",
        "group",
        "positions",
        "shape",
        "topic",
        "version",
    )

    def __init__(self, topic: str, group: str, data: SubscriptionData, shape: BloomShape) -> None:
        check_expression(data.sub_string)
        self.evaluate: Evaluate = compile_sql(data.sub_string)
        self.topic = topic
        self.group = group
        self.expression = data.sub_string
        self.expression_type = data.expression_type
        self.version = data.sub_version
        self.shape = shape
        self.positions = bit_positions(f"{group}#{topic}", shape)
        self.born_ms = 0
        self.dead_ms = 0

    @property
    def held_bytes(self) -> int:
        """Estimate of its memory in bytes."""
        return FILTER_BYTES + (SQL_BYTES_PER_CHAR + 4) * len(self.expression)

    def may_match(self, unit: ConsumeQueueExtUnit) -> bool:
        """Return False if the extension unit shows that the filter does not accept the message."""
        if unit.store_timestamp <= self.born_ms:
            return True  # its bits were made before this filter existed
        if len(unit.bit_map) * 8 != self.shape.bit_count:
            return True
        return has_bits(unit.bit_map, self.positions)

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object of consumerFilter.json, fields sorted."""
        return {
            "bloomFilterData": {"bitNum": self.shape.bit_count, "bitPos": self.positions},
            "bornTime": self.born_ms,
            "clientVersion": self.version,
            "consumerGroup": self.group,
            "dead": self.dead_ms >= self.born_ms,
            "deadTime": self.dead_ms,
            "expression": self.expression,
            "expressionType": self.expression_type,
            "topic": self.topic,
        }


class ConsumerFilterManager:
    """topic → group → filter; ``changed`` is True when the file must be written."""

    def __init__(
        self, clock: Clock, shape: BloomShape, keep_ms: int, limit_bytes: int = FILTER_LIMIT_BYTES
    ) -> None:
        self.shape = shape
        self.keep_ms = keep_ms
        self.changed = False
        self._clock = clock
        self._topics: dict[str, dict[str, ConsumerFilterData]] = {}
        self._of_group: dict[str, set[str]] = {}
        self._memory: MemoryBudget[Key] = MemoryBudget(limit_bytes, limit_bytes)
        self._extra: dict[str, Any] = {}

    def get(self, topic: str, group: str) -> ConsumerFilterData | None:
        """Return a group's filter for a topic, None if it subscribes by tags or not at all."""
        return self._topics.get(topic, {}).get(group)

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Apply the subscriptions of a heartbeat; filters of other topics of the group die.

        An expression that does not compile is ignored: pulls report it.
        """
        topics = set()
        for data in subscriptions:
            topics.add(data.topic)
            if not is_tag_type(data.expression_type) and data.sub_string:
                self._register(group, data)
        for topic in self._of_group.get(group, set()) - topics:
            self._end(self._topics[topic][group])

    def unregister(self, group: str) -> None:
        """Mark the filters of a group dead: its last member has left."""
        for topic in self._of_group.get(group, ()):
            self._end(self._topics[topic][group])

    def calculate_bit_map(self, topic: str, raw: bytes) -> bytes:
        """Return the Bloom bits of the groups whose filter accepts a message; empty without any.

        ``raw`` is the message's property string.
        """
        filters = self._topics.get(topic)
        if not filters:
            return b""
        properties = decode_properties(raw)
        bits = bytearray(self.shape.bit_count // 8)
        for data in filters.values():
            if data.evaluate(properties) is True:
                set_bits(bits, data.positions)
        return bytes(bits)

    def clean(self) -> None:
        """Remove the filters that have been dead for ``keep_ms``."""
        now_ms = self._clock.now_ms()
        for data in [data for filters in self._topics.values() for data in filters.values()]:
            if data.dead_ms and now_ms - data.dead_ms >= self.keep_ms:
                self._remove(data)

    # ---- consumerFilter.json

    def load(self, file: ConfigFile) -> None:
        """Load the content of consumerFilter.json; nothing if its Bloom bits have another shape.

        Every group counts as offline until its first heartbeat.
        """
        self._extra = dict(file.extra)
        now_ms = self._clock.now_ms()
        wires = [
            (str(topic), str(group), _object(wire))
            for topic, entry in file.table.items()
            for group, wire in _object(_object(entry).get("groupFilterData")).items()
        ]
        if not all(self._has_shape(wire) for _, _, wire in wires):
            log.warning("%s: other Bloom settings, its filters are ignored", file.name)
            return
        for topic, group, wire in wires:
            try:
                data = self._read(topic, group, wire)
            except RemoteProtocolError as error:
                log.warning("%s: %s, %s: %s", file.name, topic, group, error.message)
                continue
            if not data.dead_ms:
                data.dead_ms = max(data.born_ms, now_ms - LOADED_DEAD_MS)
            self._add(data)
        self.changed = False

    def _has_shape(self, wire: Mapping[str, Any]) -> bool:
        bloom = _object(wire.get("bloomFilterData"))
        positions = bloom.get("bitPos")
        return (
            bloom.get("bitNum") == self.shape.bit_count
            and isinstance(positions, list)
            and len(positions) == self.shape.hash_count
        )

    def _read(self, topic: str, group: str, wire: Mapping[str, Any]) -> ConsumerFilterData:
        """Return a filter of the file; RemoteProtocolError if its expression is invalid."""
        subscription = SubscriptionData(
            topic=topic,
            sub_string=str(wire.get("expression") or ""),
            sub_version=_number(wire.get("clientVersion")),
            expression_type=str(wire.get("expressionType") or "SQL92"),
        )
        data = ConsumerFilterData(topic, group, subscription, self.shape)
        data.born_ms = _number(wire.get("bornTime"))
        data.dead_ms = _number(wire.get("deadTime"))
        return data

    def to_file(self) -> ConfigFile:
        """Return the content for consumerFilter.json, without the filters that died long ago."""
        self.clean()
        table = {
            topic: {
                "groupFilterData": {group: data.to_wire() for group, data in filters.items()},
                "topic": topic,
            }
            for topic, filters in self._topics.items()
        }
        return ConfigFile(name=CONSUMER_FILTER, table=table, extra=self._extra)

    # ---- one filter

    def _register(self, group: str, wanted: SubscriptionData) -> None:
        old = self.get(wanted.topic, group)
        if old is not None and wanted.sub_version <= old.version:
            if wanted.sub_version == old.version and old.dead_ms:
                self._revive(old)
            return
        same = old is not None and old.expression == wanted.sub_string
        if old is not None and same and old.expression_type == wanted.expression_type:
            old.version = wanted.sub_version
            self.changed = True
            if old.dead_ms:
                self._revive(old)
            return
        if old is not None:
            self._remove(old)
        try:
            data = ConsumerFilterData(wanted.topic, group, wanted, self.shape)
        except RemoteProtocolError:
            return
        data.born_ms = self._clock.now_ms()
        self._add(data)

    def _add(self, data: ConsumerFilterData) -> None:
        memory = self._memory
        if memory.total_bytes + data.held_bytes > memory.total_limit_bytes:
            self._remove_dead()
        if memory.total_bytes + data.held_bytes > memory.total_limit_bytes:
            return  # without its filter here the group's pulls evaluate every record
        memory.charge((data.topic, data.group), data.held_bytes)
        self._topics.setdefault(data.topic, {})[data.group] = data
        self._of_group.setdefault(data.group, set()).add(data.topic)
        self.changed = True

    def _remove(self, data: ConsumerFilterData) -> None:
        self._memory.forget((data.topic, data.group))
        filters = self._topics[data.topic]
        del filters[data.group]
        if not filters:
            del self._topics[data.topic]
        topics = self._of_group[data.group]
        topics.discard(data.topic)
        if not topics:
            del self._of_group[data.group]
        self.changed = True

    def _remove_dead(self) -> None:
        for data in [data for filters in self._topics.values() for data in filters.values()]:
            if data.dead_ms:
                self._remove(data)

    def _end(self, data: ConsumerFilterData) -> None:
        if not data.dead_ms:
            data.dead_ms = self._clock.now_ms()
            self.changed = True

    def _revive(self, data: ConsumerFilterData) -> None:
        """Mark a filter as alive; after a long death the bits made meanwhile may be missing.

        **Source:** RocketMQ ConsumerFilterManager.FilterDataMapByTopic#reAlive.
        """
        data.dead_ms = 0
        self.changed = True


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
