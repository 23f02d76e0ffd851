"""Seeded fault runs of a producer on virtual time: sick brokers and name servers in turn."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest

from broker.client.config import FaultRule, ProducerConfig
from broker.client.instance.client_instance import MQClientInstance
from broker.client.publish.async_producer import AsyncProducer
from broker.errors import RocketMQError
from broker.message.message import Message
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from tests.support.fake_cluster import FakeBroker, FakeCluster
from tests.support.virtual_time import run_virtual

SEND = RequestCode.SEND_MESSAGE_V2
FAULTS = ("down", "hung", "slow", "full")
PAUSE_S = {FaultRule.V5: 10.0, FaultRule.V4: 600.0}
"""Pause of a broker after an attempt that raised an error (S196 to S201)."""


def full(broker: FakeBroker) -> Callable[[RemotingCommand], RemotingCommand]:
    return lambda command: response(
        command, ResponseCode.SERVICE_NOT_AVAILABLE, f"{broker.name}: the disk is full"
    )


def make_sick(broker: FakeBroker, fault: str) -> None:
    if fault == "down":
        broker.kill()
    elif fault == "hung":
        broker.state = "hung"
    elif fault == "slow":
        broker.latency_s = 0.7
    else:
        broker.scripts[SEND] = full(broker)


def make_well(broker: FakeBroker) -> None:
    broker.start()
    broker.latency_s = 0.0
    broker.scripts.clear()


class Attempts:
    """The times of the attempts at each broker, also of those that do not reach it."""

    def __init__(self, cluster: FakeCluster, instance: MQClientInstance) -> None:
        self.at_s: dict[str, list[float]] = {name: [] for name in cluster.brokers}
        inner = instance.transport.call

        async def call(
            address: str, command: RemotingCommand, timeout_ms: float
        ) -> RemotingCommand:
            if command.code == SEND:
                self.at_s[cluster.by_address[address].name].append(cluster.now_s())
            return await inner(address, command, timeout_ms)

        instance.transport.call = call  # type: ignore[method-assign]


@pytest.mark.parametrize("rule", list(FaultRule))
@pytest.mark.parametrize("seed", range(100))
def test_every_send_succeeds_and_a_sick_broker_gets_nothing_until_its_pause_is_over(
    seed: int, rule: FaultRule
) -> None:
    """One of two brokers and one of two name servers are sick at a time."""
    rng = Random(seed)
    cluster = FakeCluster(brokers=2, name_servers=2)
    cluster.create("T")
    failures: list[str] = []

    async def main() -> None:
        client = cluster.config()
        instance = MQClientInstance(client, clock=cluster.clock, transport=cluster.transport)
        attempts = Attempts(cluster, instance)
        config = ProducerConfig(send_latency_enable=True, fault_rule=rule)
        async with AsyncProducer(
            "pg", client, config, clock=cluster.clock, instance=instance
        ) as producer:
            await producer.send(Message("T", b"first"))
            broker = cluster.brokers[rng.choice(sorted(cluster.brokers))]
            for _ in range(4):
                fault = rng.choice(FAULTS)
                server = rng.choice(sorted(cluster.name_servers))
                cluster.name_servers[server] = rng.choice(("down", "hung"))
                make_sick(broker, fault)
                before = len(attempts.at_s[broker.name])
                sick_s = rng.choice((1, 5, 40))
                end_s = cluster.now_s() + sick_s
                while cluster.now_s() < end_s:
                    await send(producer)
                    await asyncio.sleep(rng.choice((0.01, 0.1, 0.5)))
                at_s = attempts.at_s[broker.name][before:]
                if fault != "slow":
                    gaps = [later - earlier for earlier, later in pairwise(at_s)]
                    assert all(gap >= PAUSE_S[rule] for gap in gaps), (fault, gaps)
                make_well(broker)
                cluster.name_servers[server] = "up"
                await asyncio.sleep(rng.choice((0, 3, 15)))

    async def send(producer: AsyncProducer) -> None:
        try:
            await producer.send(Message("T", b"x"))
        except RocketMQError as error:
            failures.append(error.message)

    run_virtual(main(), cluster.clock)
    assert failures == []
