"""Read ``queueEnds.json``, in which our broker records facts about a store.

Only the keys that inspection uses are read; a Java broker does not write the file. The format is
documented in :mod:`broker.store.recovery.store_manifest`; inspection must not import it: it writes.
"""

import os

import msgspec

from broker.common.java import INT32_MAX
from broker.store.format.state import QUEUE_ENDS, decode_queue_ends, encode_queue_ends
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.files import read_all

QueueKey = tuple[str, int]


class StoreManifest(msgspec.Struct, frozen=True):
    """The recorded values; defaults if the file is missing or unreadable.

    ``log_min`` and ``log_end`` are physical offsets of start and end of the log at the last save,
    -1 if unknown;
    ``queues`` the maxOffset of each queue then; ``deleted`` the physical offset of a topic's last
    deletion: its records below are of the deleted topic; ``file_sizes`` the lengths in bytes of
    CommitLog, ConsumeQueue and batch queue files, ``index_shape`` slots and entries of IndexFiles,
    0 if unknown. ``problem`` is the reason why an existing file cannot be read.
    """

    log_min: int = -1
    log_end: int = -1
    queues: dict[QueueKey, int] = msgspec.field(default_factory=dict)
    deleted: dict[bytes, int] = msgspec.field(default_factory=dict)
    file_sizes: tuple[int, int, int] = (0, 0, 0)
    index_shape: tuple[int, int] = (0, 0)
    problem: str = ""


def encode_deleted(deleted: dict[bytes, int], log_end: int) -> bytes:
    """Encode a file that contains only the deleted topics and their physical offsets.

    Because ``logEnd`` is unknown, our broker reads the whole log once, as after a Java broker.
    A topic that is not UTF-8, of damaged records, gets the name of the queues they would be in.
    """
    ends: dict[str, int] = {}
    for topic, end in sorted(deleted.items()):
        name = topic.decode("utf-8", "replace")
        ends[name] = max(min(end, log_end), ends.get(name, 0))
    return encode_queue_ends({"logEnd": -1, "queues": {}, "deleted": ends})


def encode_log_min(data: bytes, log_min: int) -> bytes:
    """Replace the recorded start of the log, after log files were removed; unchanged if unreadable.

    Otherwise our broker would report the removed files as lost.
    """
    try:
        content = decode_queue_ends(data)
        content["logMin"] = max(int(content["logMin"]), log_min)
    except (ValueError, KeyError, TypeError):
        return data
    return encode_queue_ends(content)


class DeletedTopics:
    """Recognises and counts records of deleted topics, which may have been recreated.

    ``ends`` maps a topic to the physical offset below which its records are of the deleted one.
    Such records are neither damaged nor restored: they have no units.
    """

    def __init__(self, ends: dict[bytes, int]) -> None:
        self.ends = ends
        self.records = 0

    def take(self, topic: bytes, physical_offset: int) -> bool:
        """Whether a record is of a deleted topic; if so, it is counted."""
        is_deleted = physical_offset < self.ends.get(topic, 0)
        self.records += is_deleted
        return is_deleted


def read_queue_ends(store: StoreDirectory) -> StoreManifest:
    """Read the file of a store; StoreError if it exists and a read fails."""
    path = None if store.root is None else store.root / QUEUE_ENDS
    if path is not None and os.path.lexists(path) and not path.is_file():
        return StoreManifest(problem="it is not a file")  # nor does a broker start
    data = None if path is None else read_all(path)
    if data is None:
        return StoreManifest()
    try:
        content = decode_queue_ends(data)
        sizes = [*map(int, content.get("sizes", ())), 0, 0, 0, 0, 0]
        if not all(0 <= size <= INT32_MAX for size in sizes):
            raise ValueError(f"sizes {sizes[:-5]}")
        return StoreManifest(
            log_min=int(content.get("logMin", -1)),
            log_end=int(content["logEnd"]),
            queues={
                (topic, int(queue_id)): int(end)
                for topic, queues in content.get("queues", {}).items()
                for queue_id, end in queues.items()
            },
            deleted={topic.encode(): int(end) for topic, end in content.get("deleted", {}).items()},
            file_sizes=(sizes[0], sizes[1], sizes[2]),
            index_shape=(sizes[3], sizes[4]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        return StoreManifest(problem=f"the file cannot be read: {error!r:.80}")
