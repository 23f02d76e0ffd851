"""The bits of the four system flags: message, pull request, topic, subscription group.

**Source:** RocketMQ MessageSysFlag, PullSysFlag, TopicSysFlag, CompressionType.
"""

# message sysFlag ---------------------------------------------------------------------------
COMPRESSED = 0x1
MULTI_TAGS = 0x2
TRANSACTION_NOT_TYPE = 0x0
TRANSACTION_PREPARED = 0x4
TRANSACTION_COMMIT = 0x8
TRANSACTION_ROLLBACK = 0xC
TRANSACTION_MASK = 0xC
BORNHOST_V6 = 0x10
STOREHOST_V6 = 0x20
NEED_UNWRAP = 0x40  # the body is a batch (5.x)
INNER_BATCH = 0x80  # one record contains several messages (5.x)
COMPRESSION_LZ4 = 0x100  # LZ4 frame format
COMPRESSION_ZSTD = 0x200
COMPRESSION_ZLIB = 0x300
COMPRESSION_MASK = 0x700  # 0 means zlib: clients older than the type bits

# pull sysFlag ------------------------------------------------------------------------------
PULL_COMMIT_OFFSET = 0x1  # commitOffset of the request is valid
PULL_SUSPEND = 0x2  # the broker may suspend the request
PULL_SUBSCRIPTION = 0x4  # the request contains its subscription
PULL_CLASS_FILTER = 0x8  # obsolete: filter servers
PULL_LITE_PULL = 0x10

# topic and group sysFlag -------------------------------------------------------------------
TOPIC_UNIT = 0x1
TOPIC_UNIT_SUB = 0x2
GROUP_UNIT = 0x1


def transaction_type(sys_flag: int) -> int:
    """Return the transaction bits: one of TRANSACTION_NOT_TYPE, _PREPARED, _COMMIT, _ROLLBACK."""
    return sys_flag & TRANSACTION_MASK


def with_transaction_type(sys_flag: int, kind: int) -> int:
    """Return ``sys_flag`` with its transaction bits replaced by ``kind``."""
    return (sys_flag & ~TRANSACTION_MASK) | kind


_MESSAGE_FLAG_NAMES = (
    (COMPRESSED, "COMPRESSED"),
    (MULTI_TAGS, "MULTI_TAGS"),
    (BORNHOST_V6, "BORNHOST_V6"),
    (STOREHOST_V6, "STOREHOST_V6"),
    (NEED_UNWRAP, "NEED_UNWRAP"),
    (INNER_BATCH, "INNER_BATCH"),
)
_TRANSACTION_NAMES = {
    TRANSACTION_PREPARED: "TRANSACTION_PREPARED",
    TRANSACTION_COMMIT: "TRANSACTION_COMMIT",
    TRANSACTION_ROLLBACK: "TRANSACTION_ROLLBACK",
}
_COMPRESSION_NAMES = {
    COMPRESSION_LZ4: "LZ4",
    COMPRESSION_ZSTD: "ZSTD",
    COMPRESSION_ZLIB: "ZLIB",
}


def message_flag_names(sys_flag: int) -> list[str]:
    """Return the names of a message sysFlag's set bits; unknown bits as one hex number."""
    names = [name for bit, name in _MESSAGE_FLAG_NAMES if sys_flag & bit]
    kind = sys_flag & TRANSACTION_MASK
    if kind:
        names.append(_TRANSACTION_NAMES[kind])
    compression = sys_flag & COMPRESSION_MASK
    rest = sys_flag & ~0x7FF
    if compression in _COMPRESSION_NAMES:
        names.append(_COMPRESSION_NAMES[compression])
    elif compression:
        rest |= compression
    if rest:
        names.append(hex(rest & 0xFFFFFFFF))
    return names
