"""The int64 tables that ingest kernels and Python share: their columns."""

from typing import Final

# One row per message. The columns up to BODY_LENGTH are written by `scan`: positions of texts refer
# to the text buffer, BODY_AT to the received bytes. The others are written by `append`. The
# messages of a batch have equal SHARED_COLUMNS; MORE is the number of those that follow in the same
# frame.
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
) = range(25)
ROW_COLUMNS: Final = 25
SHARED_COLUMNS: Final = MORE

# One row per connection of a turn: the bytes from SEGMENT_AT to SEGMENT_END are to be served; its
# born host is at HOST_AT, and SHAPE is the row of its template. `scan` writes STOP; `append` writes
# POSITION, after the last frame that was stored, FIRST_ROW and TAKEN_ROWS, and may change STOP;
# `replies` writes REPLY_END, after the last response of the connection.
(
    SEGMENT_AT,
    SEGMENT_END,
    HOST_AT,
    SHAPE,
    POSITION,
    FIRST_ROW,
    TAKEN_ROWS,
    STOP,
    REPLY_END,
) = range(9)
SEGMENT_COLUMNS: Final = 9

# Why a segment ended: no whole frame is left, the next frame needs the plain path, or a table or a
# file is full and the call is to be repeated from POSITION on.
NO_FRAME, LEFT_FRAME, FULL = range(3)

# One row per queue that the messages of a turn name; Python fills in the columns from OPEN on.
# `derive` writes FIRST_UNIT and LAST_END, the physical offset after the last record.
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
    LAST_END,
) = range(16)
PLACE_COLUMNS: Final = 16

# Parameters of `append`: where the records go. It writes the others: the physical offset after the
# last record, the end of the properties of all records, and the sum of KEYS_LENGTH.
(
    START,
    CAPACITY,
    STORE_TIMESTAMP,
    END,
    TEXT_END,
    KEYS_BYTES,
) = range(6)
APPEND_PARAMETERS: Final = 6

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
