"""OverlapCheck: compares the end of the slave's log with the master's before anything is appended.

A slave first requests bytes that it already has. If they differ, the histories of the two logs
differ: appending would produce a log that is a copy of neither. Further requests bisect the offset
from which they differ::

    request the last WINDOW bytes ─ equal → continue at the slave's end
                                  └ different at p, or the master ends at p → bisect [equal, p)
    request WINDOW bytes in the middle ─ equal → everything below is equal
                                       └ different at p → bisect [equal, p)
    at most WINDOW bytes are left: request all of them; the first different one is the answer

**Source:** no Java counterpart: DefaultHAClient appends whatever the master sends after its end.
"""

from collections.abc import Callable
from typing import Final, NoReturn

from broker.errors import StoreError

# Bytes compared per request. The last records lie in them, unless one of them is longer; a
# different record has a different storeTimestamp, body or offset in its first 100 bytes.
WINDOW_BYTES: Final = 64 * 1024

ReadLog = Callable[[int, int], bytes]


class DivergedError(StoreError):
    """The logs of master and slave differ from ``physical_offset`` on."""


class OverlapCheck:
    """The comparison over all requests of one slave start.

    ``read(offset, size)`` returns bytes of the slave's log, fewer at the end of a file;
    ``min_offset`` and ``max_offset`` are its bounds.
    """

    def __init__(self, read: ReadLog, min_offset: int, max_offset: int) -> None:
        self.done = max_offset <= 1
        # Everything below _equal is equal or not available; at _different a difference was found.
        self._equal = max(min_offset, 1)  # a report of 0 has another meaning
        self._different = -1
        self._read = read
        self._max_offset = max_offset
        # Number of requests so far: it changes when a new connection must request ``request``.
        self.requests = 0
        self._begin(max(self._equal, max_offset - WINDOW_BYTES), max_offset)

    def _begin(self, start: int, end: int) -> None:
        self.requests += 1
        self.request, self._position, self._end = start, start, end

    def feed(self, physical_offset: int, data: bytes) -> bytes | None:
        """Compare received bytes; return those after the slave's end (may be empty) when done.

        None: more bytes are needed, or a new request (:attr:`requests` has changed).
        DivergedError when the offset of divergence is known.
        """
        if physical_offset != self._position:
            raise StoreError(
                f"the master sent physical offset {physical_offset}, expected {self._position}",
                physical_offset=physical_offset,
            )
        wanted = data[: self._end - self._position]
        position = 0
        while position < len(wanted):
            own = self._read(self._position + position, len(wanted) - position)
            part = wanted[position : position + len(own)]
            if not own or own != part:
                self._differs(self._position + position + _common_prefix(own, part))
                return None
            position += len(own)
        self._position += len(wanted)
        if self._position < self._end:
            return None
        if self._different < 0:
            self.done = True
            return data[len(wanted) :]
        if self._end == self._different:
            self._raise()
        self._equal = self._end
        self._bisect()
        return None

    def master_ends(self, physical_offset: int) -> None:
        """Report that the master's log ends at ``physical_offset``; DivergedError as in feed."""
        if physical_offset < self._end:
            self._differs(max(physical_offset, self.request))

    def master_refuses(self) -> None:
        """Report that the master closed the connection; DivergedError if a difference is known."""
        if self._different >= 0:
            self._raise()

    def _differs(self, physical_offset: int) -> None:
        self._different = physical_offset
        if physical_offset <= self._equal:
            self._raise()
        self._bisect()

    def _bisect(self) -> None:
        size = self._different - self._equal
        if size <= WINDOW_BYTES:
            self._begin(self._equal, self._different)
        else:
            start = self._equal + (size - WINDOW_BYTES) // 2
            self._begin(start, start + WINDOW_BYTES)

    def _raise(self) -> NoReturn:
        raise DivergedError(
            f"this slave's log differs from the master's from physical offset {self._different} on",
            "stop the slave, move its store directory away, and start it with an empty one; it"
            f" keeps the records that only the slave has, from {self._different} to"
            f" {self._max_offset}",
            physical_offset=self._different,
        )


def _common_prefix(one: bytes, other: bytes) -> int:
    """Return the length of the common prefix."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
