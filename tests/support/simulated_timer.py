"""The timer topic without wheel and timer log: enough of a timer for tests of pop consumption."""

import heapq

from broker.common.clock import Clock
from broker.common.topic import TIMER_TOPIC
from broker.message import message as props
from broker.message.properties import encode_properties
from broker.message.record import decode_record
from broker.store.message_store import MessageStore
from broker.store.results import MessageExtBrokerInner, PutMessageResult, PutMessageStatus

PRECISION_MS = 1_000
MAX_DELAY_MS = 3 * 24 * 3_600_000


class SimulatedTimer:
    """Keeps pending messages in a heap; ``run`` delivers the slots that are over.

    After a restart it reads the timer topic from ``queue_offset`` on, as the wheel does from its
    checkpoint; records that were delivered before are delivered again.
    """

    def __init__(self, store: MessageStore, clock: Clock, queue_offset: int = 0) -> None:
        self._store = store
        self._clock = clock
        self.queue_offset = queue_offset
        self._pending: list[tuple[int, int]] = []
        self.refusal = ""

    @property
    def offset_behind(self) -> int:
        return max(0, self._store.get_max_offset(TIMER_TOPIC, 0) - self.queue_offset)

    @property
    def read_time_ms(self) -> int:
        now_ms = self._clock.now_ms() // PRECISION_MS * PRECISION_MS
        return min(now_ms, self._pending[0][0]) if self._pending else now_ms

    def intercept(
        self, inner: MessageExtBrokerInner, properties: dict[str, str]
    ) -> PutMessageResult | None:
        deliver_ms = int(properties[props.PROPERTY_TIMER_DELIVER_MS])
        if self.refusal or deliver_ms - self._clock.now_ms() > MAX_DELAY_MS:
            status = PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL
            return PutMessageResult(status, remark=self.refusal or "too far ahead")
        if deliver_ms <= self._clock.now_ms():
            return None
        out_ms = (deliver_ms - 1) // PRECISION_MS * PRECISION_MS
        properties[props.PROPERTY_TIMER_OUT_MS] = str(out_ms)
        properties[props.PROPERTY_REAL_TOPIC] = inner.topic
        properties[props.PROPERTY_REAL_QUEUE_ID] = str(inner.queue_id)
        inner.topic, inner.queue_id, inner.tags_code = TIMER_TOPIC, 0, None
        return None

    def run(self) -> int:
        """Enqueue and deliver; return the number of messages delivered."""
        for unit in self._store.consume_queue_units(
            TIMER_TOPIC, 0, self.queue_offset, self.offset_behind
        ):
            record = self._store.get_record_at(unit.physical_offset, unit.size)
            assert record is not None
            out_ms = int(decode_record(record).properties[props.PROPERTY_TIMER_OUT_MS])
            heapq.heappush(self._pending, (out_ms, unit.physical_offset))
            self.queue_offset = unit.queue_offset + 1
        delivered = 0
        while self._pending and self._pending[0][0] + PRECISION_MS <= self._clock.now_ms():
            if not self._deliver(self._pending[0][1]):
                break
            heapq.heappop(self._pending)
            delivered += 1
        return delivered

    def _deliver(self, physical_offset: int) -> bool:
        record = self._store.get_record_at(physical_offset)
        assert record is not None
        message = decode_record(record)
        result = self._store.put_message(
            MessageExtBrokerInner(
                topic=message.properties[props.PROPERTY_REAL_TOPIC],
                queue_id=int(message.properties[props.PROPERTY_REAL_QUEUE_ID]),
                body=message.body,
                properties=encode_properties(message.properties),
                born_timestamp=message.born_timestamp,
                born_host=message.born_host_raw,
                store_host=message.store_host_raw,
            )
        )
        return result.status is PutMessageStatus.PUT_OK
