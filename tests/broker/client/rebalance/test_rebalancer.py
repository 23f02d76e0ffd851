"""The rebalancer and its owner."""

import asyncio
from collections.abc import Collection, Mapping, Sequence

from broker.client.config import MessageModel
from broker.client.consumer.process_queue import ProcessQueue
from broker.client.instance.client_instance import MQClientInstance
from broker.client.rebalance.rebalancer import Rebalancer
from broker.client.rebalance.strategies import AllocateAveragely
from broker.common.message_queue import MessageQueue
from broker.errors import RemotingError
from tests.support.fake_cluster import FakeCluster
from tests.support.virtual_time import run_virtual


class Owner:
    """Records the calls; ``stuck`` queues are not released, ``denied`` not prepared."""

    def __init__(self) -> None:
        self.started: list[MessageQueue] = []
        self.released: list[MessageQueue] = []
        self.changes: list[int] = []
        self.stuck: set[MessageQueue] = set()
        self.denied: set[MessageQueue] = set()
        self.unknown: set[MessageQueue] = set()
        self.committed = asyncio.Event()
        self.committed.set()

    async def prepare(self, queues: Sequence[MessageQueue]) -> set[MessageQueue]:
        return set(queues) - self.denied

    async def start_offset(self, queue: MessageQueue) -> int:
        if queue in self.unknown:
            raise RemotingError("no answer")
        return 7

    def begin(self, queue: MessageQueue, process: ProcessQueue, offset: int) -> None:
        assert offset == 7
        self.started.append(queue)

    async def release(
        self, processes: Mapping[MessageQueue, ProcessQueue]
    ) -> Collection[MessageQueue]:
        assert all(process.dropped for process in processes.values())
        await self.committed.wait()
        given_up = [queue for queue in processes if queue not in self.stuck]
        self.released += given_up
        return given_up

    async def changed(
        self, topic: str, queues: Sequence[MessageQueue], own: Sequence[MessageQueue]
    ) -> None:
        self.changes.append(len(own))


def queues(*numbers: int) -> list[MessageQueue]:
    return [MessageQueue("T", "broker-a", number) for number in numbers]


def test_rounds_until_the_allocation_is_reached() -> None:
    cluster = FakeCluster()
    cluster.create("T", queues=4)
    members: list[str] = []

    async def main() -> None:
        instance = MQClientInstance(
            cluster.config(instance_name="a"), clock=cluster.clock, transport=cluster.transport
        )

        async def ids(topic: str, group: str) -> list[str] | None:
            return members or None

        instance.consumer_ids = ids  # type: ignore[method-assign]
        owner = Owner()
        rebalancer = Rebalancer(instance, "g", AllocateAveragely(), MessageModel.CLUSTERING, owner)
        me = instance.client_id
        assert not await rebalancer.rebalance(["T"])  # members unknown: nothing is given up
        members.append(me)
        owner.denied = set(queues(0))
        owner.unknown = set(queues(1))
        assert not await rebalancer.rebalance(["T"])
        assert rebalancer.owned("T") == queues(2, 3)
        owner.denied = owner.unknown = set()
        assert await rebalancer.rebalance(["T"])
        assert rebalancer.owned("T") == queues(0, 1, 2, 3)
        members.append("z@other")
        owner.stuck = set(queues(2))
        assert not await rebalancer.rebalance(["T"])
        assert owner.released == queues(3)
        members.remove("z@other")
        owner.stuck = set()
        assert await rebalancer.rebalance(["T"])  # dropped ones are replaced by new objects
        assert owner.started.count(queues(2)[0]) == 2
        assert owner.changes == [2, 4, 2, 4]
        members.clear()
        assert not await rebalancer.rebalance(["T"])
        assert len(rebalancer.owned("T")) == 4
        await rebalancer.rebalance([])
        assert rebalancer.process_queues == {}

    run_virtual(main(), cluster.clock)


def test_all_queues_are_dropped_before_the_last_commit_and_released_after_it() -> None:
    cluster = FakeCluster()
    cluster.create("T", queues=2)

    async def main() -> None:
        instance = MQClientInstance(
            cluster.config(), clock=cluster.clock, transport=cluster.transport
        )
        owner = Owner()
        rebalancer = Rebalancer(
            instance, "g", AllocateAveragely(), MessageModel.BROADCASTING, owner
        )
        await rebalancer.rebalance(["T"])

        async def commit(owned: Sequence[MessageQueue]) -> None:
            assert owned == queues(0, 1)
            assert all(one.dropped for one in rebalancer.process_queues.values())
            assert owner.released == []

        await rebalancer.drop_all(commit)
        assert owner.released == queues(0, 1)

    run_virtual(main(), cluster.clock)


def test_a_removal_leaves_a_queue_that_was_taken_over_again_meanwhile() -> None:
    cluster = FakeCluster()
    cluster.create("T", queues=1)

    async def main() -> None:
        instance = MQClientInstance(
            cluster.config(), clock=cluster.clock, transport=cluster.transport
        )
        owner = Owner()
        rebalancer = Rebalancer(
            instance, "g", AllocateAveragely(), MessageModel.BROADCASTING, owner
        )
        await rebalancer.rebalance(["T"])
        slow, owner.committed = owner.committed, asyncio.Event()
        removal = asyncio.ensure_future(rebalancer.remove(*queues(0)))
        await asyncio.sleep(1)
        waiting, owner.committed = owner.committed, slow
        await rebalancer.rebalance(["T"])
        fresh = rebalancer.process_queues[queues(0)[0]]
        waiting.set()
        await removal
        assert rebalancer.process_queues == {queues(0)[0]: fresh}

    run_virtual(main(), cluster.clock)


def test_an_unknown_topic_is_final_only_for_the_retry_topic() -> None:
    cluster = FakeCluster()

    async def main() -> None:
        instance = MQClientInstance(
            cluster.config(), clock=cluster.clock, transport=cluster.transport
        )
        rebalancer = Rebalancer(
            instance, "g", AllocateAveragely(), MessageModel.CLUSTERING, Owner()
        )
        assert await rebalancer.rebalance(["%RETRY%g"])
        assert not await rebalancer.rebalance(["T"])

    run_virtual(main(), cluster.clock)
