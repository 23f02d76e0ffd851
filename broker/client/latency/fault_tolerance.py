"""LatencyFaultTolerance: one item per broker that was slow or failed.

Two rules. Up to 5.1.3 a new result always overwrites the pause; from 5.1.4 a pause is never
shortened, and an item also records whether the broker is reachable.

**Source:** RocketMQ ``LatencyFaultToleranceImpl``.
"""

import random

import msgspec

from broker.client.config import FaultRule
from broker.common.clock import Clock


class FaultItem(msgspec.Struct, kw_only=True):
    """One broker: last latency in ms, available again at ``start_ms`` (monotonic), reachable."""

    name: str
    current_latency_ms: float
    start_ms: float
    reachable: bool = True
    check_at_ms: float = 0.0

    def is_available(self, now_ms: float) -> bool:
        """Whether the pause is over."""
        return now_ms >= self.start_ms


class LatencyFaultTolerance:
    """The fault table of one producer.

    >>> from broker.common.clock import ManualClock
    >>> clock = ManualClock()
    >>> faults = LatencyFaultTolerance(clock)
    >>> faults.update("broker-a", latency_ms=600, pause_ms=2_000)
    >>> faults.is_available("broker-a")
    False
    >>> clock.advance(2_000)
    >>> faults.is_available("broker-a")
    True
    """

    def __init__(self, clock: Clock, rule: FaultRule = FaultRule.V5) -> None:
        self._clock = clock
        self._rule = rule
        self._items: dict[str, FaultItem] = {}
        self._which_worst = random.randrange(1 << 31)

    def update(
        self, name: str, *, latency_ms: float, pause_ms: float, reachable: bool = True
    ) -> None:
        """Record one attempt; the broker is avoided for ``pause_ms`` from now."""
        now_ms = self._clock.monotonic_ms()
        item = self._items.get(name)
        if item is None:
            item = self._items[name] = FaultItem(
                name=name, current_latency_ms=latency_ms, start_ms=now_ms + pause_ms
            )
        item.current_latency_ms = latency_ms
        until_ms = now_ms + pause_ms
        if self._rule is FaultRule.V4:
            item.start_ms = until_ms
            return
        item.start_ms = max(item.start_ms, until_ms)
        item.reachable = reachable
        item.check_at_ms = now_ms

    def is_available(self, name: str) -> bool:
        """Whether the broker has no item or its pause is over."""
        item = self._items.get(name)
        return item is None or item.is_available(self._clock.monotonic_ms())

    def is_reachable(self, name: str) -> bool:
        """Whether the broker has no item or its last attempt reached it (always, before 5.1.4)."""
        item = self._items.get(name)
        return item is None or item.reachable

    def set_reachable(self, name: str, reachable: bool) -> None:
        """Record the result of a probe."""
        item = self._items.get(name)
        if item is not None:
            item.reachable = reachable

    def due_for_probe(self, interval_ms: float) -> list[str]:
        """Return brokers whose last probe or attempt is ``interval_ms`` ago and mark them probed.

        **Source:** RocketMQ ``LatencyFaultToleranceImpl#detectByOneRound``.
        """
        now_ms = self._clock.monotonic_ms()
        due = [item for item in self._items.values() if now_ms - item.check_at_ms >= interval_ms]
        for item in due:
            item.check_at_ms = now_ms
        return [item.name for item in due]

    def remove(self, name: str) -> None:
        """Drop the item of a broker."""
        self._items.pop(name, None)

    def pick_one_at_least(self) -> str | None:
        """Return one of the better half of the brokers with an item; None without items.

        Order: available first, then lower latency, then earlier end of the pause. With 5.x rules
        any reachable broker.
        """
        now_ms = self._clock.monotonic_ms()
        if self._rule is FaultRule.V5:
            reachable = [item.name for item in self._items.values() if item.reachable]
            return random.choice(reachable) if reachable else None
        items = sorted(
            self._items.values(),
            key=lambda item: (
                not item.is_available(now_ms),
                item.current_latency_ms,
                item.start_ms,
            ),
        )
        if not items:
            return None
        self._which_worst += 1
        half = len(items) // 2
        return items[self._which_worst % half if half else 0].name

    def items(self) -> list[FaultItem]:
        """Return copies of all items, by broker name, for display."""
        return [msgspec.structs.replace(self._items[name]) for name in sorted(self._items)]

    def __str__(self) -> str:
        now_ms = self._clock.monotonic_ms()
        lines = ["broker latency_ms avoided_ms reachable"]
        lines += [
            f"{item.name} {item.current_latency_ms:.0f} {max(0.0, item.start_ms - now_ms):.0f} "
            f"{'yes' if item.reachable else 'no'}"
            for item in self.items()
        ]
        return "\n".join(lines)
