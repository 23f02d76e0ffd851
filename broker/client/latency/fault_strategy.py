"""MQFaultStrategy: the queue of the next attempt, and the pause after an attempt.

===========  ==========================================  ======================================
             4.9.8                                       5.3.3
===========  ==========================================  ======================================
select       first queue whose broker is available,      available and not the last broker, else
             else one of the better half of the faulty   reachable and not the last broker, else
             ones, else plain                            plain
after error  every error isolates                        client errors do not isolate; a broker's
                                                         error response marks it unreachable
isolation    30 000 ms count as latency: 600 s           10 000 ms: 10 s
===========  ==========================================  ======================================

**Source:** RocketMQ ``MQFaultStrategy``, ``DefaultMQProducerImpl#sendDefaultImpl``.
"""

from bisect import bisect_right
from collections.abc import Callable
from enum import Enum
from functools import partial

from broker.client.config import FaultRule
from broker.client.latency.fault_tolerance import LatencyFaultTolerance
from broker.client.publish.publish_info import TopicPublishInfo
from broker.common.clock import Clock
from broker.common.message_queue import MessageQueue
from broker.errors import BrokerError, ClientError, RemotingError

LATENCY_MAX_MS = {
    FaultRule.V4: (50, 100, 550, 1_000, 2_000, 3_000, 15_000),
    FaultRule.V5: (50, 100, 550, 1_800, 3_000, 5_000, 15_000),
}
NOT_AVAILABLE_MS = {
    FaultRule.V4: (0, 0, 30_000, 60_000, 120_000, 180_000, 600_000),
    FaultRule.V5: (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000),
}
ISOLATION_LATENCY_MS = {FaultRule.V4: 30_000, FaultRule.V5: 10_000}


class Outcome(Enum):
    """How an attempt ended, as far as the fault table distinguishes."""

    SUCCESS = "success"
    CLIENT_ERROR = "client error"
    REMOTING_ERROR = "remoting error"
    BROKER_ERROR = "broker error"
    INTERRUPTED = "interrupted"


def outcome_of(error: BaseException) -> Outcome:
    """Classify the error of an attempt."""
    if isinstance(error, RemotingError):
        return Outcome.REMOTING_ERROR
    if isinstance(error, BrokerError):
        return Outcome.BROKER_ERROR
    if isinstance(error, ClientError):
        return Outcome.CLIENT_ERROR
    return Outcome.INTERRUPTED


class MQFaultStrategy:
    """Selects queues and updates the fault table; with ``enabled`` False only the plain rules."""

    def __init__(
        self,
        clock: Clock,
        *,
        enabled: bool = False,
        rule: FaultRule = FaultRule.V5,
        detector: bool = False,
    ) -> None:
        self.enabled = enabled
        self.rule = rule
        self.detector = detector
        self.faults = LatencyFaultTolerance(clock, rule)

    def select(
        self, info: TopicPublishInfo, last_broker: str | None, *, retry: bool = False
    ) -> MessageQueue:
        """Return the queue for the next attempt; ``last_broker`` is the broker that just failed."""
        if not self.enabled:
            return info.select_skipping(last_broker)
        if self.rule is FaultRule.V4:
            return self._select_v4(info)
        if retry:
            info.reset_index()
        faults = self.faults
        for passes in (faults.is_available, faults.is_reachable):
            queue = info.select_where(partial(_is_other, passes, last_broker))
            if queue is not None:
                return queue
        return info.select()

    def _select_v4(self, info: TopicPublishInfo) -> MessageQueue:
        queue = info.select_where(self.faults.is_available)
        if queue is not None:
            return queue
        name = self.faults.pick_one_at_least()
        if name is not None:
            queues = info.write_queue_nums(name)
            if queues > 0:
                return MessageQueue(info.topic, name, info.next_index() % queues)
            self.faults.remove(name)
        return info.select()

    def pause_ms(self, latency_ms: float) -> int:
        """Return how long a broker is avoided after an attempt of this latency."""
        place = bisect_right(LATENCY_MAX_MS[self.rule], latency_ms) - 1
        return NOT_AVAILABLE_MS[self.rule][place] if place >= 0 else 0

    def update(self, broker_name: str, latency_ms: float, outcome: Outcome) -> None:
        """Record the end of an attempt; nothing is kept while the strategy is disabled."""
        if not self.enabled:
            return
        isolated, reachable = self._verdict(outcome)
        counted_ms = ISOLATION_LATENCY_MS[self.rule] if isolated else latency_ms
        self.faults.update(
            broker_name,
            latency_ms=latency_ms,
            pause_ms=self.pause_ms(counted_ms),
            reachable=reachable,
        )

    def _verdict(self, outcome: Outcome) -> tuple[bool, bool]:
        """Return (isolated, reachable)."""
        if outcome in (Outcome.SUCCESS, Outcome.INTERRUPTED):
            return False, True
        if self.rule is FaultRule.V4:
            return True, True
        if outcome is Outcome.CLIENT_ERROR:
            return False, True
        if outcome is Outcome.REMOTING_ERROR:
            return True, not self.detector
        return True, False


def _is_other(passes: Callable[[str], bool], last_broker: str | None, name: str) -> bool:
    """Whether a broker passes and is not the one of the attempt before."""
    return name != last_broker and passes(name)
