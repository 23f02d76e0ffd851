"""Results of verification: the collector of findings, and the summary."""

from typing import Final

import msgspec

from mqadmin.inspector.damage import ERROR, NOTICE, WARNING, found
from mqadmin.inspector.queries.loss import QueueLoss
from mqadmin.inspector.rows import CheckpointRow, DamageRow

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
        file_position: int | None = None,
        length: int | None = None,
        severity: str = ERROR,
        queue: tuple[str, int] | None = None,
    ) -> None:
        """Add a finding; ``queue`` (topic, id) is marked for rebuilding.

        Either the ``physical_offset`` in the log or the ``file_position`` in another file is
        given; see :func:`mqadmin.inspector.damage.found`.
        """
        if queue is not None and kind != "bridge":
            self.broken_queues.add(queue)
        self.take(
            found(
                kind,
                str(path),
                detail,
                physical_offset=physical_offset,
                file_position=file_position,
                length=length,
                severity=severity,
            )
        )

    def take(self, row: DamageRow) -> None:
        """Add a finding that is already a row."""
        self.severities[row.severity] += 1
        count = self.counts[row.kind] = self.counts.get(row.kind, 0) + 1
        if count <= MAX_PER_KIND:
            self.rows.append(row)

    def sort(self, begin: int) -> None:
        """Sort the findings from the index ``begin`` on by physical offset.

        A finding without one keeps its place after the finding before it. The scans of the log
        record by record and in batches detect them in different orders.
        """
        last = -1
        keyed = []
        for row in self.rows[begin:]:
            last = last if row.physical_offset is None else row.physical_offset
            keyed.append((last, row.kind, row))
        keyed.sort(key=lambda item: item[:2])
        self.rows[begin:] = [row for _, _, row in keyed]

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
