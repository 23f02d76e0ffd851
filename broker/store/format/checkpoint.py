"""The store checkpoint: the time up to which each kind of file is known to be on disk.

Five longs at the start of a 4096-byte file; 4.9 uses the first three.

**Source:** RocketMQ ``StoreCheckpoint``.
"""

from typing import Final, NamedTuple

from broker.errors import RemoteProtocolError
from broker.message.record import Buffer
from broker.store.format.table import Layout, rows

LAYOUT: Final = Layout(
    name="checkpoint",
    title="Store checkpoint",
    path="checkpoint",
    fields=rows(
        ("physicMsgTimestamp", "long", 8, "storeTimestamp flushed in the CommitLog, ms"),
        ("logicsMsgTimestamp", "long", 8, "storeTimestamp flushed in ConsumeQueues, ms"),
        ("indexMsgTimestamp", "long", 8, "storeTimestamp flushed in full IndexFiles, ms"),
        (
            "masterFlushedOffset",
            "long",
            8,
            "controller mode: physical offset flushed by the master",
            "5.0",
        ),
        ("confirmPhysicalOffset", "long", 8, "physical offset safe to dispatch", "5.0"),
    ),
    notes=("The file is 4096 bytes long; the rest is zeros.",),
)
FILE_SIZE: Final = 4096
_STRUCT = LAYOUT.packer()
# Safety margin before the earliest timestamp: CommitLog and queues are not flushed together.
_SAFETY_MS: Final = 3000


class Checkpoint(NamedTuple):
    """The five values; times in ms, 0 for never."""

    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_physical_offset: int = 0

    @property
    def min_timestamp(self) -> int:
        """Records stored up to this time are on disk in log and queues, ms.

        **Source:** RocketMQ ``StoreCheckpoint#getMinTimestamp``.
        """
        return max(min(self.physic_msg_timestamp, self.logics_msg_timestamp) - _SAFETY_MS, 0)

    @property
    def min_timestamp_index(self) -> int:
        """Records stored up to this time are on disk in log, queues and full index files, ms."""
        return min(self.min_timestamp, self.index_msg_timestamp)


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Encode the 4096 bytes of a checkpoint file."""
    return _STRUCT.pack(*checkpoint).ljust(FILE_SIZE, b"\0")


def decode_checkpoint(buf: Buffer) -> Checkpoint:
    """Decode a checkpoint file; RemoteProtocolError if it is too short."""
    if len(buf) < _STRUCT.size:
        raise RemoteProtocolError(
            f"checkpoint of {len(buf)} bytes, {FILE_SIZE} expected", position=len(buf)
        )
    return Checkpoint._make(_STRUCT.unpack_from(buf))
