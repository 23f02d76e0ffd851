"""One queue of an offset reset: its plan, the request to the broker, the result.

There are three reset methods, chosen per broker:

``server``   the broker sets the offset itself and passes it to the group's clients with their
             next pull (5.2 and later, ``useServerSideResetOffset``); with and without clients
``direct``   the offset is committed as a client would; only while no client is connected, because
             a connected client would overwrite it with its own. Without clients it is also used
             for a group's first offset and to remove one (undo of a first reset)
``clients``  the broker notifies the connected clients to reset to a time (before 5.2); they follow
             some seconds later, and only whole topics and times are supported

**Source:** RocketMQ ``AdminBrokerProcessor#resetOffset``, ``Broker2Client#resetOffset``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from broker.common.message_queue import MessageQueue
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.offset.target import EPOCH_DIGITS
from mqadmin.admin.result import TargetError

SERVER = "server"
DIRECT = "direct"
CLIENTS = "clients"

#: A commit of this offset removes the committed one. **Source:** RocketMQ
#: ConsumerManageProcessor#queryConsumerOffset, which responds to a negative one with "not found".
REMOVED = -1

#: Time until notified clients have reset: they wait before they resume. **Source:**
#: MQClientInstance#resetOffset (10 s), plus one commit interval (5 s).
CLIENTS_OBEY_S = 15


class ResetItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue of a reset: ``currentOffset`` None means nothing was committed.

    ``newOffset`` None removes the committed offset. ``clamped`` is true when the target is outside
    the range of the queue and its edge is used; ``toTimestamp`` (ms) is set when the target is a
    time. ``skipped`` messages will not be delivered, ``repeated`` ones will be delivered again.
    ``via`` is the reset method (``server``, ``direct``, ``clients``). Before ``apply`` the
    ``status`` is ``planned`` or ``unchanged``, after it ``done``, ``unchanged``, ``failed``,
    ``differs`` or ``pending`` (the clients were notified and have not committed yet), or ``moved``
    and ``skipped`` when nothing was changed because the offsets differ from the plan;
    ``readBack`` is the committed offset read afterwards.
    """

    group: str
    topic: str
    broker_name: str
    address: str
    queue_id: int
    min_offset: int
    max_offset: int
    current_offset: int | None
    new_offset: int | None
    skipped: int
    repeated: int
    clamped: bool = False
    to_timestamp: int | None = None
    via: str = SERVER
    status: str = "planned"
    read_back: int | None = None
    error: TargetError | None = None


class ResetPlan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A planned or applied reset. ``online`` is the number of connected clients.

    ``toTimestamp`` (ms) is set when ``to`` is a time or a duration.
    """

    group: str
    topic: str
    to: str
    online: int
    items: Sequence[ResetItem]
    errors: Sequence[TargetError] = ()
    warnings: Sequence[str] = ()
    to_timestamp: int | None = None
    undo_path: str | None = None

    @property
    def empty(self) -> bool:
        """True when no queue needs a change."""
        return all(item.status == "unchanged" for item in self.items)

    @property
    def ok(self) -> bool:
        """True when nothing failed and every offset was read back as planned."""
        return not self.errors and all(item.status in {"done", "unchanged"} for item in self.items)


def reset_item(
    group: str, queue: MessageQueue, place: tuple[str, int, int, int | None], wanted: int | None
) -> ResetItem:
    """Build the item of a queue; ``place``: address, min, max and committed offset."""
    address, low, high, current = place
    new = None if wanted is None else min(max(wanted, low), high)
    skipped = repeated = 0
    if new is not None:
        # without a committed offset the clients' consumeFromWhere decides, so no loss is counted
        start = new if current is None else current
        skipped, repeated = max(0, new - max(start, low)), max(0, min(start, high) - new)
    return ResetItem(
        group=group,
        topic=queue.topic,
        broker_name=queue.broker_name,
        address=address,
        queue_id=queue.queue_id,
        min_offset=low,
        max_offset=high,
        current_offset=current,
        new_offset=new,
        skipped=skipped,
        repeated=repeated,
        clamped=new != wanted,
        status="unchanged" if current == new else "planned",
    )


def choose_ways(
    items: Sequence[ResetItem], ways: Mapping[str, str], online: int
) -> tuple[list[ResetItem], list[TargetError]]:
    """Set the reset method of each item; an offset that cannot be removed is an error.

    A broker keeps a server-side reset until the group's next pull and ignores commits until then.
    So the first offset of a group without clients is committed instead: it can be removed again.
    """
    chosen: list[ResetItem] = []
    errors: list[TargetError] = []
    for item in items:
        way = ways.get(item.address)
        if way is None:
            continue
        if item.new_offset is None and item.status != "unchanged" and online:
            errors.append(
                TargetError(
                    kind="client",
                    message=f"{item_name(item)}: a committed offset cannot be removed while "
                    f"{online} clients are connected",
                    hint="stop the clients first",
                    address=item.address,
                    target=item_name(item),
                )
            )
            continue
        first = item.current_offset is None or item.new_offset is None
        via = DIRECT if first and not online else way
        chosen.append(msgspec.structs.replace(item, via=via, status=planned_status(item, online)))
    return chosen, errors


def looks_like_epoch(to: str) -> bool:
    """True for a number with as many digits as epoch seconds or milliseconds."""
    word = to.strip()
    return word.isascii() and word.isdigit() and len(word) in EPOCH_DIGITS


def nothing_was_changed(items: Sequence[ResetItem]) -> bool:
    """True when every broker refused; one that did not respond may have applied the reset."""
    asked = [item for item in items if item.status not in {"unchanged", "skipped"}]
    return all(
        item.status == "failed"
        and item.error is not None
        and item.error.kind in {"refused", "notPermitted"}
        for item in asked
    )


def planned_status(item: ResetItem, online: int) -> str:
    """Return the status; with connected clients a queue is reset even if its offset is the target.

    The clients may have consumed past their committed offset.
    """
    if item.new_offset is None or not online:
        return item.status
    return "planned" if item.new_offset < item.max_offset else item.status


def moved_error(item: ResetItem, offset: int | None) -> TargetError:
    """Build the error for a committed offset that differs from the plan."""
    return TargetError(
        kind="moved",
        message=f"{item_name(item)}: the committed offset was {_shown(item.current_offset)} in "
        f"the plan and is {_shown(offset)} now; nothing was changed",
        hint="make the plan again and look at its current offsets",
        address=item.address,
        target=item_name(item),
    )


def online_moved_error(plan: ResetPlan, online: int) -> TargetError:
    """Build the error for a group that has or lost its clients since the plan."""
    return TargetError(
        kind="moved",
        message=f"group {plan.group} had {plan.online} connected clients in the plan and has "
        f"{online} now; nothing was changed",
        hint="make the plan again",
        target=plan.group,
    )


def reset_request(item: ResetItem) -> Any:
    """Build the request that sets one queue: a server-side reset or a commit."""
    if item.via == DIRECT:
        return build_request(
            RequestCode.UPDATE_CONSUMER_OFFSET,
            {
                "consumer_group": item.group,
                "topic": item.topic,
                "queue_id": item.queue_id,
                "commit_offset": REMOVED if item.new_offset is None else item.new_offset,
            },
        )
    return build_request(
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        {
            "topic": item.topic,
            "group": item.group,
            "timestamp": 0,
            "is_force": True,
            "queue_id": item.queue_id,
            "offset": item.new_offset,
        },
    )


def clients_request(plan: ResetPlan) -> Any:
    """Build the request that notifies the clients of the whole topic; time -1 means the end.

    **Source:** RocketMQ ``Broker2Client#resetOffset``.
    """
    times = {"earliest": 0, "latest": -1}
    when = times.get(plan.to.strip().lower(), plan.to_timestamp)
    return build_request(
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        {"topic": plan.topic, "group": plan.group, "timestamp": when, "is_force": True},
    )


def has_arrived(item: ResetItem, offset: int | None, online: int) -> bool:
    """True when the offset read back is the planned one, or connected clients are past it."""
    if offset == item.new_offset:
        return True
    if not online or offset is None or item.new_offset is None:
        return False
    return offset > item.new_offset and offset != item.current_offset


def differs_error(item: ResetItem, offset: int | None) -> TargetError:
    """Build the error when the broker accepted the reset but reports another offset."""
    return TargetError(
        kind="differs",
        message=f"{item_name(item)}: the broker accepted the reset, but its committed offset is "
        f"{_shown(offset)} instead of {_shown(item.new_offset)}",
        hint="a client may have committed in between: mqadmin consumer connections GROUP",
        address=item.address,
        target=item_name(item),
    )


def _shown(offset: int | None) -> str:
    return "none" if offset is None else str(offset)


def item_name(item: ResetItem) -> str:
    """The queue of an item as named in messages."""
    return f"{item.topic} {item.broker_name}/{item.queue_id}"
