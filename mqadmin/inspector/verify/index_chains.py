"""Load the entries of one IndexFile as columns, and check its slots and hash chains."""

from array import array
from bisect import bisect_left
from typing import Any, Final, NamedTuple

from broker.store.format.indexfile import (
    ENTRY_SIZE,
    ENTRY_STRUCT,
    HEADER_SIZE,
    HEADER_STRUCT,
    SLOT_SIZE,
    SLOTS,
    IndexHeader,
    entry_position,
    file_size,
    probe_slot_count,
    slot_position,
)
from broker.store.format.vectorized.loops import compiled

MAX_FAULTS: Final = 99


class Entries:
    """The entries of one file as columns, entry 1 first; numpy arrays, or ``array`` without numpy.

    ``number`` is None, or the entry number - 1 by position once :meth:`sort` has reordered them.
    """

    __slots__ = ("diff", "hashes", "number", "physical", "previous")

    def __init__(self, data: bytes, slots: int, count: int) -> None:
        self.hashes: Any
        self.physical: Any
        self.diff: Any
        self.previous: Any
        self.number: Any = None  # set by sort()
        start = entry_position(1, slots)
        count = max(min(count, (len(data) - start) // ENTRY_SIZE), 0)
        try:
            import numpy as np
        except ImportError:
            rows = ENTRY_STRUCT.iter_unpack(bytes(data[start : start + count * ENTRY_SIZE]))
            columns = [array("q") for _ in range(4)]
            for row in rows:
                for column, value in zip(columns, row, strict=True):
                    column.append(value)
            self.hashes, self.physical, self.diff, self.previous = columns
            return
        if (kernels := compiled_kernels()) is not None:
            self.hashes, self.diff, self.previous = np.empty((3, count), dtype=np.int32)
            self.physical = np.empty(count, dtype=np.int64)
            view = np.frombuffer(data, dtype=np.uint8)
            kernels.read_entries(view, start, self.hashes, self.physical, self.diff, self.previous)
            return
        kind = np.dtype([("h", ">i4"), ("p", ">i8"), ("t", ">i4"), ("b", ">i4")])
        found = np.frombuffer(data, dtype=kind, count=count, offset=start)
        self.hashes, self.physical, self.diff, self.previous = (
            found[name].astype(kind[name].newbyteorder("=")) for name in ("h", "p", "t", "b")
        )

    def __len__(self) -> int:
        return len(self.hashes)

    def bounds(self) -> tuple[int, int]:
        """Return the least and the greatest physical offset."""
        if isinstance(self.physical, array):
            return min(self.physical), max(self.physical)
        return int(self.physical.min()), int(self.physical.max())

    def rise(self) -> bool:
        """Whether physical offsets never decrease."""
        if isinstance(self.physical, array):
            places = self.physical
            return all(places[at] <= places[at + 1] for at in range(len(places) - 1))
        return not bool((self.physical[1:] < self.physical[:-1]).any())

    def sort(self) -> None:
        """Order by physical offset; ``number`` then maps positions to entry numbers."""
        order = sorted(range(len(self)), key=self.physical.__getitem__)
        self.number = order
        for name in ("hashes", "physical", "diff", "previous"):
            column = getattr(self, name)
            if isinstance(column, array):
                setattr(self, name, array("q", [column[at] for at in order]))
            else:
                setattr(self, name, column[order])

    def number_of(self, place: int) -> int:
        """Return the entry number at a position of the columns."""
        return (place if self.number is None else self.number[place]) + 1

    def span(self, begin: int, end: int) -> tuple[int, int]:
        """Return the positions of entries with physical offsets in ``[begin, end)``."""
        if isinstance(self.physical, array):
            return bisect_left(self.physical, begin), bisect_left(self.physical, end)
        return int(self.physical.searchsorted(begin)), int(self.physical.searchsorted(end))


class Problem(NamedTuple):
    """An error at a byte position of the file."""

    detail: str
    position: int
    length: int


def compiled_kernels() -> Any:
    """Load the compiled loops (requires numpy); None if numba cannot be used."""
    if not compiled():
        return None
    from broker.store.format.vectorized import kernels

    return kernels


def chain_problems(data: bytes, entries: Entries, slots: int, count: int) -> list[Problem]:
    """Check that each slot points to its newest entry and each entry to the next older one.

    Slot values greater than ``count`` are read as 0, as brokers do.
    """
    if isinstance(entries.hashes, array):
        return _chains_plainly(data, entries, slots, count)
    import numpy as np

    previous = entries.previous
    faults, newest = _faults(entries, slots)
    problems = [_link(at, int(previous[at]), expected, slots) for at, expected in faults]
    table = np.frombuffer(data, dtype=">i4", count=slots, offset=HEADER_SIZE).astype(np.int64)
    table[(table < 0) | (table > count)] = 0
    # The slot may already point to an entry that the header does not count yet.
    wrong = np.flatnonzero((table != newest) & (table <= len(entries)))
    problems += [_slot(int(at), int(table[at]), int(newest[at])) for at in wrong[:MAX_FAULTS]]
    return problems


def _faults(entries: Entries, slots: int) -> tuple[list[tuple[int, int]], Any]:
    """Return (position, correct link) of wrong links, and the newest entry of each slot."""
    import numpy as np

    hashes, previous = entries.hashes, entries.previous
    newest = np.zeros(slots, dtype=np.int64)
    if (kernels := compiled_kernels()) is not None:
        found = np.empty((2, MAX_FAULTS), dtype=np.int64)
        number = int(kernels.chain_faults(hashes, previous, slots, newest, found))
        wrong = found[:, : min(number, MAX_FAULTS)].tolist()
        return list(zip(*wrong, strict=True)), newest
    slot_of = hashes % slots
    # Duplicate slots: numpy assigns in order, so the last entry of a slot remains.
    newest[slot_of] = np.arange(1, len(slot_of) + 1)
    order = np.argsort(slot_of, kind="stable")
    ordered = slot_of[order]
    same = np.concatenate(([False], ordered[1:] == ordered[:-1]))
    expected = np.empty(len(order), dtype=np.int64)
    expected[order] = np.where(same, np.concatenate(([0], order[:-1] + 1)), 0)
    places = np.flatnonzero(previous != expected)[:MAX_FAULTS]
    return list(zip(places.tolist(), expected[places].tolist(), strict=True)), newest


def _chains_plainly(data: bytes, entries: Entries, slots: int, count: int) -> list[Problem]:
    newest: dict[int, int] = {}
    problems = []
    for at, (hashed, previous) in enumerate(zip(entries.hashes, entries.previous, strict=True)):
        slot = hashed % slots
        expected = newest.get(slot, 0)
        newest[slot] = at + 1
        if previous != expected:
            problems.append(_link(at, previous, expected, slots))
    table = array("i", bytes(data[HEADER_SIZE : HEADER_SIZE + slots * SLOT_SIZE]))
    table.byteswap()
    for slot, value in enumerate(table):
        value = value if 0 < value <= count else 0
        if value != newest.get(slot, 0) and value <= len(entries):
            problems.append(_slot(slot, value, newest.get(slot, 0)))
    return problems


def _link(at: int, has: int, expected: int, slots: int) -> Problem:
    number = at + 1
    loop = ": the chain goes in a circle" if has >= number else ""
    return Problem(
        f"entry {number} leads to entry {has} instead of {expected}{loop}",
        entry_position(number, slots),
        ENTRY_SIZE,
    )


def _slot(slot: int, has: int, expected: int) -> Problem:
    return Problem(
        f"slot {slot} leads to entry {has} instead of {expected}", slot_position(slot), SLOT_SIZE
    )


def shape_of(data: bytes, known: int) -> int:
    """Return the slot count of a file, 0 if it cannot be determined.

    ``known`` is the slot count of another file of the same length, 0 if unknown. In a damaged
    file, the header's beginPhyOffset is searched: it is the physical offset of the first entry.
    """
    found = 0 if len(data) < HEADER_SIZE else probe_slot_count(data)
    if found or known:
        return found or known
    if len(data) < HEADER_SIZE or not any(data[:HEADER_SIZE]):
        return 0
    header = IndexHeader._make(HEADER_STRUCT.unpack_from(data))
    wanted = header.begin_physical_offset.to_bytes(8, "big", signed=True)
    at = data.find(wanted, HEADER_SIZE, HEADER_SIZE + 4 * SLOTS + 2 * ENTRY_SIZE)
    while at >= 0:
        # The physical offset follows the 4-byte hash, in the entry after the unused entry 0.
        slots, odd = divmod(at - 4 - ENTRY_SIZE - HEADER_SIZE, SLOT_SIZE)
        if not odd and slots > 0 and (len(data) - file_size(slots, 0)) % ENTRY_SIZE == 0:
            empty = data[entry_position(0, slots) : entry_position(1, slots)]
            if not any(empty):
                return slots
        at = data.find(wanted, at + 1, HEADER_SIZE + 4 * SLOTS + 2 * ENTRY_SIZE)
    return 0
