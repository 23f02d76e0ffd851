"""TransactionalMessageCheckService: when op records are written and check rounds run.

Both are timers on the event loop. A round runs in slices with pauses between them, so that a
backlog of any length never holds the loop for more than one slice.

**Source:** RocketMQ TransactionalMessageCheckService, TransactionalOpBatchService,
AbstractTransactionalMessageCheckListener.
"""

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from broker.server.longpolling.deadline_timer import DeadlineTimer
from broker.server.transaction.check_round import CheckRound
from broker.server.transaction.decision import CheckRules
from broker.store.results import PutMessageStatus

if TYPE_CHECKING:
    from broker.common.clock import Clock
    from broker.server.client.clients import ProducerManager
    from broker.server.configuration.config import BrokerConfig
    from broker.server.tables.topic_config import TopicConfigManager
    from broker.server.transaction.service import TransactionalMessageService

log = logging.getLogger("broker.server")

SLICE_COST: Final = 32  # about 3 ms: a checked half costs 1, about 80 µs
PAUSE_MS: Final = 5  # between two slices: the loop is free for half of the time
RETRY_OPS_MS: Final = 1_000
HOUR_MS: Final = 3_600_000


class TransactionalMessageCheckService:
    """Timers of one broker's transactions; ``start`` needs a running event loop."""

    def __init__(
        self,
        service: "TransactionalMessageService",
        clock: "Clock",
        config: "Callable[[], BrokerConfig]",
        producers: "ProducerManager",
        topics: "TopicConfigManager",
    ) -> None:
        self._service = service
        self._clock = clock
        self._config = config
        self._producers = producers
        self._topics = topics
        self._round_timer = DeadlineTimer(clock, self._start_round)
        self.slice_timer = DeadlineTimer(clock, self._run_slice)
        self._op_timer = DeadlineTimer(clock, self._write_ops)
        self._round: CheckRound | None = None
        self._steps: Iterator[int] = iter(())
        self._running = False
        self._flushing = False

    def load(self) -> None:
        """Read the counts of undecided half messages."""
        self._service.metrics.load()

    def snapshot_metrics(self) -> Callable[[], None] | None:
        """Return the job that writes these counts, None if they have not changed."""
        return self._service.metrics.snapshot()

    def save_metrics(self) -> None:
        """Write these counts now if they have changed; StoreError or OSError if that fails."""
        job = self._service.metrics.snapshot()
        if job is not None:
            job()

    def start(self) -> None:
        """Start the timers; the first round runs after one transactionCheckInterval, as in Java."""
        self._running = True
        self._service.on_op_due = self._arm_ops
        self._arm_round()
        self._arm_ops()

    def stop(self) -> None:
        """End the timers and write the pending op records; a running round keeps its progress."""
        self._running = False
        for timer in (self._round_timer, self.slice_timer, self._op_timer):
            timer.cancel()
        self._end_round()
        self._service.on_op_due = None
        self._service.write_all_ops()

    # ---- op records

    def _arm_ops(self) -> None:
        due_ms = self._service.op_due_ms()
        if due_ms is not None and self._running and not self._flushing:
            self._op_timer.arm(due_ms)

    def _write_ops(self) -> None:
        if not self._service.write_due_ops():
            self._retry_ops()
            return
        due_ms, end = self._service.op_due_ms(), self._service.unflushed_end()
        if due_ms is None or due_ms > self._clock.monotonic_ms() or not end:
            self._arm_ops()
        elif not self._flushing:
            self._flushing = True
            self._service.bridge.store.await_flush(end, self._commits_flushed)

    def _commits_flushed(self, status: PutMessageStatus) -> None:
        self._flushing = False
        if not self._running:
            return
        if status is PutMessageStatus.PUT_OK:
            self._op_timer.arm(self._clock.monotonic_ms())
        else:
            self._retry_ops()

    def _retry_ops(self) -> None:
        if self._running:
            self._op_timer.arm(self._clock.monotonic_ms() + RETRY_OPS_MS)

    # ---- rounds

    def rules(self) -> CheckRules:
        """Return the rules in force."""
        config = self._config()
        reserved_h = self._service.bridge.store.config.file_reserved_time
        return CheckRules(
            config.transaction_time_out, config.transaction_check_max, reserved_h * HOUR_MS
        )

    def new_round(self) -> CheckRound:
        """Return a round that starts now."""
        return CheckRound(self._service, self._clock, self.rules(), self._ask, self._topics.ensure)

    def _arm_round(self) -> None:
        if self._running:
            interval_ms = self._config().transaction_check_interval
            self._round_timer.arm(self._clock.monotonic_ms() + interval_ms)

    def _start_round(self) -> None:
        self._round = self.new_round()
        self._service.on_decided = self._round.decided
        self._steps = self._round.steps()
        self._run_slice()

    def _run_slice(self) -> None:
        left = SLICE_COST
        try:
            for cost in self._steps:
                left -= cost
                if left <= 0:
                    self.slice_timer.arm(self._clock.monotonic_ms() + PAUSE_MS)
                    return
        except Exception:  # no error may end the checks: the next round starts at the last progress
            log.exception("transaction check failed, next round in one interval")
        self._end_round()
        self._arm_round()

    def _end_round(self) -> None:
        ended, self._round = self._round, None
        self._steps = iter(())
        self._service.on_decided = None
        if ended is not None and (ended.checked or ended.discarded or ended.unreadable):
            log.info(
                "transaction check: %d checked, %d producers asked, %d discarded, %d unreadable",
                ended.checked,
                ended.asked,
                ended.discarded,
                ended.unreadable,
            )

    # ---- requests to producers

    def _ask(self, group: str, fields: dict[str, str], body: bytes) -> bool:
        """Send CHECK_TRANSACTION_STATE to a live producer of the group; False if none is online.

        **Source:** RocketMQ Broker2Client#checkProducerTransactionState.
        """
        channel = self._producers.available_channel(group)
        if channel is None:
            return False
        fields["bname"] = self._config().broker_name
        return channel.connection.oneway(request(RequestCode.CHECK_TRANSACTION_STATE, fields, body))
