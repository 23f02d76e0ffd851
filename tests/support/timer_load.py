"""Timers and recalls of the load on a broker that will be killed.

A timer is delivered to the topic of the load, not before its time. One whose recall was answered
with success long enough before is never delivered.
"""

import time

from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request

DELAYS_MS = (1_000, 4_000)
LEVEL_MS = 1_000  # of the first delay level
# A recall that is stored when its timer is due may be too late.
RECALL_MARGIN_MS = 2_000


def wall_ms() -> int:
    """The wall clock, which the broker process uses, too."""
    return time.time_ns() // 1_000_000


class TimerLedger:
    """The due times of delayed messages by number, and the recalls."""

    def __init__(self) -> None:
        self.due_ms: dict[int, int] = {}
        self.pending: set[int] = set()  # of ``due_ms``: acknowledged, to be delivered
        self.handles: dict[int, str] = {}
        self.recalling: set[int] = set()
        self.recalled: set[int] = set()

    def note_stored(self, number: int, answer: RemotingCommand) -> None:
        """A delayed message was stored."""
        self.pending.add(number)
        if handle := answer.ext_fields.get("recallHandle"):
            self.handles[number] = handle

    def recallable(self) -> list[int]:
        """Timers that can still be recalled in time."""
        limit_ms = wall_ms() + RECALL_MARGIN_MS
        return [number for number in self.handles if self.due_ms[number] > limit_ms]

    def recall_request(self, number: int, topic: str) -> RemotingCommand:
        """RECALL_MESSAGE: from now on the timer may be missing."""
        self.recalling.add(number)
        fields = {
            "producerGroup": "crash",
            "topic": topic,
            "recallHandle": self.handles.pop(number),
        }
        return request(RequestCode.RECALL_MESSAGE, fields)

    def note_recalled(self, number: int) -> None:
        """The recall was answered with success."""
        if self.due_ms[number] > wall_ms() + RECALL_MARGIN_MS:
            self.recalled.add(number)

    def undelivered(self, seen: dict[int, int], times_at_most: int) -> list[int]:
        """Timers that are due to be delivered yet; ``seen`` counts the deliveries."""
        back = [number for number in self.recalled if seen.get(number)]
        assert not back, f"delivered after their recall: {back[:5]}"
        often = {
            number: seen[number] for number in self.pending if seen.get(number, 0) > times_at_most
        }
        assert not often, f"delivered too often: {list(often.items())[:5]}"
        return [n for n in self.pending - self.recalling if not seen.get(n)]

    def check_due(self, number: int, store_timestamp: int) -> None:
        """A delivered message is not early."""
        early_ms = self.due_ms.get(number, 0) - store_timestamp
        assert early_ms <= 0, f"message {number} was delivered {early_ms} ms early"
