"""Call each compiled loop once with the types of a broker, so that its machine code is loaded.

As a program (``python -m broker.server.ingest.warm_up``) it fills the folder of machine code: the
broker runs it in a child process, because compiling takes seconds of processor time under the
interpreter lock. It also compiles the loops of recovery, for the first start after a power cut.
"""

import contextlib
import os
import sys

import numpy as np

from broker.server.ingest.replying.kernels import replies
from broker.server.ingest.scanning.kernels import scan
from broker.server.ingest.vectorized_ingest import Kernels
from broker.store.format.vectorized.kernels import put_entries
from broker.store.ingest import columns as col
from broker.store.ingest.kernels import append, derive
from broker.store.pulling.kernels import collect
from broker.store.warm_up import recover_small_store

_NICENESS = 5


def load() -> Kernels:
    """Return the compiled loops; compiles those whose machine code is not in the cache."""
    kernels = Kernels(scan, append, derive, replies)
    constant = np.frombuffer(b"\0", dtype=np.uint8)  # read-only, as are the bytes of a read
    octets = np.zeros(1, dtype=np.uint8)
    numbers = np.zeros(8, dtype=np.int64)
    rows = np.zeros((0, col.ROW_COLUMNS), dtype=np.int64)
    entries = np.zeros((3, 4), dtype=np.int64)
    places = np.zeros((1, col.PLACE_COLUMNS), dtype=np.int64)
    segments = np.zeros((0, col.SEGMENT_COLUMNS), dtype=np.int64)
    templates = np.zeros((1, 1), dtype=np.uint8)
    shapes = np.zeros((1, col.SHAPE_COLUMNS), dtype=np.int64)
    kernels.scan(constant, segments, numbers, constant, octets, rows, places)
    kernels.append(
        constant,
        octets,
        rows,
        segments,
        places,
        constant,
        templates,
        shapes,
        numbers,
        octets,
    )
    kernels.derive(octets, rows, places, octets, entries)
    # The first call for an index file passes a whole table, the next ones the rest of it.
    shape = np.zeros(2, dtype=np.int64)
    header = np.zeros(6, dtype=np.int64)
    for table in (entries, entries[:, 1:]):
        put_entries(octets, shape, header, table)
    collect(constant, 0, 0, 0, constant, 0, 0, 0, octets)
    kernels.replies(octets, rows, segments, places, constant, numbers, octets)
    return kernels


def main() -> int:
    """Fill the folder at low priority."""
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    load()
    recover_small_store()
    return 0


if __name__ == "__main__":
    sys.exit(main())
