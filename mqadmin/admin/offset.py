"""Consumer offsets: show, reset with plan and undo, export and import."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from mqadmin.admin.result import Listing, TargetError

if TYPE_CHECKING:
    from mqadmin.admin.session import MQAdmin


class OffsetRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue of one group: range of the queue, committed offset (None: nothing committed)."""

    group: str
    topic: str
    broker_name: str
    queue_id: int
    min_offset: int | None
    max_offset: int | None
    consumer_offset: int | None
    lag: int | None
    last_timestamp: int | None
    state: str


class ResetItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue of a reset: ``currentOffset`` None means nothing was committed.

    ``skipped`` messages will never be delivered, ``repeated`` ones again. After ``apply``
    ``readBack`` is what the broker then says and ``status`` one of ``done``, ``unchanged``,
    ``failed``, ``differs``; before it, ``planned`` or ``unchanged``.
    """

    group: str
    topic: str
    broker_name: str
    address: str
    queue_id: int
    min_offset: int
    max_offset: int
    current_offset: int | None
    new_offset: int
    skipped: int
    repeated: int
    status: str = "planned"
    read_back: int | None = None
    error: TargetError | None = None


class ResetPlan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A reset, planned or done. ``online`` is the number of connected clients."""

    group: str
    topic: str
    to: str
    online: int
    items: Sequence[ResetItem]
    errors: Sequence[TargetError] = ()
    warnings: Sequence[str] = ()
    undo_path: str | None = None

    @property
    def empty(self) -> bool:
        """True when every queue is already where it should be."""
        return all(item.status == "unchanged" for item in self.items)

    @property
    def ok(self) -> bool:
        """True when nothing failed and every read-back agrees."""
        return not self.errors and all(item.status in {"done", "unchanged"} for item in self.items)


class OffsetAdmin:
    """The questions and changes about consumer offsets."""

    def __init__(self, admin: "MQAdmin") -> None:
        self._admin = admin

    def show(self, group: str, *, topic: str | None = None) -> Listing[OffsetRecord]:
        """Committed offsets of a group with the range of each queue."""
        raise NotImplementedError

    def plan_reset(
        self,
        group: str,
        topic: str,
        to: str,
        *,
        queue_id: int | None = None,
        broker: str | None = None,
    ) -> ResetPlan:
        """Plan a reset. ``to``: earliest, latest, a time, an offset, shift:±N, duration:1h, file:F.

        Targets outside the range of a queue are moved to its edge.
        """
        raise NotImplementedError

    def apply_reset(self, plan: ResetPlan, *, undo_path: str | None = None) -> ResetPlan:
        """Write the undo file, then reset queue by queue, then read back.

        ``undo_path`` None picks a name in the working directory; the answer names it. The file is
        written before anything is changed and is readable by ``plan_reset(to="file:…")``.
        """
        raise NotImplementedError

    def export(self, group: str, path: str, *, topic: str | None = None) -> Listing[OffsetRecord]:
        """Write the committed offsets of a group to a JSON file, readable by ``to=file:…``."""
        raise NotImplementedError
