"""`scan` on bytes of a connection; each row is compared with the frame as it is decoded."""

import json
from itertools import groupby
from typing import Any

import numpy as np

from broker.message.batch import scan_batch
from broker.message.properties import PROPERTIES_MAX_SIZE, decode_properties, peek_property
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.protocol.framing import FRAME_LIMIT_BYTES, FrameDecoder
from broker.server.ingest.scanning.kernels import scan
from broker.server.ingest.vectorized_ingest import HEADER_BYTES
from broker.server.processor.send.send import PARSED_AT_ONCE_BYTES
from broker.server.processor.send.send_target import SHORT_NAMES, is_special
from broker.store.format.consumequeue import peek_tags
from broker.store.format.indexfile import message_keys, peek_message_keys
from broker.store.ingest import columns as col

SUFFIX = b"MSG_REGION\x01R\x02TRACE_ON\x01true\x02CLUSTER\x01C\x02"
LIMITS = np.array(
    [FRAME_LIMIT_BYTES, HEADER_BYTES, 4 << 20, PROPERTIES_MAX_SIZE, PARSED_AT_ONCE_BYTES]
)


class Scanned:
    """The tables after one call."""

    def __init__(
        self, data: bytes, start: int = 0, *, rows: int = 64, text: int = 1 << 17, places: int = 16
    ) -> None:
        self.data = data
        self.rows = np.zeros((rows, col.ROW_COLUMNS), dtype=np.int64)
        self.places = np.zeros((places, col.PLACE_COLUMNS), dtype=np.int64)
        self.text = np.zeros(text, dtype=np.uint8)
        view = np.frombuffer(data or b"\0", dtype=np.uint8)
        suffix = np.frombuffer(SUFFIX, dtype=np.uint8)
        segments = np.zeros((1, col.SEGMENT_COLUMNS), dtype=np.int64)
        segments[0, [col.SEGMENT_AT, col.SEGMENT_END]] = start, len(data)
        found = scan(view, segments, LIMITS, suffix, self.text, self.rows, self.places)
        self.count, self.used = map(int, found)
        self.position = int(self.rows[self.count - 1, col.FRAME_END]) if self.count else start
        self.stop = int(segments[0, col.STOP])

    def slice(self, row: Any, column: int) -> bytes:
        at = int(row[column])
        return self.text[at : at + int(row[column + 1])].tobytes()


def check(data: bytes, start: int = 0, **tables: int) -> Scanned:
    """Compare the rows of every frame with the frame that the plain path decodes."""
    found = Scanned(data, start, **tables)
    before = start
    for end, group in groupby(found.rows[: found.count], lambda row: int(row[col.FRAME_END])):
        rows = list(group)
        (command,) = FrameDecoder().feed(data[before:end])
        compare_frame(found, rows, command)
        before = end
    assert found.position == before
    return found


def compare_frame(found: Scanned, rows: list[Any], command: RemotingCommand) -> None:
    ext = command.ext_fields
    if command.code == RequestCode.SEND_MESSAGE:
        ext = {SHORT_NAMES.get(name, name): value for name, value in ext.items()}
    else:
        assert command.code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
    is_batch = command.code == RequestCode.SEND_BATCH_MESSAGE or ext.get("m") == "true"
    body, raw = command.body_bytes(), ext["i"].encode()
    items = list(scan_batch(body)) if is_batch else [(int(ext["h"]), body, raw)]
    assert [row[col.MORE] for row in rows] == list(range(len(items)))[::-1]
    retries = 0 if is_batch else int(ext.get("j") or 0)
    numbers = [int(ext["e"]), int(ext["f"]), int(ext["g"]), retries]
    key = peek_property(raw, b"UNIQ_KEY") or b""
    assert json.dumps(key.decode()) == f'"{key.decode()}"'
    if is_batch:
        assert set(decode_properties(raw)) <= {"UNIQ_KEY", "WAIT"}
    assert decode_properties(raw).get("WAIT") != "false"
    for row, item in zip(rows, items, strict=True):
        assert (command.flag, command.opaque) == (0, row[col.OPAQUE])
        place = found.places[int(row[col.PLACE])]
        at = int(place[col.TOPIC_AT])
        assert found.data[at : at + int(place[col.TOPIC_LENGTH])].decode() == ext["b"]
        columns = (col.SYS_FLAG, col.BORN_TIMESTAMP, col.RECONSUME_TIMES)
        assert numbers == [place[col.QUEUE_ID], *(row[column] for column in columns)]
        assert found.slice(row, col.REPLY_KEY_AT) == key
        compare_message(found, row, *item)


def compare_message(found: Scanned, row: Any, flag: int, body: bytes, raw: bytes) -> None:
    assert row[col.FLAG] == flag
    assert not is_special(raw.decode())
    properties = found.slice(row, col.PROPERTIES_AT)
    assert properties == (raw if raw.endswith(b"\x02") else raw + b"\x02") + SUFFIX
    uniq_key = found.slice(row, col.UNIQ_KEY_AT)
    assert uniq_key == peek_property(raw, b"UNIQ_KEY")
    assert found.slice(row, col.TAGS_AT) == peek_tags(properties)
    keys = found.slice(row, col.KEYS_AT).decode()
    words = message_keys(uniq_key.decode(), keys)
    assert words == [word.decode() for word in peek_message_keys(properties)]
    at = int(row[col.BODY_AT])
    assert found.data[at : at + int(row[col.BODY_LENGTH])] == body
