"""The int64 tables that ingest kernels and Python share: their columns."""

from typing import Final

# One row per message. The columns up to BODY_LENGTH are written by `scan`: positions of texts refer
# to the text buffer, BODY_AT to the received bytes. The others are written by `append` and
# `replies`. The messages of a batch have equal SHARED_COLUMNS; MORE is the number of those that
# follow in the same frame. Only the last row of a frame has a REPLY_END.
(
    FRAME_END,
    SEGMENT,
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
) = range(26)
ROW_COLUMNS: Final = 26
SHARED_COLUMNS: Final = MORE

# One row per connection of a turn: the bytes from SEGMENT_AT to SEGMENT_END are to be served; its
# born host is at HOST_AT, and SHAPE is the row of its template. `scan` writes STOP; `append` writes
# POSITION, after the last frame that was stored, FIRST_ROW and TAKEN_ROWS, and may change STOP.
(
    SEGMENT_AT,
    SEGMENT_END,
    HOST_AT,
    SHAPE,
    POSITION,
    FIRST_ROW,
    TAKEN_ROWS,
    STOP,
) = range(8)
SEGMENT_COLUMNS: Final = 8

# Why a segment ended: no whole frame is left, the next frame needs the plain path, or a table or a
# file is full and the call is to be repeated from POSITION on.
NO_FRAME, LEFT_FRAME, FULL = range(3)

# One row per queue that the messages of a turn name; Python fills in the columns from OPEN on.
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

# Parameters of `append`: where the records go.
(
    START,
    CAPACITY,
    STORE_TIMESTAMP,
) = range(3)
APPEND_PARAMETERS: Final = 3

# One row per template of `append`, which differ in the size of the born host: the positions that
# depend on it.
(
    SHAPE_BITS,
    FIXED_SIZE,
    HOST_SIZE,
    STORED_TIME_AT,
    RECONSUME_AT,
    BODY_LENGTH_AT,
) = range(6)
SHAPE_COLUMNS: Final = 6
