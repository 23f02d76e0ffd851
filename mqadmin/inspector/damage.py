"""The kinds of damage with their meaning and advice, and rows that report them."""

from typing import Final, NamedTuple

from broker.store.format.commitlog import DAMAGE_KINDS, Damage
from mqadmin.inspector.rows import CheckpointRow, DamageRow

# Greatest valid time in epoch ms: the end of the year 9999.
LAST_MS: Final = 253_402_300_799_999

ERROR: Final = "error"
WARNING: Final = "warning"
# A finding that describes a state and requires no action; it does not make a store damaged.
NOTICE: Final = "notice"


class DamageKind(NamedTuple):
    """The meaning of a kind of damage, and the advice to the user."""

    meaning: str
    advice: str


REPAIR: Final = "mqadmin store repair rebuilds it from the log, in a copy"
_TIMERS_AGAIN: Final = (
    "mqadmin store repair builds the timer files again from rmq_sys_wheel_timer, in a copy"
)
_REPLICA: Final = "restore the message from a replica; recovery of a broker truncates the log here"
_COPY_AGAIN: Final = "copy the file again; a broker does not start with a file of another length"
_LOST_PAGES: Final = "pages were lost: compare the file with a replica"

# Advice on the damage that the scanner of the log reports.
_LOG_ADVICE: Final = {
    "magic": _REPLICA,
    "size": _REPLICA,
    "lengths": _REPLICA,
    "crc": "the body differs from the sent one: restore it from a replica",
    "propertyCrc": "the record differs from the stored one: restore it from a replica",
    "position": "the bytes were copied from another log or offset: do not start a broker on them",
    "content": "restore the message from a replica",
    "truncated": _COPY_AGAIN,
    "blank": "compare the file with a replica",
    "hole": _LOST_PAGES,
}

# Kinds that a scan of the CommitLog reports.
LOG_KINDS: Final[dict[str, DamageKind]] = {
    **{kind: DamageKind(DAMAGE_KINDS[kind], advice) for kind, advice in _LOG_ADVICE.items()},
    "gap": DamageKind(
        "CommitLog files are missing between other files",
        "restore the missing files; their messages are lost",
    ),
    "fileSize": DamageKind("a CommitLog file has an unexpected length", _COPY_AGAIN),
    "unfinished": DamageKind(
        "a CommitLog file ends early, and the next file contains records", _LOST_PAGES
    ),
    "name": DamageKind(
        "the name of a file is not the offset of its first record",
        "a broker does not start with it: mqadmin store repair puts a file of the log in its place",
    ),
    "unreadable": DamageKind("a file cannot be read", "check permissions and the disk"),
}

# Every kind of damage that inspection and verification report: meaning and advice.
KINDS: Final[dict[str, DamageKind]] = {
    **LOG_KINDS,
    "decompress": DamageKind(
        "a body cannot be decompressed", "show the stored bytes of the body with --raw"
    ),
    "timestamp": DamageKind(
        "storeTimestamp decreases along the log",
        "the clock of the broker was set back, or the record is damaged: searches by time are"
        " unreliable here",
    ),
    "queueFiles": DamageKind(
        "the files of a ConsumeQueue are not contiguous files of one length", REPAIR
    ),
    "queueMissing": DamageKind(
        "the log contains messages of a queue that has no ConsumeQueue", REPAIR
    ),
    "unitMissing": DamageKind(
        "records without a ConsumeQueue unit: consumers do not receive them", REPAIR
    ),
    "unit": DamageKind("a ConsumeQueue unit that does not point to its record", REPAIR),
    "tagsCode": DamageKind(
        "the tags code of a unit is not that of its record: filters miss the message", REPAIR
    ),
    "deliverTime": DamageKind(
        "the delivery time of a delayed message does not match its delay level", REPAIR
    ),
    "order": DamageKind("units whose physical offsets do not increase", REPAIR),
    "unitHole": DamageKind("empty units or fillers between units", REPAIR),
    "superseded": DamageKind(
        "a record with the queue offset of another record: consumers do not receive it",
        "the queue was truncated and written again; mqadmin store export reads the message",
    ),
    "undispatched": DamageKind(
        "records after the last dispatched record, after a clean stop",
        "Java 5.0 to 5.3.1 never dispatches them: mqadmin store repair does, in a copy",
    ),
    "queueType": DamageKind(
        "a ConsumeQueue of a BatchCQ topic with the units of a SimpleCQ: offsets within a batch"
        " lead to the next one",
        REPAIR,
    ),
    "bridge": DamageKind(
        "units of lost messages that point to the next message: Java brokers deliver it repeatedly",
        "no action: written by a repair, so that consumers continue after lost messages",
    ),
    "lost": DamageKind(
        "messages known to ConsumeQueues, the index or queueEnds.json that are not in the log",
        "restore them from a replica or a backup; brokers and mqadmin store repair skip them",
    ),
    "stale": DamageKind(
        "units or entries past the end of the log, left over from before a truncation",
        "no action: brokers overwrite them; mqadmin store repair omits them",
    ),
    "index": DamageKind("an IndexFile whose header, slots and entries are inconsistent", REPAIR),
    "indexChain": DamageKind(
        "slots or chains of an IndexFile that do not lead to their entries", REPAIR
    ),
    "indexEntry": DamageKind("an index entry that matches no key of its record", REPAIR),
    "indexMissing": DamageKind("keys of records without an index entry", REPAIR),
    "indexOverlap": DamageKind(
        "IndexFiles that cover the same part of the log: hits are duplicated", REPAIR
    ),
    "checkpoint": DamageKind(
        "the checkpoint is missing, unreadable or ahead of the log",
        "mqadmin store repair rewrites it, in a copy; without it a broker scans the whole log",
    ),
    "state": DamageKind(
        "abort and lock file contradict each other", "check which process uses this directory"
    ),
    "config": DamageKind(
        "a configuration file cannot be read", "restore the file, from its .bak if that is valid"
    ),
    "configBackup": DamageKind(
        "the backup of a configuration file cannot be read",
        "no action if the file itself is valid: the next change writes the backup again",
    ),
    "topicUnknown": DamageKind(
        "a ConsumeQueue of a topic that is not in topics.json: clients cannot reach it",
        "create the topic with its queues again to consume its messages",
    ),
    "offset": DamageKind(
        "a consumer offset past the end of its queue",
        "the log or queue lost its end, or the file is of another store: mqadmin offset reset",
    ),
    "delayOffset": DamageKind(
        "delayOffset.json is past the end of its queue: delayed messages are not delivered",
        "set the offset of the level to the end of the queue, or restore the file",
    ),
    "timerCheck": DamageKind(
        "config/timercheck is missing, unreadable or ahead of timer log and timer queue",
        _TIMERS_AGAIN,
    ),
    "timerWheel": DamageKind(
        "the timer wheel is missing, of another length, or a slot does not lead to its units",
        _TIMERS_AGAIN,
    ),
    "timerLog": DamageKind("a part of the timer log that contains no units", _TIMERS_AGAIN),
    "timerRecord": DamageKind(
        "a unit of the timer log that does not point to its timer message", _TIMERS_AGAIN
    ),
    "timerMissing": DamageKind(
        "pending timer messages without a slot: they are not delivered", _TIMERS_AGAIN
    ),
    "extUnit": DamageKind(
        "a ConsumeQueue extension unit that is damaged or differs from its record",
        "mqadmin store repair replaces the addresses by tags codes, in a copy: filters then work",
    ),
    "checkPoint": DamageKind(
        "a record of a revive topic that is not a check point or acknowledgement",
        "brokers skip it: the messages it names may be delivered once more, or never revived",
    ),
    "staticTopic": DamageKind(
        "the mapping of a static topic contradicts itself, topics.json or the queues",
        "compare it with the other brokers (mqadmin topic static show), or restore the file",
    ),
    "transaction": DamageKind(
        "a commit or op record that does not point to its half message",
        "compare both records; the outcome of the transaction is uncertain",
    ),
}
WHOLE_LOG: Final = "our broker reads the whole log at its next start, and writes the file again"
AT_END: Final = (
    "the end of the log is torn, as after a crash or in a copy of a running store;"
    " recovery truncates it there"
)


def damage_row(damage: Damage, path: str) -> DamageRow:
    """Convert a scanner's damage to a row; a torn end is a warning, all others are errors."""
    return DamageRow(
        kind=damage.kind,
        severity=WARNING if damage.at_end else ERROR,
        path=path,
        physical_offset=damage.physical_offset,
        length=damage.length,
        detail=damage.detail,
        suggestion=AT_END if damage.at_end else KINDS[damage.kind].advice,
    )


def found(
    kind: str,
    path: str,
    detail: str,
    *,
    physical_offset: int | None = None,
    file_position: int | None = None,
    length: int | None = None,
    severity: str = ERROR,
    suggestion: str = "",
) -> DamageRow:
    """Build a row for corruption that inspection detects; ``suggestion`` defaults by kind.

    ``file_position``, for files other than the CommitLog, is a position in bytes in the file, in
    ConsumeQueues over all files of the queue; it is reported in the field ``physicalOffset``.
    """
    return DamageRow(
        kind=kind,
        severity=severity,
        path=path,
        physical_offset=physical_offset if file_position is None else file_position,
        length=length,
        detail=detail,
        suggestion=suggestion or KINDS[kind].advice,
    )


def checkpoint_damage(row: CheckpointRow) -> list[DamageRow]:
    """Report checkpoint times that are outside of 0 to LAST_MS."""
    return [
        found(
            "checkpoint", str(row.path), f"{name} is {value}, which is not a time", severity=WARNING
        )
        for name, value in (
            ("physicMsgTimestamp", row.physic_msg_timestamp),
            ("logicsMsgTimestamp", row.logics_msg_timestamp),
            ("indexMsgTimestamp", row.index_msg_timestamp),
        )
        if value is not None and not 0 <= value <= LAST_MS
    ]
