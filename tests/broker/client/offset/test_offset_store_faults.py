"""Offset stores under failing disks and brokers: no offset is lost, none is sent twice."""

import asyncio
import errno
import os
from pathlib import Path
from random import Random

import pytest

from broker.client.instance.client_instance import MQClientInstance
from broker.client.offset.offset_store import LocalFileOffsetStore, RemoteBrokerOffsetStore
from broker.common.message_queue import MessageQueue
from broker.errors import BrokerError, ClientError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from tests.support.fake_cluster import FakeBroker, FakeCluster
from tests.support.virtual_time import run_virtual

QUEUES = [MessageQueue("T", "broker-a", number) for number in range(4)]
COMMIT = RequestCode.UPDATE_CONSUMER_OFFSET


def store_in(folder: Path) -> LocalFileOffsetStore:
    store = LocalFileOffsetStore(str(folder), "c", "g")
    store.load()
    return store


def persist(store: LocalFileOffsetStore) -> None:
    asyncio.run(store.persist(QUEUES))


def remote_store(cluster: FakeCluster) -> RemoteBrokerOffsetStore:
    instance = MQClientInstance(cluster.config(), clock=cluster.clock, transport=cluster.transport)
    return RemoteBrokerOffsetStore(instance, "g")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_offsets_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, number: int
) -> None:
    store = store_in(tmp_path)
    for offset in (1, 2):
        store.table.update(QUEUES[0], offset)
        persist(store)
    store.table.update(QUEUES[0], 3)

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, failing, refuse)
        with pytest.raises(OSError, match=os.strerror(number)):
            persist(store)
    assert store_in(tmp_path).table.get(QUEUES[0]) == 2
    persist(store)
    assert store_in(tmp_path).table.get(QUEUES[0]) == 3


def test_a_stop_between_the_two_renames_loses_one_write_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_in(tmp_path)
    store.table.update(QUEUES[0], 1)
    persist(store)
    store.table.update(QUEUES[0], 2)
    done: list[str] = []
    replace = os.replace

    def stop_at_the_second(source: str, target: str) -> None:
        if done:
            raise KeyboardInterrupt
        done.append(source)
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", stop_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            persist(store)
    assert not Path(store.path).exists()
    assert store_in(tmp_path).table.get(QUEUES[0]) == 1


def test_an_unreadable_file_is_named_with_the_cause(tmp_path: Path) -> None:
    store = LocalFileOffsetStore(str(tmp_path), "c", "g")
    Path(store.path).mkdir(parents=True)
    with pytest.raises(ClientError, match="cannot be read") as caught:
        store.load()
    assert store.path in caught.value.message
    assert "repair or remove" in caught.value.hint


@pytest.mark.parametrize("text", [b"[]", b"{", b'{"offsetTable":7}', b"\xff\xfe", b'"x"'])
def test_a_file_of_other_content_is_refused_when_no_backup_is_left(
    tmp_path: Path, text: bytes
) -> None:
    store = LocalFileOffsetStore(str(tmp_path), "c", "g")
    Path(store.path).parent.mkdir(parents=True)
    Path(store.path).write_bytes(text)
    with pytest.raises(ClientError, match=r"offsets\.json"):
        store.load()


def test_the_default_folder_is_that_of_the_java_client() -> None:
    store = LocalFileOffsetStore("", "10.0.0.1@DEFAULT", "g")
    home = os.path.expanduser("~")
    assert store.path == f"{home}/.rocketmq_offsets/10.0.0.1@DEFAULT/g/offsets.json"


def test_brokers_hold_the_latest_offset_after_any_failures(rng: Random) -> None:
    """A model: the broker refuses at random; after one round without refusals it has everything."""
    cluster = FakeCluster()
    cluster.create("T")
    broker = cluster.brokers["broker-a"]

    async def main() -> None:
        store = remote_store(cluster)
        model: dict[MessageQueue, int] = {}
        for _ in range(100):
            queue = rng.choice(QUEUES)
            model[queue] = rng.randrange(1_000)
            store.table.update(queue, model[queue])
            if rng.random() < 0.4:
                broker.scripts[COMMIT] = lambda command: response(
                    command, ResponseCode.SYSTEM_ERROR, "sick"
                )
            await store.persist(QUEUES)
            broker.scripts.pop(COMMIT, None)
        await store.persist(QUEUES)
        assert {queue: broker.offsets["g", queue] for queue in model} == model

    run_virtual(main(), cluster.clock)


def test_an_offset_that_the_broker_confirmed_is_not_sent_again() -> None:
    cluster = FakeCluster()
    cluster.create("T")
    broker = cluster.brokers["broker-a"]

    async def main() -> None:
        store = remote_store(cluster)
        store.table.update(QUEUES[0], 5)
        for _ in range(3):
            await store.persist(QUEUES)
        assert broker.codes().count(COMMIT) == 1

    run_virtual(main(), cluster.clock)


class SeveralThreads:
    """Commits as a Java broker executes them, in several threads: each may take its time.

    The first ones of a group and topic each put a new table of the queues in place: the last one
    replaces those of the others.
    """

    def __init__(self, broker: FakeBroker, *, slow: MessageQueue, slow_s: float = 1.0) -> None:
        self.broker = broker
        self.slow = slow
        self.slow_s = slow_s
        broker.scripts[COMMIT] = self.commit

    async def commit(self, command: RemotingCommand) -> RemotingCommand:
        fields = command.ext_fields
        group, topic = fields["consumerGroup"], fields["topic"]
        queue = MessageQueue(topic, self.broker.name, int(fields["queueId"]))
        is_first = not self._table(group, topic)
        await asyncio.sleep(self.slow_s if queue == self.slow else 0.001)
        for one in self._table(group, topic) if is_first else ():
            del self.broker.offsets[group, one]
        self.broker.offsets[group, queue] = int(fields["commitOffset"])
        return response(command)

    def _table(self, group: str, topic: str) -> list[MessageQueue]:
        return [
            queue for owner, queue in self.broker.offsets if owner == group and queue.topic == topic
        ]


def test_the_first_commits_of_a_topic_do_not_replace_each_other() -> None:
    """Java's ConsumerOffsetManager: a commit that was read back was lost afterwards."""
    cluster = FakeCluster()
    cluster.create("T")
    broker = cluster.brokers["broker-a"]

    async def main() -> None:
        store = remote_store(cluster)
        SeveralThreads(broker, slow=QUEUES[1])
        for queue in QUEUES:
            store.table.update(queue, 32)
        await store.persist(QUEUES)
        assert broker.offsets == {("g", queue): 32 for queue in QUEUES}

    run_virtual(main(), cluster.clock)


def test_offsets_are_read_back_after_the_commits_of_an_earlier_round() -> None:
    """A broker may execute the commit of a periodic round after the last one."""
    cluster = FakeCluster()
    cluster.create("T")
    broker = cluster.brokers["broker-a"]

    async def main() -> None:
        store = remote_store(cluster)
        threads = SeveralThreads(broker, slow=QUEUES[0])
        store.table.update(QUEUES[0], 3)
        periodic = asyncio.ensure_future(store.persist(QUEUES))
        await asyncio.sleep(0.1)
        threads.slow_s = 0.01
        store.table.update(QUEUES[0], 5)
        await store.release(QUEUES)
        await periodic
        assert broker.offsets == {("g", QUEUES[0]): 5}

    run_virtual(main(), cluster.clock)


def test_a_round_sends_no_offset_that_another_one_has_replaced() -> None:
    """Of many queues the last ones wait for their turn, in which their offsets change."""
    cluster = FakeCluster()
    cluster.create("T")
    broker = cluster.brokers["broker-a"]
    many = [MessageQueue("T", "broker-a", number) for number in range(100)]

    async def main() -> None:
        store = remote_store(cluster)
        for queue in many:
            store.table.update(queue, 3)
        periodic = asyncio.ensure_future(store.persist(many))
        broker.latency_s = 1.0
        await asyncio.sleep(0.1)
        store.table.update(many[-1], 5)
        broker.latency_s = 0.1
        await store.release(many[-1:])
        await periodic
        assert broker.offsets["g", many[-1]] == 5

    run_virtual(main(), cluster.clock)


def test_a_released_queue_is_committed_even_if_its_offset_was_confirmed() -> None:
    """A pull that carried an earlier offset may have been executed since."""
    cluster = FakeCluster()
    cluster.create("T")
    broker = cluster.brokers["broker-a"]

    async def main() -> None:
        store = remote_store(cluster)
        store.table.update(QUEUES[0], 5)
        await store.persist(QUEUES)
        broker.offsets["g", QUEUES[0]] = 3
        await store.release(QUEUES)
        assert broker.offsets == {("g", QUEUES[0]): 5}

    run_virtual(main(), cluster.clock)


def test_a_queue_that_was_only_taken_over_is_not_committed() -> None:
    """Its former owner may have committed more since its offset was read."""
    cluster = FakeCluster()
    cluster.create("T")
    broker = cluster.brokers["broker-a"]

    async def main() -> None:
        store = remote_store(cluster)
        broker.offsets["g", QUEUES[0]] = 10
        assert await store.resume(QUEUES[0]) == 10
        assert store.offset_of_pull(QUEUES[0]) == 0
        broker.offsets["g", QUEUES[0]] = 20
        await store.persist(QUEUES)
        await store.release(QUEUES)
        assert broker.offsets == {("g", QUEUES[0]): 20}
        assert await store.resume(QUEUES[0]) == 20
        store.table.update(QUEUES[0], 21)
        assert store.offset_of_pull(QUEUES[0]) == 21
        await store.release(QUEUES)
        assert broker.offsets == {("g", QUEUES[0]): 21}

    run_virtual(main(), cluster.clock)


@pytest.mark.parametrize("changed", [False, True])
def test_a_lower_commit_of_the_former_owner_is_replaced(changed: bool) -> None:
    """A queue returns to a member that has committed more, before the one between gave it up."""
    cluster = FakeCluster()
    cluster.create("T")
    broker = cluster.brokers["broker-a"]

    async def main() -> None:
        store = remote_store(cluster)
        broker.offsets["g", QUEUES[0]] = 20
        assert await store.resume(QUEUES[0]) == 20
        if changed:
            store.table.update(QUEUES[0], 21)
            await store.persist(QUEUES)
        broker.offsets["g", QUEUES[0]] = 10
        await store.persist(QUEUES)
        assert broker.offsets == {("g", QUEUES[0]): 21 if changed else 20}
        await asyncio.sleep(120)
        before = len(broker.calls)
        await store.persist(QUEUES)  # no other member has the queue any more
        assert len(broker.calls) == before

    run_virtual(main(), cluster.clock)


def test_offset_0_of_a_queue_that_was_taken_over_is_committed() -> None:
    """A Java broker also answers it for a queue without offset: a later start would be another."""
    cluster = FakeCluster()
    cluster.create("T")
    broker = cluster.brokers["broker-a"]

    async def main() -> None:
        store = remote_store(cluster)
        broker.offsets["g", QUEUES[0]] = 0
        assert await store.resume(QUEUES[0]) == 0
        broker.offsets.clear()
        await store.release(QUEUES)
        assert broker.offsets == {("g", QUEUES[0]): 0}

    run_virtual(main(), cluster.clock)


def test_a_hung_broker_delays_a_persist_once_and_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = FakeCluster(brokers=2)
    cluster.create("T")
    hung, running = cluster.brokers["broker-a"], cluster.brokers["broker-b"]
    other = MessageQueue("T", "broker-b", 0)
    many = [MessageQueue("T", "broker-a", number) for number in range(200)]

    async def main() -> None:
        store = remote_store(cluster)
        for queue in (*many, other):
            store.table.update(queue, 5)
        assert await store.read(other) is None
        hung.state = "hung"
        began_s = cluster.now_s()
        await store.persist([*many, other])
        assert cluster.now_s() - began_s < 6.1
        assert running.offsets == {("g", other): 5}
        (line,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
        assert all(str(queue) in line for queue in many)
        hung.state = "up"
        await store.persist([*many, other])
        assert hung.offsets == {("g", queue): 5 for queue in many}
        assert running.codes().count(COMMIT) == 1

    run_virtual(main(), cluster.clock)


def test_a_released_queue_is_committed_again_when_it_returns() -> None:
    """Its offset at the broker may have changed meanwhile."""
    cluster = FakeCluster()
    cluster.create("T")
    broker = cluster.brokers["broker-a"]

    async def main() -> None:
        store = remote_store(cluster)
        store.table.update(QUEUES[0], 5)
        await store.release(QUEUES[:1])
        assert broker.offsets["g", QUEUES[0]] == 5
        assert store.table.get(QUEUES[0]) is None
        broker.offsets["g", QUEUES[0]] = 9  # another member
        store.table.update(QUEUES[0], 5)
        await store.persist(QUEUES)
        assert broker.offsets["g", QUEUES[0]] == 5

    run_virtual(main(), cluster.clock)


def test_a_released_queue_is_committed_once() -> None:
    cluster = FakeCluster()
    cluster.create("T")
    broker = cluster.brokers["broker-a"]

    async def main() -> None:
        store = remote_store(cluster)
        for queue in QUEUES:
            store.table.update(queue, 5)
        broker.scripts[COMMIT] = lambda command: response(
            command, ResponseCode.SYSTEM_ERROR, "sick"
        )
        await store.release(QUEUES)
        for queue in QUEUES:
            await store.release([queue])
        assert broker.codes().count(COMMIT) == len(QUEUES)

    run_virtual(main(), cluster.clock)


@pytest.mark.parametrize(
    "code", [ResponseCode.SYSTEM_ERROR, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST]
)
def test_a_refused_read_is_an_error_and_not_a_missing_offset(code: int) -> None:
    """Taken for "no offset", the queue would start at its end: messages would be skipped."""
    cluster = FakeCluster()
    cluster.create("T")
    cluster.brokers["broker-a"].scripts[RequestCode.QUERY_CONSUMER_OFFSET] = lambda command: (
        response(command, code, "sick")
    )

    async def main() -> None:
        with pytest.raises(BrokerError, match="sick"):
            await remote_store(cluster).read(QUEUES[0])

    run_virtual(main(), cluster.clock)
