"""IndexFile: a hash table on disk that maps message keys to physical offsets.

::

    0        40                 40 + 4 x slots             40 + 4 x slots + 20 x entries
    | header | slot ... slot    | entry 0 | entry 1 | ...  |

A slot contains the number of the newest entry of its chain, each entry the number of the previous
one; entry 0 is never used, so 0 ends a chain. A key is ``topic#word``, where the words are the
UNIQ_KEY and each word of KEYS. Different keys with the same hash share a chain: compare the keys
of the record.

The numbers of slots and entries are configured and not stored in the file; for a file of
non-standard size :func:`probe_slot_count` derives them.

**Source:** RocketMQ ``IndexFile``, ``IndexHeader``, ``IndexService``.
"""

import sys
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from broker.common.java import INT32_MAX, extend_hash, key_hash_prefix
from broker.errors import RemoteProtocolError
from broker.message.message import PROPERTY_KEYS, PROPERTY_UNIQ_KEY
from broker.message.properties import peek_property
from broker.message.record import Buffer
from broker.store.format.table import Layout, rows

HEADER: Final = Layout(
    name="index-header",
    title="IndexFile header",
    path="index/<time>",
    fields=rows(
        ("beginTimestamp", "long", 8, "storeTimestamp of the first message, ms"),
        ("endTimestamp", "long", 8, "storeTimestamp of the last message, ms"),
        ("beginPhysicalOffset", "long", 8, "physical offset of the first message"),
        ("endPhysicalOffset", "long", 8, "physical offset of the last message"),
        ("hashSlotCount", "int", 4, "slots in use"),
        ("indexCount", "int", 4, "number of the next entry; begins at 1"),
    ),
)
SLOT: Final = Layout(
    name="index-slot",
    title="IndexFile slot",
    path="index/<time>",
    fields=rows(("entry", "int", 4, "number of the newest entry of the chain, 0: empty")),
    notes=("Slot of a key: keyHash mod number of slots (maxHashSlotNum, 5,000,000).",),
)
ENTRY: Final = Layout(
    name="index-entry",
    title="IndexFile entry",
    path="index/<time>",
    fields=rows(
        ("keyHash", "int", 4, "absolute hash of topic#key, 0 for -2^31"),
        ("physicalOffset", "long", 8, "physical offset of the record"),
        ("timeDiffSeconds", "int", 4, "storeTimestamp - beginTimestamp, whole seconds"),
        ("previousEntry", "int", 4, "number of the entry before it in the chain, 0: none"),
    ),
    notes=("Entry i is located at 40 + 4 x slots + 20 x i; entry 0 is never used.",),
)

SLOTS: Final = 5_000_000  # maxHashSlotNum
ENTRIES: Final = 20_000_000  # maxIndexNum
HEADER_SIZE: Final = HEADER.size
SLOT_SIZE: Final = SLOT.size
ENTRY_SIZE: Final = ENTRY.size
HEADER_STRUCT: Final = HEADER.packer()
SLOT_STRUCT: Final = SLOT.packer()
ENTRY_STRUCT: Final = ENTRY.packer()
FILE_SIZE: Final = HEADER_SIZE + SLOTS * SLOT_SIZE + ENTRIES * ENTRY_SIZE

# Upper bound of the search for the number of slots: files with more have the standard size.
_PROBE_SLOTS: Final = 1_000_000

_MASK: Final = 0xFFFFFFFF

_UNIQ_KEY: Final = PROPERTY_UNIQ_KEY.encode()
_UNIQ_KEY_MARK: Final = _UNIQ_KEY + b"\x01"
_UNIQ_KEY_SIZE: Final = len(_UNIQ_KEY_MARK)
_KEYS: Final = PROPERTY_KEYS.encode()
_KEYS_MARK: Final = _KEYS + b"\x01"
_LATER_KEYS_MARK: Final = b"\x02" + _KEYS_MARK  # not the first property
_LATER_KEYS_SIZE: Final = len(_LATER_KEYS_MARK)

# The hash is a number in base 31 whose digits are the characters. int() parses base 31 at C speed,
# but only digits below 31, so each character c is split into c // 31 and c % 31:
# hash = 31 * int(quotients) + int(remainders). Three to four times faster than sum(map(mul)).
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstu"
_QUOTIENTS: Final = bytes(_DIGITS[c // 31] for c in range(256))
_REMAINDERS: Final = bytes(_DIGITS[c % 31] for c in range(256))
_LONGEST_DIRECT: Final = 1024  # int() rejects more than 4300 digits
_POWERS: Final = tuple(pow(31, n, 1 << 32) for n in range(_LONGEST_DIRECT + 1))

# key_hashes: keys hashed by one calculation, the bytes that each is padded to, and a mask of the
# low bits of each lane, for lanes of 2, 4, 8, 16 and 32 bytes.
_KEYS_AT_ONCE: Final = 512
_LANE: Final = 32
_LEAST_KEYS: Final = 8  # fewer are hashed faster one by one


def _lane_mask(lane: int, low: int) -> int:
    lanes = _KEYS_AT_ONCE * _LANE // lane
    return int.from_bytes((bytes(lane - low) + b"\xff" * low) * lanes, "big")


_BYTES: Final = _lane_mask(2, 1)
_SHORTS: Final = _lane_mask(4, 2)
_INTS: Final = _lane_mask(8, 4)
_INTS_OF_16: Final = _lane_mask(16, 4)
_INTS_OF_32: Final = _lane_mask(32, 4)
_END: Final = 8  # the characters of a UNIQ_KEY that differ most: low time, and counter
_ONES: Final = {
    lane: (_lane_mask(lane, 1) & (1 << _KEYS_AT_ONCE * lane * 8) - 1) // 255
    for lane in (_END, _LANE)
}


class IndexHeader(NamedTuple):
    """The header: timestamps in ms; ``index_count`` is the number of the next entry."""

    begin_timestamp: int = 0
    end_timestamp: int = 0
    begin_physical_offset: int = 0
    end_physical_offset: int = 0
    hash_slot_count: int = 0
    index_count: int = 1


class IndexEntry(NamedTuple):
    """One entry; ``previous_entry`` is the number of the next older entry in its chain."""

    number: int
    key_hash: int
    physical_offset: int
    time_diff_seconds: int
    previous_entry: int


def index_key(topic: str, key: str) -> str:
    """The hashed text for a key of a topic."""
    return f"{topic}#{key}"


def topic_prefix(topic: str) -> int:
    """The unsigned hash of ``topic#``, the common prefix of all index keys of a topic."""
    return key_hash_prefix(topic) & _MASK


def key_hash(prefix: int, key: bytes) -> int:
    """Index hash of a key, never negative; ``prefix`` is that of :func:`topic_prefix`.

    The absolute value of Java's hash, and 0 for the one int that has none.

    **Source:** RocketMQ IndexFile#indexKeyHashMethod.
    """
    value = _unsigned_hash(prefix, key)
    if value <= INT32_MAX:
        return value
    value = _MASK + 1 - value
    return value if value <= INT32_MAX else 0


def _unsigned_hash(prefix: int, key: bytes) -> int:
    size = len(key)
    if 0 < size <= _LONGEST_DIRECT and key.isascii():
        return (
            prefix * _POWERS[size]
            + 31 * int(key.translate(_QUOTIENTS), 31)
            + int(key.translate(_REMAINDERS), 31)
        ) & _MASK
    return extend_hash(prefix, key) & _MASK


def key_hashes(prefixes: Sequence[int], keys: Sequence[bytes]) -> list[int]:
    """:func:`key_hash` of each of many keys, with the prefix of each.

    The keys are the lanes of one long integer; each step joins the hashes of two neighbouring
    parts of every key: hash(a + b) = hash(a) * 31 ** len(b) + hash(b). UNIQ_KEYs of one client
    start with equal bytes: these are hashed once, and only the ends are lanes.
    """
    count = len(keys)
    if count > _KEYS_AT_ONCE:
        half = count // 2
        first = key_hashes(prefixes[:half], keys[:half])
        return first + key_hashes(prefixes[half:], keys[half:])
    lengths = set(map(len, keys))
    if lengths != {_LANE}:  # zero bytes before a key do not change its sum
        keys_in_lanes: Sequence[bytes] = [key.rjust(_LANE, b"\0") for key in keys]
    else:
        keys_in_lanes = keys
    joined = b"".join(keys_in_lanes)
    if count < _LEAST_KEYS or len(joined) != count * _LANE or not joined.isascii():
        return list(map(key_hash, prefixes, keys))
    uniform = len(lengths) == 1 and prefixes.count(prefixes[0]) == count
    prefix, lane = prefixes[0], _LANE
    if uniform and lengths == {_LANE} and (ends := _different_ends(joined)):
        prefix = _unsigned_hash(prefix, joined[: _LANE - _END])
        joined, lane, lengths = ends, _END, {_END}
    sums = int.from_bytes(joined, "big")
    sums = (sums >> 8 & _BYTES) * 31 + (sums & _BYTES)
    sums = (sums >> 16 & _SHORTS) * _POWERS[2] + (sums & _SHORTS)
    # 8 characters make less than 2 ** 43, so that this step does not need the sums modulo 2 ** 32.
    sums = (sums >> 32 & _INTS) * _POWERS[4] + (sums & _INTS)
    if lane > _END:
        sums = (sums >> 64 & _INTS_OF_16) * _POWERS[8] + (sums & _INTS_OF_16)
        sums = (sums >> 128 & _INTS_OF_32) * _POWERS[16] + (sums & _INTS_OF_32)
    if uniform:
        ones = _ONES[lane] >> (_KEYS_AT_ONCE - count) * lane * 8
        sums += (prefix * _POWERS[lengths.pop()] & _MASK) * ones
    low = array("i", sums.to_bytes(len(joined), "big"))[lane // 4 - 1 :: lane // 4]
    if sys.byteorder == "little":
        low.byteswap()
    # As in key_hash: the absolute value of an int, 0 for the lowest.
    if uniform:
        hashes = list(map(abs, low))
        return hashes if max(hashes) <= INT32_MAX else [hashed & INT32_MAX for hashed in hashes]
    values = [
        (value + prefix * _POWERS[len(key)]) & _MASK
        for value, prefix, key in zip(low, prefixes, keys, strict=True)
    ]
    return [value if value <= INT32_MAX else (_MASK + 1 - value) & INT32_MAX for value in values]


def _different_ends(joined: bytes) -> bytes:
    """The last _END bytes of each key, joined; empty if the other bytes of the keys differ."""
    words = array("Q", joined)
    per_key = _LANE // words.itemsize
    for number in range(per_key - 1):
        column = words[number::per_key]
        if column != column[:1] * len(column):
            return b""
    return words[per_key - 1 :: per_key].tobytes()


def index_key_hash(topic: str, key: str) -> int:
    """:func:`key_hash` of a key of a topic, both as text."""
    return key_hash(topic_prefix(topic), key.encode("utf-8", "replace"))


def message_keys(uniq_key: str | None, keys: str | None) -> list[str]:
    """The words under which a message is indexed: UNIQ_KEY, then each word of KEYS.

    **Source:** RocketMQ ``IndexService#buildIndex``.
    """
    words = [uniq_key] if uniq_key else []
    if keys:
        words += [word for word in keys.split(" ") if word]
    return words


def peek_message_keys(properties: bytes) -> list[bytes]:
    """:func:`message_keys` of an encoded property string, without decoding it.

    Each property is searched once and used if it is delimited on both sides; otherwise
    peek_property decides. The compiled equivalent is in
    :mod:`broker.store.format.vectorized.hash_kernels`.
    """
    uniq_key: bytes | None = None
    at = properties.rfind(_UNIQ_KEY_MARK)
    if at >= 0:
        start = at + _UNIQ_KEY_SIZE
        end = properties.find(b"\x02", start)
        if end > start and (at == 0 or properties[at - 1] == 2):
            uniq_key = properties[start:end]
        else:
            uniq_key = peek_property(properties, _UNIQ_KEY)
    if properties.find(_KEYS_MARK) < 0:  # most messages have no other key; `in` takes twice as long
        return [uniq_key] if uniq_key else []
    start = properties.rfind(_LATER_KEYS_MARK) + _LATER_KEYS_SIZE
    if start >= _LATER_KEYS_SIZE:
        end = properties.find(b"\x02", start)
        keys = properties[start:end] if end > start else peek_property(properties, _KEYS)
    else:
        keys = peek_property(properties, _KEYS) if properties.startswith(_KEYS_MARK) else None
    if not keys:
        return [uniq_key] if uniq_key else []
    if 32 in keys:
        words = [word for word in keys.split(b" ") if word]
        return [uniq_key, *words] if uniq_key else words
    return [uniq_key, keys] if uniq_key else [keys]


def file_size(slots: int = SLOTS, entries: int = ENTRIES) -> int:
    """Length in bytes of a file with these numbers of slots and entries."""
    return HEADER_SIZE + slots * SLOT_SIZE + entries * ENTRY_SIZE


def entry_position(number: int, slots: int = SLOTS) -> int:
    """File position of an entry, in bytes."""
    return HEADER_SIZE + slots * SLOT_SIZE + number * ENTRY_SIZE


def slot_position(slot: int) -> int:
    """File position of a slot, in bytes."""
    return HEADER_SIZE + slot * SLOT_SIZE


def encode_header(header: IndexHeader) -> bytes:
    """Encode the 40 bytes of a header."""
    return HEADER_STRUCT.pack(*header)


def decode_header(buf: Buffer) -> IndexHeader:
    """Decode the header of a file; RemoteProtocolError if the file is shorter.

    A count below 1 is decoded as 1: a file that was never written has a count of 0.
    """
    if len(buf) < HEADER_SIZE:
        raise RemoteProtocolError(f"IndexFile of {len(buf)} bytes has no header", position=0)
    header = IndexHeader._make(HEADER_STRUCT.unpack_from(buf))
    return header if header.index_count > 0 else header._replace(index_count=1)


def decode_entry(buf: Buffer, number: int, slots: int = SLOTS) -> IndexEntry:
    """Decode entry ``number``; RemoteProtocolError if it is outside the file."""
    position = entry_position(number, slots)
    if number < 0 or position + ENTRY_SIZE > len(buf):
        raise RemoteProtocolError(f"index entry {number} is outside the file", position=position)
    return IndexEntry(number, *ENTRY_STRUCT.unpack_from(buf, position))


def time_diff_seconds(store_timestamp: int, begin_timestamp: int) -> int:
    """timeDiffSeconds of an entry: whole seconds since the file's beginTimestamp, clamped.

    **Source:** RocketMQ ``IndexFile#putKey``.
    """
    if begin_timestamp <= 0:
        return 0
    difference = store_timestamp - begin_timestamp
    return min(difference // 1000, INT32_MAX) if difference > 0 else 0


def slot_value(buf: Buffer, slot: int, index_count: int) -> int:
    """Number of a slot's newest entry; 0 for an empty slot or a value out of range."""
    value = int(SLOT_STRUCT.unpack_from(buf, slot_position(slot))[0])
    return value if 0 < value <= index_count else 0


def walk_chain(
    buf: Buffer, key_hash: int, slots: int = SLOTS, *, begin: int = 0, end: int = 1 << 62
) -> Iterator[IndexEntry]:
    """Entries of one hash in a file, newest first, with a timestamp in ``begin``..``end`` (ms).

    Entry times are whole seconds, and that of a file's first entry can be too late: widen
    ``begin``, or use the defaults and check the records. Iteration ends at a link that is out of
    range, and after as many steps as the file has entries, so a cyclic chain ends too.

    **Source:** RocketMQ ``IndexFile#selectPhyOffset``.
    """
    header = decode_header(buf)
    count = header.index_count
    if count <= 1 or slots <= 0 or slot_position(slots) > len(buf):
        return
    number = slot_value(buf, key_hash % slots, count)
    steps = count
    while number > 0 and steps > 0 and entry_position(number + 1, slots) <= len(buf):
        entry = decode_entry(buf, number, slots)
        if entry.time_diff_seconds < 0:
            return
        time = header.begin_timestamp + entry.time_diff_seconds * 1000
        if entry.key_hash == key_hash and begin <= time <= end:
            yield entry
        previous = entry.previous_entry
        if previous > count or previous == number or time < begin:
            return
        number = previous
        steps -= 1


def overlaps(first: int, last: int, begin: int, end: int) -> bool:
    """Return whether a file can contain entries of a time range; all four in ms.

    ``first`` and ``last`` are the timestamps of its header.

    **Source:** RocketMQ ``IndexFile#isTimeMatched``.
    """
    return (begin < first and end > last) or first <= begin <= last or first <= end <= last


def scan_entries(buf: Buffer, slots: int = SLOTS) -> Iterator[IndexEntry]:
    """The entries of a file in order of number, up to its count or its end."""
    count = decode_header(buf).index_count
    position = entry_position(1, slots)
    for number in range(1, count):
        if position + ENTRY_SIZE > len(buf):
            return
        yield IndexEntry(number, *ENTRY_STRUCT.unpack_from(buf, position))
        position += ENTRY_SIZE


def probe_slot_count(buf: Buffer) -> int:
    """Derive the number of slots of a file from its contents; 0 if none fits or it has no entries.

    A file of standard length has the standard number. Otherwise each number up to 1,000,000, and
    the standard one, that leaves space for a whole number of entries is tried: the first and last
    entry must match the header's offsets, entry 0 must be zeros, and each used slot must contain
    the number of its newest entry. Entries of a record at physical offset 0 look like an empty
    region: a number that explains every used slot is preferred.
    """
    if len(buf) == FILE_SIZE:
        return SLOTS
    count = decode_header(buf).index_count
    if count <= 1:
        return 0
    room = len(buf) - HEADER_SIZE
    # 4 x slots + 20 x entries = room, so slots mod 5 = (room / 4) mod 5.
    step = ENTRY_SIZE // SLOT_SIZE
    first, odd = room // SLOT_SIZE % step, room % SLOT_SIZE
    most = (room - count * ENTRY_SIZE) // SLOT_SIZE
    if odd:
        return 0
    tried = range(first or step, min(most, _PROBE_SLOTS) + 1, step)
    fits = 0
    for slots in chain(tried, [SLOTS] if most >= SLOTS and SLOTS % step == first else []):
        used = _used_slots(buf, slots, count)
        if used:
            table = bytes(buf[HEADER_SIZE : HEADER_SIZE + slots * SLOT_SIZE])
            if sum(map(bool, array("i", table))) == used:
                return slots
            fits = fits or slots
    return fits


def _used_slots(buf: Buffer, slots: int, count: int) -> int:
    """Return the number of used slots, 0 if header, entries and slots contradict this shape."""
    header = decode_header(buf)
    # Cheap tests first: nearly every candidate fails one of them.
    if decode_entry(buf, count - 1, slots).physical_offset != header.end_physical_offset:
        return 0
    if decode_entry(buf, 1, slots).physical_offset != header.begin_physical_offset:
        return 0
    if any(buf[entry_position(0, slots) : entry_position(1, slots)]):
        return 0
    newest: dict[int, int] = {}
    for number in range(count - 1, 0, -1):
        position = entry_position(number, slots)
        key_hash, _, diff, previous = ENTRY_STRUCT.unpack_from(buf, position)
        if key_hash < 0 or diff < 0 or not 0 <= previous < number:
            return 0
        newest.setdefault(key_hash % slots, number)
    agree = all(slot_value(buf, slot, count) == number for slot, number in newest.items())
    return len(newest) if agree else 0
