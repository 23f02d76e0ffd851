"""The whole broker over real sockets: start, serve, tell, stop, start again."""

import asyncio
import socket
from pathlib import Path

import pytest

from broker.common.subscription import build_subscription
from broker.errors import ConnectError, StoreLockedError
from broker.message.properties import encode_properties
from broker.remoting.client import RemotingClient
from broker.remoting.protocol.body.connection import GetConsumerListByGroupResponseBody
from broker.remoting.protocol.body.heartbeat import ConsumerData, HeartbeatData, ProducerData
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import request
from broker.server.controller import BrokerController, _with_vip, report_recovery
from broker.server.settings import Settings
from broker.store.results import FoundDamage, RecoveryReport

ANY = [("127.0.0.1", 0)]


class Peer:
    """A client of the broker under test; ``told`` holds what the broker said unasked."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.told: asyncio.Queue = asyncio.Queue()
        self.client = RemotingClient({RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._note})

    def _note(self, connection, command):
        self.told.put_nowait(command)

    async def ask(self, code, ext=None, body=b"", timeout_ms=10_000):
        fields = {name: str(value) for name, value in (ext or {}).items()}
        return await self.client.call(self.address, request(code, fields, body), timeout_ms)

    async def send(self, topic="Orders", body=b"hello", queue_id=0, **properties):
        given = {"UNIQ_KEY": "AC11000100012A139A5518B4AAC20000", **properties}
        ext = {
            "a": "P1",
            "b": topic,
            "c": "TBW102",
            "d": 4,
            "e": queue_id,
            "f": 0,
            "g": 1,
            "h": 0,
            "i": encode_properties(given).decode(),
        }
        answer = await self.ask(RequestCode.SEND_MESSAGE_V2, ext, body)
        assert answer.code == 0, answer.remark
        return answer

    def pull(self, topic="Orders", queue_offset=0, suspend_ms=0):
        ext = {
            "consumerGroup": "G1",
            "topic": topic,
            "queueId": 0,
            "queueOffset": queue_offset,
            "maxMsgNums": 32,
            "sysFlag": 6,
            "commitOffset": 0,
            "suspendTimeoutMillis": suspend_ms,
            "subscription": "*",
            "subVersion": 0,
        }
        return self.ask(RequestCode.PULL_MESSAGE, ext)

    async def heartbeat(self, client_id="c1", groups=("G1",), producers=()):
        data = HeartbeatData(
            client_id=client_id,
            consumer_data_set=[
                ConsumerData(
                    group_name=group,
                    message_model="CLUSTERING",
                    subscription_data_set=[build_subscription("Orders", "*", sub_version=1)],
                )
                for group in groups
            ],
            producer_data_set=[ProducerData(group_name=group) for group in producers],
        )
        answer = await self.ask(RequestCode.HEART_BEAT, body=data.to_bytes())
        assert answer.code == 0


class World:
    """A broker and its clients inside one loop."""

    def __init__(self, folder: Path, properties: dict[str, str], listen=None) -> None:
        self.settings = Settings(
            {
                "storePathRootDir": str(folder / "store"),
                "mappedFileSizeCommitLog": str(1 << 20),
                "maxHashSlotNum": "1000",
                "maxIndexNum": "4000",
                **properties,
            }
        )
        self.controller = BrokerController(self.settings, listen=listen or ANY)
        self.peers: list[Peer] = []

    def peer(self) -> Peer:
        self.peers.append(Peer(self.controller.addresses[0]))
        return self.peers[-1]

    async def __aenter__(self) -> "World":
        await self.controller.start()
        return self

    async def __aexit__(self, *failure: object) -> None:
        for peer in self.peers:
            await peer.client.close()
        await self.controller.close()
        assert not (Path(self.settings.store.root) / "abort").exists()


@pytest.fixture
def world(tmp_path):
    """``world(key=value)``: a broker on a free port, on the same store each time."""

    def make(listen=None, **properties: str) -> World:
        return World(tmp_path, properties, listen)

    return make


def test_messages_offsets_and_topics_outlive_a_restart(world) -> None:
    async def first() -> None:
        async with world() as it:
            peer = it.peer()
            await peer.heartbeat()
            for _ in range(3):
                await peer.send()
            ext = {"consumerGroup": "G1", "topic": "Orders", "queueId": 0, "commitOffset": 2}
            assert (await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext)).code == 0

    async def second() -> None:
        async with world() as it:
            peer = it.peer()
            answer = await peer.pull()
            assert answer.ext_fields["maxOffset"] == "3"
            ext = {"consumerGroup": "G1", "topic": "Orders", "queueId": 0}
            answer = await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, ext)
            assert answer.ext_fields["offset"] == "2"
            assert "%RETRY%G1" in it.controller.context.topics

    asyncio.run(first())
    asyncio.run(second())


def test_parked_pull_is_answered_on_arrival(world) -> None:
    async def run() -> None:
        async with world() as it:
            consumer, producer = it.peer(), it.peer()
            await producer.send()
            waiting = asyncio.create_task(consumer.pull(queue_offset=1, suspend_ms=30_000))
            while not len(it.controller.context.holds):
                await asyncio.sleep(0)
            await producer.send(body=b"second")
            answer = await asyncio.wait_for(waiting, 10)
            assert (answer.code, answer.ext_fields["nextBeginOffset"]) == (0, "2")

    asyncio.run(run())


def test_parked_pull_is_answered_at_its_deadline(world) -> None:
    async def run() -> None:
        async with world() as it:
            peer = it.peer()
            await peer.send()
            answer = await asyncio.wait_for(peer.pull(queue_offset=1, suspend_ms=30), 10)
            assert answer.code == ResponseCode.PULL_NOT_FOUND
            assert len(it.controller.context.holds) == 0

    asyncio.run(run())


def test_short_hold_is_not_kept_waiting_by_a_long_one(world) -> None:
    async def run() -> None:
        async with world() as it:
            peer = it.peer()
            await peer.send()
            long = asyncio.create_task(peer.pull(queue_offset=1, suspend_ms=60_000))
            while not len(it.controller.context.holds):
                await asyncio.sleep(0)
            answer = await asyncio.wait_for(peer.pull(queue_offset=1, suspend_ms=30), 10)
            assert answer.code == ResponseCode.PULL_NOT_FOUND
            assert len(it.controller.context.holds) == 1
            long.cancel()

    asyncio.run(run())


def test_parked_pull_is_answered_at_a_stop(world) -> None:
    async def run() -> None:
        async with world() as it:
            peer = it.peer()
            await peer.send()
            waiting = asyncio.create_task(peer.pull(queue_offset=1, suspend_ms=60_000))
            while not len(it.controller.context.holds):
                await asyncio.sleep(0)
            await it.controller.close()
            answer = await asyncio.wait_for(waiting, 10)
            assert answer.code == ResponseCode.PULL_NOT_FOUND

    asyncio.run(run())


def test_delayed_message_arrives(world) -> None:
    async def run() -> None:
        async with world(messageDelayLevel="1s") as it:
            peer = it.peer()
            await peer.send(topic="Orders", body=b"first")
            await peer.send(topic="Orders", body=b"later", DELAY="1")
            answer = await asyncio.wait_for(peer.pull(queue_offset=1, suspend_ms=30_000), 20)
            assert answer.code == 0
            assert b"later" in answer.body_bytes()

    asyncio.run(run())


def test_members_hear_of_a_lost_connection(world) -> None:
    async def run() -> None:
        async with world() as it:
            first, second = it.peer(), it.peer()
            await first.heartbeat("c1", producers=["P1"])
            await second.heartbeat("c2")
            for _ in range(2):  # its own arrival and the other's
                await asyncio.wait_for(first.told.get(), 10)
            await second.client.close()
            notice = await asyncio.wait_for(first.told.get(), 10)
            assert notice.ext_fields == {"consumerGroup": "G1"}
            answer = await first.ask(
                RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "G1"}
            )
            body = GetConsumerListByGroupResponseBody.from_bytes(answer.body_bytes())
            assert body.consumer_id_list == ["c1"]
            await first.client.close()
            while it.controller.context.producers.groups():
                await asyncio.sleep(0)

    asyncio.run(run())


def test_sync_flush_answers_after_the_disk(world) -> None:
    async def run() -> None:
        async with world(flushDiskType="SYNC_FLUSH") as it:
            peers = [it.peer() for _ in range(4)]
            await peers[0].send()
            answers = await asyncio.gather(*(peer.send() for peer in peers for _ in range(5)))
            offsets = sorted(int(answer.ext_fields["queueOffset"]) for answer in answers)
            assert offsets == list(range(1, 21))
            store = it.controller.store
            assert store.flushed_where == store.max_physical_offset

    asyncio.run(run())


def test_unknown_code_is_not_supported(world) -> None:
    async def run() -> None:
        async with world() as it:
            for code in (RequestCode.END_TRANSACTION, RequestCode.POP_MESSAGE, 9999):
                answer = await it.peer().ask(code)
                assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
                assert str(code) in answer.remark

    asyncio.run(run())


def test_only_this_machine_may_reconfigure_unless_allowed(world) -> None:
    ext = {
        "topic": "Orders",
        "defaultTopic": "TBW102",
        "readQueueNums": 1,
        "writeQueueNums": 1,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
    }

    async def run() -> None:
        async with world() as it:
            peer = it.peer()
            await peer.send()
            for connection in it.controller.context.server.connections:
                connection.is_loopback = False
            code = RequestCode.UPDATE_AND_CREATE_TOPIC
            assert (await peer.ask(code, ext)).code == ResponseCode.NO_PERMISSION
            await peer.send()
            local = it.peer()
            changed = await local.ask(
                RequestCode.UPDATE_BROKER_CONFIG, body=b"allowRemoteAdmin=true"
            )
            assert changed.code == 0
            assert (await peer.ask(code, ext)).code == 0

    asyncio.run(run())


def test_error_in_a_handler_is_an_answer(world) -> None:
    async def run() -> None:
        async with world() as it:
            answer = await it.peer().ask(RequestCode.PULL_MESSAGE, {"topic": "Orders"})
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "consumerGroup" in answer.remark

    asyncio.run(run())


def test_address_taken_is_an_error_and_frees_the_store(world) -> None:
    async def run() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            it = world(listen=[("127.0.0.1", taken.getsockname()[1])])
            with pytest.raises(ConnectError):
                await it.controller.start()
            await it.controller.close()
        async with world():
            pass

    asyncio.run(run())


def test_store_in_use_is_an_error(world) -> None:
    async def run() -> None:
        async with world():
            with pytest.raises(StoreLockedError):
                await world().controller.start()

    asyncio.run(run())


def test_address_announced_is_the_one_bound_or_the_one_said(world) -> None:
    async def run() -> None:
        async with world() as it:
            context = it.controller.context
            assert context.address == it.controller.addresses[0]
            answer = await it.peer().send()
            port = int(context.address.rpartition(":")[2])
            assert answer.ext_fields["msgId"].startswith(f"7F000001{port:08X}")
        async with world(brokerIP1="10.1.2.3") as it:
            assert it.controller.context.address.startswith("10.1.2.3:")

    asyncio.run(run())


def test_what_recovery_found_is_said(caplog) -> None:
    caplog.set_level("INFO")
    report_recovery(RecoveryReport())
    assert caplog.records == []
    damage = FoundDamage(
        path="commitlog/0", physical_offset=5, length=7, reason="torn", action="cut"
    )
    report_recovery(
        RecoveryReport(
            clean=False,
            scanned_bytes=99,
            damages=[damage],
            removed_files=["index/1"],
            rebuilt_queues=["T/0"],
            notes=["sizes differ"],
        )
    )
    text = "\n".join(record.getMessage() for record in caplog.records)
    for part in ("not stopped cleanly", "99 bytes", "commitlog/0", "torn", "index/1", "T/0"):
        assert part in text
    assert "sizes differ" in text


def test_port_two_below_is_served_too() -> None:
    assert _with_vip([("127.0.0.1", 10911)]) == [("127.0.0.1", 10911), ("127.0.0.1", 10909)]
    assert _with_vip([("127.0.0.1", 0)]) == [("127.0.0.1", 0)]


def test_periodic_work_writes_offsets_and_drops_silent_clients(world) -> None:
    """The tick is called by hand: nothing waits for real seconds."""

    async def run() -> None:
        async with world(flushConsumerOffsetInterval="1", channelExpiredTimeout="-1") as it:
            peer = it.peer()
            await peer.heartbeat("c1", producers=["P1"])
            context = it.controller.context
            context.offsets.commit("G1", "Orders", 0, 1)
            it.controller._due.update(dict.fromkeys(("progress", "clients", "stats"), 0))
            await asyncio.sleep(0.002)  # the heartbeat must be older than "now"
            it.controller._tick_timer.cancel()
            it.controller._tick()
            await it.controller._writing
            assert not context.offsets.changed
            assert context.consumers.get("G1") is None
            assert context.producers.get("P1") == []
            assert (Path(it.settings.store.root) / "config" / "consumerOffset.json").exists()

    asyncio.run(run())
