"""CheckRound: one check of the half queue, in small steps.

A round reads the half queue from its offset to its end. Halves that an op record lists are passed
over; the others are discarded, renewed or checked (``decision``). The round is an iterator of
small steps: its driver serves other work between slices of steps.

**Source:** RocketMQ TransactionalMessageServiceImpl#check.
"""

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from broker.common.topic import TRANS_CHECK_MAX_TIME_TOPIC
from broker.message import message as props
from broker.message.message import MessageExt
from broker.server.transaction.decision import (
    CheckRules,
    OpsRead,
    Verdict,
    decide,
    prepared_offset,
)
from broker.server.transaction.half import DISCARD_QUEUES, check_request, discard, renew
from broker.server.transaction.ops import RemovalSet, decode_op
from broker.store.results import MessageExtBrokerInner, PutMessageResult, PutMessageStatus

if TYPE_CHECKING:
    from broker.common.clock import Clock
    from broker.server.transaction.service import TransactionalMessageService

log = logging.getLogger("broker.server")

ROUND_MS: Final = 60_000  # longest round; the next one continues at its offset
SKIPPED_PER_STEP: Final = 4_096  # decided halves skipped in one step, below 1 ms
OPS_PER_COST: Final = 4
OP_BYTES_PER_COST: Final = 1_024
COSTS_PER_COMMIT: Final = 4_000  # progress is committed during a long round, too
MAX_LOGGED: Final = 100

_REFUSED_FOR_GOOD: Final = {
    PutMessageStatus.MESSAGE_ILLEGAL,
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
}

Ask = Callable[[str, dict[str, str], bytes], bool]
"""(producer group, header fields, body) → whether a producer was asked."""


class CheckRound:
    """One round; ``steps()`` yields the cost of each step."""

    def __init__(
        self,
        service: "TransactionalMessageService",
        clock: "Clock",
        rules: CheckRules,
        ask: Ask,
        ensure_topic: Callable[[str, int], object],
    ) -> None:
        self._service = service
        self._bridge = service.bridge
        self._clock = clock
        self._rules = rules
        self._ask = ask
        self._ensure_topic = ensure_topic
        self._started_ms = clock.now_ms()
        self._end = self._bridge.half_end()
        self._half_offset = self._bridge.half_offset()
        self._next_op = self._bridge.op_offset()
        self._removed = RemovalSet(self._half_offset, self._next_op)
        for offset in service.pending_ops():
            self.decided(offset)
        self._ops = OpsRead(False)
        self._window_full = False
        self.checked = self.asked = self.discarded = self.unreadable = 0

    def steps(self) -> Iterator[int]:
        """Do the round; yield the cost of each step. Progress is committed at the end."""
        deadline_ms = self._clock.monotonic_ms() + ROUND_MS
        uncommitted = 0
        yield self._read_ops()
        while self._half_offset < self._end and self._clock.monotonic_ms() <= deadline_ms:
            limit = min(self._half_offset + SKIPPED_PER_STEP, self._end)
            after = self._removed.after_removed(self._half_offset, limit)
            if after > self._half_offset:
                self._half_offset = after
                cost = 1
            else:
                cost = self._step()
            if not cost:
                break
            uncommitted += cost
            if uncommitted >= COSTS_PER_COMMIT:
                uncommitted = 0
                self._commit()
            yield cost
        self._commit()

    def decided(self, half_offset: int) -> None:
        """Pass over a half message that was decided, before its op record is written."""
        if half_offset < self._end:
            self._removed.mark(half_offset)

    def _commit(self) -> None:
        self._bridge.advance(self._half_offset, self._removed.done_up_to(self._half_offset))

    def _step(self) -> int:
        """Decide about one half message; return the cost, 0 at the end of the round."""
        half, next_offset = self._bridge.half_at(self._half_offset)
        if half is None:
            self._skip_unreadable(next_offset)
            return 1
        verdict = decide(half, self._ops, self._clock.now_ms(), self._started_ms, self._rules)
        if verdict is Verdict.STOP:
            return 0
        if verdict is Verdict.READ_OPS or (verdict is Verdict.CHECK and not self._caught_up):
            # Also before a check: a half may be decided by an op record that is not read yet.
            return 0 if self._window_full else self._read_ops()
        if verdict is Verdict.DISCARD:
            done = self._discard(half)
        elif verdict is Verdict.RENEW and self._first_copy_removed(half):
            done = True
        else:
            done = self._renew(half, ask=verdict is Verdict.CHECK)
        if not done:
            return 0
        self._half_offset = next_offset
        return 1

    def _first_copy_removed(self, half: MessageExt) -> bool:
        """Whether an op record lists the first copy of an immune half message."""
        offset = prepared_offset(half)
        return offset is not None and offset in self._removed

    @property
    def _caught_up(self) -> bool:
        """Whether the last read reached the end of the op queue."""
        return not self._ops.found or self._next_op >= self._bridge.op_end()

    def _skip_unreadable(self, next_offset: int) -> None:
        self.unreadable += 1
        if self.unreadable <= MAX_LOGGED:
            log.error(
                "half message at queue offset %d cannot be read: skipped to %d",
                self._half_offset,
                next_offset,
            )
        self._half_offset = min(next_offset, self._end)

    def _read_ops(self) -> int:
        """Read further op records; return the cost."""
        found = self._bridge.ops_from(self._next_op)
        cost = 1 + len(found.records) // OPS_PER_COST
        last_born_ms = 0
        for op_offset, message in found.records:
            listed = decode_op(message) if message is not None else []
            if not self._removed.add(op_offset, listed, self._end):
                self._window_full = True
                return cost
            self._next_op = op_offset + 1
            if message is not None:
                cost += len(message.body) // OP_BYTES_PER_COST
                last_born_ms = message.born_timestamp
        if not found.records and found.next_offset > self._next_op:
            self._removed.skip(found.next_offset)  # deleted with their files
        self._next_op = found.next_offset
        self._ops = OpsRead(bool(found.records), last_born_ms)
        return cost

    # ---- effect of a verdict

    def _discard(self, half: MessageExt) -> bool:
        """Move a half message to TRANS_CHECK_MAX_TIME_TOPIC; False if that must be retried."""
        self._ensure_topic(TRANS_CHECK_MAX_TIME_TOPIC, DISCARD_QUEUES)
        if not self._put(discard(half)):
            return False
        self.discarded += 1
        self._service.note_undecided(half, -1)
        if self.discarded <= MAX_LOGGED:
            log.warning(
                "half message %s of group %s: checked %s times without an answer: moved to %s",
                half.uniq_key,
                half.get_property(props.PROPERTY_PRODUCER_GROUP),
                half.get_property(props.PROPERTY_TRANSACTION_CHECK_TIMES) or "0",
                TRANS_CHECK_MAX_TIME_TOPIC,
            )
        counts = self._service.counts
        self._service.counts = counts._replace(discarded=counts.discarded + 1)
        return True

    def _renew(self, half: MessageExt, *, ask: bool) -> bool:
        """Append the newer copy and ask a producer; False if the append must be retried."""
        inner = renew(half, immune=not ask)
        result = self._bridge.put(inner)
        if result.status in _REFUSED_FOR_GOOD:
            # The check count does not fit: the message is kept where it can be looked at.
            return self._discard(half)
        if result.status is not PutMessageStatus.PUT_OK:
            return False
        self._service.copies.copied(half.queue_offset, result.queue_offset)
        if ask:
            self.checked += 1
            counts = self._service.counts
            self._service.counts = counts._replace(checked=counts.checked + 1)
            self._send(half, inner, result)
        return True

    def _send(
        self, half: MessageExt, inner: MessageExtBrokerInner, result: PutMessageResult
    ) -> None:
        half.properties_raw = inner.properties
        group = half.get_property(props.PROPERTY_PRODUCER_GROUP)
        request = check_request(
            half, result.queue_offset, result.physical_offset, result.store_timestamp
        )
        if group and request is not None and self._ask(group, *request):
            self.asked += 1

    def _put(self, inner: MessageExtBrokerInner) -> bool:
        return self._bridge.put(inner).status is PutMessageStatus.PUT_OK
