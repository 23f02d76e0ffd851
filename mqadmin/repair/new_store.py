"""Write salvaged records into a new store.

Records get new contiguous physical offsets and queue offsets without holes, so that every broker
opens the result. Consumer offsets are mapped to the same messages.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from broker.common.java import INT16_MAX, parse_number
from broker.common.sysflag import INNER_BATCH, TRANSACTION_MASK, TRANSACTION_ROLLBACK
from broker.common.topic import (
    LMQ_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_HALF_TOPIC,
    TopicConfig,
    is_system_topic,
)
from broker.errors import ConfigError, RemoteProtocolError, StoreError
from broker.message.message import MessageExt
from broker.message.properties import append_property, peek_property, remove_property
from broker.message.record import (
    PROPERTY_CRC_SIZE,
    check_property_crc,
    encode_property_crc,
    encode_record,
)
from broker.store.format import config, indexfile, state
from broker.store.format.checkpoint import Checkpoint, encode_checkpoint
from broker.store.format.commitlog import FILE_SIZE, encode_blank, file_name, fits
from mqadmin.inspector.configs import map_offsets
from mqadmin.inspector.damage import LAST_MS, NOTICE
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.files import read_all
from mqadmin.inspector.log import LogWalk
from mqadmin.inspector.queries.loss import QueueLoss, total
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import DamageRow
from mqadmin.inspector.static_topics import moved_mappings
from mqadmin.inspector.verify.config_checks import read_settings
from mqadmin.inspector.verify.log_walk import lmq_enabled
from mqadmin.inspector.verify.queue_checks import OpenFiles
from mqadmin.inspector.verify.report import VerifySummary
from mqadmin.inspector.verify.verifier import VerifyOptions, verify
from mqadmin.repair.derived_files.build_index import IndexWriter
from mqadmin.repair.derived_files.build_queues import BuildTable, OldUnits
from mqadmin.repair.derived_files.build_timers import TimerBuilder
from mqadmin.repair.derived_files.rebuild import rebuild
from mqadmin.repair.files import Blocks, Output, check_output
from mqadmin.repair.recover import Salvaged, SalvagedRecord, is_filler, is_wanted, salvage

_GATHER: Final = 1 << 20
_OFFSETS: Final = (config.CONSUMER_OFFSET, config.LMQ_CONSUMER_OFFSET)
# Files of config/ that a new store takes from its source.
_TAKEN: Final = (
    config.TOPICS,
    config.SUBSCRIPTION_GROUP,
    *_OFFSETS,
    config.DELAY_OFFSET,
    config.TOPIC_QUEUE_MAPPING,
)

Key = tuple[str, int]


class NewStore(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of :func:`recover_store`.

    ``duplicates`` were in more than one file, ``deletedMessages`` were deleted with their topics
    and are omitted; ``renumbered``: queue offsets changed; ``losses`` are the regions without
    records, ``lost`` the lost messages by topic and queue. ``ok``: the new store verifies.
    """

    output: str
    ok: bool
    messages: int
    bytes: int
    duplicates: int
    queues: int
    renumbered: bool
    lost_bytes: int
    losses: list[DamageRow]
    findings: list[DamageRow]
    summary: VerifySummary
    deleted_messages: int
    lost_messages: int
    lost: list[QueueLoss]


class NewStorePlan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A forecast of :func:`recover_store`; the fields are those of :class:`NewStore`.

    ``bytes`` counts the records only: the blank records at file ends depend on the new lengths.
    """

    output: str
    messages: int
    bytes: int
    duplicates: int
    queues: int
    lost_bytes: int
    losses: list[DamageRow]
    deleted_messages: int
    lost_messages: int
    lost: list[QueueLoss]


def plan_store(
    sources: Sequence[Path],
    output: Path,
    *,
    file_size: int = FILE_SIZE,
    query: Query | None = None,
) -> NewStorePlan:
    """Forecast :func:`recover_store` without writing; raises ConfigError like it."""
    _refuse_inside(sources, output)
    check_output(output)
    messages = _Messages(sources, query or Query())
    count = size = 0
    queues: set[Key] = set()
    for item in messages:
        _check_size(len(item.data), file_size)
        count += 1
        size += len(item.data)
        queues.add((item.message.topic, item.message.queue_id))
    lost = messages.salvaged.lost_messages()
    return NewStorePlan(
        output=str(output),
        messages=count,
        bytes=size,
        duplicates=messages.duplicates,
        queues=len(queues),
        lost_bytes=messages.lost_bytes,
        losses=messages.losses,
        deleted_messages=messages.deleted,
        lost_messages=total(lost),
        lost=lost,
    )


def recover_store(
    sources: Sequence[Path],
    output: Path,
    *,
    file_size: int = FILE_SIZE,
    query: Query | None = None,
) -> NewStore:
    """Write the salvageable messages into a new store at ``output``.

    ``query`` restricts them by topic and times; its other conditions are ignored. Raises StoreError
    if there is no message, ConfigError if ``output`` is not empty or inside a source, or a record
    exceeds ``file_size`` (bytes).
    """
    _refuse_inside(sources, output)
    made = Output(output)
    try:
        return _Rewrite(sources, made, file_size, query or Query()).run()
    except BaseException:
        made.discard()
        raise


class _ExtentSet:
    """The set of accepted records, as extents of the log, to detect duplicates.

    Memory grows with the number of damaged regions, not of messages. Two records are duplicates if
    their physical offset, length and body checksum are equal.
    """

    def __init__(self) -> None:
        self._files = OpenFiles(16)
        # path -> sorted starts of its extents in the log; and of each (end, position of its start)
        self._begins: dict[str, list[int]] = {}
        self._rest: dict[str, list[tuple[int, int]]] = {}
        self._high = 0

    def knows(self, item: SalvagedRecord) -> bool:
        """Whether the same record has been added."""
        at = item.message.physical_offset
        if at >= self._high:
            return False  # the common case: records of one store in order, without a search
        for path, begins in self._begins.items():
            number = bisect_right(begins, at) - 1
            if number < 0:
                continue
            end, position = self._rest[path][number]
            if at < end:
                position += at - begins[number]
                other = bytes(self._files.get(Path(path)).data[position : position + 12])
                if _identity(other) == _identity(item.data):
                    return True
        return False

    def add(self, item: SalvagedRecord) -> None:
        """Add an accepted record."""
        begin = item.message.physical_offset
        end = begin + len(item.data)
        self._high = max(self._high, end)
        begins = self._begins.setdefault(item.path, [])
        rest = self._rest.setdefault(item.path, [])
        if begins:
            last_end, position = rest[-1]
            if last_end == begin and position + begin - begins[-1] == item.position:
                rest[-1] = end, position
                return
        at = bisect_right(begins, begin)
        begins.insert(at, begin)
        rest.insert(at, (end, item.position))

    def close(self) -> None:
        """Close the files."""
        self._files.close()


def _identity(data: bytes) -> bytes:
    """Return the length and the body checksum of a record, encoded as in its first 12 bytes."""
    return data[:4] + data[8:12]


class _OffsetMap:
    """Maps old queue offsets of a queue to the new ones, which are consecutive."""

    def __init__(self) -> None:
        self._runs: list[tuple[int, int]] = []  # (first old offset, count)
        self.count = 0

    def add(self, first: int, count: int) -> None:
        """Add the next ``count`` messages, whose old offsets start at ``first``."""
        self.count += count
        if self._runs:
            begin, length = self._runs[-1]
            if begin + length == first:
                self._runs[-1] = begin, length + count
                return
        self._runs.append((first, count))

    def moved(self, offset: int) -> int:
        """Return the new offset of the first message at or after an old one.

        If old offsets decrease, the topic was recreated: only the messages after that count.
        """
        at = self.count
        found = at
        previous: int | None = None
        for first, length in reversed(self._runs):
            if previous is not None and first + length - 1 > previous:
                break
            at -= length
            if offset < first + length:
                found = at + max(offset - first, 0)
            previous = first
        return found


def _refuse_inside(sources: Sequence[Path], output: Path) -> None:
    for path in sources:
        if path.is_dir() and output.resolve().is_relative_to(path.resolve()):
            raise ConfigError(f"{output} is inside {path}", "name a directory outside of it")


def _origin(sources: Sequence[Path]) -> Path | None:
    """Return the root of the only store among the sources; states of several are not mixed."""
    folders = [path for path in sources if path.is_dir()]
    if len(folders) != 1:
        return None
    try:
        return StoreDirectory(folders[0]).root
    except StoreError:  # a folder of files, as lost+found
        return None


def _check_size(size: int, file_size: int) -> None:
    if not fits(size, file_size):
        raise ConfigError(
            f"a record of {size} bytes does not fit into CommitLog files of {file_size}",
            "give a larger --file-size, 1073741824 for instance",
        )


class _Messages:
    """The messages that a new store gets, each once, in a single pass; afterwards also the losses.

    Filler records, rollback records and messages of deleted topics are omitted.
    """

    def __init__(self, sources: Sequence[Path], query: Query) -> None:
        self._sources = sources
        self._query = query
        self._seen = _ExtentSet()
        self.salvaged = Salvaged(sources)
        self.losses: list[DamageRow] = []
        self.duplicates = 0
        self.deleted = 0

    @property
    def lost_bytes(self) -> int:
        """Bytes that could not be read as records."""
        return sum(row.length or 0 for row in self.losses)

    def __iter__(self) -> Iterator[SalvagedRecord]:
        """Yield the messages; only once."""
        for item in salvage(self._sources):
            if isinstance(item, DamageRow):
                self.losses.append(item)
                continue
            self.salvaged.add(item)
            message = item.message
            if is_filler(message) or (message.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK):
                continue
            if not is_wanted(message, self._query):
                continue
            if self.salvaged.is_deleted(item):
                self.deleted += 1
            elif self._seen.knows(item):
                self.duplicates += 1
            else:
                self._seen.add(item)
                yield item
        self._seen.close()


class _Rewrite:
    def __init__(self, sources: Sequence[Path], made: Output, file_size: int, query: Query) -> None:
        self.sources = sources
        self.made = made
        self.file_size = file_size
        self.origin = _origin(sources)
        self.input = _Messages(sources, query)
        self.messages = 0
        self.renumbered = False
        self.end = 0
        self.batch_topics: set[str] = set()
        self.offsets: dict[Key, _OffsetMap] = {}
        self.next: dict[Key, int] = {}
        self.light: set[Key] = set()
        self.halves: dict[int, int] = {}
        self._file: Blocks | None = None
        self._held = bytearray()
        self._held_at = 0
        self._last_time = 0

    def run(self) -> NewStore:
        for rescued in self.input:
            self._append(rescued)
        if not self.messages:
            raise StoreError(
                "no message was found in " + ", ".join(str(path) for path in self.sources),
                "are these CommitLog files? mqadmin store inspect FILE looks into one",
            )
        self._end_file()
        self._derive()
        self.made.sync()
        after = verify(StoreDirectory(self.made.root), VerifyOptions())
        findings = [row for row in after.findings if row.severity != NOTICE]
        lost = self.input.salvaged.lost_messages()
        return NewStore(
            output=str(self.made.root),
            ok=after.summary.ok,
            messages=self.messages,
            bytes=self.end,
            duplicates=self.input.duplicates,
            queues=len(self.offsets),
            renumbered=self.renumbered,
            lost_bytes=self.input.lost_bytes,
            losses=self.input.losses,
            findings=findings,
            summary=after.summary,
            deleted_messages=self.input.deleted,
            lost_messages=total(lost),
            lost=lost,
        )

    def _append(self, item: SalvagedRecord) -> None:
        message = item.message
        key = (message.topic, message.queue_id)
        old_offset, old_place = message.queue_offset, message.physical_offset
        number = self.next.get(key, 0)
        count = 1
        has_crc = check_property_crc(item.data) is not None
        if message.sys_flag & INNER_BATCH:
            self.batch_topics.add(message.topic)
            inner = peek_property(message.properties_raw, b"INNER_NUM") or b"1"
            count = parse_number(inner, 1, INT16_MAX) or 1
            raw = remove_property(message.properties_raw, b"INNER_BASE")
            if has_crc:
                raw = raw[:-PROPERTY_CRC_SIZE]
            raw = append_property(raw, b"INNER_BASE", b"%d" % number)
            message.properties_raw = raw + bytes(PROPERTY_CRC_SIZE * has_crc)
        self.next[key] = number + count
        self._repair_time(message)
        self.offsets.setdefault(key, _OffsetMap()).add(old_offset, count)
        self.renumbered |= old_offset != number
        message.queue_offset = number
        if message.prepared_transaction_offset:
            place = message.prepared_transaction_offset
            message.prepared_transaction_offset = self.halves.get(place, place)
        self._write(message, old_place, has_crc=has_crc)
        self.messages += 1

    def _repair_time(self, message: MessageExt) -> None:
        """Replace an invalid storeTimestamp by the preceding one, else by bornTimestamp."""
        if not 0 <= message.store_timestamp <= LAST_MS:
            born = message.born_timestamp
            message.store_timestamp = self._last_time or (born if 0 <= born <= LAST_MS else 0)
        self._last_time = message.store_timestamp

    def _write(self, message: MessageExt, old_place: int, *, has_crc: bool) -> None:
        message.physical_offset = self._place_for(len(encode_record(message)))
        if message.topic == TRANS_HALF_TOPIC:
            self.halves[old_place] = message.physical_offset
        data = encode_record(message)
        if has_crc:
            before = data[:-PROPERTY_CRC_SIZE]
            data = before + encode_property_crc(before)
        self._held += data
        self.end += len(data)
        if len(self._held) >= _GATHER:
            self._flush()

    def _place_for(self, size: int) -> int:
        """Return the physical offset of the next record; start a new file if it does not fit."""
        left = self.file_size - self.end % self.file_size
        if self._file is not None and not fits(size, left):
            self._held += encode_blank(left)
            self.end += left
            self._end_file()
        _check_size(size, self.file_size)
        if self._file is None:
            name = f"{state.COMMITLOG_DIR}/{file_name(self.end)}"
            self._file = self.made.create(name, self.file_size)
            self._held_at = 0
        return self.end

    def _flush(self) -> None:
        if self._file is not None and self._held:
            self._file.put(self._held_at, bytes(self._held))
            self._held_at += len(self._held)
            self._held.clear()

    def _end_file(self) -> None:
        self._flush()
        if self._file is not None:
            self._file.close()
            self._file = None

    # --- queues, index, checkpoint and configuration --------------------------------------------

    def _derive(self) -> None:
        made = StoreDirectory(self.made.root)
        keys = set(self.offsets) | self._lmq_enabled(made)
        table = BuildTable(self.made, keys, self.batch_topics)
        index = IndexWriter(self.made, *self._index_shape())
        old = OldUnits(made)
        newest = rebuild(made, table, old, index, None)
        old.close()
        index.close()
        checkpoint = Checkpoint(newest, newest, index.full_until)
        self.made.write(state.CHECKPOINT, encode_checkpoint(checkpoint))
        self._config(keys)
        if (TIMER_TOPIC, 0) in keys:
            old_store = made if self.origin is None else StoreDirectory(self.origin)
            builder = TimerBuilder(self.made, old_store, read_settings(old_store), newest)
            builder.build(clean=False)

    def _lmq_enabled(self, made: StoreDirectory) -> set[Key]:
        found: set[Key] = set()
        for item in LogWalk(made, check_crc=False):
            if item.record is not None and b"INNER_MULTI_DISPATCH" in item.record.properties:
                for wanted in lmq_enabled(item.record):
                    found.add((wanted.topic.decode("utf-8", "replace"), wanted.queue_id))
        return found

    def _index_shape(self) -> tuple[int, int]:
        """Return slots and entries of IndexFiles: the defaults, fewer for small log files."""
        if self.file_size >= FILE_SIZE:
            return indexfile.SLOTS, indexfile.ENTRIES
        slots = max(self.file_size // 256, 64)
        return slots, 4 * slots

    def _config(self, keys: set[Key]) -> None:
        topics: dict[str, TopicConfig] = {}
        if self.origin is not None:
            topics = self._take_config(self.origin / state.CONFIG_DIR)
        for topic, queue_id in sorted(keys):
            if topic.startswith(LMQ_PREFIX) or is_system_topic(topic):
                continue
            known = topics.get(topic)
            count = queue_id + 1
            if known is None:
                topics[topic] = TopicConfig(
                    topic_name=topic, read_queue_nums=count, write_queue_nums=count
                )
            elif max(known.read_queue_nums, known.write_queue_nums) < count:
                topics[topic] = msgspec.structs.replace(
                    known, read_queue_nums=count, write_queue_nums=count
                )
        text = config.encode_topics(config.TopicsFile(topics=topics))
        self.made.write(f"{state.CONFIG_DIR}/{config.TOPICS}", text.encode())

    def _take_config(self, folder: Path) -> dict[str, TopicConfig]:
        """Copy groups, map consumer and delay offsets to the same messages; return the topics.

        The segments of static topics keep their bounds, mapped to the same messages.
        """
        topics: dict[str, TopicConfig] = {}
        for name in _TAKEN:
            for path in (folder / name, folder / f"{name}.bak"):
                data = read_all(path)
                if not data:
                    continue
                try:
                    if name == config.TOPICS:
                        topics = dict(config.decode_topics(data).topics)
                    elif name in _OFFSETS:
                        data = self._moved_offsets(data)
                    elif name == config.DELAY_OFFSET:
                        data = self._moved_delays(data)
                    elif name == config.TOPIC_QUEUE_MAPPING:
                        data = moved_mappings(data, self._moved)
                    else:
                        config.decode_subscription_group(data)
                except RemoteProtocolError:
                    continue
                if name != config.TOPICS:
                    self.made.write(f"{state.CONFIG_DIR}/{name}", data)
                break
        return topics

    def _moved_offsets(self, data: bytes) -> bytes:
        moved = map_offsets(config.decode_consumer_offset(data), self._moved)
        return config.encode_consumer_offset(moved).encode()

    def _moved_delays(self, data: bytes) -> bytes:
        stored = config.decode_delay_offset(data)
        moved = {
            level: self._moved(SCHEDULE_TOPIC, level - 1, offset)
            for level, offset in stored.offsets.items()
        }
        return config.encode_delay_offset(msgspec.structs.replace(stored, offsets=moved)).encode()

    def _moved(self, topic: str, queue_id: int, offset: int) -> int:
        """Return the new offset of the first kept message at or after an old one."""
        old = self.offsets.get((topic, queue_id))
        return 0 if old is None else old.moved(offset)
