"""The int64 tables that ingest kernels and Python share: their columns."""

from typing import Final

# One row per message. The columns up to BODY_LENGTH are written by `scan`: positions of texts refer
# to the text buffer, BODY_AT to the read bytes. The others are written by `append` and `replies`.
(
    FRAME_END,
    OPAQUE,
    PLACE,
    FLAG,
    SYS_FLAG,
    BORN_TIMESTAMP,
    RECONSUME_TIMES,
    PROPERTIES_AT,
    PROPERTIES_LENGTH,
    UNIQ_KEY_AT,
    UNIQ_KEY_LENGTH,
    TAGS_AT,
    TAGS_LENGTH,
    KEYS_AT,
    KEYS_LENGTH,
    BODY_AT,
    BODY_LENGTH,
    PHYSICAL_OFFSET,
    SIZE,
    QUEUE_OFFSET,
    TAGS_CODE,
    REPLY_END,
) = range(22)
ROW_COLUMNS: Final = 22

# One row per queue that the messages of a read name; Python fills in the columns from OPEN on.
(
    TOPIC_AT,
    TOPIC_LENGTH,
    QUEUE_ID,
    COUNT,
    OPEN,
    NEXT_OFFSET,
    TOPIC_SYS_FLAG,
    MAGIC,
    STORED_AT,
    STORED_LENGTH,
    TAKEN,
    TAKEN_BYTES,
    KEY_PREFIX,
    FIRST_UNIT,
) = range(14)
PLACE_COLUMNS: Final = 14

# Parameters of `append`: where the records go, and the positions that depend on the host shape.
(
    START,
    CAPACITY,
    STORE_TIMESTAMP,
    SHAPE_BITS,
    FIXED_SIZE,
    STORED_TIME_AT,
    RECONSUME_AT,
    BODY_LENGTH_AT,
) = range(8)
APPEND_PARAMETERS: Final = 8
