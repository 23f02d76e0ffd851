"""EncodedRun: ConsumeQueue units and index entries of consecutive records, encoded from the log.

Encoding depends on the bytes of the log alone, not on the state of the store: other processes can
do it ahead of the scan (see :mod:`broker.store.recovery.runs.parallel_run_reader`). The scan adds
the units and entries to the files, see :mod:`broker.store.recovery.runs.run_dispatcher`.

**Source:** no Java counterpart; RocketMQ dispatches record by record in recovery too.
"""

import marshal
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from broker.common.sysflag import TRANSACTION_PREPARED
from broker.store.dispatch.dispatch_rows import read_rows
from broker.store.dispatch.tag_codes import TagCodes
from broker.store.format.commitlog import MAGIC_AT, MAGIC_PREFIX, Buffer, is_plausible
from broker.store.format.consumequeue import UNIT_STRUCT
from broker.store.format.indexfile import key_hashes, topic_prefix
from broker.store.format.property_columns import PropertyColumns, peek_columns

# Records of one run.
ROWS: Final = 512
# Places in one segment at which a record seems to start and does not: the scan reads the rest.
MAX_CANDIDATES: Final = 64

_pack: Final = UNIT_STRUCT.pack
_QUEUES_AT: Final = 6


class ReadOptions(NamedTuple):
    """How records are checked and which of them get index entries.

    ``indexed_to``: physical offset of the last record in the index (-1: no entry); later records
    get index entries. None: without an index. With ``power_failed`` a record with a missing sector
    is not valid.
    """

    check_crc: bool
    power_failed: bool
    indexed_to: int | None


class QueueUnits(NamedTuple):
    """The packed units of one queue, in log order.

    ``first_offset`` is the queue offset of the first one, and the others follow; -1 if they do not.
    ``prepared``: one of the records is a half message.
    """

    topic: bytes
    queue_id: int
    first_offset: int
    prepared: bool
    units: bytes


class EncodedRun(NamedTuple):
    """Units and index entries of ``records`` records from physical offset ``start`` to ``end``.

    ``last_timestamp`` and ``newest_timestamp``: storeTimestamps in ms, of the last record and the
    highest. ``interrupted``: no record, or one that is not valid, follows before the position that
    the caller gave. Index entries are columns: hash, physical offset, storeTimestamp.
    """

    start: int
    end: int
    records: int
    last_timestamp: int
    newest_timestamp: int
    interrupted: bool
    queues: list[QueueUnits]
    hashes: "array[int]"
    offsets: "array[int]"
    store_timestamps: "array[int]"


def pack_runs(runs: Iterable[EncodedRun]) -> bytes:
    """Runs as bytes for another process of the same Python."""
    return marshal.dumps(
        [
            (*run[:_QUEUES_AT], [tuple(group) for group in run.queues], *run[_QUEUES_AT + 1 :])
            for run in runs
        ]
    )


def unpack_runs(data: bytes | memoryview) -> list[EncodedRun]:
    """The runs of :func:`pack_runs`."""
    return [
        EncodedRun._make(
            (
                *numbers,
                [QueueUnits(*group) for group in queues],
                array("i", hashes),
                array("q", offsets),
                array("q", stamps),
            )
        )
        for *numbers, queues, hashes, offsets, stamps in marshal.loads(data)
    ]


def encode_run(
    mapping: Buffer,
    positions: tuple[int, int, int],
    base: int,
    options: ReadOptions,
    tag_codes: TagCodes,
) -> EncodedRun | None:
    """The run of valid records from a position on, up to ROWS of them; None without one.

    ``positions``: of the first record, the one before which the last record starts, and the end of
    the file, whose physical offset is ``base``.
    """
    rows, after = read_rows(
        mapping,
        positions,
        base,
        ROWS,
        check_crc=options.check_crc,
        power_failed=options.power_failed,
    )
    if not rows:
        return None
    physical, sizes, stamps, flags, queue_offsets, queue_ids, topics, properties = zip(
        *rows, strict=True
    )
    columns = peek_columns(properties)
    code_of = {text: tag_codes.code(text) if text else 0 for text in set(columns.tags)}
    units = list(map(_pack, physical, sizes, map(code_of.__getitem__, columns.tags)))
    prepared = any(flag & TRANSACTION_PREPARED for flag in set(flags))
    queues = []
    for (topic, queue_id), numbers in _rows_of_queues(topics, queue_ids).items():
        first = queue_offsets[numbers[0]]
        expected = list(range(first, first + len(numbers)))
        follow = [queue_offsets[number] for number in numbers] == expected
        queues.append(
            QueueUnits(
                topic,
                queue_id,
                first if follow else -1,
                prepared and any(flags[number] & TRANSACTION_PREPARED for number in numbers),
                b"".join([units[number] for number in numbers]),
            )
        )
    return EncodedRun(
        physical[0],
        base + after,
        len(rows),
        stamps[-1],
        max(stamps),
        len(rows) < ROWS and after < positions[1],
        queues,
        *_index_entries(topics, physical, columns, stamps, options.indexed_to),
    )


def _rows_of_queues(
    topics: Sequence[bytes], queue_ids: Sequence[int]
) -> dict[tuple[bytes, int], list[int]]:
    """The numbers of the rows of each topic and queue ID."""
    found: dict[tuple[bytes, int], list[int]] = {}
    for number, key in enumerate(zip(topics, queue_ids, strict=True)):
        try:
            found[key].append(number)
        except KeyError:
            found[key] = [number]
    return found


def _index_entries(
    topics: Sequence[bytes],
    physical: Sequence[int],
    columns: PropertyColumns,
    stamps: Sequence[int],
    indexed_to: int | None,
) -> "tuple[array[int], array[int], array[int]]":
    """Hashes, physical offsets and storeTimestamps of the entries of all keys.

    Keys of one kind mostly have one length, and such are hashed faster: column by column.
    """
    if indexed_to is None or physical[-1] <= indexed_to:
        return array("i"), array("q"), array("q")
    prefix_of = {topic: topic_prefix(topic.decode("utf-8", "replace")) for topic in set(topics)}
    prefixes = [prefix_of[topic] for topic in topics]
    known = bisect_right(physical, indexed_to)
    words = columns.words
    if words:
        rows = len(physical) - known
        entries = (
            array("i", bytes(4 * rows * len(words))),
            array("q", bytes(8 * rows * len(words))),
            array("q", bytes(8 * rows * len(words))),
        )
        for number, column in enumerate(words):
            hashes = key_hashes(prefixes[known:], column[known:])
            for entry, values in zip(
                entries, (hashes, physical[known:], stamps[known:]), strict=True
            ):
                entry[number :: len(words)] = array(entry.typecode, values)
        return entries
    numbers = [
        number
        for number, many in enumerate(map(len, columns.keys))
        if number >= known
        for _ in range(many)
    ]
    hashes = key_hashes(
        [prefixes[number] for number in numbers],
        list(chain.from_iterable(columns.keys[known:])),
    )
    return (
        array("i", hashes),
        array("q", [physical[number] for number in numbers]),
        array("q", [stamps[number] for number in numbers]),
    )


def encode_segment(
    mapping: bytes | bytearray,
    positions: tuple[int, int, int],
    base: int,
    options: ReadOptions,
    tag_codes: TagCodes,
) -> Iterator[EncodedRun]:
    """The runs of the valid records that start from one position to another.

    ``positions``: these two, and the end of the file, whose physical offset is ``base``. The first
    one need not be that of a record.
    """
    position, stop, end = positions
    candidates = 0
    while position < stop:
        run = encode_run(mapping, (position, stop, end), base, options, tag_codes)
        if run is not None:
            yield run
            position = run.end - base
            continue
        while True:
            search_end = min(end, stop + MAGIC_AT + len(MAGIC_PREFIX) - 1)
            hit = mapping.find(MAGIC_PREFIX, position + 1 + MAGIC_AT, search_end)
            candidates += 1
            if hit < 0 or candidates > MAX_CANDIDATES:
                return
            position = hit - MAGIC_AT
            if is_plausible(mapping, position, base):
                break
