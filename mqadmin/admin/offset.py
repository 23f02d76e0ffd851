"""Consumer offsets: show, reset with plan and undo, export.

A reset reaches a group in one of three ways, chosen per broker:

``server``   the broker sets the offset itself and tells the group's clients with their next pull
             (5.2 and later, ``useServerSideResetOffset``); works with and without clients
``direct``   the offset is written as a client would commit it; only while nobody is connected,
             because a connected client would commit its own again
``clients``  the broker tells the connected clients to go to a time (before 5.2); they obey some
             seconds later, and only whole topics and times can be asked for

**Source:** RocketMQ ``AdminBrokerProcessor#resetOffset``, ``Broker2Client#resetOffset``,
``DefaultMQAdminExtImpl#resetOffsetByTimestampOld``.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from broker.client.caller import build_request
from broker.client.pull_consumer import PullConsumer
from broker.common.clock import Clock, SystemClock
from broker.common.message_queue import MessageQueue
from broker.errors import ClientError, RocketMQError
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.failure import describe
from mqadmin.admin.offset_target import (
    ResetTarget,
    SavedOffset,
    SavedOffsets,
    parse_target,
    save_offsets,
    target_offsets,
)
from mqadmin.admin.progress import committed_offsets, group_progress, route_of
from mqadmin.admin.result import Listing, TargetError

if TYPE_CHECKING:
    from mqadmin.admin.session import MQAdmin

SERVER = "server"
DIRECT = "direct"
CLIENTS = "clients"

#: Clients told by their broker wait this long before they go on. **Source:**
#: MQClientInstance#resetOffset (10 s), plus one commit interval (5 s).
CLIENTS_OBEY_S = 15


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

    ``skipped`` messages will never be delivered, ``repeated`` ones again. ``via`` is how the
    broker is told (``server``, ``direct``, ``clients``). Before ``apply`` the ``status`` is
    ``planned`` or ``unchanged``, after it ``done``, ``unchanged``, ``failed``, ``differs`` or
    ``pending`` (the clients were told and will obey), or ``moved`` and ``skipped`` when nothing
    was changed because the plan no longer holds; ``readBack`` is what the broker then says.
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
    via: str = SERVER
    status: str = "planned"
    read_back: int | None = None
    error: TargetError | None = None


class ResetPlan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A reset, planned or done. ``online`` is the number of connected clients.

    ``toTimestamp`` (ms) is the moment meant when ``to`` is a time or a duration.
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
        """True when every queue is already where it should be."""
        return all(item.status == "unchanged" for item in self.items)

    @property
    def ok(self) -> bool:
        """True when nothing failed and every read-back agrees."""
        return not self.errors and all(item.status in {"done", "unchanged"} for item in self.items)


class OffsetAdmin:
    """The questions and changes about consumer offsets."""

    def __init__(self, admin: "MQAdmin", clock: Clock | None = None) -> None:
        self._admin = admin
        self._clock = clock or SystemClock()

    def show(self, group: str, *, topic: str | None = None) -> Listing[OffsetRecord]:
        """Committed offsets of a group with the range of each queue."""
        progress = group_progress(self._admin, group, topic, ages=False)
        items = [
            OffsetRecord(
                group=group,
                topic=one.queue.topic,
                broker_name=one.queue.broker_name,
                queue_id=one.queue.queue_id,
                min_offset=one.min_offset,
                max_offset=one.broker_offset,
                consumer_offset=one.committed,
                lag=one.lag,
                last_timestamp=one.last_timestamp,
                state=one.state,
            )
            for one in progress.queues
        ]
        return Listing(items=items, errors=progress.errors)

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

        Targets outside the range of a queue are moved to its edge. ClientError when the topic has
        no such queue, ConfigError when ``to`` says nothing.
        """
        target = parse_target(to, self._clock.now_ms())
        route = route_of(self._admin, topic)
        queues = [
            queue
            for queue in route.subscribe_queues()
            if queue_id in (None, queue.queue_id) and broker in (None, queue.broker_name)
        ]
        if not queues:
            raise ClientError(
                f"topic {topic} has no such queue",
                "mqadmin topic status TOPIC shows its queues",
            )
        addresses = {name: route.reader(name) or "" for name in route.broker_names()}
        items, errors, warnings = self._items(group, queues, addresses, target)
        connections = self._admin.consumer.connections(group)
        errors += connections.errors
        online = len(connections.connections)
        whole = queue_id is None and target.kind in {"time", "earliest", "latest"}
        ways, failed, said = self._ways({item.address for item in items}, online, whole)
        errors += failed
        warnings += said
        items = [
            msgspec.structs.replace(item, via=ways[item.address], status=_planned(item, online))
            for item in items
            if item.address in ways
        ]
        if not online and items and all(item.current_offset is None for item in items):
            warnings.append(
                f"group {group} has no offset on {topic} and no client is online: does it exist? "
                f"mqadmin group show {group} tells"
            )
        if connections.message_model == "BROADCASTING":
            warnings.append(
                f"{group} consumes by broadcasting: its clients keep offsets of their own"
            )
        return ResetPlan(
            group=group,
            topic=topic,
            to=to,
            online=online,
            items=items,
            errors=errors,
            warnings=warnings,
            to_timestamp=target.number if target.kind == "time" else None,
        )

    def apply_reset(self, plan: ResetPlan, *, undo_path: str | None = None) -> ResetPlan:
        """Write the undo file, then reset queue by queue, then read back.

        ``undo_path`` None picks a name in the working directory; the answer names it. The file is
        written before anything is changed and is readable by ``plan_reset(to="file:…")``. When
        the committed offsets of a group without clients are others than in the plan, somebody
        else is at work: nothing is changed and the items say ``moved``.
        """
        if plan.empty or not plan.items:
            return plan
        self._admin.renew()
        plan = self._as_it_is_now(plan)
        if any(item.status == "moved" for item in plan.items):
            return plan
        path = undo_path or self._undo_path(plan)
        save_offsets(path, self._saved(plan))
        errors = [*plan.errors]
        items = self._send(plan)
        items = self._read_back(plan, items)
        errors += [item.error for item in items if item.error is not None]
        warnings = [*plan.warnings]
        if any(item.status == "pending" for item in items):
            warnings.append(
                f"the clients were told and obey within about {CLIENTS_OBEY_S} s: "
                f"mqadmin offset show {plan.group} --topic {plan.topic} shows it"
            )
        return msgspec.structs.replace(
            plan, items=items, errors=errors, warnings=warnings, undo_path=path
        )

    def export(self, group: str, path: str, *, topic: str | None = None) -> Listing[OffsetRecord]:
        """Write the committed offsets of a group to a new file, readable by ``to=file:…``."""
        listing = self.show(group, topic=topic)
        save_offsets(
            path,
            SavedOffsets(
                group=group,
                created_timestamp=self._clock.now_ms(),
                offsets=[
                    SavedOffset(
                        topic=one.topic,
                        broker_name=one.broker_name,
                        queue_id=one.queue_id,
                        consumer_offset=one.consumer_offset,
                    )
                    for one in listing.items
                ],
            ),
        )
        return listing

    # --- planning -------------------------------------------------------------------------

    def _items(
        self,
        group: str,
        queues: Sequence[MessageQueue],
        addresses: Mapping[str, str],
        target: ResetTarget,
    ) -> tuple[list[ResetItem], list[TargetError], list[str]]:
        """One item per queue that can be read and that the target says something about."""
        consumer = PullConsumer(self._admin, routes=self._admin.routes)
        lows = consumer.min_offsets(queues)
        highs = consumer.max_offsets(queues)
        committed = committed_offsets(
            self._admin, group, [(addresses[queue.broker_name], queue) for queue in queues]
        )
        errors: list[TargetError] = []
        good: list[MessageQueue] = []
        ranges: list[tuple[int, int, int | None]] = []
        for queue, low, high, current in zip(queues, lows, highs, committed, strict=True):
            if (
                isinstance(low, int)
                and isinstance(high, int)
                and not isinstance(current, RocketMQError)
            ):
                good.append(queue)
                ranges.append((low, high, current))
                continue
            failed = next(one for one in (low, high, current) if isinstance(one, RocketMQError))
            errors.append(describe(failed, target=_name(queue)))
        news = target_offsets(self._admin, target, good, ranges)
        items: list[ResetItem] = []
        silent: list[str] = []
        edged: list[str] = []
        for queue, (low_offset, high_offset, current), new in zip(good, ranges, news, strict=True):
            if isinstance(new, RocketMQError):
                errors.append(describe(new, target=_name(queue)))
            elif new is None:
                silent.append(_name(queue))
            else:
                place = (addresses[queue.broker_name], low_offset, high_offset)
                items.append(_item(group, queue, place, current, new))
                if target.kind == "offset" and new != target.number:
                    edged.append(f"{_name(queue)} to {new}")
        warnings = []
        if edged:
            warnings.append(
                f"offset {target.number} is outside of what is kept, so the edge is taken: "
                + ", ".join(edged)
            )
        if silent:
            warnings.append(
                f"left alone, because nothing is committed or named for them: {', '.join(silent)}"
            )
        return items, errors, warnings

    def _ways(
        self, addresses: set[str], online: int, whole: bool
    ) -> tuple[Mapping[str, str], list[TargetError], list[str]]:
        """How each broker is told; brokers that cannot do what is asked come back as errors."""
        ways: dict[str, str] = {}
        errors: list[TargetError] = []
        warnings: list[str] = []
        asked = sorted(addresses)
        answers = self._admin.call_all(
            [(address, build_request(RequestCode.GET_BROKER_CONFIG, {})) for address in asked]
        )
        for address, answer in zip(asked, answers, strict=True):
            if isinstance(answer, RocketMQError):
                errors.append(describe(answer, address=address, target=address))
                continue
            config = answer.properties
            if config.get("useServerSideResetOffset") == "true":
                ways[address] = SERVER
            elif not online:
                ways[address] = DIRECT
            elif whole:
                ways[address] = CLIENTS
                warnings.append(f"{address} leaves the reset to the {online} connected clients")
            else:
                errors.append(
                    TargetError(
                        kind="client",
                        message=f"{address} cannot reset single queues or offsets of a group "
                        f"with {online} connected clients",
                        hint="stop the clients first, or reset the whole topic to a time",
                        address=address,
                        target=address,
                    )
                )
        return ways, errors, warnings

    # --- applying -------------------------------------------------------------------------

    def _send(self, plan: ResetPlan) -> list[ResetItem]:
        """Send what is planned; the items say which were refused."""
        items = list(plan.items)
        requests: list[tuple[str, Any]] = []
        places: list[list[int]] = []
        told: dict[str, list[int]] = {}
        for index, item in enumerate(items):
            if item.via == CLIENTS:
                told.setdefault(item.address, []).append(index)
            elif item.status == "planned":
                requests.append((item.address, _reset_request(item)))
                places.append([index])
        for address, indexes in told.items():
            requests.append((address, _clients_request(plan)))
            places.append(indexes)
        for indexes, answer in zip(places, self._admin.call_all(requests), strict=True):
            for index in indexes:
                item = items[index]
                if isinstance(answer, RocketMQError):
                    error = describe(answer, address=item.address, target=_item_name(item))
                    items[index] = msgspec.structs.replace(item, status="failed", error=error)
                elif item.via == CLIENTS:
                    items[index] = msgspec.structs.replace(item, status="pending")
        return items

    def _as_it_is_now(self, plan: ResetPlan) -> ResetPlan:
        """The plan over the present offsets: clients commit all the time, others must not."""
        places = [
            (item.address, MessageQueue(item.topic, item.broker_name, item.queue_id))
            for item in plan.items
        ]
        items: list[ResetItem] = []
        errors: list[TargetError] = []
        offsets = committed_offsets(self._admin, plan.group, places)
        for item, (address, queue), offset in zip(plan.items, places, offsets, strict=True):
            if isinstance(offset, RocketMQError) or offset == item.current_offset:
                items.append(item)
            elif plan.online:
                place = (address, item.min_offset, item.max_offset)
                now = _item(plan.group, queue, place, offset, item.new_offset)
                items.append(msgspec.structs.replace(now, via=item.via, status="planned"))
            else:
                error = _moved(item, offset)
                items.append(msgspec.structs.replace(item, status="moved", error=error))
                errors.append(error)
        if errors:
            items = [
                msgspec.structs.replace(item, status="skipped")
                if item.status == "planned"
                else item
                for item in items
            ]
        return msgspec.structs.replace(plan, items=items, errors=[*plan.errors, *errors])

    def _read_back(self, plan: ResetPlan, items: list[ResetItem]) -> list[ResetItem]:
        open_items = [
            index for index, item in enumerate(items) if item.status in {"planned", "pending"}
        ]
        offsets = committed_offsets(
            self._admin,
            plan.group,
            [
                (
                    items[index].address,
                    MessageQueue(plan.topic, items[index].broker_name, items[index].queue_id),
                )
                for index in open_items
            ],
        )
        for index, offset in zip(open_items, offsets, strict=True):
            item = items[index]
            if isinstance(offset, RocketMQError):
                error = describe(offset, address=item.address, target=_item_name(item))
                items[index] = msgspec.structs.replace(item, status="differs", error=error)
                continue
            arrived = _arrived(item, offset, plan.online)
            if not arrived and item.status == "pending":
                items[index] = msgspec.structs.replace(item, read_back=offset)
                continue
            items[index] = msgspec.structs.replace(
                item,
                status="done" if arrived else "differs",
                read_back=offset,
                error=None if arrived else _differs(item, offset),
            )
        return items

    def _undo_path(self, plan: ResetPlan) -> str:
        name = f"offset-undo-{plan.group}-{plan.topic}-{self._clock.now_ms()}.json"
        return name.replace("%", "_").replace("|", "_")

    def _saved(self, plan: ResetPlan) -> SavedOffsets:
        return SavedOffsets(
            group=plan.group,
            created_timestamp=self._clock.now_ms(),
            offsets=[
                SavedOffset(
                    topic=item.topic,
                    broker_name=item.broker_name,
                    queue_id=item.queue_id,
                    consumer_offset=item.current_offset,
                )
                for item in plan.items
            ],
        )


def _item(
    group: str,
    queue: MessageQueue,
    place: tuple[str, int, int],
    current: int | None,
    new: int,
) -> ResetItem:
    address, low, high = place
    # without a committed offset a group begins where its clients say: nothing is known to be lost
    start = new if current is None else current
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
        skipped=max(0, new - max(start, low)),
        repeated=max(0, min(start, high) - new),
        status="unchanged" if current == new else "planned",
    )


def _planned(item: ResetItem, online: int) -> str:
    """Clients may be farther than they have committed: such a queue is reset all the same."""
    ahead = online and item.new_offset < item.max_offset
    return "planned" if ahead else item.status


def _moved(item: ResetItem, offset: int | None) -> TargetError:
    def shown(value: int | None) -> str:
        return "none" if value is None else str(value)

    return TargetError(
        kind="moved",
        message=f"{_item_name(item)}: the committed offset was {shown(item.current_offset)} in the "
        f"plan and is {shown(offset)} now; nothing was changed",
        hint="make the plan again and look at its current offsets",
        address=item.address,
        target=_item_name(item),
    )


def _reset_request(item: ResetItem) -> Any:
    """Set one queue, by the broker itself or as a commit."""
    if item.via == DIRECT:
        return build_request(
            RequestCode.UPDATE_CONSUMER_OFFSET,
            {
                "consumer_group": item.group,
                "topic": item.topic,
                "queue_id": item.queue_id,
                "commit_offset": item.new_offset,
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


def _clients_request(plan: ResetPlan) -> Any:
    """Tell the clients of the whole topic; time -1 means the end.

    **Source:** RocketMQ ``Broker2Client#resetOffset``.
    """
    times = {"earliest": 0, "latest": -1}
    when = times.get(plan.to.strip().lower(), plan.to_timestamp)
    return build_request(
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        {"topic": plan.topic, "group": plan.group, "timestamp": when, "is_force": True},
    )


def _arrived(item: ResetItem, offset: int | None, online: int) -> bool:
    """True when the broker's answer agrees; connected clients may have gone on already."""
    if offset == item.new_offset:
        return True
    if not online or offset is None:
        return False
    return offset > item.new_offset and offset != item.current_offset


def _differs(item: ResetItem, offset: int | None) -> TargetError:
    return TargetError(
        kind="differs",
        message=f"{_item_name(item)}: the broker said yes, but its committed offset is "
        f"{'none' if offset is None else offset} instead of {item.new_offset}",
        hint="a client may have committed in between: mqadmin consumer connections GROUP",
        address=item.address,
        target=_item_name(item),
    )


def _item_name(item: ResetItem) -> str:
    return f"{item.topic} {item.broker_name}/{item.queue_id}"


def _name(queue: MessageQueue) -> str:
    return f"{queue.topic} {queue.broker_name}/{queue.queue_id}"
