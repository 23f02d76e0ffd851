"""The pull loop under failures: brokers without address, defects, limits, the end of the loop."""

import asyncio
import logging
from typing import Any

import pytest

from broker.client.config import MessageModel
from broker.client.consumer.flow_control import FlowReason
from broker.client.consumer.process_queue import ProcessQueue
from broker.client.results import PullStatus
from broker.common.message_queue import MessageQueue
from broker.errors import ClientError
from broker.message.message import MessageExt
from broker.message.record import encode_record
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from tests.support.fake_cluster import FakeBroker, FakeCluster
from tests.support.group_member import Member, wait_until
from tests.support.virtual_time import run_virtual

PULL = RequestCode.PULL_MESSAGE
QUEUE = MessageQueue("T", "broker-a", 0)


def cluster_of(messages: int = 0, queues: int = 1) -> FakeCluster:
    cluster = FakeCluster()
    cluster.create("T", queues=queues)
    for number in range(messages):
        queue = MessageQueue("T", "broker-a", number % queues)
        cluster.brokers["broker-a"].store(queue, b"%03d" % number)
    return cluster


def pulls(broker: FakeBroker) -> list[RemotingCommand]:
    return [one for one in broker.calls if one.code == PULL and one.ext_fields["topic"] == "T"]


def run(cluster: FakeCluster, work: Any, **options: Any) -> None:
    async def main() -> None:
        member = Member(cluster, "m", **options)
        async with member.consumer:
            await wait_until(cluster, lambda: bool(member.owned()))
            await work(member)

    run_virtual(main(), cluster.clock)


def found(body: bytes, **ext: str) -> RemotingCommand:
    bounds = {"suggestWhichBrokerId": "0", "nextBeginOffset": "0", "minOffset": "0"}
    answer = RemotingCommand(ResponseCode.SUCCESS, flag=1, ext_fields={**bounds, **ext})
    answer.body = body
    return answer


# ---- one pull


def test_a_pull_of_an_unknown_broker_or_topic_is_an_error() -> None:
    cluster = cluster_of()

    async def work(member: Member) -> None:
        service = member.consumer.running_parts().pulls
        with pytest.raises(ClientError, match="broker broker-z of topic T has no address"):
            await service.pull(MessageQueue("T", "broker-z", 0), 0)
        with pytest.raises(ClientError, match="topic U is not subscribed"):
            await service.pull(MessageQueue("U", "broker-a", 0), 0)

    run(cluster, work)


def test_messages_before_the_requested_offset_are_not_delivered() -> None:
    """A BatchCQ broker returns the whole inner batch that contains the offset."""
    cluster = cluster_of()
    records = b"".join(
        encode_record(MessageExt("T", b"%d" % number, queue_offset=number)) for number in range(6)
    )

    async def work(member: Member) -> None:
        broker = cluster.brokers["broker-a"]
        broker.scripts[PULL] = lambda command: response(
            command,
            ext={
                "suggestWhichBrokerId": "0",
                "nextBeginOffset": "6",
                "minOffset": "0",
                "maxOffset": "6",
            },
            body=records,
        )
        result = await member.consumer.running_parts().pulls.pull(QUEUE, 4)
        assert result.status is PullStatus.FOUND
        assert [one.queue_offset for one in result.messages] == [4, 5]
        assert [one.get_property("MAX_OFFSET") for one in result.messages] == ["6", "6"]
        assert (result.next_begin_offset, result.min_offset, result.max_offset) == (6, 0, 6)
        member.consumer.suspend()

    run(cluster, work)


@pytest.mark.parametrize("body", [b"\0", b"\xff" * 100, b"\0\0\0\x10" + bytes(12)])
def test_a_body_that_is_not_a_row_of_records_pauses_the_queue_and_loses_nothing(
    body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = cluster_of(messages=5)
    broker = cluster.brokers["broker-a"]
    ext = {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": "5",
        "minOffset": "0",
        "maxOffset": "5",
    }
    broker.scripts[PULL] = lambda command: response(command, ext=ext, body=body)

    async def work(member: Member) -> None:
        await asyncio.sleep(10)
        assert member.got == []
        assert 8 <= len(pulls(broker)) <= 12  # once per second
        del broker.scripts[PULL]
        await wait_until(cluster, lambda: len(member.got) == 5, 5)

    with caplog.at_level(logging.WARNING):
        run(cluster, work)
    assert "pull of" in caplog.text


def test_a_defect_of_the_consumer_pauses_the_queue_and_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = cluster_of(messages=5)

    async def work(member: Member) -> None:
        def broken(*_: object) -> None:
            raise RuntimeError("a defect")

        with monkeypatch.context() as patched:
            patched.setattr(member.consumer, "deliver", broken)
            broker = cluster.brokers["broker-a"]
            broker.store(QUEUE, b"more")
            await asyncio.sleep(5)
            before = len(pulls(broker))
            await asyncio.sleep(10)
            assert len(pulls(broker)) - before <= 11
        assert "a defect" in caplog.text

    with caplog.at_level(logging.ERROR):
        run(cluster, work)


def test_a_failed_pull_forgets_the_suggested_slave() -> None:
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]

    async def work(member: Member) -> None:
        service = member.consumer.running_parts().pulls
        service.suggested_broker_ids[QUEUE] = 1
        broker.scripts[PULL] = lambda command: response(command, ResponseCode.SYSTEM_ERROR, "sick")
        broker.store(QUEUE, b"x")
        await asyncio.sleep(5)
        assert QUEUE not in service.suggested_broker_ids

    run(cluster, work)


def test_two_queues_that_were_forgotten_announce_the_group_once() -> None:
    cluster = cluster_of(queues=4)
    broker = cluster.brokers["broker-a"]

    async def work(member: Member) -> None:
        await asyncio.sleep(5)
        broker.scripts[PULL] = lambda command: response(
            command, ResponseCode.SUBSCRIPTION_NOT_EXIST, "no group"
        )
        before = broker.codes().count(RequestCode.HEART_BEAT)
        for number in range(4):
            broker.store(MessageQueue("T", "broker-a", number), b"x")
        await wait_until(cluster, lambda: broker.codes().count(RequestCode.HEART_BEAT) > before, 20)
        await asyncio.sleep(0.5)
        assert broker.codes().count(RequestCode.HEART_BEAT) - before <= 2
        del broker.scripts[PULL]
        await wait_until(cluster, lambda: len(member.got) == 4, 5)

    run(cluster, work)


# ---- flow control


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"pull_threshold_for_queue": 4, "pull_batch_size": 4}, FlowReason.COUNT),
        ({"pull_threshold_size_for_queue": 1, "pull_batch_size": 1}, FlowReason.SIZE),
        ({"consume_concurrently_max_span": 3, "pull_batch_size": 8}, FlowReason.SPAN),
    ],
)
def test_each_limit_stops_the_pulls_and_is_counted_under_its_name(
    settings: dict[str, int], reason: FlowReason
) -> None:
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]

    async def work(member: Member) -> None:
        member.delay_s = 1_000.0  # a listener that does not end
        for number in range(40):
            broker.store(QUEUE, b"%d" % number * 1_000)
        if reason is FlowReason.SIZE:
            for _ in range(600):
                broker.store(QUEUE, bytes(4_000))
        await asyncio.sleep(10)
        before = len(pulls(broker))
        await asyncio.sleep(10)
        service = member.consumer.running_parts().pulls
        if len(pulls(broker)) == before:
            assert service.flow_controlled[reason] > 10
        assert set(service.flow_controlled) <= {reason}
        assert service.flow_controlled[reason] > 0

    run(cluster, work, await_termination_ms=0, **settings)


def test_the_limits_of_a_topic_are_divided_by_its_owned_queues() -> None:
    cluster = cluster_of(queues=4)

    async def work(member: Member) -> None:
        await wait_until(cluster, lambda: len(member.owned()) == 4)
        limits = member.consumer.running_parts().pulls.limits["T"]
        assert (limits.count, limits.size_bytes) == (25, 2 * 1024 * 1024)

    run(cluster, work, pull_threshold_for_topic=100, pull_threshold_size_for_topic=8 * 1024 * 1024)


def test_a_topic_without_subscription_is_not_pulled() -> None:
    cluster = cluster_of(messages=3)
    broker = cluster.brokers["broker-a"]

    async def work(member: Member) -> None:
        await wait_until(cluster, lambda: len(member.got) == 3)
        member.consumer.unsubscribe("T")
        await wait_until(cluster, lambda: not [one for one in member.owned() if one.topic == "T"])
        before = len(pulls(broker))
        broker.store(QUEUE, b"x")
        await asyncio.sleep(30)
        assert len(pulls(broker)) == before
        assert len(member.got) == 3

    run(cluster, work)


# ---- the end


def test_a_dropped_queue_is_not_pulled_again_and_its_answer_is_ignored() -> None:
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]

    async def work(member: Member) -> None:
        service = member.consumer.running_parts().pulls
        await asyncio.sleep(2)
        process = member.consumer.process_queues[QUEUE]
        assert process in service.loops
        process.dropped = True
        before = len(pulls(broker))
        broker.store(QUEUE, b"x")
        await asyncio.sleep(0.5)  # the next rebalance recreates the queue
        assert len(pulls(broker)) == before
        assert process not in service.loops
        assert process.count == 0
        await wait_until(cluster, lambda: member.bodies == [b"x"], 30)

    run(cluster, work)


def test_stopping_an_unknown_queue_changes_nothing() -> None:
    cluster = cluster_of(messages=2)

    async def work(member: Member) -> None:
        member.consumer.running_parts().pulls.stop(ProcessQueue(now_ms=0))
        await wait_until(cluster, lambda: len(member.got) == 2)

    run(cluster, work)


def test_a_pause_between_pulls_follows_each_answer_with_messages() -> None:
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]

    async def work(member: Member) -> None:
        for _ in range(100):
            broker.store(QUEUE, b"x")
        before = len(pulls(broker))
        await asyncio.sleep(5)
        assert 9 <= len(pulls(broker)) - before <= 12

    run(cluster, work, pull_interval_ms=500, pull_batch_size=1)


@pytest.mark.parametrize("model", list(MessageModel))
def test_an_orderly_consumer_pulls_without_a_lock_only_when_broadcasting(
    model: MessageModel, tmp_path: Any
) -> None:
    cluster = cluster_of(messages=3)
    broker = cluster.brokers["broker-a"]
    broker.locks["g", QUEUE] = "another"

    async def main() -> None:
        member = Member(cluster, "m", orderly=True, message_model=model, offset_dir=str(tmp_path))
        async with member.consumer:
            await asyncio.sleep(10)
            expected = 3 if model is MessageModel.BROADCASTING else 0
            assert len(member.got) == expected
            assert bool(pulls(broker)) is (expected > 0)

    run_virtual(main(), cluster.clock)
