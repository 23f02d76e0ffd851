"""PopTimers: the event-loop timers of pop consumption.

One timer for the earliest deadline of waiting requests and blocked queues, one for the next work:
check points to write and to revive. A record that reaches the revive topic starts the work at once.

**Source:** RocketMQ PopLongPollingService, PopBufferMergeService, PopReviveService (their threads).
"""

import logging
from collections.abc import Container
from typing import Final

from broker.common.clock import Clock
from broker.server.longpolling.deadline_timer import DeadlineTimer
from broker.server.pop.service import PopService
from broker.store.message_store import MessageStore

log = logging.getLogger("broker.server")

RETRY_MS: Final = 1_000

# topic, queue id, queue offset after the message, tags code, store time, raw properties
Arrival = tuple[str, int, int, int, int, bytes]


class PopTimers:
    """Arms and serves the timers of one :class:`PopService`; requires a running event loop."""

    def __init__(self, pop: PopService, clock: Clock) -> None:
        self._pop = pop
        self._clock = clock
        self._deadlines = DeadlineTimer(clock, self._expire)
        self._work = DeadlineTimer(clock, self._run)
        self._started = False

    def start(self, store: MessageStore) -> None:
        """Listen to arrivals, and continue with the check points that are open already."""
        pop = self._pop
        self._started = True
        pop.on_schedule = self._schedule
        store.add_arriving_listener(self._arrived, WaitingTopics(pop))
        store.add_arriving_listener(self._revive_arrived, {pop.topic.name})
        self._run()

    def stop(self) -> None:
        """Answer the waiting requests and stop the timers."""
        self._started = False
        self._deadlines.cancel()
        self._work.cancel()
        self._pop.wake(self._pop.pops.take_all())
        self._pop.notify(self._pop.notifications.take_all())

    def _arrived(self, *arrival: *Arrival) -> None:
        topic, queue_id, _, tags_code, _, properties = arrival
        self._pop.arrived(topic, queue_id, tags_code, properties)

    def _revive_arrived(self, *arrival: *Arrival) -> None:
        if self._started:
            self._work.arm(self._clock.monotonic_ms())

    def _schedule(self) -> None:
        if not self._started:
            return
        deadline_ms = self._pop.next_deadline_ms()
        if deadline_ms is not None:
            self._deadlines.arm(deadline_ms)
        due_ms = self._pop.buffer.next_due_ms()
        if due_ms is not None:
            wait_ms = max(0, due_ms - self._clock.now_ms())
            self._work.arm(self._clock.monotonic_ms() + wait_ms)

    def _expire(self) -> None:
        self._pop.expire()
        self._schedule()

    def _run(self) -> None:
        if not self._started:
            return
        try:
            wait_ms = self._pop.run()
        except Exception:  # no error may end the work: this call arms the next one
            log.exception("pop: work failed, next attempt in %d ms", RETRY_MS)
            wait_ms = RETRY_MS
        if wait_ms is not None:
            self._work.arm(self._clock.monotonic_ms() + wait_ms)


class WaitingTopics(Container[str]):
    """The topics that waiting pops or notifications can be served from, as a live view."""

    def __init__(self, pop: PopService) -> None:
        self._pops, self._pop_retries = pop.pops.topics, pop.pops.retry_topics
        waiting = pop.notifications
        self._notifications, self._notification_retries = waiting.topics, waiting.retry_topics

    def __contains__(self, topic: object) -> bool:
        # Asked for every message that is dispatched: a loop over the views costs three times.
        return (
            topic in self._pops
            or topic in self._pop_retries
            or topic in self._notifications
            or topic in self._notification_retries
        )
