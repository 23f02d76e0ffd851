"""Units of timer wheel, timer log and ConsumeQueue extensions as rows."""

from collections.abc import Iterator

import msgspec

from broker.store.format.commitlog import Damage
from mqadmin.inspector.damage import WARNING, found
from mqadmin.inspector.delayed.timer_files import MAGIC_DELETE, MAGIC_ROLL, TimerFiles
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import DamageRow
from mqadmin.inspector.verify.derived.ext_checks import EXT_DIR, ExtFiles


class TimerSlotRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One slot of the timer wheel; ``pending``: it is not delivered yet.

    ``slotTimestamp`` (epoch ms) is its start, ``num`` counts messages minus recalls; ``firstPos``
    and ``lastPos`` are positions in the timer log, ``position`` is that of the slot in the file.
    """

    path: str
    position: int
    slot_timestamp: int
    pending: bool
    num: int
    first_pos: int
    last_pos: int


class TimerLogRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One unit of the timer log; ``action`` is "deliver", "roll" or "recall".

    ``position`` counts over all files. ``slotTimestamp`` (epoch ms) is currWriteTime plus
    delayedTime.
    """

    path: str
    position: int
    prev_pos: int
    action: str
    slot_timestamp: int
    curr_write_timestamp: int
    physical_offset: int
    store_size: int
    real_topic_hash: int


class ExtUnitRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One ConsumeQueue extension unit; ``bitMap`` in hexadecimal digits."""

    path: str
    topic: str
    queue_id: int
    position: int
    tags_code: int
    store_timestamp: int
    bit_map: str


def slot_rows(store: StoreDirectory, query: Query) -> Iterator[TimerSlotRow]:
    """Yield the slots of the wheel that are not empty, by time; ``query`` selects by time."""
    with TimerFiles(store) as files:
        if not files.exist:
            return
        read_ms = files.read_ms()
        for position, slot in sorted(files.slots(), key=lambda item: item[1].time):
            time_ms = slot.time * files.precision_ms
            if _in_window(query, time_ms):
                yield TimerSlotRow(
                    path=str(files.wheel_path),
                    position=position,
                    slot_timestamp=time_ms,
                    pending=time_ms >= read_ms and slot.last_position >= 0,
                    num=slot.number,
                    first_pos=slot.first_position,
                    last_pos=slot.last_position,
                )


def log_rows(store: StoreDirectory, query: Query) -> Iterator[TimerLogRow | DamageRow]:
    """Yield the units of the timer log by position; ``query`` selects by time and position."""
    with TimerFiles(store) as files:
        for path, position, unit in files.units():
            if store.path.is_file() and path.name != store.path.name:
                continue
            if isinstance(unit, Damage):
                yield found(
                    "timerLog",
                    str(path),
                    unit.detail,
                    file_position=position,
                    length=unit.length,
                )
                continue
            time_ms = unit.current_write_time + unit.delayed_ms
            if not _in_window(query, time_ms) or not _in_range(query, position):
                continue
            yield TimerLogRow(
                path=str(path),
                position=position,
                prev_pos=unit.previous_position,
                action="recall"
                if unit.magic & MAGIC_DELETE
                else "roll"
                if unit.magic & MAGIC_ROLL
                else "deliver",
                slot_timestamp=time_ms,
                curr_write_timestamp=unit.current_write_time,
                physical_offset=unit.physical_offset,
                store_size=unit.message_size,
                real_topic_hash=unit.real_topic_hash,
            )


def ext_rows(store: StoreDirectory, query: Query) -> Iterator[ExtUnitRow | DamageRow]:
    """Yield the extension units by topic, queue and position."""
    root = store.root or store.path
    for topic, queue_id in _ext_queues(store):
        if query.topic not in (None, topic) or query.queue_id not in (None, queue_id):
            continue
        files = ExtFiles(store, topic, queue_id)
        inside = root / EXT_DIR / topic / str(queue_id)
        if store.path not in (root, root / EXT_DIR, inside, inside.parent):
            files.files = [item for item in files.files if item[0] == store.path]
        for path, position, unit in files.scan():
            if isinstance(unit, Damage):
                detail = f"{topic}/{queue_id}: {unit.detail}"
                yield found(
                    "extUnit",
                    str(path),
                    detail,
                    file_position=position,
                    length=unit.length,
                    severity=WARNING,
                )
            elif _in_window(query, unit.store_timestamp) and _in_range(query, position):
                yield ExtUnitRow(
                    path=str(path),
                    topic=topic,
                    queue_id=queue_id,
                    position=position,
                    tags_code=unit.tags_code,
                    store_timestamp=unit.store_timestamp,
                    bit_map=unit.bit_map.hex(),
                )


def _ext_queues(store: StoreDirectory) -> list[tuple[str, int]]:
    folder = (store.root or store.path) / EXT_DIR
    if not folder.is_dir():
        return []
    return sorted(
        (topic.name, int(queue.name))
        for topic in folder.iterdir()
        if topic.is_dir()
        for queue in topic.iterdir()
        if queue.name.isdecimal()
    )


def _in_window(query: Query, time_ms: int) -> bool:
    return (query.begin_ms is None or time_ms >= query.begin_ms) and (
        query.end_ms is None or time_ms < query.end_ms
    )


def _in_range(query: Query, position: int) -> bool:
    return (query.from_offset is None or position >= query.from_offset) and (
        query.to_offset is None or position < query.to_offset
    )
