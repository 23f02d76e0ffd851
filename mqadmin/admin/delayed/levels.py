"""Delay levels of running brokers: backlog, next delivery, and the messages that wait."""

import heapq
from collections.abc import Iterator
from typing import Final

from broker.common.clock import Clock, SystemClock
from broker.common.topic import SCHEDULE_TOPIC
from broker.errors import RocketMQError
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.delayed.reader import BrokerReader
from mqadmin.admin.failure import describe
from mqadmin.admin.result import Listing, TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target
from mqadmin.system_topics.delay_levels import (
    DELAY_LEVELS,
    DelayedRow,
    DelayFilter,
    DelayLevelRow,
    check_level,
    delayed_row,
    level_row,
    parse_levels,
)

DEFAULT_LIMIT: Final = 1_000
_State = tuple[list[int], dict[int, int]]
_UNKNOWN_LEVEL_MS: Final = 1_000
"""Delay of a level that messageDelayLevel does not define, as brokers compute it."""


class DelayAdmin:
    """Queries about delay levels."""

    def __init__(self, admin: AdminSession, clock: Clock | None = None) -> None:
        self._admin = admin
        self._clock = clock or SystemClock()

    def levels(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> Listing[DelayLevelRow]:
        """Return one row per broker and level."""
        items: list[DelayLevelRow] = []
        errors: list[TargetError] = []
        for target in self._admin.topology.readers(cluster=cluster, broker=broker):
            try:
                items += self._levels(target)
            except RocketMQError as error:
                errors.append(describe(error, address=target.address, target=target.label))
        return Listing(items=items, errors=errors)

    def pending(
        self,
        wanted: DelayFilter,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        limit: int = DEFAULT_LIMIT,
    ) -> Listing[DelayedRow]:
        """Return the messages that wait, by time of delivery; of each broker at most ``limit``.

        ConfigError for a level that no broker has, ClientError for a topic without a route.
        """
        items: list[DelayedRow] = []
        errors: list[TargetError] = []
        known: set[int] = set()
        truncated = False
        for target in self._admin.topology.readers(cluster=cluster, broker=broker):
            count = 0
            try:
                state = self._state(target)
                known.update(_numbers(state))
                for row in self._pending(target, wanted, state):
                    if count >= limit:
                        truncated = True
                        break
                    count += 1
                    items.append(row)
            except RocketMQError as error:
                errors.append(describe(error, address=target.address, target=target.label))
        if not items and not errors:
            check_level(wanted.level, known)
            if wanted.topic is not None:
                self._admin.routes.get(wanted.topic)
        items.sort(key=lambda row: row.due_timestamp)
        truncated = truncated or len(items) > limit
        return Listing(items=items[:limit], errors=errors, truncated=truncated)

    def _levels(self, target: Target) -> list[DelayLevelRow]:
        now_ms = self._clock.now_ms()
        delays, offsets = state = self._state(target)
        reader = BrokerReader(self._admin, target)
        numbers = _numbers(state)
        queues = [reader.queue(SCHEDULE_TOPIC, level - 1) for level in numbers]
        rows = []
        # A broker that never delayed a message does not have the topic.
        for level, queue, end in zip(numbers, queues, reader.ends(queues), strict=True):
            delay_ms = delays[level - 1] if level <= len(delays) else None
            offset = min(offsets.get(level, 0), end)
            due_ms = None
            if offset < end:
                for message in reader.pull(queue, offset, max_messages=1).messages:
                    offset = message.queue_offset
                    due_ms = message.store_timestamp + (delay_ms or _UNKNOWN_LEVEL_MS)
            name = target.broker_name
            rows.append(level_row(name, level, delay_ms, (offset, end), due_ms, now_ms))
        return rows

    def _pending(self, target: Target, wanted: DelayFilter, state: _State) -> Iterator[DelayedRow]:
        now_ms = self._clock.now_ms()
        delays, offsets = state
        reader = BrokerReader(self._admin, target)

        def rows(level: int) -> Iterator[DelayedRow]:
            delay_ms = delays[level - 1] if level <= len(delays) else _UNKNOWN_LEVEL_MS
            queue = reader.queue(SCHEDULE_TOPIC, level - 1)
            for message in reader.messages(queue, offsets.get(level, 0)):
                due_ms = message.store_timestamp + delay_ms
                yield delayed_row(message, target.broker_name, due_ms, now_ms)

        numbers = [level for level in _numbers(state) if wanted.level in (None, level)]
        merged = heapq.merge(*map(rows, numbers), key=lambda row: row.due_timestamp)
        yield from (row for row in merged if wanted.accepts(row))

    def _state(self, target: Target) -> _State:
        """Return the delays of the levels in ms, and the delivered offset by level."""
        settings = self._admin.call(target.address, RequestCode.GET_BROKER_CONFIG).properties
        text = settings.get("messageDelayLevel") or DELAY_LEVELS
        reply = self._admin.call(target.address, RequestCode.GET_ALL_DELAY_OFFSET)
        return parse_levels(text), dict(reply.value.offset_table)


def _numbers(state: _State) -> list[int]:
    """Return the levels that messageDelayLevel defines, and further ones with an offset."""
    delays, offsets = state
    return sorted({*range(1, len(delays) + 1), *offsets})
