"""VectorizedIngest: serves the ordinary sends of a read with the compiled loops.

One instance per broker, used from its event loop. Between two calls Python owns all state: queue
offsets, the end of the log and counters are read before the loops run and written after them.

**Source:** RocketMQ SendMessageProcessor, CommitLog#asyncPutMessage; no Java counterpart for the
form.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from broker.message.properties import PROPERTIES_MAX_SIZE
from broker.message.record import (
    FIXED_SIZES,
    FIXED_STRUCTS,
    HOST_SHAPE_SHIFT,
    HOST_V6_SIZE,
    field_position,
)
from broker.remoting.connection import now_s
from broker.remoting.ingest import LEAST_BYTES, LEAST_FRAMES, IngestPeer
from broker.remoting.lag import LAG_LIMIT_S
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.protocol.framing import encode_reply_json
from broker.remoting.protocol.serialize import MAX_HEADER_BYTES
from broker.server.context import BrokerContext
from broker.server.ingest.figures import IngestFigures
from broker.server.metrics.message_type import FIFO_NAME
from broker.server.metrics.settings import is_enabled
from broker.server.processor.send.parts import SendParts
from broker.server.processor.send.send_target import Target
from broker.store.block_writer import Destination, PlainQueue
from broker.store.ingest import columns as col
from broker.store.ingest.blocks import build_block

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from broker.remoting.server import Connection, RemotingServer

    Int64s = NDArray[np.int64]
    Bytes = NDArray[np.uint8]

MAX_ROWS: Final = 1_024
MAX_PLACES: Final = 64
TEXT_BYTES: Final = 1024 * 1024
OUT_BYTES: Final = 1024 * 1024
# Values that mark the variable parts of a response when its constant parts are determined.
_MARKS: Final = (0x1D2C3B4A59687766, 1_911_191_119, 1_822_282_228, b"7q7Q7q7Q7q7Q", 1_733_373_337)

# By host shape: SHAPE_BITS and the parameters of `append` after it.
_SHAPES: Final = [
    (
        shape << HOST_SHAPE_SHIFT,
        FIXED_SIZES[shape],
        *[
            field_position(name, shape << HOST_SHAPE_SHIFT)
            for name in ("storeTimestamp", "reconsumeTimes", "bodyLength")
        ],
    )
    for shape in range(4)
]


class Kernels(NamedTuple):
    """The compiled loops, and the tables of their checksum."""

    scan: Callable[..., Any]
    append: Callable[..., Any]
    derive: Callable[..., Any]
    replies: Callable[..., Any]
    crc_tables: "NDArray[np.uint32]"


class OpenPlace(NamedTuple):
    """A queue that messages of a read can be appended to, and its topic's values."""

    queue: PlainQueue
    target: Target


class VectorizedIngest:
    """Serves sends of a read; see :class:`broker.remoting.ingest.ReadIngest`."""

    least_bytes = LEAST_BYTES
    least_frames = LEAST_FRAMES

    def __init__(
        self,
        context: BrokerContext,
        server: "RemotingServer",
        parts: Callable[[], SendParts],
        kernels: Kernels,
        figures: IngestFigures,
    ) -> None:
        self._context = context
        self._server = server
        self._make_parts = parts
        self._kernels = kernels
        self._figures = figures
        self._routes = [
            server.routes[RequestCode.SEND_MESSAGE],
            server.routes[RequestCode.SEND_MESSAGE_V2],
        ]
        self._rows = np.zeros((MAX_ROWS, col.ROW_COLUMNS), dtype=np.int64)
        self._places = np.zeros((MAX_PLACES, col.PLACE_COLUMNS), dtype=np.int64)
        self._text = np.zeros(TEXT_BYTES, dtype=np.uint8)
        self._out = np.zeros(OUT_BYTES, dtype=np.uint8)
        self._records = memoryview(self._out.data)
        self._limits = np.zeros(4, dtype=np.int64)
        self._parameters = np.zeros(col.APPEND_PARAMETERS, dtype=np.int64)
        self._templates: dict[bytes, Bytes] = {}
        self.settings_changed()

    def settings_changed(self) -> None:
        """Read the parts that depend on settings again; called after the processor has."""
        self._parts = self._make_parts()
        self._typed = is_enabled(self._context.config.metrics_exporter_type)
        self._suffix = np.frombuffer(self._parts.suffix, dtype=np.uint8)
        try:
            self._pieces, self._ends = reply_pieces(self._parts.reply)
        except ValueError:
            self._usable = False
            return
        self._usable = True
        self._templates.clear()

    # ---- one read

    def take(self, peer: IngestPeer, data: bytes, start: int) -> int:
        """Serve ordinary sends from position ``start`` on; return the position after them."""
        began_s = now_s()
        if not self._is_open(peer) or self._server.share.begin(began_s) < began_s:
            return start
        position = start
        while position < len(data):
            end = self._take_rows(peer, data, position)
            if end == position:
                break
            position = end
        elapsed_s = now_s() - began_s
        if elapsed_s > LAG_LIMIT_S:
            self._server.slow(RequestCode.SEND_MESSAGE_V2, elapsed_s)
        return position

    def _is_open(self, peer: IngestPeer) -> bool:
        """Whether the plain path would serve a send of this peer at once."""
        if self._server.authorize is not None or not self._usable:
            return False
        for route in self._routes:
            lane = route.lane
            if route.access > peer.access or lane.rejecting or lane.queue:
                return False
            if lane.running >= lane.limits.concurrency:
                return False
        return True

    def _take_rows(self, peer: IngestPeer, data: bytes, start: int) -> int:
        """Serve at most MAX_ROWS sends; return the position after the last one."""
        context, kernels = self._context, self._kernels
        destination = context.store.blocks.destination(context.now_ms())
        if destination is None:
            return start
        self._limits[:] = (
            self._server.limits.frame_bytes,
            MAX_HEADER_BYTES,
            context.store.config.max_message_size,
            PROPERTIES_MAX_SIZE,
        )
        view = np.frombuffer(data, dtype=np.uint8)
        count, _, used = kernels.scan(
            view, start, self._limits, self._suffix, self._text, self._rows, self._places
        )
        if not count or (self._typed and self._has_fifo(self._rows[:count])):
            return start
        opened, stored = self._open_places(data, int(used))
        template = self._template(peer.remote_host)
        self._set_parameters(destination, len(peer.remote_host))
        taken, size = kernels.append(
            view,
            self._text,
            self._rows[:count],
            self._places[:used],
            stored,
            template,
            self._parameters,
            kernels.crc_tables,
            self._out,
        )
        if not taken:
            return start
        rows = self._rows[:taken]
        self._store(destination, opened, rows, int(size))
        self._respond(peer, rows)
        self._figures.frames += int(taken)
        self._figures.reads += 1
        return int(rows[-1, col.FRAME_END])

    def _has_fifo(self, rows: "Int64s") -> bool:
        """Whether metrics may count one of the messages as ``fifo``: the loops count no types."""
        end = int((rows[:, col.PROPERTIES_AT] + rows[:, col.PROPERTIES_LENGTH]).max())
        return FIFO_NAME in self._text[:end].tobytes()

    # ---- topics and queues

    def _open_places(self, data: bytes, used: int) -> "tuple[list[OpenPlace | None], Bytes]":
        """Open the queues that the messages name; also return their topics as in a record."""
        opened: list[OpenPlace | None] = []
        topics = bytearray()
        places = self._places[:used]
        for number, place in enumerate(places.tolist()):
            start = place[col.TOPIC_AT]
            name = data[start : start + place[col.TOPIC_LENGTH]].decode()
            found = self._open(name, place[col.QUEUE_ID], place[col.COUNT])
            opened.append(found)
            if found is None:
                places[number, col.OPEN :] = 0
                continue
            topic = found.queue.topic
            places[number, col.OPEN :] = (
                1,
                found.queue.next_offset,
                found.target.sys_flag,
                topic.magic,
                len(topics),
                topic.stored_size,
                0,
                0,
                topic.key_prefix,
                0,
            )
            topics += topic.stored
        return opened, np.frombuffer(bytes(topics) or b"\0", dtype=np.uint8)

    def _open(self, topic: str, queue_id: int, count: int) -> OpenPlace | None:
        target = self._parts.targets.get(topic)
        if target is None or target.slow or target.batch_queue or target.mappings is not None:
            return None
        if queue_id >= target.queue_limit:
            return None
        queue = self._context.store.blocks.queue(topic, queue_id, count)
        return None if queue is None else OpenPlace(queue, target)

    def _template(self, born_host: bytes) -> "Bytes":
        """Return the fixed part of a record with this born host and zeros elsewhere."""
        found = self._templates.get(born_host)
        if found is None:
            store_host = self._parts.store_host
            fields = [0] * 15
            packed = FIXED_STRUCTS[self._shape(len(born_host))].pack(
                *fields[:9], born_host, 0, store_host, *fields[12:]
            )
            found = np.frombuffer(packed, dtype=np.uint8)
            if len(self._templates) >= MAX_ROWS:
                self._templates.clear()
            self._templates[born_host] = found
        return found

    def _shape(self, born_size: int) -> int:
        return (born_size == HOST_V6_SIZE) | (len(self._parts.store_host) == HOST_V6_SIZE) << 1

    def _set_parameters(self, destination: Destination, born_size: int) -> None:
        shape = self._shape(born_size)
        self._parameters[: len(destination)] = destination
        self._parameters[len(destination) :] = _SHAPES[shape]

    # ---- results

    def _store(
        self,
        destination: Destination,
        opened: "list[OpenPlace | None]",
        rows: "Int64s",
        size: int,
    ) -> None:
        """Append the records, queue their dispatch and count them."""
        places = self._places[: len(opened)]
        queues = [None if found is None else found.queue for found in opened]
        block = build_block(self._kernels.derive, destination, self._text, rows, places, queues)
        columns = places[:, [col.TAKEN, col.TAKEN_BYTES]].tolist()
        taken = [
            (found, count, octets)
            for found, (count, octets) in zip(opened, columns, strict=True)
            if found is not None and count
        ]
        self._context.store.blocks.append(
            self._records[:size], block, [(found.queue, count) for found, count, _ in taken]
        )
        for found, count, octets in taken:
            self._count(found.target, octets, count)

    def _count(self, target: Target, octets: int, count: int) -> None:
        """Add to the statistics as ``count`` sends, not as one batch."""
        self._parts.add(target, octets, count)
        more = count - 1
        target.put_nums.calls += more
        target.put_size.calls += more
        self._context.stats.put.calls += more

    def _respond(self, peer: IngestPeer, rows: "Int64s") -> None:
        if self._parts.flushed is not None:
            self._respond_flushed(peer, rows)
            return
        done = 0
        while done < len(rows):
            part = rows[done:]
            count = int(
                self._kernels.replies(
                    self._text, part, self._places, self._pieces, self._ends, self._out
                )
            )
            peer.send(self._out[: int(part[count - 1, col.REPLY_END])].tobytes())
            done += count

    def _respond_flushed(self, peer: IngestPeer, rows: "Int64s") -> None:
        """Pass the responses to the group commit, one by one as the plain path does."""
        flushed, reply = self._parts.flushed, self._parts.reply
        assert flushed is not None
        connection = cast("Connection", peer)
        queue_ids = self._places[:, col.QUEUE_ID].tolist()
        for row in rows.tolist():
            offset = row[col.PHYSICAL_OFFSET]
            at = row[col.UNIQ_KEY_AT]
            key = self._text[at : at + row[col.UNIQ_KEY_LENGTH]].tobytes()
            place = queue_ids[row[col.PLACE]], row[col.QUEUE_OFFSET]
            request = RemotingCommand(opaque=row[col.OPAQUE])
            flushed.wait(connection, request, reply % (offset, *place, key), offset + row[col.SIZE])


def reply_pieces(reply: bytes) -> "tuple[Bytes, Int64s]":
    """Return the constant parts of a response's header, joined, and the ends of the six parts.

    They are determined from an encoded response, so that its encoding has one implementation.
    ValueError if a setting contains one of the marks.
    """
    opaque = _MARKS[4]
    header = encode_reply_json(opaque, 0, reply % _MARKS[:4])[8:]
    numbers = [b"%d" % mark for mark in (_MARKS[1], _MARKS[2], opaque)]
    texts = (b"%016X" % _MARKS[0], *numbers[:2], _MARKS[3], numbers[2])
    parts: list[bytes] = []
    rest = header
    for text in texts:
        if header.count(text) != 1:
            raise ValueError(f"a response contains {text!r} as constant text")
        part, _, rest = rest.partition(text)
        parts.append(part)
    parts.append(rest)
    ends = np.cumsum([len(part) for part in parts]).astype(np.int64)
    return np.frombuffer(b"".join(parts), dtype=np.uint8), ends
