"""VectorizedIngest: serves the ordinary sends of a turn with the compiled loops.

One instance per broker, used from its event loop. Between two calls Python owns all state: queue
offsets, the end of the log and counters are read before the loops run and written after them.

**Source:** RocketMQ SendMessageProcessor, CommitLog#asyncPutMessage; no Java counterpart for the
form.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
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
from broker.remoting.ingest import LEAST_FRAMES, IngestPeer, Segment
from broker.remoting.lag import LAG_LIMIT_S
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.protocol.framing import encode_reply_json
from broker.server.context import BrokerContext
from broker.server.ingest.fields import LIMITS
from broker.server.ingest.figures import IngestFigures
from broker.server.metrics.message_type import FIFO_NAME
from broker.server.metrics.settings import is_enabled
from broker.server.processor.send.parts import SendParts
from broker.server.processor.send.send import PARSED_AT_ONCE_BYTES
from broker.server.processor.send.send_target import Target
from broker.store.block_writer import PlainQueue
from broker.store.ingest import columns as col
from broker.store.ingest.blocks import build_block

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from broker.remoting.server import Connection, RemotingServer

    Int64s = NDArray[np.int64]
    Bytes = NDArray[np.uint8]

MAX_SEGMENTS: Final = 1_024
MAX_ROWS: Final = 1_024
MAX_PLACES: Final = 256
TEXT_BYTES: Final = 1024 * 1024
OUT_BYTES: Final = 1024 * 1024
# Longer headers are rare, and only the plain path limits the number of their fields.
HEADER_BYTES: Final = 64 * 1024
_FIFO: Final = FIFO_NAME.encode()
# Values that mark the variable parts of a response when its constant parts are determined.
_MARKS: Final = (0x1D2C3B4A59687766, 1_911_191_119, 1_822_282_228, b"7q7Q7q7Q7q7Q", 1_733_373_337)


def shape_row(shape: int) -> list[int]:
    """Return the row of the template of a host shape, in the order of its columns."""
    bits = shape << HOST_SHAPE_SHIFT
    names = ("bornHost", "storeTimestamp", "reconsumeTimes", "bodyLength")
    host_at, *positions = (field_position(name, bits) for name in names)
    return [bits, FIXED_SIZES[shape], positions[0] - host_at, *positions]


class Kernels(NamedTuple):
    """The compiled loops."""

    scan: Callable[..., Any]
    append: Callable[..., Any]
    derive: Callable[..., Any]
    replies: Callable[..., Any]


class OpenPlace(NamedTuple):
    """A queue that messages of a read can be appended to, and its topic's values."""

    queue: PlainQueue
    target: Target


class VectorizedIngest:
    """Serves sends of a turn; see :class:`broker.remoting.ingest.TurnIngest`."""

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
            server.routes[RequestCode.SEND_BATCH_MESSAGE],
        ]
        self._access = max(route.access for route in self._routes)
        self._rows = np.zeros((MAX_ROWS, col.ROW_COLUMNS), dtype=np.int64)
        self._places = np.zeros((MAX_PLACES, col.PLACE_COLUMNS), dtype=np.int64)
        self._text = np.zeros(TEXT_BYTES, dtype=np.uint8)
        self._out = np.zeros(OUT_BYTES, dtype=np.uint8)
        self._records = memoryview(self._out.data)
        self._limits = np.zeros(LIMITS, dtype=np.int64)
        self._parameters = np.zeros(col.APPEND_PARAMETERS, dtype=np.int64)
        self._segments = np.zeros((MAX_SEGMENTS, col.SEGMENT_COLUMNS), dtype=np.int64)
        self.settings_changed()

    def settings_changed(self) -> None:
        """Read the parts that depend on settings again; called after the processor has."""
        self._parts = self._make_parts()
        self._typed = is_enabled(self._context.config.metrics_exporter_type)
        self._suffix = np.frombuffer(self._parts.suffix, dtype=np.uint8)
        try:
            self._pieces, self._ends = reply_pieces(self._parts.reply, self._parts.store_host)
        except ValueError:
            self._usable = False
            return
        self._usable = True
        self._set_templates()

    # ---- one turn

    def take(self, segments: Sequence[Segment]) -> int:
        """Serve the ordinary sends at the start of each segment, and advance its position."""
        began_s = now_s()
        if self._server.share.begin(began_s) < began_s:
            return len(segments)
        part = segments[:MAX_SEGMENTS]
        done = self._take_part(part)
        elapsed_s = now_s() - began_s
        if elapsed_s > LAG_LIMIT_S:
            self._server.slow(RequestCode.SEND_MESSAGE_V2, elapsed_s)
        if any(segment.position > segment.offered for segment in part):
            return min(done + 1, len(part))
        return len(segments)

    def _is_open(self) -> bool:
        """Whether the plain path would serve a send at once."""
        if self._server.authorize is not None or not self._usable:
            return False
        for route in self._routes:
            lane = route.lane
            if lane.rejecting or lane.queue or lane.running >= lane.limits.concurrency:
                return False
        return True

    def _take_part(self, segments: Sequence[Segment]) -> int:
        """Serve the segments of one table by as many calls as the other tables need.

        Returns how many segments ended; the next one stopped before a frame that does not fit into
        the file, or that may not be served now.
        """
        parts: list[bytes] = []
        lines: list[tuple[int, ...]] = []
        end = 0
        for segment in segments:
            host_at = end
            peer, octets = segment.peer, segment.rest
            host = peer.remote_host
            parts += host, octets
            start = host_at + len(host)
            end = start + len(octets)
            stop = end if self._access <= peer.access else start
            lines.append(
                (start, stop, host_at, len(host) == HOST_V6_SIZE, start, 0, 0, col.FULL, 0)
            )
        data = b"".join(parts)
        table = self._segments[: len(segments)]
        table[:] = lines
        view = np.frombuffer(data, dtype=np.uint8)
        done = 0
        while done < len(segments) and self._is_open() and not self._server.share.used_up:
            rest = table[done:]
            taken = self._take_rows(segments[done:], data, view, rest)
            ended = int(np.count_nonzero(rest[:, col.STOP] != col.FULL))
            if not taken and not ended:
                break
            done += ended
            rest[:, col.SEGMENT_AT] = rest[:, col.POSITION]
        for segment, line, position in zip(
            segments, lines, table[:, col.POSITION].tolist(), strict=True
        ):
            segment.position += position - line[0]
        return done

    def _take_rows(
        self, segments: Sequence[Segment], data: bytes, view: "Bytes", table: "Int64s"
    ) -> int:
        """Serve at most MAX_ROWS sends; return their number. ``table`` has the new positions."""
        context, kernels = self._context, self._kernels
        destination = context.store.blocks.destination(context.now_ms())
        if destination is None:
            return 0
        self._limits[:] = (
            self._server.limits.frame_bytes,
            HEADER_BYTES,
            context.store.config.max_message_size,
            PROPERTIES_MAX_SIZE,
            PARSED_AT_ONCE_BYTES,  # the plain path serves other requests while it reads longer ones
        )
        count, used = kernels.scan(
            view, table, self._limits, self._suffix, self._text, self._rows, self._places
        )
        if not count:
            return 0
        if self._typed and self._has_fifo(self._rows[:count]):
            table[:, col.STOP] = col.LEFT_FRAME
            return 0
        opened, stored = self._open_places(data, int(used))
        self._parameters[: col.END] = destination
        taken, size = kernels.append(
            view,
            self._text,
            self._rows[:count],
            table,
            self._places[:used],
            stored,
            self._templates,
            self._shapes,
            self._parameters,
            self._out,
        )
        if taken:
            rows = self._rows[:taken]
            self._store(opened, rows, int(size))
            self._respond([segment.peer for segment in segments], table, rows)
            self._figures.frames += int(taken)
            self._figures.reads += 1
        return int(taken)

    def _has_fifo(self, rows: "Int64s") -> bool:
        """Whether metrics may count one of the messages as ``fifo``: the loops count no types."""
        end = int((rows[:, col.PROPERTIES_AT] + rows[:, col.PROPERTIES_LENGTH]).max())
        return _FIFO in self._text[:end].tobytes()

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
                0,
                topic.key_prefix,
                0,
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

    def _set_templates(self) -> None:
        """Make the fixed parts of records: the store host, zeros elsewhere."""
        store_host = self._parts.store_host
        shapes = [born_v6 | (len(store_host) == HOST_V6_SIZE) << 1 for born_v6 in range(2)]
        self._shapes = np.array([shape_row(shape) for shape in shapes], dtype=np.int64)
        self._templates = np.zeros((2, max(FIXED_SIZES)), dtype=np.uint8)
        zeros = [0] * 15
        for template, shape in zip(self._templates, shapes, strict=True):
            packed = FIXED_STRUCTS[shape].pack(*zeros[:9], b"", 0, store_host, *zeros[12:])
            template[: len(packed)] = np.frombuffer(packed, dtype=np.uint8)

    # ---- results

    def _store(
        self,
        opened: "list[OpenPlace | None]",
        rows: "Int64s",
        size: int,
    ) -> None:
        """Append the records, queue their dispatch and count them."""
        places = self._places[: len(opened)]
        queues = [None if found is None else found.queue for found in opened]
        block = build_block(
            self._kernels.derive, self._parameters, self._text, rows, places, queues
        )
        taken = [
            (found, place[col.TAKEN], place[col.TAKEN_BYTES], place[col.TAKEN_FRAMES])
            for found, place in zip(opened, places.tolist(), strict=True)
            if found is not None and place[col.TAKEN]
        ]
        self._context.store.blocks.append(
            self._records[:size], block, [(found.queue, count) for found, count, *_ in taken]
        )
        for found, count, octets, frames in taken:
            self._count(found.target, octets, count, frames)

    def _count(self, target: Target, octets: int, count: int, frames: int) -> None:
        """Add to the statistics as ``frames`` sends, not as one."""
        self._parts.add(target, octets, count)
        more = frames - 1
        target.put_nums.calls += more
        target.put_size.calls += more
        self._context.stats.put.calls += more

    def _respond(self, peers: list[IngestPeer], table: "Int64s", rows: "Int64s") -> None:
        if self._parts.flushed is not None:
            self._respond_flushed(peers, rows)
            return
        done = 0
        while done < len(rows):
            part = rows[done:]
            count = int(
                self._kernels.replies(
                    self._text, part, table, self._places, self._pieces, self._ends, self._out
                )
            )
            start = 0
            for peer, end in zip(peers, table[:, col.REPLY_END].tolist(), strict=True):
                if end:
                    peer.send(bytes(self._records[start:end]))
                    start = end
            done += count

    def _respond_flushed(self, peers: list[IngestPeer], rows: "Int64s") -> None:
        """Pass the responses to the group commit, one by one as the plain path does."""
        parts, flushed = self._parts, self._parts.flushed
        assert flushed is not None
        queue_ids = self._places[:, col.QUEUE_ID].tolist()
        an_id = b"%b%%016X" % parts.store_host.hex().upper().encode()
        table = rows.tolist()
        number = 0
        while number < len(table):
            row = table[number]
            frame = table[number : number + 1 + row[col.MORE]]
            number += len(frame)
            at = row[col.REPLY_KEY_AT]
            key = self._text[at : at + row[col.REPLY_KEY_LENGTH]].tobytes()
            place = queue_ids[row[col.PLACE]], row[col.QUEUE_OFFSET]
            reply = parts.reply
            if len(frame) > 1:
                reply = reply.replace(b'"%b"' % an_id, b'"%b"' % b",".join([an_id] * len(frame)), 1)
            offsets = [one[col.PHYSICAL_OFFSET] for one in frame]
            end = offsets[-1] + frame[-1][col.SIZE]
            request = RemotingCommand(opaque=row[col.OPAQUE])
            connection = cast("Connection", peers[row[col.SEGMENT]])
            flushed.wait(connection, request, reply % (*offsets, *place, key), end)


def reply_pieces(reply: bytes, store_host: bytes) -> "tuple[Bytes, Int64s]":
    """Return the constant parts of a response's header, joined, and the ends of the six parts.

    After the ends: the start of the store host's digits, with which the first part ends. All are
    determined from an encoded response, so that its encoding has one implementation.
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
    ends = list(accumulate(map(len, parts)))
    positions = np.array([*ends, ends[0] - 2 * len(store_host)], dtype=np.int64)
    return np.frombuffer(b"".join(parts), dtype=np.uint8), positions
