"""Three of our brokers with 500 consumer groups, at a running name server."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from local_broker import LocalBroker

from broker.common.group import SubscriptionGroupConfig
from broker.common.topic import TopicConfig, retry_topic
from broker.errors import RocketMQError
from broker.remoting.protocol.body.consumer.group import SubscriptionGroupList
from broker.remoting.protocol.body.topic import CreateTopicListRequestBody
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.connections import call_bounded
from mqadmin.admin.facade import MQAdmin

GROUPS = 500
QUEUES = 4
TOPIC = "bench-groups"


class Cluster(NamedTuple):
    """The brokers that were started here, and the names of the groups."""

    brokers: list[LocalBroker]
    groups: list[str]


def start(work: Path, namesrv: str, mqadmin: str) -> Cluster:
    """Start two brokers next to the one of ``namesrv``, and create groups on all three.

    Each group has a retry topic, as the Java tool finds groups by it, and has consumed one message
    of each queue of one topic.
    """
    brokers = [
        LocalBroker("ours", work / name, {"brokerName": name, "namesrvAddr": namesrv})
        for name in ("bench-b", "bench-c")
    ]
    groups = [f"bench-{number:03d}" for number in range(GROUPS)]
    with MQAdmin([namesrv], timeout_ms=300_000) as admin:
        addresses = [target.address for target in admin.topology.readers()]
        _must(admin, [command for one in addresses for command in _tables(one, groups)])
    lines = "x\n" * (len(addresses) * QUEUES * 8)
    words = [mqadmin, "-n", namesrv, "msg", "produce", TOPIC, "--input-format", "lines"]
    subprocess.run(words, input=lines, text=True, check=True, stdout=subprocess.DEVNULL)
    with MQAdmin([namesrv], timeout_ms=300_000) as admin:
        _must(admin, [command for one in addresses for command in _commits(one, groups)])
    return Cluster(brokers, groups)


def _tables(address: str, groups: Sequence[str]) -> list[tuple[str, RemotingCommand]]:
    names = [(TOPIC, QUEUES), *((retry_topic(group), 1) for group in groups)]
    topics = CreateTopicListRequestBody(
        topic_config_list=[
            TopicConfig(topic_name=name, read_queue_nums=count, write_queue_nums=count)
            for name, count in names
        ]
    )
    configs = SubscriptionGroupList(
        group_config_list=[SubscriptionGroupConfig(group_name=group) for group in groups]
    )
    return [
        (address, build_request(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {}, topics.to_bytes())),
        (
            address,
            build_request(
                RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, {}, configs.to_bytes()
            ),
        ),
    ]


def _commits(address: str, groups: Sequence[str]) -> list[tuple[str, RemotingCommand]]:
    return [
        (
            address,
            build_request(
                RequestCode.UPDATE_CONSUMER_OFFSET,
                {
                    "consumer_group": group,
                    "topic": TOPIC,
                    "queue_id": queue_id,
                    "commit_offset": 1,
                },
            ),
        )
        for group in groups
        for queue_id in range(QUEUES)
    ]


def _must(admin: MQAdmin, requests: list[tuple[str, RemotingCommand]]) -> None:
    for answer in call_bounded(admin, requests):
        if isinstance(answer, RocketMQError):
            raise answer
