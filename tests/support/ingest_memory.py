"""Random reads through all compiled loops of ingest, with tables and buffers of random sizes.

As a program it is one of two builds of the same source:

* ``guard SEED ROUNDS``: the compiled loops on arrays that adjoin a page without access, alternately
  after their last and before their first byte: an access outside ends the process by a signal;
* ``checked SEED ROUNDS``, with ``NUMBA_DISABLE_JIT=1``: the Python source of the loops on arrays
  that refuse every index and slice outside, negative ones too.

It prints the number of records, replies and index entries that the loops wrote, and the bytes of
the records that were collected.
"""

import ctypes
import faulthandler
import mmap
import random
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from broker.message.record import FIXED_SIZES
from broker.server.ingest.fields import LIMITS
from broker.server.ingest.replying.kernels import replies
from broker.server.ingest.scanning.kernels import scan
from broker.server.ingest.vectorized_ingest import shape_row
from broker.store.format.vectorized import kernels as format_kernels
from broker.store.ingest import columns as col
from broker.store.ingest.kernels import append, derive
from broker.store.pulling.kernels import collect
from tests.support.send_frames import (
    batch_frame,
    hostile_batch,
    items_of,
    send_frame,
    unusual_frame,
)

PAGE = mmap.PAGESIZE
NO_ACCESS = 0  # PROT_NONE
INDEX_SLOTS, INDEX_ENTRIES = 20, 40
Allocate = Callable[..., Any]


class GuardedArrays:
    """Allocates arrays between two pages without access; ``at_end``: they adjoin the second one."""

    def __init__(self) -> None:
        self.at_end = True
        self._kept: list[mmap.mmap] = []
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

    def __call__(self, shape: Any, dtype: Any, *, content: bytes = b"", fixed: bool = False) -> Any:
        """An array of zeros, or of ``content``; ``fixed``: read-only, as the bytes of a read."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        pages = max(1, -(-size // PAGE))
        memory = mmap.mmap(-1, (pages + 2) * PAGE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        start = (pages + 1) * PAGE - size if self.at_end else PAGE
        if content:
            memory[start : start + size] = content
        array = np.frombuffer(memory, dtype=dtype, count=int(np.prod(shape)), offset=start)
        for at in (address, address + (pages + 1) * PAGE):
            if self._libc.mprotect(at, PAGE, NO_ACCESS):
                raise OSError(ctypes.get_errno(), "mprotect")
        self._kept.append(memory)
        array = array.reshape(shape)
        array.flags.writeable = not fixed
        return array

    def release(self) -> None:
        """Drop the arrays; the pages get their access back before they are unmapped."""
        for memory in self._kept:
            address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            self._libc.mprotect(address, len(memory), mmap.PROT_READ | mmap.PROT_WRITE)
        self._kept.clear()
        self.at_end = not self.at_end


class CheckedArray:
    """An array that refuses an index or a slice outside of it; negative ones are outside."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = array.shape

    def __getitem__(self, key: Any) -> Any:
        found = self.array[self._checked(key)]
        return CheckedArray(found) if isinstance(found, np.ndarray) else found

    def __setitem__(self, key: Any, value: Any) -> None:
        value = value.array if isinstance(value, CheckedArray) else value
        self.array[self._checked(key)] = value

    def _checked(self, key: Any) -> Any:
        for axis, one in enumerate(key if isinstance(key, tuple) else (key,)):
            length = self.shape[axis]
            if isinstance(one, slice):
                start = 0 if one.start is None else one.start
                stop = length if one.stop is None else one.stop
                if not 0 <= start <= stop <= length:
                    raise IndexError(f"slice {start}:{stop} of {length}")
            elif not 0 <= one < length:
                raise IndexError(f"index {one} of {length}")
        return key


class CheckedArrays:
    """Allocates arrays that check each access."""

    def __call__(self, shape: Any, dtype: Any, *, content: bytes = b"", fixed: bool = False) -> Any:
        if content:
            return CheckedArray(np.frombuffer(content, dtype=dtype).reshape(shape).copy())
        return CheckedArray(np.zeros(shape, dtype=dtype))

    def release(self) -> None:
        """Nothing is kept."""


def read_of(rng: random.Random) -> bytes:
    """Frames of which some are unusual, changed or cut."""
    frames = []
    for number in range(rng.randrange(1, 7)):
        if rng.random() < 0.1:
            frames.append(unusual_frame(rng, number))
        elif rng.random() < 0.1:
            frames.append(hostile_batch(rng, number))
        elif rng.random() < 0.4:
            items = items_of(number, rng.randrange(1, 5), rng.randrange(50))
            frames.append(batch_frame(number, items, rocketmq=rng.random() < 0.5))
        else:
            body = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 60)))
            frames.append(send_frame(number, rocketmq=rng.random() < 0.5, body=body))
    data = bytearray(b"".join(frames))
    if rng.random() < 0.5:
        for _ in range(rng.randrange(1, 4)):
            at = rng.choice((rng.randrange(len(data)), rng.randrange(min(24, len(data)))))
            data[at] = rng.choice((0, 1, 2, 34, 92, 127, 255, rng.randrange(256)))
    return bytes(data[: rng.randrange(8, len(data) + 1)] if rng.random() < 0.4 else data)


class Loops:
    """One round: the loops in the order of a broker, on arrays of ``allocate``."""

    def __init__(self, rng: random.Random, allocate: Allocate) -> None:
        self.rng = rng
        self.allocate = allocate
        self.records = self.replied = self.indexed = self.collected = 0

    def run(self) -> None:
        """Scan a read, append its rows anywhere, derive units and entries, write the replies.

        Then collect records by random units.
        """
        self._ingest()
        self._collect()

    def _collect(self) -> None:
        """Records in order, some units or records changed, and every limit a little too small."""
        rng, make = self.rng, self.allocate
        base = rng.choice((0, 0, 4_096, 1 << 40, (1 << 63) - 4_096))
        data, units = bytearray(), bytearray(20 * rng.randrange(2))
        first = len(units)
        for _ in range(rng.randrange(1, 6)):
            data += bytes(rng.choice((0, 0, 7, 90)))
            size = rng.choice((90, 91, 91, 100, 200))
            units += struct.pack(">qiq", base + len(data), size, 5)
            data += struct.pack(">i", size) + bytes(size - 4)
        count = len(units) // 20 - first // 20
        for octets in (units, data):
            if rng.random() < 0.2:
                octets[rng.randrange(len(octets))] = rng.choice((0, 1, 127, 128, 255))
        if rng.random() < 0.2:
            del (units if rng.random() < 0.5 else data)[-rng.randrange(1, 30) :]
        found = collect(
            make(max(1, len(units)), np.uint8, content=bytes(units) or b"\0", fixed=True),
            first + rng.choice((0, 0, 0, 0, -20, 20, 1)),
            count + rng.choice((0, 0, 0, 0, 1)),
            count + rng.choice((0, 0, 0, -1, 1)),
            make(len(data), np.uint8, content=bytes(data), fixed=True),
            base + rng.choice((0, 0, 0, 0, 50, -50)),
            len(data) + rng.choice((0, 0, 0, -1, 1, 1 << 40)),
            rng.choice((1 << 40, 500, 100)),
            make(rng.choice((1, 400, 2_000)), np.uint8),
        )
        self.collected += max(0, int(found))

    def _ingest(self) -> None:
        rng, make = self.rng, self.allocate
        data, segments = self._turn()
        view = make(len(data), np.uint8, content=data, fixed=True)
        rows = make((rng.randrange(1, 8), col.ROW_COLUMNS), np.int64)
        places = make((rng.randrange(1, 5), col.PLACE_COLUMNS), np.int64)
        text = make(rng.choice((1, 300, 700, 1_100, 5_000)), np.uint8)
        suffix = b"MSG_REGION\x01R\x02TRACE_ON\x01true\x02"
        most = 1 << 20, 1 << 16, rng.choice((20, 4_096)), 32_767, rng.choice((200, 65_536))
        limits = make(LIMITS, np.int64, content=np.array(most, dtype=np.int64).tobytes())
        added = make(len(suffix), np.uint8, content=suffix, fixed=True)
        count, used = scan(view, segments, limits, added, text, rows, places)
        if not count:
            return
        topic = b"\x06Orders"
        for number in range(used):
            if rng.random() < 0.9:
                places[number, col.OPEN] = 1
                places[number, col.NEXT_OFFSET] = rng.randrange(1 << 40)
                places[number, col.MAGIC] = 0xDAA320A7
                places[number, col.STORED_LENGTH] = len(topic)
        parameters = np.zeros(col.APPEND_PARAMETERS, dtype=np.int64)
        parameters[col.CAPACITY] = rng.choice((0, 500, 3_000, 1 << 30))
        shapes = np.array([shape_row(0), shape_row(1)], dtype=np.int64)
        taken, _ = append(
            view,
            text,
            rows[:count],
            segments,
            places[:used],
            make(len(topic), np.uint8, content=topic, fixed=True),
            make((2, FIXED_SIZES[1]), np.uint8),
            make((2, col.SHAPE_COLUMNS), np.int64, content=shapes.tobytes()),
            make(col.APPEND_PARAMETERS, np.int64, content=parameters.tobytes()),
            make(rng.choice((1, 200, 700, 4_000)), np.uint8),
        )
        self.records += int(taken)
        if taken:
            self._after(text, rows[:taken], segments, places[:used])

    def _turn(self) -> tuple[bytes, Any]:
        """Reads of some connections, IPv4 and IPv6, each after its host, and their table."""
        rng = self.rng
        data = bytearray()
        table = []
        for _ in range(rng.randrange(1, 5)):
            shape = rng.randrange(2)
            host_at = len(data)
            data += bytes(20 if shape else 8)
            start = len(data)
            data += read_of(rng) if rng.random() < 0.9 else b""
            # Bytes between two segments belong to neither.
            end = len(data) + rng.choice((0, 0, 0, 9))
            table.append([start, end, host_at, shape, start, 0, 0, 0, 0])
            data += bytes(9 if end > len(data) else 0)
        table[-1][col.SEGMENT_END] += rng.choice((0, 50))
        content = np.array(table, dtype=np.int64).tobytes()
        return bytes(data), self.allocate(
            (len(table), col.SEGMENT_COLUMNS), np.int64, content=content
        )

    def _after(self, text: Any, rows: Any, segments: Any, places: Any) -> None:
        rng, make = self.rng, self.allocate
        taken = rows.shape[0]
        units = make(max(1, (taken - rng.randrange(2)) * 20), np.uint8)
        entries = make((3, rng.randrange(1, 9 * taken)), np.int64)
        found = derive(text, rows, places, units, entries)
        if found > 0:
            shape = np.array((INDEX_SLOTS, INDEX_ENTRIES), dtype=np.int64).tobytes()
            header = np.array((0, 0, 0, 0, 0, rng.randrange(-1, 42)), dtype=np.int64).tobytes()
            length = 40 + 4 * INDEX_SLOTS + 20 * INDEX_ENTRIES - rng.choice((0, 0, 0, 1))
            put = format_kernels.put_entries(
                make(length, np.uint8),
                make(2, np.int64, content=shape),
                make(6, np.int64, content=header),
                entries[:, :found],
            )
            self.indexed += max(0, int(put))
        pieces = b'{"msgId":""queueId":""queueOffset":""transactionId":""opaque":}'
        ends = np.array((9, 19, 33, 50, 60, len(pieces), 7), dtype=np.int64).tobytes()
        out = make(rng.choice((1, 100, 256, 1_000)), np.uint8)
        ends = make(7, np.int64, content=ends)
        constant = make(len(pieces), np.uint8, content=pieces, fixed=True)
        self.replied += int(replies(text, rows, segments, places, constant, ends, out))


def main() -> int:
    """Run the rounds of one build."""
    faulthandler.enable()
    build, seed, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    allocate: Any = GuardedArrays() if build == "guard" else CheckedArrays()
    loops = Loops(random.Random(seed), allocate)
    with np.errstate(over="ignore"):  # hashes wrap around
        for _ in range(rounds):
            loops.run()
            allocate.release()
    print(loops.records, loops.replied, loops.indexed, loops.collected)
    return 0


if __name__ == "__main__":
    sys.exit(main())
