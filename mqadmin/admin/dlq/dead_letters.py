"""Dead-letter files: the input of a replay.

A file contains messages as written by ``dlq show --body base64`` and by the pipeline job ``dlq``:
one JSON object per line, or the object of ``-o json`` with its ``items``.
"""

from binascii import Error as Base64Error
from binascii import a2b_base64
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from broker.common.sysflag import COMPRESSED
from broker.common.topic import group_of_dlq_topic
from broker.errors import ConfigError, RemoteProtocolError
from broker.message.compression import decompress

#: Limit of a decompressed body, in bytes.
BODY_LIMIT: Final = 256 << 20


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter: its consumer group, its origin and its content (``body`` decompressed).

    ``offset_msg_id`` is its id in the DLQ topic; ``born_timestamp`` is in epoch ms.
    """

    group: str
    offset_msg_id: str
    origin_topic: str | None
    origin_id: str | None
    uniq_key: str | None
    keys: list[str]
    flag: int
    born_timestamp: int
    reconsume_times: int
    properties: dict[str, str]
    body: bytes


class DeadLetterRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields of a message row that a replay uses."""

    topic: str
    offset_msg_id: str
    properties: dict[str, str]
    body: str | None = None
    body_encoding: str | None = None
    body_size: int = -1
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    reconsume_times: int = 0
    uniq_key: str | None = None
    keys: list[str] = []


_ROW: Final = msgspec.json.Decoder(DeadLetterRow)


def read_dead_letters(data: bytes, name: str) -> list[DeadLetter]:
    """Read the dead letters of a file; ConfigError with file and line for an invalid one."""
    dead_letters = []
    for place, row in _rows(data.removeprefix(BOM_UTF8), name):
        try:
            dead_letters.append(dead_letter_of(row))
        except ConfigError as error:
            raise ConfigError(f"{name}, {place}: {error.message}", error.hint) from error
    return dead_letters


def dead_letter_of(row: Any) -> DeadLetter:
    """Convert a message row; ConfigError if it is not a dead letter or lacks its body."""
    group = group_of_dlq_topic(row.topic)
    if not group:
        raise ConfigError(
            f"a message of topic {row.topic} is not a dead letter",
            "mqadmin pipeline run dlq --table replay -o ndjson writes dead letters",
        )
    own = row.properties
    return DeadLetter(
        group=group,
        offset_msg_id=row.offset_msg_id,
        origin_topic=own.get("DLQ_ORIGIN_TOPIC") or own.get("RETRY_TOPIC"),
        origin_id=own.get("DLQ_ORIGIN_MESSAGE_ID") or own.get("ORIGIN_MESSAGE_ID"),
        uniq_key=row.uniq_key or own.get("UNIQ_KEY"),
        keys=row.keys,
        flag=row.flag,
        born_timestamp=row.born_timestamp,
        reconsume_times=row.reconsume_times,
        properties=own,
        body=_body(row),
    )


def _rows(data: bytes, name: str) -> Iterator[tuple[str, DeadLetterRow]]:
    """Yield each row with its position ("line 3", "item 3") for error messages."""
    lines: Iterable[bytes] = data.splitlines()
    items = _items(data)
    if items is not None:
        lines = items
    word = "line" if items is None else "item"
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield f"{word} {number}", _ROW.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{name}, {word} {number}: no message: {error}",
                "one JSON object per line is wanted, fields as in mqadmin dlq show -o ndjson",
            ) from error


def _items(data: bytes) -> list[bytes] | None:
    """Return the items of an ``-o json`` document, None for one object per line."""
    try:
        document = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        if "items" not in document or "topic" in document:
            return None
        items = msgspec.json.decode(document["items"], type=list[msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return [bytes(item) for item in items]


def _body(row: Any) -> bytes:
    """Return the body as the application sent it."""
    if row.body is None:
        raise ConfigError(
            f"message {row.offset_msg_id} has no body to send",
            "read it with --body base64, or from the table replay of mqadmin pipeline run dlq",
        )
    try:
        if row.body_encoding == "base64":
            body = a2b_base64(row.body, strict_mode=True)
        elif row.body_encoding == "hex":
            body = bytes.fromhex(row.body)
        else:
            body = row.body.encode("utf-8")
    except (Base64Error, ValueError) as error:
        raise ConfigError(f"the body of message {row.offset_msg_id}: {error}") from error
    if row.sys_flag & COMPRESSED and len(body) == row.body_size:
        # Stored bytes (--raw): the length equals the record's body size; decompress if possible.

        try:
            return decompress(body, row.sys_flag, BODY_LIMIT)
        except RemoteProtocolError:
            return body
    return body
