"""Where a consumer continues a queue."""

from broker.client.config import ConsumerConfig
from broker.client.consumer.position import move_offset, notify_queues_changed, resume_offset
from broker.client.offset.start_offset import ConsumeFromWhere
from broker.common.message_queue import MessageQueue
from tests.support.fake_cluster import FakeCluster
from tests.support.group_member import Member, wait_until
from tests.support.virtual_time import run_virtual

QUEUE = MessageQueue("T", "broker-a", 0)


def test_the_stored_offset_counts_else_the_configured_start_and_a_move_is_committed() -> None:
    cluster = FakeCluster()
    cluster.create("T", queues=1)
    broker = cluster.brokers["broker-a"]
    for _ in range(9):
        broker.store(QUEUE, b"x")
    config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET)

    async def main() -> None:
        member = Member(cluster, "m")
        await member.instance.routes.refresh_all(["T"])
        async with member.consumer as consumer:
            await wait_until(cluster, lambda: len(member.owned()) == 1)
            parts = consumer.running_parts()
            offsets = parts.offsets
            broker.offsets.clear()
            assert await resume_offset(member.instance, offsets, config, QUEUE, 0) == 9
            broker.offsets["g", QUEUE] = 4
            assert await resume_offset(member.instance, offsets, config, QUEUE, 0) == 4
            await move_offset(member.instance, offsets, parts.rebalancer, QUEUE, 2)
            assert broker.offsets["g", QUEUE] == 2
            await wait_until(cluster, lambda: len(member.got) == 9 + 7)

    run_virtual(main(), cluster.clock)


def test_a_failing_queue_listener_does_not_keep_others_from_being_called() -> None:
    called: list[str] = []

    def fails(topic: str, queues: object, own: object) -> None:
        raise ValueError

    notify_queues_changed([fails, lambda topic, *_: called.append(topic)], "T", [QUEUE], [])
    assert called == ["T"]
