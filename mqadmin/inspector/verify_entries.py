"""The entries of one IndexFile: as columns, and the slots and chains that lead through them."""

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
    guess_slots,
    slot_position,
)

MOST_FAULTS: Final = 99


class Entries:
    """The entries of one file as columns, entry 1 first; arrays of numpy or of the library."""

    __slots__ = ("diff", "hashes", "number", "physical", "previous")

    def __init__(self, data: bytes, slots: int, count: int) -> None:
        self.hashes: Any
        self.physical: Any
        self.diff: Any
        self.previous: Any
        self.number: Any = None  # places in the columns, ordered by physical offset, if need be
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
        kind = np.dtype([("h", ">i4"), ("p", ">i8"), ("t", ">i4"), ("b", ">i4")])
        found = np.frombuffer(data, dtype=kind, count=count, offset=start)
        self.hashes, self.physical, self.diff, self.previous = (
            found[name].astype(kind[name].newbyteorder("=")) for name in ("h", "p", "t", "b")
        )

    def __len__(self) -> int:
        return len(self.hashes)

    def bounds(self) -> tuple[int, int]:
        """Least and greatest physical offset."""
        if isinstance(self.physical, array):
            return min(self.physical), max(self.physical)
        return int(self.physical.min()), int(self.physical.max())

    def rise(self) -> bool:
        """Whether physical offsets never go back."""
        if isinstance(self.physical, array):
            places = self.physical
            return all(places[at] <= places[at + 1] for at in range(len(places) - 1))
        return not bool((self.physical[1:] < self.physical[:-1]).any())

    def sort(self) -> None:
        """Order by physical offset; ``number`` then tells the places."""
        order = sorted(range(len(self)), key=self.physical.__getitem__)
        self.number = order
        for name in ("hashes", "physical", "diff", "previous"):
            column = getattr(self, name)
            if isinstance(column, array):
                setattr(self, name, array("q", [column[at] for at in order]))
            else:
                setattr(self, name, column[order])

    def number_of(self, place: int) -> int:
        """The entry number at a place of the columns."""
        return (place if self.number is None else self.number[place]) + 1

    def span(self, begin: int, end: int) -> tuple[int, int]:
        """Places of the entries with physical offsets in ``[begin, end)``."""
        if isinstance(self.physical, array):
            return bisect_left(self.physical, begin), bisect_left(self.physical, end)
        return int(self.physical.searchsorted(begin)), int(self.physical.searchsorted(end))


class Problem(NamedTuple):
    """What is wrong at a position of the file."""

    detail: str
    position: int
    length: int


def chain_problems(data: bytes, entries: Entries, slots: int, count: int) -> list[Problem]:
    """Slots and links that do not lead to the newest, and the next older, entry of their slot."""
    if isinstance(entries.hashes, array):
        return _chains_plainly(data, entries, slots, count)
    import numpy as np

    previous = entries.previous
    faults, newest = _faults(entries, slots)
    problems = [_link(at, int(previous[at]), expected, slots) for at, expected in faults]
    table = np.frombuffer(data, dtype=">i4", count=slots, offset=HEADER_SIZE).astype(np.int64)
    table[(table < 0) | (table > count)] = 0
    # An entry that is written before the header counts it may hang in its slot already.
    wrong = np.flatnonzero((table != newest) & (table <= len(entries)))
    problems += [_slot(int(at), int(table[at]), int(newest[at])) for at in wrong[:MOST_FAULTS]]
    return problems


def _faults(entries: Entries, slots: int) -> tuple[list[tuple[int, int]], Any]:
    """(place, right link) of entries that are linked wrongly, and the newest entry of each slot."""
    import numpy as np

    from broker.store.format.columns import compiled

    hashes, previous = entries.hashes, entries.previous
    newest = np.zeros(slots, dtype=np.int64)
    if compiled():
        from broker.store.format import kernels

        found = np.empty((2, MOST_FAULTS), dtype=np.int64)
        number = int(kernels.chain_faults(hashes, previous, slots, newest, found))
        wrong = found[:, : min(number, MOST_FAULTS)].tolist()
        return list(zip(*wrong, strict=True)), newest
    slot_of = hashes % slots
    newest[slot_of] = np.arange(1, len(slot_of) + 1)
    order = np.argsort(slot_of, kind="stable")
    ordered = slot_of[order]
    same = np.concatenate(([False], ordered[1:] == ordered[:-1]))
    expected = np.empty(len(order), dtype=np.int64)
    expected[order] = np.where(same, np.concatenate(([0], order[:-1] + 1)), 0)
    places = np.flatnonzero(previous != expected)[:MOST_FAULTS]
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
    """The number of slots of a file, 0 if it cannot be told.

    ``known`` is what another file of the same length has. A damaged file does not stop the
    search: the first entry stands where the header says it leads.
    """
    found = 0 if len(data) < HEADER_SIZE else guess_slots(data)
    if found or known:
        return found or known
    if len(data) < HEADER_SIZE:
        return 0
    header = IndexHeader._make(HEADER_STRUCT.unpack_from(data))
    wanted = header.begin_physical_offset.to_bytes(8, "big", signed=True)
    at = data.find(wanted, HEADER_SIZE, HEADER_SIZE + 4 * SLOTS + 2 * ENTRY_SIZE)
    while at >= 0:
        # The physical offset stands behind the hash, in the entry behind the unused one.
        slots, odd = divmod(at - 4 - ENTRY_SIZE - HEADER_SIZE, SLOT_SIZE)
        if not odd and slots > 0 and (len(data) - file_size(slots, 0)) % ENTRY_SIZE == 0:
            empty = data[entry_position(0, slots) : entry_position(1, slots)]
            if not any(empty):
                return slots
        at = data.find(wanted, at + 1, HEADER_SIZE + 4 * SLOTS + 2 * ENTRY_SIZE)
    return 0
