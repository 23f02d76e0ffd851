"""Count lost messages by topic and queue.

A message is lost if a ConsumeQueue unit, an index entry or ``queueEnds.json`` refers to it and the
log no longer contains its record. Verification, repair and recovery all count with this module, so
that they report the same numbers.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from broker.errors import StoreError
from broker.store.format.indexfile import HEADER_SIZE, HEADER_STRUCT, IndexHeader
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.files import open_bytes
from mqadmin.inspector.store_manifest import StoreManifest
from mqadmin.inspector.verify.index_chains import Entries, shape_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

QueueKey = tuple[str, int]


class QueueLoss(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Lost messages of one queue, with the lowest and the highest queue offset among them.

    ``topic``, ``queueId`` and the offsets are None for messages known only from the index, which
    contains only hashes of keys. A multi-dispatched message counts in each of its queues.
    """

    topic: str | None
    queue_id: int | None
    messages: int
    first_queue_offset: int | None
    last_queue_offset: int | None

    @property
    def text(self) -> str:
        """The loss as text."""
        if self.topic is None or self.queue_id is None:
            return f"{self.messages} messages of unknown queues, which only the index knows"
        span = f"queue offset {self.first_queue_offset}"
        if self.first_queue_offset != self.last_queue_offset:
            span = f"queue offsets {self.first_queue_offset} to {self.last_queue_offset}"
        return f"{self.messages} messages of {self.topic}/{self.queue_id}, {span}"


class Extents:
    """A set of integers as ranges ``[begin, end)``; a range is merged into the last one added.

    If ranges are added in ascending order, memory grows with the number of gaps, not of messages.
    """

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._ranges: list[tuple[int, int]] = []
        self._is_sorted = True
        for begin, end in ranges:
            self.add(begin, end)

    def add(self, begin: int, end: int) -> None:
        """Add a range."""
        if self._ranges:
            first, last = self._ranges[-1]
            if first <= begin <= last:
                self._ranges[-1] = first, max(last, end)
                return
            self._is_sorted &= begin > last
        self._ranges.append((begin, end))

    def _sorted(self) -> list[tuple[int, int]]:
        if not self._is_sorted:
            ranges, self._ranges, self._is_sorted = sorted(self._ranges), [], True
            for begin, end in ranges:
                self.add(begin, end)
        return self._ranges

    @property
    def end(self) -> int:
        """Greatest end of a range, 0 without ranges."""
        return max((end for _, end in self._ranges), default=0)

    def __contains__(self, number: int) -> bool:
        ranges = self._sorted()
        at = bisect_right(ranges, (number, 1 << 63)) - 1
        return at >= 0 and number < ranges[at][1]

    def outside(self, numbers: "NDArray[np.int64]") -> "NDArray[np.bool_]":
        """Return a mask of the ``numbers`` that are in no range."""
        import numpy as np

        ranges = self._sorted()
        if not ranges:
            return np.ones(len(numbers), dtype=bool)
        begins, ends = np.array(ranges, dtype=np.int64).T
        at = np.searchsorted(begins, numbers, side="right") - 1
        found: NDArray[np.bool_] = (at < 0) | (numbers >= ends[np.maximum(at, 0)])
        return found


# That far past the end of a log (64 TiB) no message was lost: such a unit is not one.
MAX_LOST_BYTES: Final = 1 << 46


class LossTally:
    """Counts lost messages; ``places`` are their physical offsets where units contain them.

    ``log_end`` is the physical offset of the end of the log.
    """

    def __init__(self, log_end: int) -> None:
        self._limit = log_end + MAX_LOST_BYTES
        self._queues: dict[QueueKey, tuple[int, int, int]] = {}
        self._unknown = 0
        self.places: set[int] = set()

    def add(self, key: QueueKey, first: int, count: int = 1, *, place: int | None = None) -> None:
        """Add ``count`` lost messages with consecutive queue offsets from ``first``.

        Does nothing if no message can have been at ``place``: the bytes are not a unit.
        """
        if place is not None and not self.is_possible(place):
            return
        known, lowest, highest = self._queues.get(key, (0, first, first))
        last = first + count - 1
        self._queues[key] = known + count, min(lowest, first), max(highest, last)
        if place is not None:
            self.places.add(place)

    def is_possible(self, place: int) -> bool:
        """Return whether a message of this log can have had that physical offset."""
        return 0 <= place < self._limit

    def add_recorded(
        self, recorded: StoreManifest, ends: dict[QueueKey, int], log_end: int
    ) -> Iterator[tuple[QueueKey, int, int]]:
        """Add messages past the present end of their queue; yields (queue, first, count).

        ``ends`` are the maxOffsets that records and units show. Counts only if the log has lost
        its end: otherwise a queue may be shorter because its records have expired.
        """
        if recorded.log_end <= log_end:
            return
        for key, end in sorted(recorded.queues.items()):
            known = self._queues.get(key)
            first = max(ends.get(key, 0), 0 if known is None else known[2] + 1)
            if end > first:
                self.add(key, first, end - first)
                yield key, first, end - first

    def add_indexed(self, places: set[int], counted_elsewhere: int = 0) -> int:
        """Add messages known only from index entries; returns their number.

        ``counted_elsewhere`` messages were added without physical offsets.
        """
        count = max(len(places - self.places) - counted_elsewhere, 0)
        self._unknown += count
        return count

    def _row(self, key: QueueKey) -> QueueLoss:
        count, first, last = self._queues[key]
        return QueueLoss(
            topic=key[0],
            queue_id=key[1],
            messages=count,
            first_queue_offset=first,
            last_queue_offset=last,
        )

    def rows(self) -> list[QueueLoss]:
        """Return one row per queue by topic and queue id, then one for messages of the index."""
        found = [self._row(key) for key in sorted(self._queues)]
        if self._unknown:
            found.append(
                QueueLoss(
                    topic=None,
                    queue_id=None,
                    messages=self._unknown,
                    first_queue_offset=None,
                    last_queue_offset=None,
                )
            )
        return found


def total(losses: Iterable[QueueLoss]) -> int:
    """Return the total number of lost messages."""
    return sum(row.messages for row in losses)


def indexed_places(store: StoreDirectory, end: int) -> set[int]:
    """Return the physical offsets at or past the end of the log in entries of IndexFiles."""
    found: set[int] = set()
    for path in store.index_files():
        try:
            with open_bytes(path) as file:
                found.update(_places_past(file.data, end))
        except StoreError:
            continue  # verification reports a file that cannot be read
    return found


def _places_past(data: bytes, end: int) -> list[int]:
    slots = shape_of(data, 0)
    if len(data) < HEADER_SIZE or not slots:
        return []
    header = IndexHeader._make(HEADER_STRUCT.unpack_from(data))
    found: list[int] = []
    # Only trailing entries: one that is followed by entries inside the log is corrupt.
    for place in reversed(Entries(data, slots, header.index_count - 1).physical):
        if place < end:
            break
        found.append(int(place))
    return found
