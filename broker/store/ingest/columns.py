"""The int64 tables that ingest kernels and Python share: their columns."""

from typing import Final

# One row per message. The columns up to BODY_LENGTH are written by `scan`: positions of texts refer
# to the text buffer, BODY_AT to the read bytes. The others are written by `append` and `replies`.
# The messages of a batch have equal SHARED_COLUMNS; MORE is the number of those that follow in the
# same frame. Only the last row of a frame has a REPLY_END.
(
    FRAME_END,
    OPAQUE,
    PLACE,
    SYS_FLAG,
    BORN_TIMESTAMP,
    RECONSUME_TIMES,
    REPLY_KEY_AT,
    REPLY_KEY_LENGTH,
    MORE,
    FLAG,
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
) = range(25)
ROW_COLUMNS: Final = 25
SHARED_COLUMNS: Final = MORE

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
    TAKEN_FRAMES,
    KEY_PREFIX,
    FIRST_UNIT,
) = range(15)
PLACE_COLUMNS: Final = 15

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
