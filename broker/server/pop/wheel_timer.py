"""WheelTimer: the timer messages of the store as the timer of pop consumption.

An acknowledgement that was accepted in time must be read before its check point is decided, so the
timer's progress counts only once the delivered records are visible in the revive topic. A reading
is confirmed in two steps: everything that was in the log at that moment is dispatched and in the
wheel; then everything that the wheel delivered meanwhile is dispatched. The first step is needed
because an acknowledgement may be in the log, not dispatched and due already: after a kill, or while
the dispatch is slow. A confirmed reading stays valid: a message stored later is due later.
"""

from typing import Protocol

from broker.store.message_store import MessageStore
from broker.store.results import MessageExtBrokerInner, PutMessageResult


class TimerMessages(Protocol):
    """The part of ``TimerMessageStore`` that this adapter uses."""

    def intercept(
        self, inner: MessageExtBrokerInner, properties: dict[str, str]
    ) -> PutMessageResult | None:
        """Redirect a message with a delivery time to the timer topic; return a refusal or None."""
        ...

    @property
    def read_time_ms(self) -> int:
        """Start of the first slot that is not finished: everything due until then is delivered."""
        ...

    @property
    def offset_behind(self) -> int:
        """Messages of the timer topic that are not in the wheel yet."""
        ...


class WheelTimer:
    """Implements ``PopTimer`` on the timer messages of one store, once these are attached."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._timers: TimerMessages | None = None
        self._confirmed_ms = 0
        self._reading: tuple[int, int] | None = None  # time, end of the log
        self._delivered_end: int | None = None  # end of the log after the first step

    def attach(self, timers: TimerMessages) -> None:
        """Use the timer messages of the store from now on; they are loaded."""
        self._timers = timers

    @property
    def available(self) -> bool:
        """Whether messages can be delivered later: not with timerWheelEnable=false."""
        return self._timers is not None

    def defer(self, inner: MessageExtBrokerInner, properties: dict[str, str]) -> str | None:
        """Redirect a message that is due later; return the reason if it is refused."""
        if self._timers is None:
            return "timerWheelEnable is false"
        refusal = self._timers.intercept(inner, properties)
        return None if refusal is None else refusal.remark or refusal.status.name

    def delivered_until_ms(self) -> int:
        """Return the time up to which everything due is visible in its topic, epoch ms."""
        store, timers = self._store, self._timers
        if timers is None:
            return self._confirmed_ms
        dispatched = store.max_physical_offset - store.dispatch_behind_bytes
        if self._reading is None:
            self._reading = (timers.read_time_ms, store.max_physical_offset)
        time_ms, end = self._reading
        if self._delivered_end is None and end <= dispatched and timers.offset_behind == 0:
            self._delivered_end = store.max_physical_offset
        if self._delivered_end is not None and self._delivered_end <= dispatched:
            self._confirmed_ms = max(self._confirmed_ms, time_ms)
            self._reading = self._delivered_end = None
        return self._confirmed_ms
