"""Locks at the brokers."""

import asyncio

from broker.client.consumer.process_queue import ProcessQueue
from broker.client.instance.client_instance import MQClientInstance
from broker.client.rebalance.broker_locks import BrokerLocks
from broker.common.message_queue import MessageQueue
from broker.remoting.protocol.codes import RequestCode
from tests.support.fake_cluster import FakeCluster
from tests.support.virtual_time import run_virtual

A = MessageQueue("T", "broker-a", 0)
B = MessageQueue("T", "broker-b", 0)


def test_locks_are_written_into_the_process_queues() -> None:
    cluster = FakeCluster(brokers=2)
    cluster.create("T")
    cluster.brokers["broker-b"].locks["g", B] = "another"
    owned = {A: ProcessQueue(0), B: ProcessQueue(0)}
    owned[B].locked = True

    async def main() -> None:
        instance = MQClientInstance(
            cluster.config(), clock=cluster.clock, transport=cluster.transport
        )
        locks = BrokerLocks(instance, "g")
        assert await locks.lock([A], owned) == set()  # no route, no address
        await instance.routes.get("T")
        cluster.clock.advance(500)
        assert await locks.lock([A, B], owned) == {A}
        assert (owned[A].locked, owned[B].locked) == (True, False)
        assert owned[A].last_lock_ms >= 500
        await locks.unlock([A, B])
        assert cluster.brokers["broker-a"].locks == {}
        assert cluster.brokers["broker-b"].locks == {("g", B): "another"}

    run_virtual(main(), cluster.clock)


def test_delayed_unlocks_are_sent_at_once_on_request() -> None:
    cluster = FakeCluster(brokers=2)
    cluster.create("T")

    async def main() -> None:
        instance = MQClientInstance(
            cluster.config(), clock=cluster.clock, transport=cluster.transport
        )
        await instance.routes.get("T")
        locks = BrokerLocks(instance, "g")
        await locks.lock([A, B], {})
        locks.unlock_later(A, 20)
        locks.unlock_later(B, 20)
        began_s = cluster.now_s()
        await locks.unlock_pending()
        assert cluster.now_s() - began_s < 1
        assert [broker.locks for broker in cluster.brokers.values()] == [{}, {}]
        await asyncio.sleep(30)
        codes = [code for broker in cluster.brokers.values() for code in broker.codes()]
        assert codes.count(RequestCode.UNLOCK_BATCH_MQ) == 2

    run_virtual(main(), cluster.clock)


def test_a_lock_stays_valid_while_its_broker_does_not_answer() -> None:
    cluster = FakeCluster()
    cluster.create("T")
    owned = {A: ProcessQueue(0)}

    async def main() -> None:
        instance = MQClientInstance(
            cluster.config(), clock=cluster.clock, transport=cluster.transport
        )
        await instance.routes.get("T")
        locks = BrokerLocks(instance, "g")
        await locks.lock([A], owned)
        cluster.brokers["broker-a"].state = "down"
        assert await locks.lock([A], owned) == set()
        assert owned[A].locked
        await locks.unlock([A])  # logged, not raised
        cluster.brokers["broker-a"].state = "up"
        locks.unlock_later(A, 20)
        await asyncio.sleep(19.9)
        assert list(cluster.brokers["broker-a"].locks) == [("g", A)]
        await asyncio.sleep(0.2)
        assert cluster.brokers["broker-a"].locks == {}
        await locks.unlock_pending()
        assert cluster.brokers["broker-a"].codes().count(RequestCode.UNLOCK_BATCH_MQ) == 1

    run_virtual(main(), cluster.clock)
