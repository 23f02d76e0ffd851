"""Reading messages from a byte stream: NDJSON, CSV or one body per line.

The stream is read in the blocks in which it arrives, so that a slow pipe delays nothing: after the
last message of a block the readers yield :data:`PAUSE`. A line longer than ``LINE_LIMIT_BYTES`` is
skipped and reported, so memory stays bounded for any input.
"""

import csv
import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Annotated, Final, Protocol, TypeVar

import msgspec
from msgspec import Meta

from broker.common.sysflag import COMPRESSED
from broker.errors import ConfigError, RemoteProtocolError
from broker.message.compression import decompress
from mqadmin.message_row import body_bytes
from mqadmin.traffic.invalid_line import explain, refuse_field
from mqadmin.traffic.outgoing import BadInput, InputMessage

LINE_LIMIT_BYTES: Final = 32 * 1024 * 1024
"""A message has at most 4 MiB by default: base64 with properties is far below this."""

BODY_LIMIT_BYTES: Final = 64 * 1024 * 1024
BLOCK_BYTES: Final = 64 * 1024


class Pause(Enum):
    """The mark that all input which has arrived was yielded."""

    PAUSE = "pause"


PAUSE: Final = Pause.PAUSE

Value = TypeVar("Value")

Found = InputMessage | BadInput | Pause


class Stream(Protocol):
    """A binary stream that returns the bytes that have arrived."""

    def read1(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes, b"" at the end."""
        ...

    def fileno(self) -> int:
        """Return the file descriptor; OSError if there is none."""
        ...


class Line(msgspec.Struct, frozen=True):
    """One line without its line break; ``raw`` None if it was longer than the limit.

    ``last``: nothing more has arrived after it.
    """

    number: int
    raw: bytes | None
    last: bool


def read_lines(
    stream: Stream, *, limit_bytes: int = LINE_LIMIT_BYTES, read: Callable[[], bytes] | None = None
) -> Iterator[Line]:
    """Yield the lines of a stream; ``read`` replaces the call that reads the next block."""
    take = read or (lambda: stream.read1(BLOCK_BYTES))
    number = 1
    rest: list[bytes] = []
    rest_bytes = 0

    def line(*, last: bool) -> Line:
        raw = None if rest_bytes > limit_bytes else b"".join(rest).removesuffix(b"\r")
        return Line(number, raw, last)

    while block := take():
        *whole, tail = block.split(b"\n")
        for position, piece in enumerate(whole, 1):
            rest.append(piece)
            rest_bytes += len(piece)
            yield line(last=position == len(whole))
            number += 1
            rest.clear()
            rest_bytes = 0
        rest_bytes += len(tail)
        if rest_bytes > limit_bytes:
            rest.clear()
        elif tail:
            rest.append(tail)
    if rest_bytes:
        yield line(last=True)


def _too_long(line: Line) -> BadInput:
    return BadInput(
        line=line.number, raw=b"", reason=f"the line is longer than {LINE_LIMIT_BYTES} bytes"
    )


def read_bodies(lines: Iterator[Line], from_line: int) -> Iterator[Found]:
    """Each line is a body; empty lines are skipped."""
    for line in lines:
        if line.number >= from_line:
            if line.raw is None:
                yield _too_long(line)
            elif line.raw:
                yield InputMessage(line=line.number, raw=line.raw, body=line.raw)
        if line.last:
            yield PAUSE


Int = Annotated[int, Meta(ge=-(1 << 31), lt=1 << 31)]
Positive = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class Row(msgspec.Struct, rename="camel"):
    """The fields of an NDJSON line that are used; the output of msg query has more.

    ``invalid_line`` has the same rules in words.
    """

    body: str | None = None
    body_encoding: str | None = None
    topic: str | None = None
    tags: str | None = None
    keys: list[str] | str | None = None
    properties: dict[str, str] | None = None
    flag: Int = 0
    sys_flag: Int = 0
    body_size: Int = -1
    broker_name: str | None = None
    queue_id: Annotated[int, Meta(ge=0, lt=1 << 31)] | None = None
    delay_level: Positive | None = None
    delay_ms: Positive | None = None
    deliver_timestamp: Positive | None = None


_ROW: Final = msgspec.json.Decoder(Row)


def read_ndjson(lines: Iterator[Line], from_line: int) -> Iterator[Found]:
    """Each line is an object as ``msg query -o ndjson`` prints it; empty lines are skipped.

    A byte order mark before the first line is skipped. ConfigError if the input is one JSON
    document instead.
    """
    for line in lines:
        raw = line.raw
        if line.number == 1 and raw is not None:
            raw = raw.removeprefix(BOM_UTF8)
            if raw.startswith(b'{"schema"'):
                raise ConfigError(
                    "the input is a JSON document of -o json, not NDJSON", "write it with -o ndjson"
                )
        if line.number >= from_line:
            if raw is None:
                yield _too_long(line)
            elif raw:
                yield _ndjson_message(line.number, raw)
        if line.last:
            yield PAUSE


def _ndjson_message(number: int, raw: bytes) -> InputMessage | BadInput:
    try:
        return input_message(_decoded(raw), number, raw)
    except ConfigError as error:
        return BadInput(line=number, raw=raw, reason=error.message, hint=error.hint)


def _decoded(raw: bytes) -> Row:
    try:
        return _ROW.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise explain(raw) from error


def input_message(row: Row, line: int, raw: bytes) -> InputMessage:
    """Convert the fields of a line; ConfigError without a body, or for an invalid one."""
    if row.body is None:
        raise ConfigError(
            "the line has no body", "print messages with --body text or --body base64"
        )
    refuse_field("bodyEncoding", row.body_encoding)
    try:
        body = body_bytes(row.body, row.body_encoding)
    except ValueError as error:
        raise ConfigError(f"field body: it is not valid {row.body_encoding}") from error
    if row.sys_flag & COMPRESSED and len(body) == row.body_size:
        body = _decompressed(body, row.sys_flag)
    properties = row.properties or {}
    keys = row.keys.split(" ") if isinstance(row.keys, str) else row.keys
    return InputMessage(
        line=line,
        raw=raw,
        body=body,
        topic=row.topic,
        tags=row.tags if row.tags is not None else properties.get("TAGS"),
        keys=[key for key in keys if key] if keys else properties.get("KEYS", "").split(),
        properties=properties,
        flag=row.flag,
        delay_level=row.delay_level,
        delay_ms=row.delay_ms,
        deliver_ms=row.deliver_timestamp,
        broker_name=row.broker_name,
        queue_id=row.queue_id,
    )


def _decompressed(body: bytes, sys_flag: int) -> bytes:
    """Decompress stored bytes (printed with --raw); a body that is not compressed is returned."""
    try:
        return decompress(body, sys_flag, BODY_LIMIT_BYTES)
    except RemoteProtocolError:
        return body


# Columns with a meaning; those of a stored message that a new one does not have are dropped.
_FIELDS: Final = {
    "body",
    "bodyEncoding",
    "topic",
    "tags",
    "keys",
    "properties",
    "flag",
    "delayLevel",
    "delayMs",
    "deliverTimestamp",
    "brokerName",
    "queueId",
}
_DROPPED: Final = {
    "queueOffset",
    "physicalOffset",
    "storeSize",
    "magic",
    "bodyCrc",
    "crcOk",
    "sysFlag",
    "bornTimestamp",
    "bornTime",
    "bornHost",
    "storeTimestamp",
    "storeTime",
    "deliverTime",
    "storeHost",
    "reconsumeTimes",
    "preparedTransactionOffset",
    "bodySize",
    "uniqKey",
    "offsetMsgId",
}
_NUMBERS: Final = ("flag", "delayLevel", "delayMs", "deliverTimestamp", "queueId")


class _CsvText:
    """Feeds the CSV parser: text of lines, the bytes of the present row, and blocks that ended."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self._lines = lines
        self.taken: list[bytes] = []
        self.taken_bytes = 0
        self.first = 0
        self.last_of_block = False

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            raw = line.raw
            self.taken_bytes += LINE_LIMIT_BYTES + 1 if raw is None else len(raw)
            if raw is None or self.taken_bytes > LINE_LIMIT_BYTES:
                raise ConfigError(
                    f"the CSV row at line {self.first or line.number} is longer than"
                    f" {LINE_LIMIT_BYTES} bytes",
                    "is a quote missing?",
                )
            if not self.taken:
                self.first = line.number
            self.last_of_block = line.last
            self.taken.append(raw)
            # undecodable bytes fail later, in the row that contains them
            encoding = "utf-8-sig" if line.number == 1 else "utf-8"
            yield raw.decode(encoding, "surrogateescape") + "\n"

    def begin_row(self) -> None:
        """Forget the lines of the previous row."""
        self.taken.clear()
        self.taken_bytes = 0

    def raw(self) -> bytes:
        """Return the bytes of the present row."""
        return b"\n".join(self.taken)


def read_csv(lines: Iterator[Line], from_line: int) -> Iterator[Found]:
    """Each row is a message; the first row names the columns.

    ``body``, ``bodyEncoding``, ``topic``, ``tags``, ``keys`` (separated by blanks, or a JSON list)
    and ``properties`` (a JSON object) have their meaning, columns of a stored message's place are
    dropped, every other column is a property. Without a column ``body`` the body is the row as a
    JSON object, and only ``topic``, ``tags`` and ``keys`` have a meaning.
    """
    csv.field_size_limit(LINE_LIMIT_BYTES)
    text = _CsvText(lines)
    rows = csv.reader(iter(text), strict=True)
    columns = next(rows, None)
    if columns is None:
        return
    if len(set(columns)) != len(columns):
        raise ConfigError("the CSV header has the same column twice")
    while True:
        text.begin_row()
        try:
            cells = next(rows, None)
        except csv.Error as error:
            yield BadInput(line=text.first, raw=text.raw(), reason=f"CSV: {error}")
            continue
        if cells is None:
            return
        if cells and text.first >= from_line:
            yield _csv_message(columns, cells, text.first, text.raw())
        if text.last_of_block:
            yield PAUSE


def _csv_message(
    columns: Sequence[str], cells: Sequence[str], line: int, raw: bytes
) -> InputMessage | BadInput:
    if len(cells) != len(columns):
        reason = f"the row has {len(cells)} cells, the header {len(columns)}"
        return BadInput(line=line, raw=raw, reason=reason)
    try:
        "".join(cells).encode("utf-8")
        return input_message(_csv_row(dict(zip(columns, cells, strict=True))), line, raw)
    except UnicodeEncodeError:
        return BadInput(line=line, raw=raw, reason="the row is not valid UTF-8")
    except ConfigError as error:
        return BadInput(line=line, raw=raw, reason=error.message, hint=error.hint)


def _csv_row(cells: Mapping[str, str]) -> Row:
    if "body" not in cells:
        return Row(
            body=json.dumps(cells, ensure_ascii=False),
            topic=cells.get("topic") or None,
            tags=cells.get("tags") or None,
            keys=_csv_keys(cells.get("keys", "")),
        )
    properties: dict[str, str] = {}
    if cells.get("properties"):
        properties = _csv_json("properties", cells["properties"], dict[str, str])
    for name, value in cells.items():
        if name not in _FIELDS and name not in _DROPPED and value:
            properties[name] = value
    numbers = {name: _number(name, cells[name]) for name in _NUMBERS if cells.get(name)}
    return Row(
        body=cells["body"],
        body_encoding=cells.get("bodyEncoding") or None,
        topic=cells.get("topic") or None,
        tags=cells.get("tags") or None,
        keys=_csv_keys(cells.get("keys", "")),
        properties=properties,
        flag=numbers.get("flag", 0),
        broker_name=cells.get("brokerName") or None,
        queue_id=numbers.get("queueId"),
        delay_level=numbers.get("delayLevel"),
        delay_ms=numbers.get("delayMs"),
        deliver_timestamp=numbers.get("deliverTimestamp"),
    )


def _csv_keys(text: str) -> list[str]:
    if text.startswith("["):
        return _csv_json("keys", text, list[str])
    return text.split()


def _csv_json(name: str, text: str, kind: type[Value]) -> Value:
    """Decode a cell that contains JSON."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError:
        refuse_field(name, msgspec.json.decode(text))
        raise AssertionError("the rules of the field are those of its type") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"field {name}: {text:.40} is not JSON") from error


def _number(name: str, text: str) -> int:
    value: int | str = int(text) if re.fullmatch(r"[+-]?[0-9]{1,19}", text.strip()) else text
    refuse_field(name, value)
    assert isinstance(value, int), "a text was refused"
    return value


FORMATS: Final[dict[str, Callable[[Iterator[Line], int], Iterator[Found]]]] = {
    "ndjson": read_ndjson,
    "lines": read_bodies,
    "csv": read_csv,
}
