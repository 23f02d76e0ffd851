"""Offset files: the undo file of a change, the export of a group, and lists from other tools.

Three forms are read; the content decides, not the name:

* JSON of an undo or export file (:class:`SavedOffsets`, schema ``mqadmin.offsets/1``);
* JSON of ``mqadmin offset export -o json`` (``items`` instead of ``offsets``);
* CSV as Kafka's ``kafka-consumer-groups --reset-offsets --export`` writes it:
  ``topic,partition,offset``, here with the broker name as an optional fourth column. An empty
  offset means that nothing is committed. A header line (``topic,queueId,…``) is allowed.

**Source:** Kafka ``ConsumerGroupCommand.CsvUtils``.
"""

import csv
import io
from collections.abc import Iterator, Sequence

import msgspec

from broker.common.encoding.java_json import loads
from broker.common.text import decode_text
from broker.errors import ConfigError, RocketMQError
from mqadmin.admin.plans.json_file import save_new, write_new

FILE_SCHEMA = "mqadmin.offsets/1"

#: Maximum offsets in one file: far above the queues of any group, and bounds the memory.
FILE_ENTRIES = 1_000_000

#: Maximum size of a file: FILE_ENTRIES lines with long names.
FILE_LIMIT_BYTES = 256 * 1024 * 1024

CSV_SUFFIX = ".csv"
SUBJECT = "offsets file"

_MAX_OFFSET = 2**63 - 1


class SavedOffset(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue of an offsets file; ``consumerOffset`` None: nothing was committed.

    ``brokerName`` None: the only broker of the topic (a file of a tool without broker names).
    """

    topic: str
    queue_id: int
    consumer_offset: int | None
    broker_name: str | None = None


class SavedOffsets(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An offsets file: undo of a change, or export of a group. ``createdTimestamp`` in ms.

    ``group`` is "" in a file that names no group.
    """

    group: str
    offsets: Sequence[SavedOffset]
    created_timestamp: int = 0
    schema: str = FILE_SCHEMA


class _Listed(msgspec.Struct, frozen=True):
    """The output of ``offset export -o json``."""

    items: Sequence[SavedOffset]


def load_offsets(path: str) -> SavedOffsets:
    """Read an offsets file; ConfigError with the path when it cannot be used."""
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_LIMIT_BYTES + 1)
        if len(data) > FILE_LIMIT_BYTES:
            raise ConfigError(f"more than {FILE_LIMIT_BYTES} bytes")
        text = decode_text(data)
    except OSError as error:
        raise ConfigError(
            f"offsets file {path}: {error.strerror or error}", "is the path right?"
        ) from error
    except ConfigError as error:
        raise ConfigError(f"offsets file {path}: {error.message}", error.hint) from None
    return parse_offsets(text, path)


def parse_offsets(text: str, source: str) -> SavedOffsets:
    """Read the content of an offsets file; ``source`` names it in a ConfigError."""
    stripped = text.lstrip()
    try:
        if stripped.startswith(("{", "[")):
            saved = _from_json(stripped)
        else:
            saved = SavedOffsets(group="", offsets=list(_from_csv(text)))
    except (RocketMQError, msgspec.ValidationError, ValueError) as error:
        raise ConfigError(
            f"offsets file {source}: {error}",
            "it is written by offset reset and offset export; CSV is topic,queueId,offset,broker",
        ) from error
    if saved.schema != FILE_SCHEMA:
        raise ConfigError(f"offsets file {source}: schema {saved.schema}, not {FILE_SCHEMA}")
    if len(saved.offsets) > FILE_ENTRIES:
        raise ConfigError(f"offsets file {source}: more than {FILE_ENTRIES} queues")
    seen: dict[tuple[str, str | None, int], int | None] = {}
    for one in saved.offsets:
        key = (one.topic, one.broker_name, one.queue_id)
        if seen.setdefault(key, one.consumer_offset) != one.consumer_offset:
            raise ConfigError(
                f"offsets file {source}: {one.topic} queue {one.queue_id} has two offsets"
            )
    return saved


def _from_json(text: str) -> SavedOffsets:
    document = loads(text)
    if isinstance(document, dict) and "items" in document:
        return SavedOffsets(group="", offsets=msgspec.convert(document, _Listed).items)
    return msgspec.convert(document, SavedOffsets)


def _from_csv(text: str) -> Iterator[SavedOffset]:
    """Yield the rows; ValueError with the line number for an invalid one."""
    rows = [
        (number, row) for number, row in enumerate(csv.reader(io.StringIO(text)), 1) if any(row)
    ]
    if not rows:
        raise ValueError("it is empty")
    names = ["topic", "queueId", "consumerOffset", "brokerName"]
    first = [cell.strip() for cell in rows[0][1]]
    if first[0] == "topic" and not (len(first) > 1 and first[1].isdecimal()):
        aliases = {"partition": "queueId", "offset": "consumerOffset", "broker": "brokerName"}
        names = [aliases.get(name, name) for name in first]
        if not {"topic", "queueId", "consumerOffset"} <= set(names):
            raise ValueError("line 1: the header lacks topic, queueId or consumerOffset")
        rows = rows[1:]
    for number, row in rows:
        if not 3 <= len(row) <= len(names):
            raise ValueError(f"line {number}: {len(row)} columns instead of topic,queueId,offset")
        cells = {name: cell.strip() for name, cell in zip(names, row, strict=False)}
        offset = cells["consumerOffset"]
        yield SavedOffset(
            topic=_name(cells["topic"], number),
            queue_id=_number(cells["queueId"], "queue id", number, 2**31 - 1),
            consumer_offset=None
            if offset in ("", "-")
            else _number(offset, "offset", number, _MAX_OFFSET),
            broker_name=cells.get("brokerName") or None,
        )


def _name(text: str, line: int) -> str:
    if not text:
        raise ValueError(f"line {line}: no topic")
    return text


def _number(text: str, name: str, line: int, highest: int) -> int:
    if text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= highest:
        return int(text)
    raise ValueError(f"line {line}: {text!r:.40} is not a {name}")


def save_offsets(path: str, saved: SavedOffsets) -> None:
    """Write a JSON offsets file that must not exist yet; ConfigError with the path otherwise."""
    save_new(path, saved, SUBJECT)


def write_offsets(path: str, saved: SavedOffsets) -> None:
    """Write a new offsets file: Kafka's CSV with the broker name if it ends in .csv, else JSON."""
    if not path.endswith(CSV_SUFFIX):
        save_offsets(path, saved)
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for one in saved.offsets:
        offset = "" if one.consumer_offset is None else one.consumer_offset
        writer.writerow((one.topic, one.queue_id, offset, one.broker_name))
    write_new(path, [text.getvalue().encode()], SUBJECT)
