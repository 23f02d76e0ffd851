"""Offsets from one place to another: into a file, from a file, from another group; and by time."""

from collections.abc import Sequence

import msgspec

from broker.common.topic import DLQ_PREFIX, RETRY_PREFIX
from broker.errors import ClientError, ConfigError, RocketMQError
from mqadmin.admin.failure import describe
from mqadmin.admin.message.queue_reader import QueueReader
from mqadmin.admin.offset.library import OffsetAdmin
from mqadmin.admin.offset.offset_file import SavedOffset, SavedOffsets, load_offsets
from mqadmin.admin.offset.progress import route_of
from mqadmin.admin.offset.reset import ResetPlan
from mqadmin.admin.result import Listing, TargetError
from mqadmin.admin.session import AdminSession


class OffsetAt(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue at a time: ``offset`` of the first message stored at ``timestamp`` (ms) or later.

    It is ``maxOffset`` if there is none. ``messages`` is the number from there to the end.
    """

    topic: str
    broker_name: str
    queue_id: int
    min_offset: int
    offset: int
    max_offset: int
    messages: int
    timestamp: int


class OffsetTransfer:
    """Plans of offsets that come from a file or from another group, and offsets by time."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin
        self._offsets = OffsetAdmin(admin)

    def plan_import(self, group: str, path: str, *, topic: str | None = None) -> ResetPlan:
        """Plan the offsets of a file for ``group``, whichever group the file names."""
        saved = load_offsets(path)
        return self._offsets.plan_saved(msgspec.structs.replace(saved, group=group), topic=topic)

    def plan_undo(self, path: str, *, topic: str | None = None) -> ResetPlan:
        """Plan the offsets of an undo file for the group it names; absent ones are removed."""
        saved = load_offsets(path)
        if not saved.group:
            raise ConfigError(
                f"offsets file {path}: it names no group, so it is not an undo file",
                "mqadmin offset import GROUP FILE",
            )
        return self._offsets.plan_saved(saved, topic=topic)

    def plan_clone(self, source: str, target: str, *, topic: str | None = None) -> ResetPlan:
        """Plan the committed offsets of the group ``source`` for the group ``target``.

        Topics of the source itself (retry, DLQ) and queues without a committed offset are left
        out. ClientError when the source has no offset; a broker that does not respond is an error
        of the plan.
        """
        if source == target:
            raise ClientError(f"group {source} is both source and target", "name two groups")
        found = self._offsets.saved(source, topic=topic)
        own = {f"{prefix}{source}" for prefix in (RETRY_PREFIX, DLQ_PREFIX)}
        offsets: Sequence[SavedOffset] = [
            one for one in found.items if one.consumer_offset is not None and one.topic not in own
        ]
        if not offsets and found.errors:  # whether there are offsets is not known
            return ResetPlan(
                group=target,
                topic=topic or "",
                to=f"group:{source}",
                online=0,
                items=[],
                errors=found.errors,
            )
        if not offsets:
            raise ClientError(
                f"group {source} has no offset to clone: nothing is committed",
                f"mqadmin offset show {source} shows its offsets",
            )
        plan = self._offsets.plan_saved(SavedOffsets(group=target, offsets=offsets))
        return msgspec.structs.replace(
            plan, to=f"group:{source}", errors=[*found.errors, *plan.errors]
        )

    def at(self, topic: str, timestamp: int) -> Listing[OffsetAt]:
        """Return the offset of each queue at a time (epoch ms); a queue that fails is an error."""
        queues = route_of(self._admin, topic).subscribe_queues()
        reader = QueueReader(self._admin, routes=self._admin.routes)
        lows = reader.min_offsets(queues)
        highs = reader.max_offsets(queues)
        found = reader.search_offsets(queues, timestamp)
        items: list[OffsetAt] = []
        errors: list[TargetError] = []
        for queue, low, high, offset in zip(queues, lows, highs, found, strict=True):
            name = f"{queue.topic} {queue.broker_name}/{queue.queue_id}"
            failed = next((x for x in (low, high, offset) if isinstance(x, RocketMQError)), None)
            if failed is not None:
                errors.append(describe(failed, target=name))
                continue
            assert isinstance(low, int)
            assert isinstance(high, int)
            assert isinstance(offset, int)
            at = min(max(offset, low), high)
            items.append(
                OffsetAt(
                    topic=queue.topic,
                    broker_name=queue.broker_name,
                    queue_id=queue.queue_id,
                    min_offset=low,
                    offset=at,
                    max_offset=high,
                    messages=high - at,
                    timestamp=timestamp,
                )
            )
        return Listing(items=items, errors=errors)
