"""Results of verification: the kinds of findings, their collector, and the summary."""

from typing import Final

import msgspec

from broker.store.format.commitlog import DAMAGE_KINDS
from mqadmin.inspector.damage import ERROR, SUGGESTIONS, WARNING
from mqadmin.inspector.loss import QueueLoss
from mqadmin.inspector.rows import CheckpointRow, DamageRow

# A finding that explains a state and requires no action; it does not make a store damaged.
NOTICE: Final = "notice"

REPAIR: Final = "mqadmin store repair rebuilds it from the log, into a copy"
RECOVER: Final = "mqadmin store recover reads the messages around it; look for a replica"

# kind -> (meaning, suggestion). The kinds of the log itself are those of the scanner
# (broker.store.format.commitlog.DAMAGE_KINDS) and of LogWalk (mqadmin.inspector.damage).
KINDS: Final = {
    "timestamp": (
        "storeTimestamp goes back along the log",
        "a step of the broker's clock, or damage: searches by time are unreliable here",
    ),
    "queueFiles": (
        "the files of a ConsumeQueue are no unbroken row of files of one length",
        REPAIR,
    ),
    "queueMissing": ("the log holds messages of a queue that has no ConsumeQueue", REPAIR),
    "unitMissing": ("records without a ConsumeQueue unit: consumers do not see them", REPAIR),
    "unit": ("a ConsumeQueue unit that does not lead to its record", REPAIR),
    "tagsCode": ("a unit's tags code is not that of its record: filters miss it", REPAIR),
    "deliverTime": ("the delivery time of a delayed message is not what its level says", REPAIR),
    "order": ("units that do not rise in physical offset", REPAIR),
    "unitHole": ("empty units or fillers between units", REPAIR),
    "superseded": (
        "a record with the queue offset of another one: consumers do not see it",
        "the queue was cut and written anew; mqadmin store export gets the message out",
    ),
    "undispatched": (
        "records behind the last dispatched one after a clean stop",
        "Java 5.0 to 5.3.1 never dispatches them: mqadmin store repair does, into a copy",
    ),
    "bridge": (
        "units in the place of lost messages, which lead to a neighbour: it is delivered twice",
        "nothing to do: a repair made them, so that the queue goes on behind what was lost",
    ),
    "lost": (
        "messages that ConsumeQueues, the index or queueEnds.json know and the log does not hold",
        "take them from a replica or a backup; brokers and mqadmin store repair go on without them",
    ),
    "stale": (
        "units or entries past the end of the log, left over from before a truncation",
        "nothing to do: brokers write over them; mqadmin store repair leaves them out",
    ),
    "index": ("an IndexFile whose header, slots and entries do not fit together", REPAIR),
    "indexChain": ("slots or chains of an IndexFile that do not lead to their entries", REPAIR),
    "indexEntry": ("an index entry that does not stand for a key of its record", REPAIR),
    "indexMissing": ("keys of records that no index entry leads to", REPAIR),
    "indexOverlap": ("IndexFiles that cover the same part of the log: hits come twice", REPAIR),
    "checkpoint": (
        "the checkpoint is missing, unreadable or ahead of the log",
        "mqadmin store repair writes it anew, into a copy",
    ),
    "state": ("abort and lock file contradict each other", "look who runs on this directory"),
    "config": ("a configuration file cannot be read", SUGGESTIONS["config"]),
    "configBackup": ("the backup of a configuration file cannot be read", ""),
    "topicUnknown": (
        "a ConsumeQueue of a topic that topics.json does not know: clients cannot reach it",
        "create the topic again with its queues, then its messages can be consumed",
    ),
    "offset": (
        "a consumer offset beyond the end of its queue",
        "the log or the queue lost its end, or the file is from elsewhere: mqadmin offset reset",
    ),
    "delayOffset": (
        "delayOffset.json is beyond the end of its queue: delayed messages will not come",
        "set the level's offset to the queue's end, or restore the file",
    ),
    "transaction": (
        "a commit or op record whose half message is not where it says",
        "look at both records; the transaction's outcome is not certain",
    ),
}

# Kinds that the scan of the log reports.
LOG_KINDS: Final = (
    *DAMAGE_KINDS,
    *("gap", "fileSize", "unfinished", "name", "unreadable"),
)

# kind -> meaning, for kinds of LogWalk that KINDS and DAMAGE_KINDS do not contain.
WALK_KINDS: Final = {
    "gap": "files of the log are missing between others",
    "fileSize": "a file of the log has another length than it should",
    "unfinished": "a file of the log ends early, and the next one holds records",
    "name": "a file that is not named after what it begins with",
    "unreadable": "a file cannot be read",
}


def meaning_of(kind: str) -> str:
    """Return the meaning of a kind of finding."""
    if kind in KINDS:
        return KINDS[kind][0]
    return WALK_KINDS.get(kind) or DAMAGE_KINDS[kind]


# Findings reported per kind; further ones are only counted.
MAX_PER_KIND: Final = 200


class Findings:
    """Collects findings; of each kind at most MAX_PER_KIND are kept, the others counted."""

    def __init__(self) -> None:
        self.rows: list[DamageRow] = []
        self.counts: dict[str, int] = {}
        self.severities: dict[str, int] = {ERROR: 0, WARNING: 0, NOTICE: 0}
        self.broken_queues: set[tuple[str, int]] = set()

    def add(
        self,
        kind: str,
        path: object,
        detail: str,
        *,
        physical_offset: int | None = None,
        length: int | None = None,
        severity: str = ERROR,
        queue: tuple[str, int] | None = None,
    ) -> None:
        """Add a finding; ``queue`` (topic, id) is marked for rebuilding.

        ``physical_offset`` and ``length`` as in :class:`DamageRow`: for other files than the log a
        byte position in the file or over the files of the queue, not a CommitLog offset.
        """
        if queue is not None and kind != "bridge":
            self.broken_queues.add(queue)
        self.take(
            DamageRow(
                kind=kind,
                severity=severity,
                path=str(path),
                physical_offset=physical_offset,
                length=length,
                detail=detail,
                suggestion=KINDS[kind][1] if kind in KINDS else SUGGESTIONS[kind],
            )
        )

    def take(self, row: DamageRow) -> None:
        """Add a finding that is already a row."""
        self.severities[row.severity] += 1
        count = self.counts[row.kind] = self.counts.get(row.kind, 0) + 1
        if count <= MAX_PER_KIND:
            self.rows.append(row)

    @property
    def left_out(self) -> int:
        """Number of findings that were only counted."""
        return sum(self.counts.values()) - len(self.rows)

    @property
    def damaged(self) -> bool:
        """Whether there is an error or a warning."""
        return self.severities[ERROR] + self.severities[WARNING] > 0


class QueueState(msgspec.Struct, kw_only=True, rename="camel"):
    """Bounds of one message queue; ``units`` are those seen, ``maxOffset`` is exclusive."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    units: int


class VerifySummary(msgspec.Struct, kw_only=True, rename="camel"):
    """The scope of a verification and its counts.

    ``state`` is "clean" (no abort file), "running" (a process holds the lock) or "crashed".
    ``coverage`` is the fraction (0 to 1) of the log's bytes that were scanned; ``bodiesChecked``:
    whether CRCs were compared. ``beforeRecreation`` counts records of topics that were deleted, or
    deleted and recreated: such records correctly have no unit. ``lost`` counts messages without
    records by topic and queue, and ``lostMessages`` all of them.
    """

    path: str
    ok: bool
    state: str
    bodies_checked: bool
    min_physical_offset: int
    max_physical_offset: int
    log_bytes: int
    checked_bytes: int
    damaged_bytes: int
    coverage: float
    records: int
    queues: int
    units: int
    units_checked: int
    before_recreation: int
    not_yet_dispatched: int
    index_files: int
    index_entries: int
    index_entries_checked: int
    keys: int
    keys_indexed: int
    errors: int
    warnings: int
    notices: int
    kinds: dict[str, int]
    notes: list[str]
    checkpoint: CheckpointRow | None
    seconds: float
    lost_messages: int
    lost: list[QueueLoss]


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Findings and summary in one document; ``truncated`` if some findings were only counted."""

    items: list[DamageRow]
    truncated: bool
    errors: list[DamageRow]
    summary: VerifySummary
