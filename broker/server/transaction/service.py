"""TransactionalMessageService: ends transactions, writes op records, resumes discarded halves.

A commit appends the real message first and lists the half in an op record afterwards: after a
crash in between the half is open again, and its producer is asked.

**Source:** RocketMQ TransactionalMessageServiceImpl, EndTransactionProcessor.
"""

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.common.topic import TRANS_CHECK_MAX_TIME_TOPIC
from broker.message.message import MessageExt
from broker.message.properties import decode_properties, encode_properties
from broker.message.transaction import real_place
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.header.transaction import EndTransactionRequestHeader
from broker.server.timer.delay import delay_message
from broker.server.transaction.bridge import TransactionalMessageBridge
from broker.server.transaction.copies import CopyChains
from broker.server.transaction.end import COMMIT, NOT_FOUND, Refusal, check_end, committed
from broker.server.transaction.half import resume
from broker.server.transaction.metrics import TransactionMetrics
from broker.server.transaction.ops import OpBatch
from broker.store.results import MessageExtBrokerInner, PutMessageResult, PutMessageStatus

if TYPE_CHECKING:
    from broker.common.clock import Clock
    from broker.server.configuration.config import BrokerConfig
    from broker.server.schedule import ScheduleMessageService
    from broker.store.timer.timer_message_store import TimerMessageStore

log = logging.getLogger("broker.server")

MAX_PENDING_BYTES: Final = 1024 * 1024
"""Op bytes that may wait for a store that refuses writes; then rollbacks are refused too."""

_OK: Final = Refusal(ResponseCode.SUCCESS, "")
_STORED: Final = {
    PutMessageStatus.PUT_OK,
    PutMessageStatus.FLUSH_DISK_TIMEOUT,
    PutMessageStatus.FLUSH_SLAVE_TIMEOUT,
    PutMessageStatus.SLAVE_NOT_AVAILABLE,
}
_PUT_FAILURES: Final = {
    PutMessageStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
}


class Counts(NamedTuple):
    """Counts of transactions since the start."""

    committed: int = 0
    rolled_back: int = 0
    checked: int = 0
    discarded: int = 0


"""Redirects a message with a delivery time to the timer topic; returns a refusal or None."""


class TransactionalMessageService:
    """The transactions of one broker.

    ``on_op_due`` is called when a half waits for its op record, ``on_decided`` with the queue
    offset of each half that is decided.

    ``config`` returns the settings in force; ``delays`` and ``timers`` redirect a committed message
    that asks for a delay. ``on_committed(topic, stored bytes)`` is called for each committed
    message, ``on_ended(topic, commit)`` for each transaction that its producer has ended.
    """

    def __init__(
        self,
        bridge: TransactionalMessageBridge,
        clock: "Clock",
        config: "Callable[[], BrokerConfig]",
        delays: "Callable[[], ScheduleMessageService | None]",
        *,
        timers: "Callable[[], TimerMessageStore | None]" = lambda: None,
    ) -> None:
        self.bridge = bridge
        self.copies = CopyChains()
        self.counts = Counts()
        self.metrics = TransactionMetrics(bridge.store, clock)
        self.on_op_due: Callable[[], None] | None = None
        self.on_decided: Callable[[int], None] | None = None
        self.on_committed: Callable[[str, int], None] | None = None
        self.on_ended: Callable[[str, bool], None] | None = None
        self._committed_end = 0  # physical end of the last committed message
        self._clock = clock
        self._config = config
        self._delays = delays
        self._timers = timers
        settings = config()
        self._ops = OpBatch(
            settings.transaction_op_msg_max_size, settings.transaction_op_batch_interval
        )

    # ---- end of a transaction

    def end(self, header: EndTransactionRequestHeader) -> Refusal:
        """Commit or roll back a half message; return the response code and its remark.

        **Source:** RocketMQ EndTransactionProcessor#processRequest.
        """
        half = self.bridge.message_at(header.commit_log_offset)
        if half is None:
            return NOT_FOUND
        now_ms = self._clock.now_ms()
        refusal = check_end(half, header, now_ms, self._config().transaction_time_out)
        if refusal is not None:
            return refusal
        commit = header.commit_or_rollback == COMMIT
        if self._ops.size_bytes >= MAX_PENDING_BYTES:
            return Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, "op messages cannot be written")
        if commit and not self.copies.is_committed(half.queue_offset):
            refusal = self._commit(half)
            if refusal is not None:
                return refusal
        self.note_undecided(half, -1)
        for offset in self.copies.decided(half.queue_offset, commit=commit):
            self._ops.add(offset, self._clock.monotonic_ms(), self._committed_end)
            if self.on_decided is not None:
                self.on_decided(offset)
        self.counts = self.counts._replace(
            committed=self.counts.committed + commit,
            rolled_back=self.counts.rolled_back + (not commit),
        )
        place = real_place(half)
        if self.on_ended is not None and place is not None:
            self.on_ended(place[0], commit)
        self._flush_full_ops()
        return _OK

    def _commit(self, half: MessageExt) -> Refusal | None:
        """Store the message of a committed half; return why it was not stored."""
        inner = committed(half)
        refusal = self._delay(inner)
        if refusal is not None:
            return refusal
        result = self.bridge.put(inner)
        if result.status not in _STORED:
            return _refused(result)
        self._committed_end = result.physical_end
        if self.on_committed is not None:
            self.on_committed(inner.topic, result.store_size)
        return None

    def _delay(self, inner: MessageExtBrokerInner) -> Refusal | None:
        """Redirect a message with a delay level or delivery time; a delay counts from the commit.

        **Source:** RocketMQ HookUtils#handleScheduleMessage (transaction type COMMIT).
        """
        if b"DELAY\x01" not in inner.properties and b"TIMER_DEL" not in inner.properties:
            return None
        properties = decode_properties(inner.properties)
        refused = delay_message(self._delays(), self._timers(), inner, properties)
        if refused is not None:
            return _refused(refused)
        inner.properties = encode_properties(properties)
        return None

    def note_undecided(self, half: MessageExt, number: int) -> None:
        """Count a half message of its real topic that is stored (1), decided or discarded (-1)."""
        place = real_place(half)
        if place is not None:
            self.metrics.add(place[0], number)

    # ---- op records

    def pending_ops(self) -> Iterator[int]:
        """Yield the queue offsets of decided halves that no op record lists yet."""
        return self._ops.pending()

    def op_due_ms(self) -> float | None:
        """Return the monotonic time when the next op record is due, None if no half waits."""
        return self._ops.due_ms()

    def write_due_ops(self) -> bool:
        """Write the op records that are due and flushed; False if the store refused one."""
        due_ms = self._ops.due_ms()
        while due_ms is not None and due_ms <= self._clock.monotonic_ms():
            if self.unflushed_end():
                return True
            if not self._write_op():
                return False
            due_ms = self._ops.due_ms()
        return True

    def unflushed_end(self) -> int:
        """Return up to where the log must be flushed before an op record; 0 if it is already.

        Java writes op records without a flush: after a power cut it can lose a message whose half
        counts as committed.
        """
        first, last = self._ops.needs_flushed
        return last if first > self.bridge.store.flushed_where else 0

    def write_all_ops(self) -> bool:
        """Write all pending op records, as a stop does; False if the store refused one.

        If the log cannot be flushed, none: the next start checks the halves again.
        """
        if self.unflushed_end() and not self.bridge.store.flush():
            return False
        while self._ops.due_ms() is not None:
            if not self._write_op():
                return False
        return True

    def _flush_full_ops(self) -> None:
        """Write full op records at once; arm the timer for a batch that waits for its interval."""
        settings = self._config()
        self._ops.limit_bytes = settings.transaction_op_msg_max_size
        self._ops.interval_ms = settings.transaction_op_batch_interval
        self.write_due_ops()
        if self._ops.due_ms() is not None and self.on_op_due is not None:
            self.on_op_due()

    def _write_op(self) -> bool:
        body, count = self._ops.body(self.bridge.store.flushed_where)
        result = self.bridge.put_op(body)
        if result.status not in _STORED:
            log.error("op message of %d half messages not written: %s", count, result.remark)
            return False
        self._ops.written(count, self._clock.monotonic_ms())
        return True

    # ---- discarded halves

    def resume(self, physical_offset: int) -> Refusal:
        """Put a discarded half message back into the half queue, with its checks counted from 0.

        Java accepts any record; one that is not a discarded half message is refused here, because
        it names no real topic to commit to.

        **Source:** RocketMQ AdminBrokerProcessor#resumeCheckHalfMessage.
        """
        message = self.bridge.message_at(physical_offset)
        if message is None:
            return Refusal(ResponseCode.SYSTEM_ERROR, f"no message at offset {physical_offset}")
        if message.topic != TRANS_CHECK_MAX_TIME_TOPIC or real_place(message) is None:
            return Refusal(
                ResponseCode.SYSTEM_ERROR, f"no discarded half message at offset {physical_offset}"
            )
        result = self.bridge.put(resume(message))
        if result.status not in _STORED:
            return _refused(result)
        return _OK


def _refused(result: PutMessageResult) -> Refusal:
    code = _PUT_FAILURES.get(result.status, ResponseCode.SYSTEM_ERROR)
    return Refusal(code, result.remark or f"the store answered {result.status.name}")
