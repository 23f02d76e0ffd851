"""Counts of dead letters by origin topic and tag, and dead letters as a file for a replay."""

from collections.abc import Sequence

import msgspec

from mqadmin.admin.dlq.select import cause_of, origin_of
from mqadmin.admin.plans.json_file import write_new
from mqadmin.message_row import MessageRow


class DeadLetterCount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The dead letters of one group with the same origin topic and tag (None: they have none).

    ``bodyBytes`` are stored bytes, ``maxReconsumeTimes`` the largest number of redeliveries;
    ``exceptions`` is the number of different exception texts, ``exception`` the most frequent
    (None: no dead letter names one).
    """

    group: str
    origin_topic: str | None
    tags: str | None
    messages: int
    body_bytes: int
    max_reconsume_times: int
    oldest_timestamp: int
    newest_timestamp: int
    exceptions: int
    exception: str | None


def count_dead_letters(group: str, rows: Sequence[MessageRow]) -> list[DeadLetterCount]:
    """Count dead letters by origin topic and tag, most messages first."""
    found: dict[tuple[str | None, str | None], list[MessageRow]] = {}
    for row in rows:
        found.setdefault((origin_of(row.properties), row.tags), []).append(row)
    counts = [_count(group, origin, tags, same) for (origin, tags), same in found.items()]
    return sorted(counts, key=lambda one: (-one.messages, one.origin_topic or "", one.tags or ""))


def _count(
    group: str, origin: str | None, tags: str | None, rows: Sequence[MessageRow]
) -> DeadLetterCount:
    causes: dict[str, int] = {}
    for row in rows:
        cause = cause_of(row.properties)
        if cause:
            causes[cause] = causes.get(cause, 0) + 1
    return DeadLetterCount(
        group=group,
        origin_topic=origin,
        tags=tags,
        messages=len(rows),
        body_bytes=sum(row.body_size for row in rows),
        max_reconsume_times=max(row.reconsume_times for row in rows),
        oldest_timestamp=min(row.store_timestamp for row in rows),
        newest_timestamp=max(row.store_timestamp for row in rows),
        exceptions=len(causes),
        exception=max(causes, key=lambda text: causes[text]) if causes else None,
    )


def write_dead_letters(path: str, rows: Sequence[MessageRow]) -> None:
    """Write dead letters to a new file, one JSON object per line, as ``dlq replay`` reads it."""
    encode = msgspec.json.Encoder().encode
    write_new(path, (encode(row) + b"\n" for row in rows), "dead-letter file")
