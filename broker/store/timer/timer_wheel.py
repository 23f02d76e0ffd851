"""TimerWheel: for each slot of time the chain of its pending units in the timer log.

Memory holds the slots that have pending units, at most one per precision interval of the roll
window, however many messages wait. The file has a fixed place for each time, (time / precision)
mod 1,209,600; changed slots are written to it together (:meth:`take_changes`, :meth:`write`). It is
sparse and written with pwrite: a full disk is an error of that write, not a SIGBUS.

**Source:** RocketMQ TimerWheel, Slot.
"""

import heapq
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from broker.store.format.timer import (
    PRECISION_MS,
    SLOT_SIZE,
    SLOTS,
    TimerSlot,
    decode_slot,
    encode_slot,
    slot_position,
)
from broker.store.logfile.disk import Disk

_EMPTY: Final = bytes(SLOT_SIZE)


class Chain(msgspec.Struct, frozen=True, gc=False):
    """Pending units of one slot: positions of the first and the last one in the timer log.

    ``number`` counts messages minus recalls, as Java does.
    """

    first: int
    last: int
    number: int


Changes = Mapping[int, Chain | None]


class TimerWheel:
    """The slots by the start of their interval, epoch ms."""

    def __init__(
        self, disk: Disk, path: str, precision_ms: int = PRECISION_MS, slots: int = SLOTS
    ) -> None:
        self.path = path
        self.precision_ms = precision_ms
        self._disk = disk
        self._slots = slots
        self._chains: dict[int, Chain] = {}
        self._times: list[int] = []
        self._changes: dict[int, Chain | None] = {}
        # Whether the file is known to exist with its whole length.
        self._made = False

    def __len__(self) -> int:
        return len(self._chains)

    @property
    def length(self) -> int:
        """Length of the file, bytes."""
        return self._slots * SLOT_SIZE

    @property
    def pending(self) -> int:
        """Messages minus recalls in all slots."""
        return sum(chain.number for chain in self._chains.values())

    @property
    def changed(self) -> bool:
        """Whether a slot differs from the file."""
        return bool(self._changes)

    def times(self) -> list[int]:
        """Start of each slot with pending units, ascending."""
        return sorted(self._chains)

    def get(self, time_ms: int) -> Chain | None:
        """The chain of a slot, None if it is empty."""
        return self._chains.get(time_ms)

    def first_time(self) -> int | None:
        """Start of the earliest slot with pending units, None without any."""
        times, chains = self._times, self._chains
        while times and times[0] not in chains:
            heapq.heappop(times)
        return times[0] if times else None

    def put(self, time_ms: int, chain: Chain) -> None:
        """Set the chain of a slot."""
        if time_ms not in self._chains:
            heapq.heappush(self._times, time_ms)
        self._chains[time_ms] = self._changes[time_ms] = chain

    def clear(self, time_ms: int) -> None:
        """Empty a slot."""
        if self._chains.pop(time_ms, None) is not None:
            self._changes[time_ms] = None

    # ---- the file

    def stored_slots(self) -> Iterator[tuple[int, TimerSlot]]:
        """(position in the file, slot) of each slot that is not zero.

        OSError or StoreError if the file cannot be read.
        """
        for position, end in self._stored_ranges():
            for at in range(position, end, SLOT_SIZE):
                block = self._block[at - position : at - position + SLOT_SIZE]
                if block != _EMPTY:
                    yield at, decode_slot(block)

    def _stored_ranges(self) -> Iterator[tuple[int, int]]:
        """Aligned ranges with data; ``_block`` holds the bytes of the current one."""
        size = self._disk.size(self.path)
        fd = self._disk.open(self.path)
        try:
            mapping = self._disk.map(fd, size)
        finally:
            self._disk.close(fd)
        try:
            start, end = self._disk.next_data(self.path, 0)
            done, limit = 0, size - size % SLOT_SIZE  # a tail shorter than a slot is not one
            while 0 <= start < limit:
                start = max(done, start - start % SLOT_SIZE)
                done = min(limit, -(-end // SLOT_SIZE) * SLOT_SIZE)
                self._block = bytes(mapping[start:done])
                yield start, done
                if done >= limit:
                    break
                start, end = self._disk.next_data(self.path, done)
        finally:
            self._block = b""
            self._disk.unmap(mapping)

    def exists(self) -> bool:
        """Whether the file exists."""
        return self._disk.exists(self.path)

    def has_length(self) -> bool:
        """Whether the file has the length that the settings require."""
        return self._disk.size(self.path) == self.length

    def restore(self, chains: Mapping[int, Chain]) -> None:
        """Set all chains as found in the file at the start."""
        self._chains = dict(chains)
        self._times = sorted(chains)
        self._changes = {}

    def erase(self, positions: list[int]) -> None:
        """Write zeros over slots of the file whose time is over; not synced."""
        if not positions:
            return
        fd = self._disk.open(self.path)
        try:
            for position in positions:
                self._disk.write_at(fd, _EMPTY, position)
        finally:
            self._disk.close(fd)

    def remove_file(self) -> None:
        """Remove the file: its content does not fit the other timer files."""
        self._disk.unlink(self.path)
        self._made = False

    def take_changes(self) -> Changes:
        """The slots that changed since the last call, None for an emptied one."""
        changes, self._changes = self._changes, {}
        return changes

    def give_back(self, changes: Changes) -> None:
        """Count ``changes`` as changed again: they were not written."""
        self._changes = {**changes, **self._changes}

    def write(self, changes: Changes) -> None:
        """Write changed slots to the file and sync it; in any thread, one call at a time."""
        if not changes:
            return
        fd = self._disk.open(self.path, create=True)
        try:
            if not self._made:
                self._disk.set_size(fd, self.length, self.path)
            for time, chain in sorted(changes.items()):
                position = slot_position(time, self._slots, self.precision_ms)
                self._disk.write_at(fd, self._encode(time, chain), position)
            self._disk.sync_data(fd)
        finally:
            self._disk.close(fd)
        if not self._made:
            self._disk.sync_folder(self.path.rpartition("/")[0])
            self._made = True

    def _encode(self, time: int, chain: Chain | None) -> bytes:
        if chain is None:
            return _EMPTY
        return encode_slot(
            TimerSlot(time // self.precision_ms, chain.first, chain.last, chain.number)
        )
