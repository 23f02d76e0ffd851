"""Dead-letter queues: the groups that have one, their messages, and replay."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from broker.common.clock import Clock, SystemClock
from broker.common.message_queue import MessageQueue
from broker.common.topic import dlq_topic, group_of_dlq_topic
from broker.errors import RocketMQError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import build_request
from broker.remoting.rpc.route_cache import Route
from mqadmin.admin.dlq.dead_letters import DeadLetter
from mqadmin.admin.dlq.replay import Replay, ReplayItem, ReplayPlan, plan_replay
from mqadmin.admin.message import result as kinds
from mqadmin.admin.message.query import DEFAULT_MAX, MessageQueries
from mqadmin.admin.message.record import BodyView
from mqadmin.admin.message.result import QueryResult
from mqadmin.admin.result import Listing, TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topic import TopicAdmin

HOUR_MS = 3_600_000


class DlqRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The dead letters of one group: number of messages, oldest and newest store time (ms).

    ``growthPerHour`` is the number of messages stored in the last hour.
    """

    group: str
    topic: str
    messages: int
    oldest_timestamp: int | None
    newest_timestamp: int | None
    growth_per_hour: int | None


class DlqAdmin:
    """Queries about dead letters, and replay."""

    def __init__(self, admin: AdminSession, clock: Clock | None = None) -> None:
        self._admin = admin
        self._clock = clock or SystemClock()

    def list(self, *, group: str | None = None) -> Listing[DlqRecord]:
        """Return one record per group that has a DLQ topic; ``group`` limits it to that group."""
        topics = [dlq_topic(group)] if group is not None else self._topics()
        items: list[DlqRecord] = []
        errors: list[TargetError] = []
        for topic in topics:
            route = self._admin.routes.find(topic)
            if route is None:
                continue
            record, failed = self._record(topic, route)
            errors += failed
            if record is not None:
                items.append(record)
        return Listing(items=items, errors=errors)

    def show(
        self,
        group: str,
        *,
        max_items: int = DEFAULT_MAX,
        begin_ms: int = 0,
        end_ms: int | None = None,
        body: BodyView | None = None,
    ) -> QueryResult:
        """Return the dead letters of a group, oldest first.

        A DLQ topic without read permission is refused here as for any other query.
        """
        result = MessageQueries(self._admin).query_time(
            dlq_topic(group), begin_ms or None, end_ms, max_items=max_items, body=body
        )
        if result.kind == kinds.NO_SUCH_TOPIC:
            return QueryResult(
                kind=kinds.NO_SUCH_TOPIC,
                detail=f"group {group} has no DLQ topic: none of its messages became a dead letter",
                hint="mqadmin dlq list shows the groups that have dead letters",
            )
        return result

    def plan_replay(
        self, dead_letters: Sequence[DeadLetter], *, to: str = "origin", ledger: str
    ) -> ReplayPlan:
        """Plan where each dead letter is sent: ``to`` is origin, retry or a topic name.

        ``ledger`` is the file that records earlier sends. ConfigError for an invalid topic name and
        for a ledger that cannot be read.
        """
        return plan_replay(self._admin, dead_letters, to=to, ledger=ledger)

    def apply_replay(self, plan: ReplayPlan, *, rate: float | None = None) -> Iterator[ReplayItem]:
        """Send the planned messages, at most ``rate`` per second; yield each item when it is done.

        Each call has a deadline, the whole replay has none. ConfigError while another replay uses
        the ledger.
        """
        admin = self._admin.without_deadline()
        try:
            yield from Replay(admin, plan, self._clock, rate=rate).run()
        finally:
            admin.close()

    def _topics(self) -> Sequence[str]:
        names = self._admin.ask_namesrv(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return sorted(
            name for name in names.value.topic_list if group_of_dlq_topic(name) is not None
        )

    def _record(self, topic: str, route: Route) -> tuple[DlqRecord | None, Sequence[TargetError]]:
        listing = TopicAdmin(self._admin).status(topic)
        errors = [*listing.errors]
        if not listing.items and errors:
            return None, errors
        filled = [item for item in listing.items if item.max_offset > item.min_offset]
        queues = [MessageQueue(topic, item.broker_name, item.queue_id) for item in filled]
        newest = [item.last_update_timestamp for item in filled if item.last_update_timestamp]
        now_ms = self._clock.now_ms()
        oldest = self._numbers(
            route, queues, RequestCode.GET_EARLIEST_MSG_STORETIME, "timestamp", {}
        )
        before = self._numbers(
            route,
            queues,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            "offset",
            {"timestamp": now_ms - HOUR_MS},
        )
        growth: int | None = 0
        for item, queue in zip(filled, queues, strict=True):
            if (item.last_update_timestamp or 0) < now_ms - HOUR_MS:
                continue
            since = before.get(queue)
            growth = None if since is None or growth is None else growth + item.max_offset - since
        known = [time for time in oldest.values() if time is not None and time > 0]
        return DlqRecord(
            group=group_of_dlq_topic(topic) or topic,
            topic=topic,
            messages=sum(item.max_offset - item.min_offset for item in filled),
            oldest_timestamp=min(known) if known else None,
            newest_timestamp=max(newest) if newest else None,
            growth_per_hour=growth,
        ), errors

    def _numbers(
        self,
        route: Route,
        queues: Sequence[MessageQueue],
        code: int,
        field: str,
        fields: Mapping[str, int],
    ) -> dict[MessageQueue, int | None]:
        """Return one number per queue from its broker, None where the broker failed."""
        answers = self._admin.call_all(
            [
                (
                    route.reader(queue.broker_name) or "",
                    build_request(
                        code, {"topic": queue.topic, "queue_id": queue.queue_id, **fields}
                    ),
                )
                for queue in queues
            ]
        )
        return {
            queue: None if isinstance(answer, RocketMQError) else getattr(answer.header, field)
            for queue, answer in zip(queues, answers, strict=True)
        }
