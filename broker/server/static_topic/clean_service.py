"""TopicQueueMappingCleanService: remove segments and queues of static topics that are obsolete.

::

    expired segment   on the leader: the oldest segment of a queue, once the queue that stores it
                      has no messages
    old generation    on a former leader: a queue that was moved away twice, so that the leader in
                      this broker's mapping is no longer the leader

The broker that led a queue last keeps its segments. The mappings of other brokers are not changed:
each broker cleans its own, in the hours of ``deleteWhen``.

**Source:** RocketMQ TopicQueueMappingCleanService.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence

from broker.common.message_queue import MessageQueue
from broker.errors import RocketMQError
from broker.remoting.protocol.body.namesrv.route import TopicQueueMappingDetail, TopicRouteData
from broker.remoting.protocol.body.topic import (
    TopicConfigAndQueueMapping,
    TopicOffset,
    TopicStatsTable,
)
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from broker.server.context import BrokerContext
from broker.server.slices import decode_body
from broker.server.static_topic.mapping import Item
from broker.store.config import delete_hours

log = logging.getLogger("broker.server")

Changes = Mapping[int, Sequence[Item]]


class TopicQueueMappingCleanService:
    """Cleans the mappings of one broker; a round asks one broker at a time."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._mappings = context.mappings
        self._running = False
        self._stopped = False
        self._unreachable: set[str] = set()

    def stop(self) -> None:
        """End a running round after its current topic; start no further one."""
        self._stopped = True

    async def run(self) -> None:
        """Run one round, if this is an hour of ``deleteWhen`` and no other round is running.

        A slave leaves the mappings to its master, whose table it copies.
        """
        context = self._context
        hour = time.localtime(context.now_ms() / 1000).tm_hour
        wanted = not context.config.is_slave and hour in delete_hours(context.store.config)
        if self._running or not wanted:
            return
        self._running = True
        try:
            for topic in list(self._mappings.details):
                if self._stopped:
                    return
                await self._clean(topic)
                await asyncio.sleep(0)
        finally:
            self._running = False
            self._unreachable.clear()

    async def _clean(self, topic: str) -> None:
        """Clean one mapping; after a failure the next round tries again."""
        for find, kind in (
            (self._without_expired, "expired segments removed"),
            (self._former_queues, "removed, they were moved on to a third broker"),
        ):
            detail = self._mappings.get(topic)
            if detail is None or detail.bname != self._context.config.broker_name:
                return
            try:
                changes = await find(topic, detail)
                if changes and self._mappings.remove_segments(detail, changes):
                    await self._mappings.persist()
                    log.info("static topic %s: %d queues: %s", topic, len(changes), kind)
            except (RocketMQError, OSError) as error:
                log.warning("static topic %s: mapping not cleaned: %s", topic, error)

    # ---- expired segments

    async def _without_expired(self, topic: str, detail: TopicQueueMappingDetail) -> Changes:
        """Return the queues whose oldest segment has no messages, without that segment.

        **Source:** RocketMQ TopicQueueMappingCleanService#cleanItemExpired.
        """
        led = {
            queue_id: items
            for queue_id, items in (detail.hosted_queues or {}).items()
            # Java also removes the only segment with a logical offset while the queue is moved.
            if len(items) > 1 and items[-1].bname == detail.bname and items[1].logic_offset >= 0
        }
        changes: dict[int, Sequence[Item]] = {}
        for name in sorted({items[0].bname for items in led.values()}):
            oldest = {q: items[0] for q, items in led.items() if items[0].bname == name}
            bounds = await self._bounds(topic, name, {item.queue_id for item in oldest.values()})
            for queue_id, item in oldest.items():
                found = bounds.get(MessageQueue(topic, name, item.queue_id))
                if found is not None and _is_empty(found):
                    changes[queue_id] = led[queue_id][1:]
        return changes

    async def _bounds(
        self, topic: str, name: str, queue_ids: set[int]
    ) -> Mapping[MessageQueue, TopicOffset]:
        """Return the bounds of queues of a broker; empty if it cannot be asked."""
        if name == self._context.config.broker_name:
            store = self._context.store
            return {
                MessageQueue(topic, name, queue_id): TopicOffset(
                    min_offset=max(0, store.get_min_offset(topic, queue_id)),
                    max_offset=store.get_max_offset(topic, queue_id),
                )
                for queue_id in queue_ids
            }
        body = await self._ask(name, topic, RequestCode.GET_TOPIC_STATS_INFO, lo="false")
        if body is None:
            return {}
        return (await decode_body(TopicStatsTable.from_bytes, body)).offset_table

    # ---- old generations

    async def _former_queues(self, topic: str, detail: TopicQueueMappingDetail) -> Changes:
        """Return the queues whose leader in this mapping was replaced, without segments.

        The new leader must know the same generation of the mapping, or the name servers' route may
        be the outdated one.

        **Source:** RocketMQ TopicQueueMappingCleanService#cleanItemListMoreThanSecondGen.
        """
        seen = {
            queue_id: items[-1].bname
            for queue_id, items in (detail.hosted_queues or {}).items()
            if items and items[-1].bname != detail.bname
        }
        others = self._mappings.others
        if not seen or others is None:
            return {}
        leaders = _leaders(await others.route(topic))
        replaced = {
            queue_id: leaders[queue_id]
            for queue_id, name in seen.items()
            if leaders.get(queue_id, name) not in (name, detail.bname)
        }
        changes: dict[int, Sequence[Item]] = {}
        for name in sorted(set(replaced.values())):
            other = await self._mapping_of(name, topic)
            if (
                other is None
                or other.bname != name
                or other.total_queues != detail.total_queues
                or other.epoch != detail.epoch
            ):
                continue
            for queue_id, leader in replaced.items():
                items = (other.hosted_queues or {}).get(queue_id)
                if leader == name and items and items[-1].bname == name:
                    changes[queue_id] = ()
        return changes

    async def _mapping_of(self, name: str, topic: str) -> TopicQueueMappingDetail | None:
        body = await self._ask(name, topic, RequestCode.GET_TOPIC_CONFIG, lo="true")
        if body is None:
            return None
        return (await decode_body(TopicConfigAndQueueMapping.from_bytes, body)).mapping_detail

    # ---- other brokers

    async def _ask(self, name: str, topic: str, code: int, *, lo: str) -> bytes | None:
        """Return the body of a broker's response; None after a failure.

        A broker that cannot be reached is asked once in a round: each call may wait for seconds.
        """
        others = self._mappings.others
        if others is None or name in self._unreachable:
            return None
        command = request(code, {"topic": topic, "bname": name, "lo": lo})
        try:
            answer = await others.ask(name, topic, command)
        except RocketMQError as error:
            self._unreachable.add(name)
            log.warning("static topic %s: broker %s cannot be asked: %s", topic, name, error)
            return None
        return answer.body_bytes() if answer.code == 0 else None


def _is_empty(bounds: TopicOffset) -> bool:
    return bounds.max_offset == 0 or 0 < bounds.max_offset == bounds.min_offset


def _leaders(route: TopicRouteData) -> dict[int, str]:
    """Return queue id → broker name of the leader, from the newest mapping that has the queue."""
    infos = sorted(
        (route.topic_queue_mapping_by_broker or {}).items(), key=lambda named: named[1].epoch
    )
    return {queue_id: name for name, info in infos for queue_id in info.curr_id_map}
