"""The small files of a store directory: abort, lock, queueEnds.json, epoch file, broker identity.

``abort`` exists while a broker runs; if it exists at start-up, the last stop was not clean.
4.9 leaves it empty, 5.x writes its process id. ``lock`` contains the word ``lock``; only the POSIX
record lock on its first byte has an effect.

**Source:** RocketMQ ``DefaultMessageStore`` (abort, lock), ``EpochFileCache``/``CheckpointFile``,
``BrokerIdentity`` files of ``ReplicasManager``.
"""

import re
import zlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from broker.common.java import INT32_MAX, parse_number
from broker.common.topic import check_topic_name
from broker.errors import RemoteProtocolError

ABORT: Final = "abort"
LOCK: Final = "lock"
LOCK_TEXT: Final = b"lock"
CHECKPOINT: Final = "checkpoint"
EPOCH_FILE: Final = "epochFileCheckpoint"
QUEUE_ENDS: Final = "queueEnds.json"

# Directories in the root of a store.
COMMITLOG_DIR: Final = "commitlog"
CONSUMEQUEUE_DIR: Final = "consumequeue"
CONSUMEQUEUE_EXT_DIR: Final = "consumequeue_ext"
BATCH_CONSUMEQUEUE_DIR: Final = "batchconsumequeue"
INDEX_DIR: Final = "index"
CONFIG_DIR: Final = "config"
TIMERLOG_DIR: Final = "timerlog"

_FOLDERS: Final = frozenset(
    {
        COMMITLOG_DIR,
        CONSUMEQUEUE_DIR,
        CONSUMEQUEUE_EXT_DIR,
        BATCH_CONSUMEQUEUE_DIR,
        INDEX_DIR,
        CONFIG_DIR,
        TIMERLOG_DIR,
    }
)
QUEUE_DIRS: Final = (CONSUMEQUEUE_DIR, BATCH_CONSUMEQUEUE_DIR, CONSUMEQUEUE_EXT_DIR)
"""Each has a directory per topic, with a directory per queue."""
_FILES: Final = frozenset({ABORT, CHECKPOINT, LOCK, QUEUE_ENDS, "timerwheel"})
# Files of ``config`` that do not end with .json. Java has RocksDB directories there, too.
_CONFIG_FILES: Final = frozenset({"timercheck", "timermetrics", "transactionMetrics"})


class Epoch(NamedTuple):
    """A term of one master (controller mode) and the physical offset at which it started."""

    epoch: int
    start_offset: int


class WrongType(NamedTuple):
    """How an entry of a store differs from the file or directory of its name, and the next step."""

    cause: str
    hint: str


def wrong_type(
    folder: str, name: str, *, is_file: bool, is_folder: bool, exists: bool
) -> WrongType | None:
    """Compare the type of an entry with its name; None if it is right or any type is accepted.

    ``folder`` is empty for the root of the store, CONFIG_DIR, one of QUEUE_DIRS, or the directory
    of a topic in one. ``exists`` is False for a link to a missing target. Neither ``is_file`` nor
    ``is_folder`` is a named pipe, which blocks a reader, a socket or a device.
    """
    wants_file = wants_folder = False
    if not folder:
        wants_file, wants_folder = name in _FILES, name in _FOLDERS
    elif folder == CONFIG_DIR:
        written = name.removesuffix(".bak").removesuffix(".tmp")
        wants_file = written.endswith(".json") or written in _CONFIG_FILES
    elif folder in QUEUE_DIRS:
        wants_folder = check_topic_name(name) is None
    else:
        wants_folder = parse_queue_id(name) is not None
    if not wants_file and not wants_folder:
        return None
    if not exists:
        return WrongType("is a link to a missing target", "restore the target or remove the link")
    if not is_file and not is_folder:
        return SPECIAL
    if is_folder == wants_folder:
        return None
    return DIRECTORY if is_folder else WrongType("is not a directory", "move the file away")


SPECIAL: Final = WrongType("is neither a file nor a directory", "move it away")
DIRECTORY: Final = WrongType("is a directory, not a file", "move the directory away")


def parse_queue_id(name: str) -> int | None:
    """The queue whose directory has this name, None if the name is not a queue id."""
    queue_id = parse_number(name, 0, INT32_MAX)
    return queue_id if str(queue_id) == name else None


def encode_abort(pid: int | None = None) -> bytes:
    """Encode ``abort``: the process id, or no bytes as in 4.9."""
    return b"" if pid is None else str(pid).encode("ascii")


def decode_abort(data: bytes) -> int | None:
    """The process id in ``abort``, None if the content is not a number."""
    text = data.strip()
    return parse_number(text, 0)


_CRC: Final = re.compile(rb'\{"crc":([0-9]{1,10}),')


def encode_queue_ends(content: Mapping[str, Any]) -> bytes:
    """Encode ``queueEnds.json``: its first member is the CRC32 of all bytes after it."""
    members = msgspec.json.encode(content)[1:]
    return b'{"crc":%d,' % zlib.crc32(members) + members


def decode_queue_ends(data: bytes) -> dict[str, Any]:
    """Decode ``queueEnds.json``, without the CRC; ValueError if it or the JSON is wrong.

    The CRC is necessary because messages before a deletion are ignored, and nothing else in the
    store contradicts a deletion that never was. A file without CRC, of an earlier release or edited
    by hand, is accepted.
    """
    if found := _CRC.match(data):
        stored, actual = int(found[1]), zlib.crc32(memoryview(data)[found.end() :])
        if stored != actual:
            raise ValueError(f"the CRC is {actual}, not {stored} as recorded")
    # Refuses unpaired surrogates, which the next write could not encode.
    content = msgspec.json.decode(data, type=dict[str, Any])
    content.pop("crc", None)
    return content


def encode_epochs(epochs: list[Epoch]) -> bytes:
    """Encode the epoch file: count, CRC of the lines, one ``epoch-start`` line per epoch."""
    lines = "".join(f"{epoch}-{start}\n" for epoch, start in epochs).encode("ascii")
    return f"{len(epochs)}\n{zlib.crc32(lines) & 0x7FFFFFFF}\n".encode("ascii") + lines


def decode_epochs(data: bytes) -> list[Epoch]:
    """Decode an epoch file; a stored CRC of 0 is not checked.

    RemoteProtocolError if count, CRC or a line is wrong.
    """
    count, _, rest = data.partition(b"\n")
    crc, _, lines = rest.partition(b"\n")
    number, stored_crc = parse_number(count, 0), parse_number(crc, 0)
    if number is None or stored_crc is None:
        raise RemoteProtocolError("epoch file has no count and CRC", position=0)
    if stored_crc and zlib.crc32(lines) & 0x7FFFFFFF != stored_crc:
        raise RemoteProtocolError("epoch file: the CRC is wrong", position=len(data) - len(lines))
    epochs = []
    for line in lines.splitlines():
        first, _, second = line.partition(b"-")
        epoch, start = parse_number(first, 0), parse_number(second, 0)
        if epoch is None or start is None:
            raise RemoteProtocolError(f"epoch file: line {line!r:.80} is not an epoch")
        epochs.append(Epoch(epoch, start))
    if len(epochs) != number:
        raise RemoteProtocolError(f"epoch file: {len(epochs)} lines, {number} announced")
    return epochs
