"""Consumer offsets: show, reset with plan and undo.

The reset method of each broker is chosen here; :mod:`mqadmin.admin.offset.reset` describes the
methods.

**Source:** RocketMQ ``AdminBrokerProcessor#resetOffset``, ``Broker2Client#resetOffset``,
``DefaultMQAdminExtImpl#resetOffsetByTimestampOld``.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from broker.common.clock import Clock, SystemClock
from broker.common.message_queue import MessageQueue
from broker.errors import ClientError, ConfigError, RocketMQError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import build_request
from broker.remoting.rpc.route_cache import Route
from mqadmin.admin.connections import consumer_connections
from mqadmin.admin.failure import describe
from mqadmin.admin.group import group_replies
from mqadmin.admin.message.queue_reader import PULL_ACCEPTS, QueueReader
from mqadmin.admin.offset.commit import commit_all
from mqadmin.admin.offset.offset_file import SavedOffset, SavedOffsets, save_offsets, write_offsets
from mqadmin.admin.offset.progress import VERSION_5, committed_offsets, group_progress, route_of
from mqadmin.admin.offset.reset import (
    CLIENTS,
    CLIENTS_OBEY_S,
    DIRECT,
    SERVER,
    ResetItem,
    ResetPlan,
    choose_ways,
    clients_request,
    differs_error,
    has_arrived,
    item_name,
    looks_like_epoch,
    moved_error,
    nothing_was_changed,
    online_moved_error,
    reset_item,
    reset_request,
)
from mqadmin.admin.offset.target import (
    ResetTarget,
    Unnamed,
    parse_target,
    target_offsets,
)
from mqadmin.admin.result import Listing, TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target


class OffsetRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue of one group: its range and the committed offset (None: nothing committed)."""

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


class OffsetAdmin:
    """Queries and changes of consumer offsets."""

    def __init__(self, admin: AdminSession, clock: Clock | None = None) -> None:
        self._admin = admin
        self._clock = clock or SystemClock()

    def show(self, group: str, *, topic: str | None = None) -> Listing[OffsetRecord]:
        """Return the committed offsets of a group with the range of each queue."""
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

        Targets outside the range of a queue are clamped to its edge. ClientError when the topic
        has no such queue or no broker knows the group, ConfigError for an invalid ``to``.
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
        whole = queue_id is None and target.kind in {"time", "earliest", "latest"}
        plan = self._plan(group, queues, _readers([route]), target, whole=whole)
        warnings = [*plan.warnings]
        if looks_like_epoch(to):
            warnings.append(f"{to} is a queue offset here; a time is written @{to}")
        return msgspec.structs.replace(plan, topic=topic, to=to, warnings=warnings)

    def plan_saved(self, saved: SavedOffsets, *, topic: str | None = None) -> ResetPlan:
        """Plan the offsets of ``saved`` for its group, in all its topics or in ``topic``.

        None removes a committed offset. A queue that no longer exists is an error of the plan;
        offsets outside the range of a queue are clamped to its edge. ClientError when no queue
        is left or no broker knows the group, ConfigError for a queue without a broker name in a
        topic of several brokers.
        """
        entries = [one for one in saved.offsets if topic in (None, one.topic)]
        topics = sorted({one.topic for one in entries})
        if not topics:
            raise ClientError(
                f"no offset of {topic or 'any topic'} is given for group {saved.group}",
                "the file names its topics",
            )
        routes = {name: self._admin.routes.find(name) for name in topics}
        wanted = {_queue_of(one, routes[one.topic]): one.consumer_offset for one in entries}
        present = {
            queue
            for route in routes.values()
            if route is not None
            for queue in route.subscribe_queues()
        }
        queues = sorted(queue for queue in wanted if queue in present)
        missing = [_missing_queue(queue) for queue in sorted(wanted) if queue not in present]
        if not queues:
            raise ClientError(missing[0].message, missing[0].hint)
        target = ResetTarget(kind="file", offsets=wanted)
        readers = _readers([route for route in routes.values() if route is not None])
        plan = self._plan(saved.group, queues, readers, target, whole=False)
        return msgspec.structs.replace(
            plan, topic=",".join(topics), to="file", errors=[*missing, *plan.errors]
        )

    def _plan(
        self,
        group: str,
        queues: Sequence[MessageQueue],
        addresses: Mapping[str, str],
        target: ResetTarget,
        *,
        whole: bool,
    ) -> ResetPlan:
        """Plan ``queues``; ``whole``: the target is a time or an edge, in all queues of a topic."""
        items, errors, warnings = self._items(group, queues, addresses, target)
        connections = consumer_connections(self._admin, group)
        errors += connections.errors
        online = len(connections.connections)
        items, failed = self._of_known_group(group, items, online)
        errors += failed
        methods, failed, notes = self._reset_methods(
            {item.address for item in items}, online, whole
        )
        errors += failed
        warnings += notes
        items, failed = choose_ways(items, methods, online)
        errors += failed
        if connections.message_model == "BROADCASTING":
            warnings.append(f"{group} consumes by broadcasting: each client keeps its own offsets")
        return ResetPlan(
            group=group,
            topic="",
            to="",
            online=online,
            items=items,
            errors=errors,
            warnings=warnings,
            to_timestamp=target.number if target.kind == "time" else None,
        )

    def apply_reset(
        self, plan: ResetPlan, *, undo_path: str | None = None, exact: bool = False
    ) -> ResetPlan:
        """Write the undo file, then reset queue by queue, then read back.

        ``undo_path`` None chooses a name in the working directory; the result contains it. The file
        is written before anything is changed and is readable by ``plan_reset(to="file:…")``; it is
        removed again when every broker refused. When the committed offsets of a group without
        clients differ from the plan, another process is changing them: nothing is changed and the
        status of those items is ``moved``. With ``exact`` that also holds for a group with clients,
        and for one that has or lost its clients since.
        """
        if plan.empty or not plan.items:
            return plan
        self._admin.renew()
        plan = self._as_it_is_now(plan, exact=exact)
        if any(item.status == "moved" for item in plan.items):
            return plan
        path = undo_path or self._undo_path(plan)
        save_offsets(path, self._saved(plan))
        errors = [*plan.errors]
        items = self._send(plan)
        kept = not nothing_was_changed(items)
        if not kept:
            os.unlink(path)
        items = self._read_back(plan, items)
        errors += [item.error for item in items if item.error is not None]
        warnings = [*plan.warnings]
        if any(item.status == "pending" for item in items):
            warnings.append(
                f"the clients were notified and apply the reset within about {CLIENTS_OBEY_S} s: "
                f"mqadmin offset show {plan.group} shows it"
            )
        return msgspec.structs.replace(
            plan, items=items, errors=errors, warnings=warnings, undo_path=path if kept else None
        )

    def saved(self, group: str, *, topic: str | None = None) -> Listing[SavedOffset]:
        """Return the committed offsets of a group as an offsets file has them."""
        listing = self.show(group, topic=topic)
        return Listing(
            items=[
                SavedOffset(
                    topic=one.topic,
                    queue_id=one.queue_id,
                    consumer_offset=one.consumer_offset,
                    broker_name=one.broker_name,
                )
                for one in listing.items
                if one.max_offset is not None
            ],
            errors=listing.errors,
        )

    def export(self, group: str, path: str, *, topic: str | None = None) -> Listing[SavedOffset]:
        """Write the committed offsets of a group to a new file: CSV for ``.csv``, else JSON."""
        listing = self.saved(group, topic=topic)
        if listing.items:
            now_ms = self._clock.now_ms()
            content = SavedOffsets(group=group, created_timestamp=now_ms, offsets=listing.items)
            write_offsets(path, content)
        return listing

    # --- planning -------------------------------------------------------------------------

    def _items(
        self,
        group: str,
        queues: Sequence[MessageQueue],
        addresses: Mapping[str, str],
        target: ResetTarget,
    ) -> tuple[list[ResetItem], list[TargetError], list[str]]:
        """Return one item per queue that responds and that the target applies to."""
        consumer = QueueReader(self._admin, routes=self._admin.routes)
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
        unnamed: list[str] = []
        for queue, range_, new in zip(good, ranges, news, strict=True):
            if isinstance(new, RocketMQError):
                errors.append(describe(new, target=_name(queue)))
            elif isinstance(new, Unnamed):
                unnamed.append(_name(queue))
            else:
                items.append(reset_item(group, queue, (addresses[queue.broker_name], *range_), new))
        if target.kind == "time":
            # a search by time returns the edge itself, so it is not a clamped offset
            items = [
                msgspec.structs.replace(item, clamped=False, to_timestamp=target.number)
                for item in items
            ]
        warnings = []
        if any(item.clamped for item in items):
            warnings.append(
                "the target is outside the range of the queue and is clamped to its edge: "
                + ", ".join(f"{item_name(one)} to {one.new_offset}" for one in items if one.clamped)
            )
        if unnamed:
            warnings.append(
                f"left alone, because nothing is committed or named for them: {', '.join(unnamed)}"
            )
        return items, errors, warnings

    def _of_known_group(
        self, group: str, items: Sequence[ResetItem], online: int
    ) -> tuple[list[ResetItem], list[TargetError]]:
        """Return the items on brokers that know the group; ClientError when none does.

        A broker refuses to reset a group without configuration. A broker before 5.0 accepts commits
        for it, which is used when the group has an offset or a client there.
        """
        names = {item.address: item.broker_name for item in items}
        targets = [Target(address=address, broker_name=name) for address, name in names.items()]
        unknown: dict[str, TargetError] = {}
        answers = group_replies(self._admin, targets)
        for target, answer in zip(targets, answers, strict=True):
            if isinstance(answer, RocketMQError) or group in answer.value.subscription_group_table:
                continue  # unknown after a failed query: the broker itself refuses the reset
            has_offset = any(
                item.current_offset is not None for item in items if item.address == target.address
            )
            if answer.command.version < VERSION_5 and (online or has_offset):
                continue
            unknown[target.address] = TargetError(
                kind="client",
                message=f"group {group} does not exist on {target.label}",
                hint=f"mqadmin group list shows the groups, mqadmin group create {group} makes it",
                address=target.address,
                target=target.label,
            )
        if unknown and len(unknown) == len(targets):
            first = next(iter(unknown.values()))
            brokers = ", ".join(names[address] for address in unknown)
            raise ClientError(f"group {group} does not exist on {brokers}", first.hint)
        return [item for item in items if item.address not in unknown], [*unknown.values()]

    def _reset_methods(
        self, addresses: set[str], online: int, whole: bool
    ) -> tuple[Mapping[str, str], list[TargetError], list[str]]:
        """Return the reset method per broker, errors of brokers that support none, and warnings."""
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
        """Send the planned requests; the status of each item shows whether it was refused."""
        items = list(plan.items)
        self._take_up_resets(plan)
        requests: list[tuple[str, Any]] = []
        places: list[list[int]] = []
        by_address: dict[str, list[int]] = {}
        for index, item in enumerate(items):
            if item.via == CLIENTS:
                by_address.setdefault(item.address, []).append(index)
            elif item.status == "planned":
                requests.append((item.address, reset_request(item)))
                places.append([index])
        for address, indexes in by_address.items():
            requests.append((address, clients_request(plan)))
            places.append(indexes)
        for indexes, answer in zip(places, commit_all(self._admin, requests), strict=True):
            for index in indexes:
                item = items[index]
                if isinstance(answer, RocketMQError):
                    error = describe(answer, address=item.address, target=item_name(item))
                    items[index] = msgspec.structs.replace(item, status="failed", error=error)
                elif item.via == CLIENTS:
                    items[index] = msgspec.structs.replace(item, status="pending")
        return items

    def _take_up_resets(self, plan: ResetPlan) -> None:
        """Pull each queue whose offset is to be removed, so that it has no pending reset.

        A broker ignores commits of a queue until the group's next pull has taken over a server-side
        reset. The group has no clients here. A failed pull shows when the removal is read back.
        """
        consumer = QueueReader(self._admin, group=plan.group, routes=self._admin.routes)
        requests = [
            consumer.pull_request(
                MessageQueue(item.topic, item.broker_name, item.queue_id),
                item.current_offset or 0,
                max_messages=1,
            )
            for item in plan.items
            if item.new_offset is None and item.status == "planned"
        ]
        self._admin.call_all(requests, accept=PULL_ACCEPTS)

    def _as_it_is_now(self, plan: ResetPlan, *, exact: bool) -> ResetPlan:
        """Return the plan with the present offsets.

        Connected clients commit continuously, so a change is expected while the group is online;
        without clients a change makes the item ``moved``.
        """
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
            elif plan.online and not exact:
                place = (address, item.min_offset, item.max_offset, offset)
                now = reset_item(plan.group, queue, place, item.new_offset)
                items.append(
                    msgspec.structs.replace(
                        now,
                        via=item.via,
                        status="planned",
                        clamped=item.clamped,
                        to_timestamp=item.to_timestamp,
                    )
                )
            else:
                error = moved_error(item, offset)
                items.append(msgspec.structs.replace(item, status="moved", error=error))
                errors.append(error)
        online = len(consumer_connections(self._admin, plan.group).connections) if exact else 0
        if exact and bool(online) != bool(plan.online):
            error = online_moved_error(plan, online)
            errors.append(error)
            items = [msgspec.structs.replace(one, status="moved", error=error) for one in items]
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
                    MessageQueue(
                        items[index].topic, items[index].broker_name, items[index].queue_id
                    ),
                )
                for index in open_items
            ],
        )
        for index, offset in zip(open_items, offsets, strict=True):
            item = items[index]
            if isinstance(offset, RocketMQError):
                error = describe(offset, address=item.address, target=item_name(item))
                items[index] = msgspec.structs.replace(item, status="differs", error=error)
                continue
            arrived = has_arrived(item, offset, plan.online)
            if not arrived and item.status == "pending":
                items[index] = msgspec.structs.replace(item, read_back=offset)
                continue
            items[index] = msgspec.structs.replace(
                item,
                status="done" if arrived else "differs",
                read_back=offset,
                error=None if arrived else differs_error(item, offset),
            )
        return items

    def _undo_path(self, plan: ResetPlan) -> str:
        topics = plan.topic.split(",")
        place = topics[0] if len(topics) == 1 else f"{len(topics)}-topics"
        name = f"offset-undo-{plan.group}-{place}-{self._clock.now_ms()}.json"
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


def _readers(routes: Sequence[Route]) -> dict[str, str]:
    """Return the address of each broker name that ``routes`` contain."""
    return {name: route.reader(name) or "" for route in routes for name in route.broker_names()}


def _queue_of(saved: SavedOffset, route: Route | None) -> MessageQueue:
    """Return the queue of an entry; one without a broker name is of the topic's only broker."""
    name = saved.broker_name
    if name is None and route is not None:
        names = route.broker_names()
        if len(names) > 1:
            raise ConfigError(
                f"{saved.topic} queue {saved.queue_id}: no broker is named, and the topic is on "
                f"{', '.join(names)}",
                "add the broker name as the fourth column",
            )
        name = names[0] if names else None
    return MessageQueue(saved.topic, name or "-", saved.queue_id)


def _missing_queue(queue: MessageQueue) -> TargetError:
    return TargetError(
        kind="client",
        message=f"{_name(queue)}: the topic has no such queue",
        hint=f"mqadmin topic status {queue.topic} shows its queues",
        target=_name(queue),
    )


def _name(queue: MessageQueue) -> str:
    return f"{queue.topic} {queue.broker_name}/{queue.queue_id}"
