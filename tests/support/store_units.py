"""Units of derived files for tests that compose or damage them; the engine packs whole batches."""

from broker.store.format.consumequeue import (
    BATCH_UNIT_STRUCT,
    UNIT_STRUCT,
    BatchConsumeQueueUnit,
)
from broker.store.format.indexfile import ENTRY_STRUCT, IndexEntry


def encode_unit(physical_offset: int, size: int, code: int = 0) -> bytes:
    """Encode a SimpleCQ unit."""
    return UNIT_STRUCT.pack(physical_offset, size, code)


def encode_batch_unit(unit: BatchConsumeQueueUnit) -> bytes:
    """Encode a batch unit."""
    return BATCH_UNIT_STRUCT.pack(*unit)


def encode_entry(entry: IndexEntry) -> bytes:
    """Encode the 20 bytes of an entry."""
    return ENTRY_STRUCT.pack(*entry[1:])
