"""Input and results of the engine: the message to store, and the result types.

Expected failures, such as a full disk or an empty queue, are statuses and not exceptions.

**Source:** RocketMQ MessageExtBrokerInner, PutMessageResult, GetMessageResult,
QueryMessageResult and their status enums.
"""

from enum import Enum

import msgspec


class RecordTooLargeError(ValueError):
    """A record that is longer than a CommitLog file."""


class PutMessageStatus(Enum):
    """Outcome of a put; with FLUSH_… and SLAVE_NOT_AVAILABLE the message is in the log."""

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    OS_PAGE_CACHE_BUSY = "OS_PAGE_CACHE_BUSY"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"
    IN_SYNC_REPLICAS_NOT_ENOUGH = "IN_SYNC_REPLICAS_NOT_ENOUGH"
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = "LMQ_CONSUME_QUEUE_NUM_EXCEEDED"
    WHEEL_TIMER_FLOW_CONTROL = "WHEEL_TIMER_FLOW_CONTROL"
    WHEEL_TIMER_MSG_ILLEGAL = "WHEEL_TIMER_MSG_ILLEGAL"
    WHEEL_TIMER_NOT_ENABLE = "WHEEL_TIMER_NOT_ENABLE"


class GetMessageStatus(Enum):
    """Outcome of a read from a queue."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_RESET = "OFFSET_RESET"


class MessageExtBrokerInner(msgspec.Struct, gc=False):
    """A message to store.

    ``body`` is stored unchanged; ``properties`` is the encoded property string with its trailing
    0x02. Hosts are binary: address and 4-byte port (8 bytes, or 20 for IPv6); their length
    determines the host bits of ``sys_flag``. Timestamps are epoch ms. If ``tags_code`` is None,
    it is computed from the properties.
    """

    topic: str
    queue_id: int
    body: bytes | memoryview
    properties: bytes = b""
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: bytes = b"\x7f\0\0\1\0\0\0\0"
    store_host: bytes = b"\x7f\0\0\1\0\0\0\0"
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    tags_code: int | None = None


class PutMessageResult(msgspec.Struct, gc=False):
    """Outcome of one put: the record's offsets, or the reason of a refusal in ``remark``."""

    status: PutMessageStatus
    queue_offset: int = 0
    physical_offset: int = -1
    store_size: int = 0
    store_timestamp: int = 0
    message_count: int = 1
    remark: str = ""

    @property
    def physical_end(self) -> int:
        """Physical offset after the record, which a flush must reach."""
        return self.physical_offset + self.store_size


class PutBatchResult(msgspec.Struct, gc=False):
    """Outcome of the put of a batch: all records are stored, or none.

    ``queue_offset`` of the first record, ``physical_offsets`` of all, their size in bytes.
    """

    status: PutMessageStatus
    queue_offset: int = 0
    physical_offsets: list[int] = msgspec.field(default_factory=list)
    store_size: int = 0
    physical_end: int = 0
    remark: str = ""


class GetMessageResult(msgspec.Struct, gc=False):
    """Outcome of one read: whole records as ``buffers``; adjacent records share one buffer.

    ``behind_bytes`` is the distance of the last record from the end of the log.
    """

    status: GetMessageStatus
    next_begin_offset: int = 0
    min_offset: int = 0
    max_offset: int = 0
    buffers: list[memoryview] = msgspec.field(default_factory=list)
    message_count: int = 0
    total_bytes: int = 0
    suggest_slave: bool = False
    behind_bytes: int = 0


class QueryMessageResult(msgspec.Struct, gc=False):
    """Records found by key, oldest first, and the time (ms) and offset of the last index entry.

    The store does not compare keys: records of other keys with the same hash are included.
    """

    buffers: list[memoryview]
    index_last_update_timestamp: int = 0
    index_last_update_physical_offset: int = 0


class ConsumeQueueUnitView(msgspec.Struct, frozen=True, gc=False):
    """One unit of a queue, for QUERY_CONSUME_QUEUE."""

    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int


class FoundDamage(msgspec.Struct, frozen=True, kw_only=True):
    """A damaged region that recovery found: file, offset, length in bytes, reason, action taken."""

    path: str
    physical_offset: int
    length: int
    reason: str
    action: str


class RecoveryReport(msgspec.Struct, kw_only=True):
    """Findings and actions of recovery while the store was opened.

    ``batch_topics``: if topics.json is missing, the topics with BatchCQ queues, each with its
    number of queues.
    """

    clean: bool = True
    scanned_from: int = 0
    scanned_bytes: int = 0
    log_end: int = 0
    dispatched: int = 0
    removed_files: list[str] = msgspec.field(default_factory=list)
    damaged_regions: list[FoundDamage] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    batch_topics: dict[str, int] = msgspec.field(default_factory=dict)
    milliseconds: float = 0.0
