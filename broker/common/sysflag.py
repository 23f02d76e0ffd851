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
