"""HandleTable: the receipt handles that a simple consumer must not use any more.

A broker answers SUCCESS to an acknowledgement or change of a delivery that has ended: it writes it
to its revive topic and does not look for the delivery. Only the client can decide.

**Source:** RocketMQ ``ReceiptHandle#isExpired``, which the proxy checks before each request.
"""

from broker.client.pop.receipt_handle import ReceiptHandle
from broker.common.clock import Clock


class HandleTable:
    """Handles of one consumer that are used up, and the broker clocks by which the others expire.

    The time in a handle is the broker's. The difference from the client's clock is taken when a
    delivery arrives, so that clocks that disagree neither end a delivery early nor extend it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms: dict[str, float] = {}  # broker name → own monotonic time minus broker's
        self._used: dict[str, float] = {}  # text of the handle → own monotonic time of its expiry

    def arrived(self, handle: ReceiptHandle) -> None:
        """Note a delivery that has just arrived."""
        now_ms = self._clock.monotonic_ms()
        self._ahead_ms[handle.broker_name] = now_ms - handle.pop_time_ms

    def use_up(self, handle: ReceiptHandle) -> None:
        """Note that a handle was acknowledged, or replaced by another one."""
        now_ms = self._clock.monotonic_ms()
        # Expired ones are refused anyway. Nearly in order of expiry, so the first ones are enough.
        while self._used and next(iter(self._used.values())) <= now_ms:
            del self._used[next(iter(self._used))]
        self._used[handle.text] = self._expiry_ms(handle, now_ms)

    def is_usable(self, handle: ReceiptHandle) -> bool:
        """Whether its delivery may still be in flight; True if that cannot be decided here.

        It cannot for a handle from a broker that this consumer has received nothing from.
        """
        now_ms = self._clock.monotonic_ms()
        return handle.text not in self._used and now_ms < self._expiry_ms(handle, now_ms)

    def _expiry_ms(self, handle: ReceiptHandle, now_ms: float) -> float:
        ahead_ms = self._ahead_ms.get(handle.broker_name)
        if ahead_ms is None:
            return now_ms + max(1, handle.invisible_ms)
        return handle.expires_ms + ahead_ms
