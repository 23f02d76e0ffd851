"""RecordCopies: the records of a pull in one buffer, copied by a compiled loop (extra ``fast``).

The records of one message queue are spread over the log, 32 of them in a pull. A loop of Python
makes a slice of each one (0.2 us), which are then joined; the compiled one copies all in 2 us.

Units and records are found in :meth:`RecordCopies.read`, not by the reader: a pull evicts Python's
code and objects from the cache, so that one call and one tuple more took 1.6 of 35 us.
"""

from typing import Any, Final

import numpy as np

from broker.store.consumequeue.consume_queue import ConsumeQueue
from broker.store.logfile.mapped_file import MappedFile
from broker.store.pulling.kernels import collect
from broker.store.pulling.record_slices import PHYSICAL_OFFSET, Reader, Records

OUT_BYTES: Final = 256 * 1024
"""Pulls of more bytes are collected by the loop of Python."""

_OCTET: Final = np.dtype(np.uint8)  # np.frombuffer takes 0.5 us with np.uint8, 0.2 with its dtype


def _octets(file: MappedFile) -> Any:
    """The mapped memory of a file, for compiled loops."""
    octets = file.octets = np.frombuffer(file.view, _OCTET)
    return octets


class RecordCopies:
    """The buffer of copied records; one instance per reader, used from its event loop."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._log = reader.log
        self._most, max_bytes = reader.in_memory
        self._limit = min(max_bytes, OUT_BYTES)
        self._out = np.zeros(OUT_BYTES, dtype=np.uint8)
        self._copied = memoryview(self._out.data)
        self._file: MappedFile | None = None  # that of the last read

    def read(self, queue: ConsumeQueue, start: int, most: int) -> Records | None:
        """Read at most so many messages from queue offset ``start`` on; None: one is unusual.

        The records are valid until the next call.
        """
        if most > self._most:
            most = self._most
        units, position, known = queue.mapped(start, most + 1)
        if units is None or most < 1:
            return None
        if known > most:
            count = most
        elif start + known == queue.max_offset:
            count = known
        else:  # the next unit is in another file
            return None
        (first,) = PHYSICAL_OFFSET(units.view, position)
        file, reader = self._file, self._reader
        if file is None or file.octets is None or not 0 <= first - file.start < file.written:
            file = self._file = self._log.files.find(first)
            if file is None:
                return None
        if reader.unchecked_before and first < reader.compared_before(queue, start, count):
            return None
        if self._log.max_offset - first > reader.memory_bytes:  # read in smaller parts
            return None
        size = collect(
            units.octets if units.octets is not None else _octets(units),
            position,
            count,
            known,
            file.octets if file.octets is not None else _octets(file),
            file.start,
            file.written,
            self._limit,
            self._out,
        )
        return None if size < 0 else (count, size, [self._copied[:size]], queue)
