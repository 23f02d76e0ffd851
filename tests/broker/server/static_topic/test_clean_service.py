"""Cleaning of mappings: expired segments of led queues, queues of former leaders."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from broker.common.message_queue import MessageQueue
from broker.errors import RequestTimeoutError
from broker.remoting.protocol.body.namesrv.route import (
    LogicQueueMappingItem,
    TopicQueueMappingDetail,
    TopicQueueMappingInfo,
    TopicRouteData,
)
from broker.remoting.protocol.body.topic import (
    TopicConfigAndQueueMapping,
    TopicOffset,
    TopicStatsTable,
)
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand
from broker.server.static_topic.clean_service import TopicQueueMappingCleanService
from tests.broker.server.static_topic.conftest import TOPIC, FakeBrokers, mapping, segment
from tests.support.desk import Desk

EVERY_HOUR = ";".join(map(str, range(24)))
OLD = segment(0, "broker-b", end_offset=3)
LEADER = segment(1, "broker-a", logic_offset=10_000)


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Desk:
    """A broker whose deleteWhen is every hour."""
    return make_desk(deleteWhen=EVERY_HOUR)


def clean(desk: Desk) -> list[LogicQueueMappingItem] | None:
    """Run one round; the segments of queue 0 after it, None without the queue."""
    asyncio.run(TopicQueueMappingCleanService(desk.context).run())
    detail = desk.context.mappings.get(TOPIC)
    assert detail is not None
    return (detail.hosted_queues or {}).get(0)


def bounds(low: int, high: int, queue_id: int = 1, name: str = "broker-b") -> RemotingCommand:
    """The statistics of the topic at another broker."""
    table = {MessageQueue(TOPIC, name, queue_id): TopicOffset(min_offset=low, max_offset=high)}
    return RemotingCommand(code=0, body=TopicStatsTable(offset_table=table).to_bytes())


def config_of(detail: TopicQueueMappingDetail | None) -> RemotingCommand:
    """The configuration of the topic at another broker."""
    return RemotingCommand(
        code=0, body=TopicConfigAndQueueMapping(mapping_detail=detail).to_bytes()
    )


class TestExpiredSegments:
    @pytest.fixture(autouse=True)
    def moved(self, make_static, others) -> None:
        make_static(mapping(OLD, LEADER))

    @pytest.mark.parametrize(("low", "high"), [(3, 3), (0, 0)])
    def test_a_segment_without_messages_is_removed(
        self, desk: Desk, others: FakeBrokers, low: int, high: int
    ) -> None:
        others.answers.append(bounds(low, high))
        assert clean(desk) == [LEADER]
        ((name, command),) = others.asked
        assert (name, command.code) == ("broker-b", RequestCode.GET_TOPIC_STATS_INFO)
        fields = {"topic": TOPIC, "bname": "broker-b", "lo": "false"}
        assert command.ext_fields == fields
        assert clean(desk) == [LEADER]  # the last segment stays
        assert len(others.asked) == 1

    @pytest.mark.parametrize(
        "answer",
        [
            bounds(2, 3),
            bounds(-1, -1),
            bounds(0, 0, queue_id=0),
            bounds(0, 0, name="broker-c"),
            RemotingCommand(code=ResponseCode.TOPIC_NOT_EXIST),
            RemotingCommand(code=0, body=b"{"),
            RequestTimeoutError("late"),
        ],
    )
    def test_a_segment_stays_unless_its_queue_is_known_to_be_empty(
        self, desk: Desk, others: FakeBrokers, answer: RemotingCommand
    ) -> None:
        others.answers.append(answer)
        assert clean(desk) == [OLD, LEADER]

    def test_nothing_is_asked_at_other_hours(
        self, desk: Desk, others: FakeBrokers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store_config = replace(desk.store.config, delete_when="")
        monkeypatch.setattr(desk.store, "config", store_config)
        assert clean(desk) == [OLD, LEADER]
        assert others.asked == []

    def test_a_slave_leaves_the_mapping_to_its_master(
        self, desk: Desk, others: FakeBrokers
    ) -> None:
        desk.context.config = replace(desk.context.config, broker_role="SLAVE")
        assert clean(desk) == [OLD, LEADER]
        assert others.asked == []

    def test_a_mapping_that_changed_meanwhile_stays(self, desk: Desk, others: FakeBrokers) -> None:
        changed = mapping(OLD, LEADER, epoch=2000)
        others.on_ask = lambda: desk.context.mappings.update(changed, force=False)
        others.answers.append(bounds(3, 3))
        assert clean(desk) == [OLD, LEADER]

    def test_the_only_decided_segment_stays(self, desk: Desk, others, make_static) -> None:
        """While a queue is moved, its new leader has no logical offset."""
        undecided = [segment(0, "broker-b"), segment(1, "broker-a", logic_offset=-1)]
        assert make_static(mapping(*undecided, epoch=3000), force=True).code == 0
        assert clean(desk) == undecided
        assert others.asked == []


def test_a_segment_of_this_broker_is_removed_without_messages(
    desk: Desk, others, make_static
) -> None:
    """A queue that was moved away and back; its first segment is in queue 0 of this broker."""
    own = replace(segment(0, "broker-a", end_offset=1), queue_id=0)
    back = [own, segment(1, "broker-b", logic_offset=5_000, end_offset=7), segment(2, "broker-a")]
    back[2] = replace(back[2], logic_offset=10_000)
    make_static(mapping(own))
    desk.send(TOPIC)
    assert make_static(mapping(*back, epoch=2000)).code == 0
    assert clean(desk) == back
    others.answers.append(bounds(0, 9))
    make_static(mapping(replace(own, queue_id=1), *back[1:], epoch=3000), force=True)
    assert clean(desk) == back[1:]  # queue 1 of this broker is empty
    assert others.asked == []


def test_the_mapping_of_another_broker_name_stays(desk: Desk, others, make_static) -> None:
    """topicQueueMapping.json of a broker that was renamed."""
    make_static(mapping(OLD, LEADER))
    desk.context.config = replace(desk.context.config, broker_name="broker-z")
    assert clean(desk) == [OLD, LEADER]
    assert others.asked == []


def test_a_broker_that_cannot_be_reached_is_asked_once_a_round(desk: Desk, others) -> None:
    mappings = desk.context.mappings
    for topic in ("T1", "T2"):
        mappings.update(replace(mapping(OLD, LEADER), topic=topic), force=False)
    mappings.update(mapping(LEADER), force=False)
    others.answers.append(RequestTimeoutError("late"))
    clean(desk)
    assert len(others.asked) == 1


def test_a_round_does_not_start_during_another(desk: Desk, others, make_static) -> None:
    make_static(mapping(OLD, LEADER))
    others.answers.append(bounds(1, 3))

    async def main() -> None:
        service = TopicQueueMappingCleanService(desk.context)
        await asyncio.gather(service.run(), service.run())
        service.stop()
        await service.run()

    asyncio.run(main())
    assert len(others.asked) == 1


class TestFormerLeaders:
    """Queue 0 was moved from broker-a to broker-b and on to broker-c."""

    SEEN = (segment(0, "broker-a"), segment(1, "broker-b", logic_offset=10))
    MOVED = mapping(*SEEN[1:], segment(2, "broker-c", logic_offset=20))

    @pytest.fixture(autouse=True)
    def moved(self, make_static, others) -> None:
        make_static(mapping(*self.SEEN))
        self.set_leader(others, "broker-c")

    def set_leader(self, others: FakeBrokers, name: str) -> None:
        infos = {
            name: TopicQueueMappingInfo(topic=TOPIC, epoch=1000, bname=name, curr_id_map={0: 0}),
            "broker-d": TopicQueueMappingInfo(topic=TOPIC, epoch=999, curr_id_map={0: 0, 1: 0}),
        }
        others.leaders = TopicRouteData(topic_queue_mapping_by_broker=infos)

    def test_a_queue_is_removed_once_a_third_broker_leads_it(
        self, desk: Desk, others: FakeBrokers
    ) -> None:
        others.answers.append(config_of(replace(self.MOVED, bname="broker-c")))
        assert clean(desk) is None
        ((name, command),) = others.asked
        assert (name, command.code) == ("broker-c", RequestCode.GET_TOPIC_CONFIG)
        assert command.ext_fields == {"topic": TOPIC, "bname": "broker-c", "lo": "true"}

    @pytest.mark.parametrize("leader", ["broker-a", "broker-b"])
    def test_the_leader_before_keeps_the_queue(
        self, desk: Desk, others: FakeBrokers, leader: str
    ) -> None:
        self.set_leader(others, leader)
        assert clean(desk) == list(self.SEEN)
        assert others.asked == []

    @pytest.mark.parametrize("leaders", [None, {}])
    def test_a_queue_without_a_known_leader_stays(
        self, desk: Desk, others: FakeBrokers, leaders: dict[str, TopicQueueMappingInfo] | None
    ) -> None:
        others.leaders = TopicRouteData(topic_queue_mapping_by_broker=leaders)
        assert clean(desk) == list(self.SEEN)

    @pytest.mark.parametrize(
        "answer",
        [
            config_of(replace(MOVED, bname="broker-c", epoch=2000)),
            config_of(replace(MOVED, bname="broker-c", total_queues=3)),
            config_of(replace(MOVED, bname="broker-c", hosted_queues={})),
            config_of(replace(MOVED, bname="broker-c", hosted_queues={0: [SEEN[1]]})),
            config_of(replace(MOVED, bname="broker-d")),
            config_of(None),
            RemotingCommand(code=0, body=b"[]"),
            RemotingCommand(code=ResponseCode.TOPIC_NOT_EXIST),
            RequestTimeoutError("late"),
        ],
    )
    def test_a_queue_stays_unless_its_leader_has_the_same_mapping(
        self, desk: Desk, others: FakeBrokers, answer: RemotingCommand
    ) -> None:
        others.answers.append(answer)
        assert clean(desk) == list(self.SEEN)

    def test_a_route_that_cannot_be_read_keeps_the_queue(
        self, desk: Desk, others: FakeBrokers
    ) -> None:
        others.leaders = RequestTimeoutError("late")
        assert clean(desk) == list(self.SEEN)
