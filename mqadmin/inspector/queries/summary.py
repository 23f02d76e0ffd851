"""Summarise a store: count the records of its log in one scan."""

import os
import sys
from typing import Final

import msgspec

from broker.common.java import INT16_MAX, parse_number
from broker.common.sysflag import INNER_BATCH
from broker.errors import RemoteProtocolError, StoreError
from broker.message.properties import peek_property
from broker.store.format.commitlog import LogRecord, check_record, is_plausible, resync
from broker.store.format.vectorized import loops
from broker.store.format.vectorized.record_count import Tally
from mqadmin.inspector.damage import WARNING, checkpoint_damage, found
from mqadmin.inspector.directory import LogFile, StoreDirectory
from mqadmin.inspector.files import FileBytes, open_bytes
from mqadmin.inspector.log import LogWalk
from mqadmin.inspector.rows import DamageRow, Summary, TopicSummary

# Logs up to this length have the CRC of bodies checked by default: reading and checksumming all
# bytes takes more than twice as long as following the record lengths.
CHECK_CRC_BYTES: Final = 64 << 20
# Least amount of data for which a second process saves more than its start costs (milliseconds).
TWO_PROCESSES_BYTES: Final = 256 << 20
NEAR_BYTES: Final = 1 << 20
# Least number of records for which compiled code saves more than loading numba costs, which is half
# a second. Without it a record costs 1 us.
COMPILED_RECORDS: Final = 1 << 19
_PIECE: Final = 1 << 12


class Part(msgspec.Struct):
    """The counts of one scan; ``queues`` are (topic, queue id, messages, bytes)."""

    end: int
    reached: int
    first_timestamp: int | None
    last_timestamp: int | None
    blanks: int
    queues: list[tuple[bytes, int, int, int]]
    damaged_regions: list[DamageRow]


def summarize(
    store: StoreDirectory, check_crc: bool | None = None
) -> tuple[Summary, list[DamageRow]]:
    """Return the summary of a store's log, and the damaged regions.

    ``check_crc`` None checks the CRC of bodies if the log has at most :data:`CHECK_CRC_BYTES`.
    """
    files = store.log_files()
    if check_crc is None:
        check_crc = sum(file.length for file in files) <= CHECK_CRC_BYTES
    if not check_crc and about_records(store) >= COMPILED_RECORDS and loops.compiled():
        parts = [count_records(store, check_crc, compiled=True)]
    else:
        parts = count_in_two_processes(store, check_crc) or [count_records(store, check_crc)]
    damage = [row for part in parts for row in part.damaged_regions]
    try:
        checkpoint = store.checkpoint()
        damage += checkpoint_damage(checkpoint) if checkpoint is not None else []
    except (RemoteProtocolError, StoreError) as error:
        checkpoint = None
        path = str((store.root or store.path) / "checkpoint")
        damage.append(found("checkpoint", path, error.message, severity=WARNING))
    topics = _topics(parts)
    times = [t for p in parts for t in (p.first_timestamp, p.last_timestamp) if t is not None]
    return (
        Summary(
            path=str(store.path),
            min_physical_offset=files[0].start if files else 0,
            max_physical_offset=max(part.end for part in parts),
            messages=sum(topic.messages for topic in topics),
            bytes=sum(topic.bytes for topic in topics),
            blanks=sum(part.blanks for part in parts),
            damages=len(damage),
            bodies_checked=check_crc,
            first_store_timestamp=times[0] if times else None,
            last_store_timestamp=times[-1] if times else None,
            topics=topics,
            clean_stop=store.state().clean_stop,
            checkpoint=checkpoint,
        ),
        damage,
    )


def count_records(
    store: StoreDirectory,
    check_crc: bool,
    start: int = 0,
    stop: int | None = None,
    *,
    compiled: bool = False,
) -> Part:
    """Scan the log, or its part from ``start`` to ``stop``; ``compiled`` needs numba."""
    walk = LogWalk(
        store, start=start, stop=stop, check_crc=check_crc, counting=True, compiled=compiled
    )
    rare = Tally()
    blanks = 0
    damage: list[DamageRow] = []
    for item in walk:
        if item.damage is not None:
            damage.append(item.damage)
        elif item.blank is not None:
            blanks += 1
        elif item.record is not None:
            record = item.record
            rare.add(record.topic, record.queue_id, record.total_size, _messages_in(record))
    return Part(
        end=walk.end,
        reached=walk.reached,
        first_timestamp=walk.first_timestamp,
        last_timestamp=walk.last_timestamp,
        blanks=blanks,
        queues=[queue for tally in (*walk.tallies, rare) for queue in tally.totals()],
        damaged_regions=damage,
    )


def about_records(store: StoreDirectory) -> int:
    """Estimate the number of records from the written bytes and the first record of each file."""
    records = 0
    for file in store.log_files():
        try:
            with open_bytes(file.path) as opened:
                size = check_record(opened.data, 0, opened.data_end, check_crc=False)
                records += _about_written(opened) // size if size > 0 else 0
        except StoreError:
            continue  # the scan reports the file
    return records


def count_in_two_processes(store: StoreDirectory, check_crc: bool) -> list[Part] | None:
    """Count a large log with two processes; None if the log is small or forking is not possible.

    The log is split at a record. If the first scan does not end there (a copy of a record in a
    body was taken for a record), the result is discarded and None returned.
    """
    if not can_fork():
        return None
    try:
        middle = find_middle(store)
    except StoreError:
        return None  # a single scan reports the unreadable file and continues
    if middle is None:
        return None
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            part = count_records(store, check_crc, middle)
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(msgspec.msgpack.encode(part))
            os._exit(0)
        finally:
            os._exit(1)  # never return into the parent's code, nor run its exit handlers
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        try:
            first = count_records(store, check_crc, 0, middle)
            answer = pipe.read()
        finally:
            pipe.close()
            _, status = os.waitpid(child, 0)
    if status != 0 or first.reached != middle:
        return None
    return [first, msgspec.msgpack.decode(answer, type=Part)]


def can_fork() -> bool:
    """Whether there is a second core and a fork is safe: on Linux, while no other thread runs."""
    threads = sys.modules.get("threading")
    alone = threads is None or threads.active_count() == 1
    if sys.platform != "linux":
        return False
    return alone and len(os.sched_getaffinity(0)) > 1


def find_middle(store: StoreDirectory) -> int | None:
    """Return the offset of a record near the middle of a large log's data, None if not large."""
    ends: list[tuple[LogFile, int]] = []
    for file in store.log_files():
        with open_bytes(file.path) as opened:
            ends.append((file, _about_written(opened)))
    rest = sum(end for _, end in ends)
    if rest < TWO_PROCESSES_BYTES:
        return None
    rest //= 2
    for file, end in ends:
        if rest < end:
            with open_bytes(file.path) as opened:
                at = resync(opened.data, rest, file.start, opened.data_end)
                is_record = at >= 0 and is_plausible(opened.data, at, file.start)
            return file.start + at if is_record else None
        rest -= end
    return None


def _about_written(opened: FileBytes) -> int:
    """Estimate where a file's records end by a binary search for the zeros that follow them.

    Zeros in a body give a lower estimate: the two halves then differ in size, which is harmless.
    """
    low, high = 0, opened.data_end
    while high - low > NEAR_BYTES:
        middle = (low + high) // 2
        if any(opened.data[middle : min(middle + _PIECE, high)]):
            low = middle
        else:
            high = middle
    return high


def _messages_in(record: LogRecord) -> int:
    """Return the number of messages in a record: 1, or INNER_NUM of an inner batch."""
    if record.sys_flag & INNER_BATCH:
        count = peek_property(record.properties, b"INNER_NUM")
        if count is not None:
            return parse_number(count, 1, INT16_MAX) or 1
    return 1


def _topics(parts: list[Part]) -> list[TopicSummary]:
    queues: dict[str, set[int]] = {}
    messages: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for part in parts:
        for raw, queue_id, count, size in part.queues:
            topic = raw.decode("utf-8", "replace")
            queues.setdefault(topic, set()).add(queue_id)
            messages[topic] = messages.get(topic, 0) + count
            sizes[topic] = sizes.get(topic, 0) + size
    return [
        TopicSummary(
            topic=topic, queues=len(queues[topic]), messages=messages[topic], bytes=sizes[topic]
        )
        for topic in sorted(queues)
    ]
