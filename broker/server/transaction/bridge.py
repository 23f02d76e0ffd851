"""TransactionalMessageBridge: half and op queue in the store, and their offsets.

**Source:** RocketMQ TransactionalMessageBridge.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.common.group import SYS_TRANS_GROUP
from broker.common.topic import TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from broker.errors import RemoteProtocolError
from broker.message import message as props
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import decode_record, peek_record
from broker.message.transaction import REMOVE_TAG
from broker.server.transaction.half import HALF_QUEUE
from broker.store.results import GetMessageStatus, MessageExtBrokerInner, PutMessageResult

if TYPE_CHECKING:
    from broker.common.clock import Clock
    from broker.server.tables.consumer_offset import ConsumerOffsetManager
    from broker.store.message_store import MessageStore

OPS_PER_READ: Final = 32
OP_BYTES_PER_READ: Final = 24 * 1024  # about 4,000 listed halves, 3 ms

_OP_PROPERTIES: Final = encode_properties(
    {props.PROPERTY_WAIT_STORE_MSG_OK: "true", props.PROPERTY_TAGS: REMOVE_TAG}
)


class HalfRead(NamedTuple):
    """One read of the half queue: the record, None if it cannot be read, and the next offset."""

    message: MessageExt | None
    next_offset: int


class OpsFound(NamedTuple):
    """One read of the op queue: (queue offset, record or None if corrupt), and the next offset."""

    records: list[tuple[int, MessageExt | None]]
    next_offset: int


class TransactionalMessageBridge:
    """Reads and writes of one broker's transactions; no decisions.

    ``store_host`` returns the broker's address in binary, the host of op records.
    """

    def __init__(
        self,
        store: "MessageStore",
        offsets: "ConsumerOffsetManager",
        clock: "Clock",
        store_host: Callable[[], bytes],
    ) -> None:
        self.store = store
        self._offsets = offsets
        self._clock = clock
        self._store_host = store_host

    # ---- positions

    def half_offset(self) -> int:
        """Return the offset of the half queue: halves before it are decided."""
        return self._progress(TRANS_HALF_TOPIC)

    def op_offset(self) -> int:
        """Return the offset of the op queue: records before it list decided halves only."""
        return self._progress(TRANS_OP_HALF_TOPIC)

    def half_end(self) -> int:
        """Return the end of the half queue."""
        return self.store.get_max_offset(TRANS_HALF_TOPIC, HALF_QUEUE)

    def op_end(self) -> int:
        """Return the end of the op queue."""
        return self.store.get_max_offset(TRANS_OP_HALF_TOPIC, HALF_QUEUE)

    def advance(self, half_offset: int, op_offset: int) -> None:
        """Commit the offsets of both queues.

        A queue without progress gets no offset, as in Java: tools list the group of a queue that
        has one.
        """
        for topic, offset in ((TRANS_HALF_TOPIC, half_offset), (TRANS_OP_HALF_TOPIC, op_offset)):
            committed = self._offsets.query(SYS_TRANS_GROUP, topic, HALF_QUEUE)
            if committed < 0 and offset == self._progress(topic):
                continue
            if committed != offset:
                self._offsets.commit(SYS_TRANS_GROUP, topic, HALF_QUEUE, offset)

    def _progress(self, topic: str) -> int:
        """Return a committed offset within the bounds of its queue.

        One past the end is possible where a broker persisted it before the records were flushed:
        the remaining halves were decided, and later ones start at the end.
        """
        low = max(0, self.store.get_min_offset(topic, HALF_QUEUE))
        high = self.store.get_max_offset(topic, HALF_QUEUE)
        offset = self._offsets.query(SYS_TRANS_GROUP, topic, HALF_QUEUE)
        return min(max(offset, low), high)

    # ---- reads

    def half_at(self, queue_offset: int) -> HalfRead:
        """Return the half message at a queue offset."""
        found = self.store.get_message(TRANS_HALF_TOPIC, HALF_QUEUE, queue_offset, 1)
        if found.status is not GetMessageStatus.FOUND:
            return HalfRead(None, max(found.next_begin_offset, queue_offset + 1))
        message = _decoded(found.buffers[0])
        if message is None or message.queue_offset != queue_offset:
            # A filler unit of recovery points to the record of a later unit.
            return HalfRead(None, queue_offset + 1)
        return HalfRead(message, queue_offset + 1)

    def message_at(self, physical_offset: int) -> MessageExt | None:
        """Return the intact record at a physical offset, None if there is none."""
        record = self.store.get_record_at(physical_offset)
        message = _decoded(record) if record is not None else None
        return message if message is None or message.physical_offset == physical_offset else None

    def ops_from(self, queue_offset: int) -> OpsFound:
        """Return up to 32 op records from a queue offset on; empty at the end of the queue."""
        found = self.store.get_message(
            TRANS_OP_HALF_TOPIC, HALF_QUEUE, queue_offset, OPS_PER_READ, OP_BYTES_PER_READ
        )
        if found.status is not GetMessageStatus.FOUND:
            return OpsFound([], max(found.next_begin_offset, queue_offset))
        records = list(_numbered(found.buffers, queue_offset))
        return OpsFound(records, found.next_begin_offset)

    # ---- writes

    def put(self, inner: MessageExtBrokerInner) -> PutMessageResult:
        """Append one message."""
        return self.store.put_message(inner)

    def put_op(self, body: bytes) -> PutMessageResult:
        """Append one op record."""
        host = self._store_host()
        return self.store.put_message(
            MessageExtBrokerInner(
                topic=TRANS_OP_HALF_TOPIC,
                queue_id=HALF_QUEUE,
                body=body,
                properties=_OP_PROPERTIES,
                born_timestamp=self._clock.now_ms(),
                born_host=host,
                store_host=host,
            )
        )


def _decoded(record: memoryview) -> MessageExt | None:
    try:
        return decode_record(record, check_crc=True)
    except RemoteProtocolError:
        return None


def _numbered(
    buffers: list[memoryview], queue_offset: int
) -> Iterator[tuple[int, MessageExt | None]]:
    """Yield the records of a read with their queue offsets; None for a corrupt one."""
    for buffer in buffers:
        position = 0
        while position < len(buffer):
            head = peek_record(buffer, position)
            if head is None:
                return
            yield head.queue_offset, _decoded(buffer[position : position + head.total_size])
            position += head.total_size
