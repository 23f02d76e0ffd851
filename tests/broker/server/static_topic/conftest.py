"""Fixtures of the static topic tests: mappings, and a broker with a moved topic."""

from collections.abc import Callable

import pytest

from broker.errors import RocketMQError
from broker.remoting.protocol.body.namesrv.route import (
    LogicQueueMappingItem,
    TopicQueueMappingDetail,
    TopicRouteData,
)
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand

TOPIC = "Fixed"


def segment(gen: int, bname: str, *, start: int = 0, **fields: int) -> LogicQueueMappingItem:
    """A segment in queue 1 of a broker, open and starting at logical offset 0."""
    return LogicQueueMappingItem(gen=gen, queue_id=1, bname=bname, start_offset=start, **fields)


def mapping(*items: LogicQueueMappingItem, epoch: int = 1000, queue_id: int = 0):
    """The mapping of one queue of the topic, as broker-a has it."""
    return TopicQueueMappingDetail(
        topic=TOPIC,
        total_queues=2,
        bname="broker-a",
        epoch=epoch,
        hosted_queues={queue_id: list(items)},
    )


class FakeBrokers:
    """Other brokers: the requests, and their responses; an error is raised."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, RemotingCommand]] = []
        self.answers: list[RemotingCommand | RocketMQError] = []
        self.leaders: TopicRouteData | RocketMQError = TopicRouteData()
        self.on_ask: Callable[[], object] = lambda: None

    async def ask(self, broker_name: str, topic: str, command: RemotingCommand) -> RemotingCommand:
        self.asked.append((broker_name, command))
        self.on_ask()
        answer = self.answers.pop(0)
        if isinstance(answer, RocketMQError):
            raise answer
        return answer

    async def route(self, topic: str) -> TopicRouteData:
        if isinstance(self.leaders, RocketMQError):
            raise self.leaders
        return self.leaders


@pytest.fixture
def others(desk) -> FakeBrokers:
    """The other brokers of ``desk``."""
    desk.context.mappings.others = fakes = FakeBrokers()
    return fakes


@pytest.fixture
def make_static(desk) -> Callable[..., RemotingCommand]:
    """``make_static(detail, force=False)``: UPDATE_AND_CREATE_STATIC_TOPIC with 2 queues."""

    def make(detail: TopicQueueMappingDetail, *, force: bool = False) -> RemotingCommand:
        ext = {
            "topic": TOPIC,
            "defaultTopic": "TBW102",
            "readQueueNums": 2,
            "writeQueueNums": 2,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": "false",
            "force": "true" if force else "false",
        }
        return desk.ask(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, ext, detail.to_bytes())

    return make
