"""Add index entries by the thousand during recovery of long logs; needs numba (extra ``fast``).

The written bytes are those that :mod:`~broker.store.index.index_service` writes entry by entry.

**Source:** no Java counterpart; see IndexFile#putKey for one entry.
"""

from typing import TYPE_CHECKING

import numpy as np

from broker.errors import StoreError
from broker.store.format.indexfile import IndexHeader
from broker.store.format.vectorized import kernels
from broker.store.index.index_service import IndexService

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]


def put_entries(index: IndexService, entries: "Int64s") -> None:
    """Append entries, an int64 array of shape (3, n): hash, physical offset, storeTimestamp.

    DiskFullError if a further file cannot be created; entries added before remain.
    """
    done = 0
    while done < entries.shape[1]:
        file = index.writable()
        header = np.array(file.header, dtype=np.int64)
        shape = np.array((file.slots, file.max_entries), dtype=np.int64)
        view = np.frombuffer(file.file.mapping, dtype=np.uint8)
        taken = int(kernels.put_entries(view, shape, header, entries[:, done:]))
        if taken < 0:
            raise StoreError(f"{file.file.path}: not an index file of {file.slots} slots")
        if taken:
            file.read_header(IndexHeader._make(header.tolist()))
            file.header_flushed = file.synced = False
        done += taken
