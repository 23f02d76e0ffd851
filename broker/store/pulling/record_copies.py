"""RecordCopies: the records of a pull in one buffer, copied by a compiled loop (extra ``fast``).

The records of one message queue are spread over the log, 32 of them in a pull. A loop of Python
makes a slice of each one (0.2 us), which are then joined; the compiled one copies all in 2 us.
"""

from typing import Final

import numpy as np

from broker.store.logfile.mapped_file import MappedFile
from broker.store.pulling.kernels import collect

OUT_BYTES: Final = 256 * 1024
"""Pulls of more bytes are collected by the loop of Python."""

# np.frombuffer takes 0.5 us with np.uint8, 0.2 with its dtype.
_OCTET: Final = np.dtype(np.uint8)
_from_buffer: Final = np.frombuffer


class RecordCopies:
    """The buffer of copied records; one instance per broker, used from its event loop."""

    def __init__(self) -> None:
        self._out = np.zeros(OUT_BYTES, dtype=np.uint8)
        self._copied = memoryview(self._out.data)

    def take(
        self, units: memoryview, position: int, count: int, file: MappedFile, max_bytes: int
    ) -> memoryview | None:
        """Return the records of ``count`` units, valid until the next call; None: one is unusual.

        ``units`` is a queue file with a unit at ``position``, ``file`` the file of the log.
        """
        octets = _from_buffer(units, _OCTET)
        data = _from_buffer(file.view, _OCTET)
        size = collect(
            octets, position, count, data, file.start, file.written, max_bytes, self._out
        )
        return None if size < 0 else self._copied[:size]
