"""Offsets on brokers and in the local file."""

import json
from pathlib import Path
from random import Random

import pytest

from broker.client.instance.client_instance import MQClientInstance
from broker.client.offset.offset_store import (
    LocalFileOffsetStore,
    ReadOnlyOffsetStore,
    RemoteBrokerOffsetStore,
)
from broker.common.message_queue import MessageQueue
from broker.errors import ClientError
from broker.remoting.protocol.codes import RequestCode
from tests.support.fake_cluster import FakeCluster
from tests.support.json_mutations import failures
from tests.support.virtual_time import run_virtual

QUEUES = [MessageQueue("T", "broker-a", number) for number in range(4)]


def test_offsets_reach_the_broker_of_their_queue_and_failures_are_repeated() -> None:
    cluster = FakeCluster(brokers=2)
    cluster.create("T")
    other = MessageQueue("T", "broker-b", 0)

    async def main() -> None:
        instance = MQClientInstance(
            cluster.config(), clock=cluster.clock, transport=cluster.transport
        )
        store = RemoteBrokerOffsetStore(instance, "g")
        assert await store.read(QUEUES[0]) is None
        store.table.update(QUEUES[0], 5)
        store.table.update(other, 7)
        cluster.brokers["broker-b"].kill()
        await store.persist([QUEUES[0], other, QUEUES[1]])
        assert cluster.brokers["broker-a"].offsets == {("g", QUEUES[0]): 5}
        cluster.brokers["broker-b"].start()
        await store.persist([QUEUES[0], other])
        assert cluster.brokers["broker-b"].offsets == {("g", other): 7}
        assert await store.read(QUEUES[0]) == 5
        updates = cluster.brokers["broker-a"].codes().count(RequestCode.UPDATE_CONSUMER_OFFSET)
        assert updates == 1  # unchanged offsets are not sent again

    run_virtual(main(), cluster.clock)


def test_a_commit_that_an_earlier_one_overtakes_is_sent_again() -> None:
    cluster = FakeCluster()
    cluster.create("T")
    broker = cluster.brokers["broker-a"]

    class Overtaken(dict):
        """Offsets of a broker that executes a commit of offset 3 after the first later one."""

        late = 3

        def __setitem__(self, key: object, value: int) -> None:
            late, self.late = self.late, 0
            super().__setitem__(key, late or value)

    async def main() -> None:
        instance = MQClientInstance(
            cluster.config(), clock=cluster.clock, transport=cluster.transport
        )
        store = RemoteBrokerOffsetStore(instance, "g")
        broker.offsets = Overtaken()
        store.table.update(QUEUES[0], 5)
        await store.persist(QUEUES)
        assert broker.offsets == {("g", QUEUES[0]): 5}

    run_virtual(main(), cluster.clock)


def test_a_read_only_store_reads_the_offsets_of_the_broker_and_sends_none() -> None:
    cluster = FakeCluster()
    cluster.create("T")
    broker = cluster.brokers["broker-a"]
    broker.offsets["g", QUEUES[0]] = 3

    async def main() -> None:
        instance = MQClientInstance(
            cluster.config(), clock=cluster.clock, transport=cluster.transport
        )
        store = ReadOnlyOffsetStore(instance, "g")
        assert await store.read(QUEUES[0]) == 3
        store.table.update(QUEUES[0], 9)
        await store.persist(QUEUES)
        assert store.offset_of_pull(QUEUES[0]) == 0
        assert RequestCode.UPDATE_CONSUMER_OFFSET not in broker.codes()

    run_virtual(main(), cluster.clock)


def test_an_unknown_broker_is_an_error_not_a_missing_offset() -> None:
    cluster = FakeCluster()

    async def main() -> None:
        instance = MQClientInstance(
            cluster.config(), clock=cluster.clock, transport=cluster.transport
        )
        with pytest.raises(ClientError, match="no address"):
            await RemoteBrokerOffsetStore(instance, "g").read(QUEUES[0])

    run_virtual(main(), cluster.clock)


def store_in(path: Path) -> LocalFileOffsetStore:
    store = LocalFileOffsetStore(str(path), "10.0.0.1@DEFAULT", "g")
    store.load()
    return store


def persist(store: LocalFileOffsetStore) -> None:
    import asyncio

    asyncio.run(store.persist(QUEUES))


def test_local_offsets_survive_a_restart(tmp_path: Path, rng: Random) -> None:
    model: dict[MessageQueue, int] = {}
    for _ in range(20):
        store = store_in(tmp_path)
        assert store.table.of_topic("") == model
        queue, offset = rng.choice(QUEUES), rng.randrange(1_000)
        store.table.update(queue, offset)
        model[queue] = offset
        persist(store)
    assert Path(store.path) == tmp_path / "10.0.0.1@DEFAULT" / "g" / "offsets.json"


def test_the_file_has_the_format_of_the_java_client(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.table.update(QUEUES[1], 42)
    persist(store)
    text = Path(store.path).read_text()
    assert text == '{"offsetTable":{{"brokerName":"broker-a","queueId":1,"topic":"T"}:42}}'


def test_a_damaged_file_is_replaced_by_its_backup(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for offset in (1, 2):
        store.table.update(QUEUES[0], offset)
        persist(store)
    path = Path(store.path)
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        assert store_in(tmp_path).table.get(QUEUES[0]) == 1
    path.unlink()
    assert store_in(tmp_path).table.get(QUEUES[0]) == 1


def test_two_damaged_files_are_an_error_because_starting_anywhere_could_lose(
    tmp_path: Path,
) -> None:
    store = store_in(tmp_path)
    for offset in (1, 2):
        store.table.update(QUEUES[0], offset)
        persist(store)
    Path(store.path).write_bytes(b"{")
    Path(f"{store.path}.bak").write_bytes(b"")
    with pytest.raises(ClientError, match=r"offsets\.json"):
        store_in(tmp_path)


def test_a_file_with_a_value_of_another_type_is_loaded_or_refused(tmp_path: Path) -> None:
    """A broadcasting consumer that ignores its file would start from the end of each queue."""
    path = Path(LocalFileOffsetStore(str(tmp_path), "10.0.0.1@DEFAULT", "g").path)
    path.parent.mkdir(parents=True)
    key = '{"brokerName":"broker-a","queueId":1,"topic":"T"}'

    def load(changed: object) -> None:
        path.write_text(json.dumps(changed))
        for queue, offset in store_in(tmp_path).table.of_topic("").items():
            assert isinstance(queue, MessageQueue)
            assert isinstance(offset, int)

    accepted, wrong = failures(load, {"offsetTable": {key: 5}}, ClientError)
    assert wrong == []
    assert accepted > 0


def test_every_cut_of_the_file_is_refused_or_its_backup_is_used(tmp_path: Path) -> None:
    for offset in (1, 2):
        store = store_in(tmp_path)
        store.table.update(QUEUES[0], offset)
        persist(store)
    path = Path(store.path)
    whole = path.read_bytes()
    backup = path.with_name(path.name + ".bak")
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        assert store_in(tmp_path).table.get(QUEUES[0]) == 1
    kept = backup.read_bytes()
    backup.write_bytes(b"{")
    path.write_bytes(whole[:-1])
    with pytest.raises(ClientError, match="cannot be read") as caught:
        store_in(tmp_path)
    assert str(path) in caught.value.message
    assert str(backup) in caught.value.message
    backup.write_bytes(kept)
    path.unlink()
    assert store_in(tmp_path).table.get(QUEUES[0]) == 1
