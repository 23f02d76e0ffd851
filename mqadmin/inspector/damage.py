"""Turn corruption that a scanner reports into rows with a severity and a suggestion."""

from typing import Final

from broker.store.format.commitlog import Damage
from mqadmin.inspector.rows import CheckpointRow, DamageRow

# Greatest valid time in epoch ms: the end of the year 9999.
LAST_MS: Final = 253_402_300_799_999

ERROR: Final = "error"
WARNING: Final = "warning"

# kind -> suggestion. Kinds of the log scanner first, then those that only inspection detects.
SUGGESTIONS: Final = {
    "magic": "look for the message in a replica; a broker's recovery would cut the log here",
    "size": "look for the message in a replica; a broker's recovery would cut the log here",
    "lengths": "look for the message in a replica; a broker's recovery would cut the log here",
    "crc": "the body is not what was sent: take it from a replica",
    "propertyCrc": "the record is not what was stored: take it from a replica",
    "position": "the bytes were copied from another log or place: do not start a broker on them",
    "content": "take the message from a replica",
    "truncated": "copy the file again; a broker does not start on a file of another length",
    "blank": "compare the file with a replica",
    "hole": "pages were lost: compare the file with a replica",
    "gap": "restore the missing files; messages in them are lost",
    "fileSize": "copy the file again; a broker does not start on a file of another length",
    "unfinished": "pages were lost: compare the file with a replica",
    "name": "move the file away: a broker does not start with it",
    "unit": "the queue can be rebuilt from the log",
    "order": "the queue can be rebuilt from the log",
    "unreadable": "check permissions and the disk",
    "index": "the index can be rebuilt from the log; until then search with a scan",
    "checkpoint": "a broker reads a missing checkpoint as all zeros and scans the whole log",
    "config": "restore the file, from its .bak if that is good",
    "configBackup": "the main file is fine or was used; the backup is renewed at the next change",
    "decompress": "the body cannot be decompressed: show it with the stored bytes",
}
AT_END: Final = (
    "the end of the log is torn, as after a crash or in a copy of a running store;"
    " recovery cuts it there"
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
        suggestion=AT_END if damage.at_end else SUGGESTIONS[damage.kind],
    )


def found(
    kind: str,
    path: str,
    detail: str,
    *,
    physical_offset: int | None = None,
    length: int | None = None,
    severity: str = ERROR,
    suggestion: str = "",
) -> DamageRow:
    """Build a row for corruption that inspection detects; ``suggestion`` defaults by kind."""
    return DamageRow(
        kind=kind,
        severity=severity,
        path=path,
        physical_offset=physical_offset,
        length=length,
        detail=detail,
        suggestion=suggestion or SUGGESTIONS[kind],
    )


def checkpoint_damage(row: CheckpointRow) -> list[DamageRow]:
    """Report checkpoint times that are outside of 0 to LAST_MS."""
    return [
        found("checkpoint", str(row.path), f"{name} is {value}, which is no time", severity=WARNING)
        for name, value in (
            ("physicMsgTimestamp", row.physic_msg_timestamp),
            ("logicsMsgTimestamp", row.logics_msg_timestamp),
            ("indexMsgTimestamp", row.index_msg_timestamp),
        )
        if value is not None and not 0 <= value <= LAST_MS
    ]
