"""Frames: the length-prefixed envelope of every command.

::

    0        4      5              8            8+h          4+length
    +--------+------+--------------+------------+------------+
    | length | type | header length| header (h) | body       |
    +--------+------+--------------+------------+------------+

``length`` excludes its own 4 bytes; ``type`` is 0 for a JSON header, 1 for a ROCKETMQ header. A
missing body and an empty body are the same.

**Source:** RocketMQ ``NettyDecoder``, ``NettyEncoder``, ``RemotingCommand#decode``.
"""

from struct import Struct
from typing import TYPE_CHECKING, TypeVar

from broker.errors import ForeignProtocolError, LocalProtocolError, RemoteProtocolError
from broker.remoting.protocol.codes import LANGUAGE, VERSION
from broker.remoting.protocol.command import ROCKETMQ, RemotingCommand
from broker.remoting.protocol.serialize import (
    MAX_HEADER_BYTES,
    SERIALIZE_ROCKETMQ,
    decode_header,
    decode_json_header,
    encode_header,
)

if TYPE_CHECKING:
    from broker.remoting.protocol.command import Buffer

AnyError = TypeVar("AnyError", bound=BaseException)

FRAME_LIMIT_BYTES = 16 * 1024 * 1024
"""Largest frame, its length word included; Java's ``com.rocketmq.remoting.frameMaxLength``."""

PREFIX = Struct(">II")
"""Length and header length of a frame; the type, 0 for JSON, is the first byte of the latter."""
_UINT32 = Struct(">I")

_HTTP_STARTS = (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"DELE", b"PATC", b"CONN", b"TRAC")
_FOREIGN = (
    (b"PRI ", "gRPC"),
    (b"HTTP", "HTTP"),
    (b"PROX", "PROXY protocol"),
    (b"\r\n\r\n", "PROXY protocol"),
    (b"\x16\x03", "TLS"),
)


def foreign_protocol(start: bytes) -> str | None:
    """Return the protocol that a connection's first four bytes belong to, None if unknown.

    Detects HTTP, TLS, gRPC and the PROXY protocol. None of these bytes can start a frame: the
    first byte of a frame of at most 16 MiB is 0 or 1.
    """
    head = bytes(start[:4])
    if head in _HTTP_STARTS:
        return "HTTP"
    for sign, kind in _FOREIGN:
        if head.startswith(sign):
            return kind
    return None


def without_frames(error: AnyError) -> AnyError:
    """Remove the tracebacks of an error that is kept, and of its causes.

    Their frames refer to those of the callers, and so to all bytes of the loop iteration.
    """
    one: BaseException | None = error
    while one is not None:
        one.__traceback__ = None
        one = one.__cause__ or one.__context__
    return error


class FrameDecoder:
    """Decode a stream of bytes, split at any position, into commands.

    Buffers at most one frame of at most ``frame_limit`` bytes plus the data of one ``feed``. After
    an error the frame boundaries are lost: every further ``feed`` raises the same error.
    """

    __slots__ = ("_pending", "_started", "failure", "frame_limit", "header_limit", "needed")

    def __init__(
        self, frame_limit: int = FRAME_LIMIT_BYTES, header_limit: int = MAX_HEADER_BYTES
    ) -> None:
        self.frame_limit = frame_limit
        self.header_limit = header_limit
        self.failure: RemoteProtocolError | None = None
        """The error that ended decoding; set even if ``feed`` first returned valid frames."""
        self._pending = bytearray()
        self.needed = 0  # length of _pending required for the next step
        self._started = False  # a frame was decoded: the peer speaks this protocol

    @property
    def pending_bytes(self) -> int:
        """Number of buffered bytes of an incomplete frame."""
        return len(self._pending)

    def feed(self, data: bytes) -> list[RemotingCommand]:
        """Add received bytes; returns the frames that are now complete, in order.

        Raises RemoteProtocolError (ForeignProtocolError for another protocol) at the first invalid
        frame. If valid frames precede it in the same ``data``, they are returned, ``failure`` is
        set, and the next call raises.
        """
        if self.failure is not None:
            raise self.failure
        if self.needed:
            self._pending += data
            if len(self._pending) < self.needed:
                return []
            data = bytes(self._pending)
            self._pending = bytearray()
            self.needed = 0
        commands: list[RemotingCommand] = []
        try:
            self._scan(data, commands)
        except RemoteProtocolError as err:
            self.failure = without_frames(err)
        except Exception as err:  # invalid input must close its connection, never raise further up
            self.failure = RemoteProtocolError(f"frame: {type(err).__name__}: {err}"[:500])
            self.failure.__cause__ = without_frames(err)
        if self.failure is not None and not commands:
            raise self.failure
        return commands

    def join_pending(self, data: bytes) -> bytes | None:
        """Return the buffered bytes followed by ``data``, and drop them; None: too few for a frame.

        For a reader that takes frames before :meth:`feed` gets the rest.
        """
        if len(self._pending) + len(data) < self.needed:
            return None
        joined = bytes(self._pending) + data
        self._pending = bytearray()
        self.needed = 0
        return joined

    def note_frames(self) -> None:
        """Note that valid frames of this stream were decoded elsewhere."""
        self._started = True

    def _scan(self, data: bytes, commands: list[RemotingCommand]) -> None:
        position = 0
        size = len(data)
        limit = self.frame_limit - 4
        while size - position >= 8:
            length, word = PREFIX.unpack_from(data, position)
            if length > limit or length < 4 or word > 0x1FFFFFF:
                self._refuse(data, position)
            start = position + 8
            body = start + (word & 0xFFFFFF)
            end = position + 4 + length
            if body > end or body - start > self.header_limit:
                self._refuse(data, position)
            if end > size:
                self._keep(data, position, end - position)
                return
            self._started = True
            if word <= 0xFFFFFF:
                command = decode_json_header(data[start:body])
            else:
                command = decode_header(word >> 24, data[start:body])
            command.body = data[body:end]
            commands.append(command)
            position = end
        if position < size:
            if size - position >= 4:
                (length,) = _UINT32.unpack_from(data, position)
                if length > limit or length < 4:
                    self._refuse(data, position)
            self._keep(data, position, 8 if size - position >= 4 else 4)

    def _keep(self, data: bytes, position: int, needed: int) -> None:
        self._pending = bytearray(data[position:] if position else data)
        self.needed = needed

    def _refuse(self, data: bytes, position: int) -> None:
        """Raise the error for the rule that the frame at ``position`` violates."""
        if not self._started:
            kind = foreign_protocol(data[position : position + 4])
            if kind is not None:
                raise ForeignProtocolError(kind)
        (length,) = _UINT32.unpack_from(data, position)
        if length > self.frame_limit - 4:
            raise RemoteProtocolError(
                f"frame of {length + 4} bytes is above the limit of {self.frame_limit}",
                "send smaller messages or batches",
                position=position,
            )
        if length < 4:
            raise RemoteProtocolError(
                f"frame of length {length} has no room for its header length", position=position
            )
        word = _UINT32.unpack_from(data, position + 4)[0]
        if word >> 24 > SERIALIZE_ROCKETMQ:
            raise RemoteProtocolError(
                f"frame: unknown serialize type {word >> 24}", position=position + 4
            )
        header_size = word & 0xFFFFFF
        if header_size <= length - 4:
            raise RemoteProtocolError(
                f"header of {header_size} bytes is above the limit of {self.header_limit}",
                "send shorter properties",
                position=position + 4,
            )
        raise RemoteProtocolError(
            f"frame of length {length}: header of {header_size} bytes does not fit",
            position=position + 4,
        )


def encode_frame(command: RemotingCommand) -> bytes:
    """Encode a frame as one bytes object. Raises LocalProtocolError if it is too large."""
    header = encode_header(command)
    body = command.body
    if not isinstance(body, bytes):
        body = command.body_bytes()
    return b"%b%b%b" % (_prefix(command, len(header), len(body)), header, body)


def encode_frame_parts(command: RemotingCommand) -> list["Buffer"]:
    """Encode a frame as buffers to write in order; the body's buffers are not copied.

    Raises LocalProtocolError if the frame is too large.
    """
    header = encode_header(command)
    body = command.body
    if isinstance(body, bytes | bytearray | memoryview):
        buffers: list[Buffer] = [body] if len(body) else []
    else:
        buffers = list(body)
    size = 0
    for buffer in buffers:
        size += len(buffer)
    return [_prefix(command, len(header), size) + header, *buffers]


def _prefix(command: RemotingCommand, header_size: int, body_size: int) -> bytes:
    length = 4 + header_size + body_size
    if length > FRAME_LIMIT_BYTES - 4 or header_size > MAX_HEADER_BYTES:
        raise LocalProtocolError(
            f"code {command.code}: frame of {length + 4} bytes is above the limit of "
            f"{FRAME_LIMIT_BYTES}, or its header of {header_size} above {MAX_HEADER_BYTES}",
            "send smaller messages or batches",
        )
    kind = SERIALIZE_ROCKETMQ << 24 if command.serialize_type == ROCKETMQ else 0
    return PREFIX.pack(length, kind | header_size)


_LANGUAGE = LANGUAGE.encode().replace(b"%", b"%%")


def _reply_header(code: bytes, ext: bytes, opaque: bytes, remark: bytes) -> bytes:
    """Return the JSON header of a response with these parts; ``remark`` has its name."""
    return (
        b'{"code":%b,"extFields":%b,"flag":1,"language":"%b","opaque":%b%b,'
        b'"serializeTypeCurrentRPC":"JSON","version":%d}'
        % (code, ext, _LANGUAGE, opaque, remark, VERSION)
    )


_REPLY = _reply_header(b"%d", b"%b", b"%d", b"%b")


def reply_format(code: int, ext_format: bytes, remark_json: bytes = b"") -> bytes:
    """Return the format of a header of :func:`encode_reply_json`; the last value is the opaque."""
    remark = b',"remark":' + remark_json if remark_json else b""
    return _reply_header(b"%d" % code, ext_format, b"%d", remark)


def encode_reply_json(
    opaque: int, code: int, ext_json: bytes, *, remark_json: bytes = b"", body_size: int = 0
) -> bytes:
    """Encode length word and header of a response whose ext fields are already JSON.

    Used for send and pull responses, where a command object per message would cost more than the
    rest of the request. ``ext_json`` is a JSON object with string values, ``remark_json`` a JSON
    string or empty. The caller appends the body of ``body_size`` bytes.
    """
    header = _REPLY % (
        code,
        ext_json,
        opaque,
        b',"remark":' + remark_json if remark_json else b"",
    )
    size = len(header)
    return PREFIX.pack(4 + size + body_size, size) + header
