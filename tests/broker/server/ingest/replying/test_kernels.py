"""`replies` composes the bytes of `encode_reply_json`, and stops where the buffer ends."""

import pytest

pytest.importorskip("numba", reason="the compiled loops need the extra 'fast'")
import numpy as np

from broker.remoting.protocol.framing import encode_reply_json
from broker.server.ingest.replying.kernels import replies
from broker.server.ingest.vectorized_ingest import reply_pieces
from broker.store.ingest import columns as col

REPLY = (
    b'{"MSG_REGION":"R","msgId":"7F%016X","queueId":"%d","queueOffset":"%d","transactionId":"%b"}'
)
TEXT = b"KEY1 key~2"
VALUES = [  # opaque, physical offset, queue id, queue offset
    (0, 0, 0, 0),
    (-1, 1, 9, 10),
    (-(2**31), 0xABCDEF0123456789 >> 1, 65_535, 2**62),
    (2**31 - 1, 255, 10, 99),
]


SEGMENTS = [0, 0, 2, 2]  # of the values: connection 1 has none


def compose(room: int) -> tuple[int, bytes, bytes]:
    """The number that fitted, their bytes, and the expected bytes of all."""
    rows = np.zeros((len(VALUES), col.ROW_COLUMNS), dtype=np.int64)
    places = np.zeros((len(VALUES), col.PLACE_COLUMNS), dtype=np.int64)
    segments = np.full((3, col.SEGMENT_COLUMNS), 7, dtype=np.int64)
    expected = b""
    ends_of = [0]
    for number, (opaque, physical_offset, queue_id, queue_offset) in enumerate(VALUES):
        row = rows[number]
        row[[col.OPAQUE, col.PHYSICAL_OFFSET]] = opaque, physical_offset
        row[col.SEGMENT] = SEGMENTS[number]
        row[[col.QUEUE_OFFSET, col.PLACE]] = queue_offset, number
        row[[col.REPLY_KEY_AT, col.REPLY_KEY_LENGTH]] = number, 4
        places[number, col.QUEUE_ID] = queue_id
        key = TEXT[number : number + 4]
        expected += encode_reply_json(
            opaque, 0, REPLY % (physical_offset, queue_id, queue_offset, key)
        )
        ends_of.append(len(expected))
    pieces, ends = reply_pieces(REPLY, b"\x7f")
    out = np.zeros(room, dtype=np.uint8)
    text = np.frombuffer(TEXT, dtype=np.uint8).copy()
    count = int(replies(text, rows, segments, places, pieces, ends, out))
    end = ends_of[count]
    last = {SEGMENTS[number]: ends_of[number + 1] for number in range(count)}
    assert segments[:, col.REPLY_END].tolist() == [last.get(number, 0) for number in range(3)]
    assert not out[end:].any()
    return count, out[:end].tobytes(), expected


def test_responses_equal_those_of_the_plain_path() -> None:
    count, composed, expected = compose(4_096)
    assert count == len(VALUES)
    assert composed == expected


def test_only_whole_responses_are_written() -> None:
    whole = compose(4_096)[1]
    counts = set()
    for room in range(len(whole) + 100):
        count, composed, _ = compose(room)
        assert whole.startswith(composed)
        counts.add(count)
    assert counts == set(range(len(VALUES) + 1))


def test_a_setting_that_contains_a_mark_is_refused() -> None:
    with pytest.raises(ValueError, match="constant text"):
        reply_pieces(REPLY.replace(b'"R"', b'"1911191119"'), b"\x7f")
