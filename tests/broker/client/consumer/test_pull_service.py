"""The pull loop: its next request after each response."""

import asyncio

from broker.common import sysflag
from broker.common.message_queue import MessageQueue
from broker.errors import SendRequestError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from tests.support.fake_cluster import FakeBroker, FakeCluster
from tests.support.group_member import Member, wait_until
from tests.support.virtual_time import run_virtual

PULL = RequestCode.PULL_MESSAGE
QUEUE = MessageQueue("T", "broker-a", 0)


def cluster_of() -> FakeCluster:
    cluster = FakeCluster()
    cluster.create("T", queues=1)
    return cluster


def pulls(broker: FakeBroker, topic: str = "T") -> list[RemotingCommand]:
    return [one for one in broker.calls if one.code == PULL and one.ext_fields["topic"] == topic]


def test_one_pull_of_a_queue_is_in_flight_and_is_repeated_at_once() -> None:
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]

    async def main() -> None:
        member = Member(cluster, "m")
        async with member.consumer:
            await wait_until(cluster, lambda: len(member.owned()) == 1)
            await asyncio.sleep(61)
            assert 4 <= len(pulls(broker)) <= 6  # each is suspended for 15 s
            fields = pulls(broker)[0].ext_fields
            assert fields["suspendTimeoutMillis"] == "15000"
            assert int(fields["sysFlag"]) == sysflag.PULL_SUSPEND

    run_virtual(main(), cluster.clock)


def test_pulls_carry_an_offset_to_commit_until_it_is_confirmed() -> None:
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]

    async def main() -> None:
        member = Member(cluster, "m")
        async with member.consumer:
            broker.store(QUEUE, b"x")
            await wait_until(cluster, lambda: len(member.got) == 1)
            broker.store(QUEUE, b"y")
            await wait_until(cluster, lambda: len(member.got) == 2)
            fields = pulls(broker)[-1].ext_fields
            assert int(fields["sysFlag"]) & sysflag.PULL_COMMIT_OFFSET
            assert fields["commitOffset"] == "1"
            await wait_until(cluster, lambda: broker.offsets.get(("g", QUEUE)) == 2)
            await asyncio.sleep(20)
            fields = pulls(broker)[-1].ext_fields
            assert int(fields["sysFlag"]) == sysflag.PULL_SUSPEND

    run_virtual(main(), cluster.clock)


def test_pauses_after_errors() -> None:
    for answer, per_second in (
        (ResponseCode.FLOW_CONTROL, 50),
        (ResponseCode.SYSTEM_ERROR, 1),
        (None, 1),
    ):
        cluster = cluster_of()
        broker = cluster.brokers["broker-a"]

        def fail(
            command: RemotingCommand, answer: int | None = answer
        ) -> RemotingCommand | SendRequestError:
            if answer is None:
                return SendRequestError("broken")
            return response(command, answer, "scripted")

        broker.scripts[PULL] = fail

        async def main(
            cluster: FakeCluster = cluster, broker: FakeBroker = broker, rate: int = per_second
        ) -> None:
            member = Member(cluster, "m")
            async with member.consumer:
                await wait_until(cluster, lambda: len(member.owned()) == 1)
                before = len(pulls(broker))
                await asyncio.sleep(10)
                assert 0.8 * rate * 10 <= len(pulls(broker)) - before <= 1.1 * rate * 10 + 1

        run_virtual(main(), cluster.clock)


def test_a_suggested_slave_is_asked_next() -> None:
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]

    def suggest(command: RemotingCommand) -> RemotingCommand:
        ext = dict.fromkeys(("nextBeginOffset", "minOffset", "maxOffset"), "0")
        return response(
            command, ResponseCode.PULL_NOT_FOUND, ext={**ext, "suggestWhichBrokerId": "1"}
        )

    broker.scripts[PULL] = suggest

    async def main() -> None:
        member = Member(cluster, "m", pull_interval_ms=100)
        member.consumer.suspend()
        async with member.consumer:
            service = member.consumer.running_parts()
            await member.consumer.announce()
            await service.pulls.pull(QUEUE, 0)
            assert service.pulls.suggested_broker_ids[QUEUE] == 1

    run_virtual(main(), cluster.clock)


def test_the_offset_follows_filtered_messages_while_nothing_is_cached() -> None:
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]
    for _ in range(50):
        broker.store(QUEUE, b"x", b"TAGS\x01other\x02")

    async def main() -> None:
        member = Member(cluster, "m")
        member.consumer.subscribe("T", "A")
        async with member.consumer:
            await wait_until(cluster, lambda: member.consumer.offsets.table.get(QUEUE) == 50, 5)
        assert broker.offsets["g", QUEUE] == 50
        assert member.got == []

    run_virtual(main(), cluster.clock)


def test_a_broker_that_forgot_the_group_gets_a_heartbeat_at_once() -> None:
    """A broker that was restarted answers 24 until it gets a heartbeat, which is due in 30 s."""
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]

    def forgotten(command: RemotingCommand) -> RemotingCommand:
        return response(command, ResponseCode.SUBSCRIPTION_NOT_EXIST, "no group")

    async def main() -> None:
        member = Member(cluster, "m")
        async with member.consumer:
            await wait_until(cluster, lambda: len(member.owned()) == 1)
            await asyncio.sleep(5)
            before = broker.codes().count(RequestCode.HEART_BEAT)
            broker.scripts[PULL] = forgotten
            broker.store(QUEUE, b"x")
            await wait_until(
                cluster, lambda: broker.codes().count(RequestCode.HEART_BEAT) > before, 15
            )
            del broker.scripts[PULL]
            await wait_until(cluster, lambda: len(member.got) == 1, 3)

    run_virtual(main(), cluster.clock)
