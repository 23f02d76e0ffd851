"""PopOffsets: where the next pop of a queue starts, and how its offset advances.

The start is the committed offset, or the offset after the last buffered pop, whichever is later; a
pending reset comes before both and discards the pops that wait to be committed. A group without an
offset starts at the first message, or, with init mode 1, at the last one.

**Source:** RocketMQ PopMessageProcessor#getPopOffset, #getInitOffset, #resetPopOffset.
"""

import os
from typing import Final

from broker.common.topic import is_retry_topic
from broker.server.pop.buffer import PopBufferMerge
from broker.server.pop.in_flight import InFlightCounter
from broker.server.pop.order_info import OrderInfoTable, QueueKey
from broker.server.pop.parts import PopParts

INIT_MIN: Final = 0
INIT_MAX: Final = 1


class PopOffsets:
    """Start offsets of pops; applies pending resets."""

    def __init__(
        self,
        parts: PopParts,
        buffer: PopBufferMerge,
        orders: OrderInfoTable,
        in_flight: InFlightCounter,
    ) -> None:
        self._parts = parts
        self._buffer = buffer
        self._orders = orders
        self._in_flight = in_flight
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        ratio = parts.store.config.access_message_in_memory_max_ratio
        self._memory_bytes = memory * ratio // 100

    def next_offset(self, key: QueueKey, init_mode: int) -> int:
        """Return the offset of the next pop; apply a pending reset, commit an initial offset."""
        topic, group, queue_id = key
        offsets = self._parts.offsets
        reset = offsets.take_reset(group, topic, queue_id)
        if reset is not None:
            self._orders.clear(topic, group, queue_id)
            self._buffer.clear_line(key)
            self._in_flight.clear(topic, group, queue_id)
            offsets.commit(group, topic, queue_id, reset)
            return reset
        offset = offsets.query(group, topic, queue_id)
        if offset < 0:
            offset = self._initial(key, init_mode)
        return max(offset, self._buffer.latest_offset(key))

    def peek_offset(self, key: QueueKey) -> int:
        """Return the offset of the next pop without changing anything; the minimum at first.

        **Source:** RocketMQ NotificationProcessor#getPopOffset.
        """
        topic, group, queue_id = key
        offset = self._parts.offsets.query(group, topic, queue_id)
        if offset < 0:
            offset = max(0, self._parts.store.get_min_offset(topic, queue_id))
        return max(offset, self._buffer.latest_offset(key))

    def rest(self, key: QueueKey, offset: int) -> int:
        """Return the number of messages from ``offset`` to the end of the queue."""
        return self._parts.store.get_max_offset(key[0], key[2]) - offset

    def _initial(self, key: QueueKey, init_mode: int) -> int:
        topic, group, queue_id = key
        store = self._parts.store
        if init_mode != INIT_MAX or is_retry_topic(topic):
            return max(0, store.get_min_offset(topic, queue_id))
        offset = max(0, store.get_max_offset(topic, queue_id) - 1)
        if self._parts.config().init_pop_offset_by_check_msg_in_mem and self._all_in_memory(key):
            offset = 0
        self._parts.offsets.commit(group, topic, queue_id, offset)
        return offset

    def _all_in_memory(self, key: QueueKey) -> bool:
        """Return whether the queue is complete and its first message is probably in memory."""
        store = self._parts.store
        if store.get_min_offset(key[0], key[2]) > 0:
            return False
        first = store.consume_queue_units(key[0], key[2], 0, 1)
        if not first:
            return False
        return store.max_physical_offset - first[0].physical_offset <= self._memory_bytes
