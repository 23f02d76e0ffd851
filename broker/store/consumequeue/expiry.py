"""The start of a queue: its first unit whose record is still in the log."""

from collections.abc import Callable
from typing import Final

FILLER: Final = -(1 << 64)
"""Physical offset that a filler unit is searched with; no unit, corrupt ones included, has it."""


def first_live_unit(
    low: int, high: int, log_min: int, physical_offset: Callable[[int], int]
) -> int:
    """Return the first unit number from ``low`` on whose record is at ``log_min`` or later.

    ``high`` if there is none. ``physical_offset`` of a unit number; it ascends. A unit that does
    not follow the one before it is corrupt, and counts as live: an expired one hides the messages
    before it, and its file is deleted with all that are older.
    """
    first = low
    while low < high:
        middle = (low + high) // 2
        at = physical_offset(middle)
        expired = at == FILLER or 0 <= at < log_min
        if expired and at != FILLER and middle > first:
            before = physical_offset(middle - 1)
            expired = before == FILLER or 0 <= before < at
        if expired:
            low = middle + 1
        else:
            high = middle
    return low
