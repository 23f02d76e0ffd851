"""Messages of a store, or of an NDJSON export of one, as input of a run."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from broker.common.sysflag import COMPRESSED
from broker.common.topic import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from broker.errors import ConfigError
from broker.message.message import PROPERTY_UNIQ_KEY
from mqadmin.message_row import MessageRow
from mqadmin.traffic.input import Line, Row, Stream, input_message, read_lines
from mqadmin.traffic.invalid_line import explain
from mqadmin.traffic.options import Selection
from mqadmin.traffic.outgoing import BadInput, InputMessage

BAD_CRC: Final = "its CRC does not match: the body is not the one that was stored"
NOT_DECOMPRESSED: Final = "its body cannot be decompressed"
BODY_HINT: Final = "mqadmin store export DIR --body base64 --out FILE writes bodies"


class ExportedRow(Row):
    """An exported line: the fields that are sent, and those that filters and the ledger use."""

    queue_offset: int = 0
    store_timestamp: int | None = None
    crc_ok: bool = True
    uniq_key: str | None = None
    offset_msg_id: str | None = None


_ROW: Final = msgspec.json.Decoder(ExportedRow)


def is_selected(row: ExportedRow, wanted: Selection) -> bool:
    """Return whether a line is selected; a time window selects no line without a time."""
    stored = row.store_timestamp
    if wanted.begin_ms is not None and (stored is None or stored < wanted.begin_ms):
        return False
    if wanted.end_ms is not None and (stored is None or stored >= wanted.end_ms):
        return False
    return (
        wanted.topic in (None, row.topic)
        and wanted.queue_id in (None, row.queue_id)
        and (wanted.key is None or wanted.key in _keys_of(row))
    )


def _keys_of(row: ExportedRow) -> set[str]:
    words = row.keys.split() if isinstance(row.keys, str) else row.keys or ()
    own = row.properties or {}
    return {*words, *own.get("KEYS", "").split(), own.get(PROPERTY_UNIQ_KEY, row.uniq_key or "")}


@dataclass
class TopicMap:
    """Target topics: ``default`` of every topic, else that of ``by_topic``, else the same one.

    Messages of system, retry and dead-letter topics belong to the brokers and groups that they come
    from: they are counted in ``excluded`` (by topic), unless ``asked`` names their topic.
    """

    asked: str | None = None
    default: str | None = None
    by_topic: Mapping[str, str] = field(default_factory=dict)
    excluded: dict[str, int] = field(default_factory=dict)

    def target(self, topic: str) -> str | None:
        """Return the target topic, None if its messages are not sent."""
        if topic in self.by_topic:
            return self.by_topic[topic]
        own = is_system_topic(topic) or topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
        if own and topic != self.asked:
            self.excluded[topic] = self.excluded.get(topic, 0) + 1
            return None
        return self.default or topic


def store_messages(
    rows: Iterable[MessageRow], topics: TopicMap
) -> Iterator[InputMessage | BadInput]:
    """Convert rows with bodies in base64; ``line`` is the physical offset."""
    last, part = -1, 0
    for row in rows:
        part = part + 1 if row.physical_offset == last else 0
        last = row.physical_offset
        target = topics.target(row.topic)
        if target is None:
            continue
        reason = ""
        if not row.crc_ok:
            reason = BAD_CRC
        elif row.sys_flag & COMPRESSED and row.body_encoding == "hex":
            reason = NOT_DECOMPRESSED
        if reason:
            yield BadInput(line=last, raw=b"", reason=reason, part=part)
            continue
        fields = ExportedRow(
            body=row.body,
            body_encoding=row.body_encoding,
            topic=target,
            tags=row.tags,
            keys=row.keys,
            properties=row.properties,
            flag=row.flag,
            broker_name=row.broker_name,
            queue_id=row.queue_id,
        )
        found = input_message(fields, last, b"")
        found.part = part
        found.original_id = row.offset_msg_id
        yield found


def exported_messages(
    stream: Stream, selection: Selection, topics: TopicMap, *, from_line: int = 1
) -> Iterator[InputMessage | BadInput]:
    """Read the lines of an export; invalid ones are reported with their number."""
    for line in read_lines(stream):
        if line.number < from_line or line.raw == b"":
            continue
        try:
            found = _exported(line, selection, topics)
        except ConfigError as error:
            raw = line.raw or b""
            yield BadInput(line=line.number, raw=raw, reason=error.message, hint=error.hint)
            continue
        if found is not None:
            yield found


def _exported(line: Line, selection: Selection, topics: TopicMap) -> InputMessage | None:
    if line.raw is None:
        raise ConfigError("the line is too long")
    try:
        row = _ROW.decode(line.raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise explain(line.raw) from error
    if not is_selected(row, selection):
        return None
    if row.topic is None:
        raise ConfigError("the line names no topic", BODY_HINT)
    target = topics.target(row.topic)
    if target is None:
        return None
    if row.body is None:
        raise ConfigError("the line has no body", BODY_HINT)
    if not row.crc_ok:
        raise ConfigError(BAD_CRC)
    row.topic = target
    found = input_message(row, line.number, line.raw)
    found.original_id = row.offset_msg_id
    return found
