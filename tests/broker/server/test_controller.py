"""The whole broker over real sockets: start, serve, notify, stop, restart."""

import asyncio
import os
import shutil
import socket
from collections import Counter
from pathlib import Path

import pytest

from broker.common.clock import ManualClock, SystemClock
from broker.common.subscription import build_subscription
from broker.common.sysflag import INNER_BATCH, NEED_UNWRAP
from broker.common.topic import TopicConfig
from broker.errors import ConnectError, DiskFullError, StoreError, StoreLockedError
from broker.message.batch import encode_batch_item
from broker.message.properties import encode_properties
from broker.remoting.client import RemotingClient
from broker.remoting.direct import DirectRequest
from broker.remoting.protocol.body.consumer.connection import GetConsumerListByGroupResponseBody
from broker.remoting.protocol.body.consumer.heartbeat import (
    ConsumerData,
    HeartbeatData,
    ProducerData,
)
from broker.remoting.protocol.body.namesrv.route import (
    LogicQueueMappingItem,
    TopicQueueMappingDetail,
)
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import request
from broker.remoting.protocol.rpc import Access
from broker.server.check import check_store
from broker.server.configuration.settings import Settings
from broker.server.controller import CLEAN_MAPPINGS_MS, BrokerController, with_vip_port
from broker.server.processor.send.batch_records import MAX_BATCH_ITEMS
from broker.server.registration import Registrar
from broker.store.config_file import ConfigFile
from broker.store.format.config import decode_subscription_group
from broker.store.logfile.disk import Disk
from tests.support.stores import make_inner

ANY = [("127.0.0.1", 0)]


class Peer:
    """A client of the broker under test; ``notifications`` contains the requests of the broker."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.notifications: asyncio.Queue = asyncio.Queue()
        self.client = RemotingClient({RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._note})

    def _note(self, connection, command):
        self.notifications.put_nowait(command)

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

    def __init__(self, folder: Path, properties: dict[str, str], listen=None, clock=None) -> None:
        self.settings = Settings(
            {
                "storePathRootDir": str(folder / "store"),
                "mappedFileSizeCommitLog": str(1 << 20),
                "maxHashSlotNum": "1000",
                "maxIndexNum": "4000",
                **properties,
            }
        )
        self.controller = BrokerController(self.settings, clock=clock, listen=listen or ANY)
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

    def make(listen=None, clock=None, **properties: str) -> World:
        return World(tmp_path, properties, listen, clock)

    return make


def test_messages_offsets_and_topics_outlive_a_restart(world, run) -> None:
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

    run(first())
    run(second())


def test_a_timer_file_that_cannot_be_opened_is_an_error_that_names_it(
    world, run, tmp_path: Path
) -> None:
    async def start() -> None:
        async with world():
            pass

    path = tmp_path / "store" / "timerlog" / "00000000000000000000"
    path.parent.mkdir(parents=True)
    path.symlink_to("missing")
    with pytest.raises(StoreError, match=f"{path}: No such file"):
        run(start())
    assert check_error(world()) == f"{path}: No such file or directory"


def check_error(world: World) -> str:
    """The error of `mqbroker --check` for the same store."""
    with pytest.raises(StoreError) as caught:
        list(check_store(world.settings.store))
    return caught.value.message


def test_pulls_and_queries_take_the_direct_path_on_a_master(world, run, monkeypatch) -> None:
    direct = []
    serve = DirectRequest.serve

    def note(request, connection, data) -> bool:
        direct.append((request.route.code, served := serve(request, connection, data)))
        return served

    monkeypatch.setattr(DirectRequest, "serve", note)

    async def main() -> None:
        async with world() as it:
            peer = it.peer()
            await peer.send()
            assert (await peer.pull()).code == 0  # its group is created: not on the direct path
            assert (await peer.pull()).code == 0
            assert (await peer.pull()).code == 0
            ext = {"topic": "Orders", "key": "none", "maxNum": 1}
            ext |= {"beginTimestamp": 0, "endTimestamp": 2**62}
            answer = await peer.ask(RequestCode.QUERY_MESSAGE, ext)
            assert answer.code == ResponseCode.QUERY_NOT_FOUND
            assert (await peer.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": 0})).code == 0

    run(main())
    assert [code for code, served in direct if served] == [11, 11, 12, 33]


def test_a_slave_has_no_direct_path(world, run) -> None:
    async def main() -> None:
        async with world(brokerRole="SLAVE", brokerId="1") as it:
            answer = await it.peer().pull()
            assert answer.code == ResponseCode.SYSTEM_BUSY
            assert not it.controller.context.server.direct

    run(main())


def test_suspended_pull_is_answered_on_arrival(world, run) -> None:
    async def main() -> None:
        async with world() as it:
            consumer, producer = it.peer(), it.peer()
            await producer.send()
            waiting = asyncio.create_task(consumer.pull(queue_offset=1, suspend_ms=30_000))
            while not len(it.controller.context.holds):
                await asyncio.sleep(0)
            await producer.send(body=b"second")
            answer = await asyncio.wait_for(waiting, 10)
            assert (answer.code, answer.ext_fields["nextBeginOffset"]) == (0, "2")

    run(main())


def test_suspended_pull_is_answered_at_its_deadline(world, run) -> None:
    async def main() -> None:
        async with world() as it:
            peer = it.peer()
            await peer.send()
            answer = await asyncio.wait_for(peer.pull(queue_offset=1, suspend_ms=30), 10)
            assert answer.code == ResponseCode.PULL_NOT_FOUND
            assert len(it.controller.context.holds) == 0

    run(main())


def test_short_hold_is_not_kept_waiting_by_a_long_one(world, run) -> None:
    async def main() -> None:
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

    run(main())


def test_pulls_suspended_together_are_all_answered(world, run) -> None:
    """Deadlines less than a timer's resolution apart: each pull leaves, none with an error."""

    async def main() -> None:
        async with world() as it:
            peer = it.peer()
            await peer.send()
            for _ in range(3):
                answers = await asyncio.gather(
                    *(peer.pull(queue_offset=1, suspend_ms=1 + n % 3) for n in range(300))
                )
                assert {answer.code for answer in answers} == {ResponseCode.PULL_NOT_FOUND}
                assert len(it.controller.context.holds) == 0

    run(main())


def test_suspended_pull_is_answered_at_a_stop(world, run) -> None:
    async def main() -> None:
        async with world() as it:
            peer = it.peer()
            await peer.send()
            waiting = asyncio.create_task(peer.pull(queue_offset=1, suspend_ms=60_000))
            while not len(it.controller.context.holds):
                await asyncio.sleep(0)
            await it.controller.close()
            answer = await asyncio.wait_for(waiting, 10)
            assert answer.code == ResponseCode.PULL_NOT_FOUND

    run(main())


def test_delayed_message_arrives(world, run) -> None:
    async def main() -> None:
        async with world(messageDelayLevel="1s") as it:
            peer = it.peer()
            await peer.send(topic="Orders", body=b"first")
            await peer.send(topic="Orders", body=b"later", DELAY="1")
            answer = await asyncio.wait_for(peer.pull(queue_offset=1, suspend_ms=30_000), 20)
            assert answer.code == 0
            assert b"later" in answer.body_bytes()

    run(main())


class SteppingClock(SystemClock):
    """The system's clock, its wall-clock reading stepped by ``step_ms``."""

    __slots__ = ("step_ms",)

    def __init__(self) -> None:
        self.step_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.step_ms


@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000])
def test_delayed_message_does_not_outstay_a_step_of_the_clock(world, run, step_ms) -> None:
    """Forward it is due; back it would wait longer than its level, which Java never does."""

    async def main() -> None:
        clock = SteppingClock()
        async with world(clock=clock) as it:
            peer = it.peer()
            await peer.send(body=b"first")
            await peer.send(body=b"in five minutes", DELAY="9")
            clock.step_ms = step_ms
            answer = await peer.pull(queue_offset=1, suspend_ms=15_000)
            assert answer.code == 0
            assert b"in five minutes" in answer.body_bytes()

    run(main())


def test_delivery_of_delayed_messages_survives_a_failure(world, run, caplog) -> None:
    async def main() -> None:
        async with world(messageDelayLevel="1s") as it:
            peer = it.peer()
            await peer.send(body=b"first")
            delays = it.controller.context.delays
            deliver, failures = delays.deliver_due, [ZeroDivisionError("broken")]

            def fail_once():
                if failures:
                    raise failures.pop()
                return deliver()

            delays.deliver_due = fail_once
            await peer.send(body=b"later", DELAY="1")
            answer = await peer.pull(queue_offset=1, suspend_ms=15_000)
            assert b"later" in answer.body_bytes()
            assert failures == []

    run(main())
    (line,) = [record for record in caplog.records if record.exc_info]
    assert "delayed messages" in line.getMessage()


def test_members_hear_of_a_lost_connection(world, run) -> None:
    async def main() -> None:
        async with world() as it:
            first, second = it.peer(), it.peer()
            await first.heartbeat("c1", producers=["P1"])
            await second.heartbeat("c2")
            for _ in range(2):  # its own arrival and the other's
                await asyncio.wait_for(first.notifications.get(), 10)
            await second.client.close()
            notice = await asyncio.wait_for(first.notifications.get(), 10)
            assert notice.ext_fields == {"consumerGroup": "G1"}
            answer = await first.ask(
                RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "G1"}
            )
            body = GetConsumerListByGroupResponseBody.from_bytes(answer.body_bytes())
            assert body.consumer_id_list == ["c1"]
            await first.client.close()
            while it.controller.context.producers.groups():
                await asyncio.sleep(0)

    run(main())


def test_many_new_groups_cost_few_writes_and_announcements(world, monkeypatch, run) -> None:
    """One write of each file and one announcement per group blocked the loop for 17 s."""
    written: list[str] = []
    persist = ConfigFile.persist

    def counting_persist(file, text):
        written.append(file.path.rpartition("/")[2])
        persist(file, text)

    async def main() -> None:
        async with world() as it:
            broker, peer = it.controller, it.peer()
            await peer.heartbeat(groups=["first"])
            announced: list[set[str]] = []
            announce = broker.registrar.announce

            async def counting_announce(topics):
                announced.append(set(topics))
                await announce(topics)

            broker.registrar.announce = counting_announce
            broker.context.announce = counting_announce
            monkeypatch.setattr(ConfigFile, "persist", counting_persist)
            await peer.heartbeat(groups=[f"G{number}" for number in range(300)])
            await broker.context.topics.persist()
            await broker.context.groups.persist()
            assert len(written) <= 8, written
            assert len(announced) <= 4
            assert set().union(*announced) >= {f"%RETRY%G{number}" for number in range(300)}

    run(main())


def test_answer_to_the_longest_batch_reaches_a_client(world, run) -> None:
    """It names each message: 33 bytes of header for every one of them."""

    async def main() -> None:
        async with world(mappedFileSizeCommitLog=str(16 << 20), maxMessageSize=str(4 << 20)) as it:
            peer = it.peer()
            await peer.send(topic="Many")
            ext = {"b": "Many", "e": 0, "f": 0, "g": 1, "h": 0, "i": "", "m": "true"}
            body = encode_batch_item(0, b"", b"") * MAX_BATCH_ITEMS
            answer = await peer.ask(RequestCode.SEND_BATCH_MESSAGE, ext, body)
            assert answer.code == 0, answer.remark
            assert answer.ext_fields["msgId"].count(",") == MAX_BATCH_ITEMS - 1
            too_many = body + encode_batch_item(0, b"", b"")
            answer = await peer.ask(RequestCode.SEND_BATCH_MESSAGE, ext, too_many)
            assert answer.code == ResponseCode.MESSAGE_ILLEGAL

    run(main())


def test_sync_flush_answers_after_the_disk(world, run) -> None:
    async def main() -> None:
        async with world(flushDiskType="SYNC_FLUSH") as it:
            peers = [it.peer() for _ in range(4)]
            await peers[0].send()
            answers = await asyncio.gather(*(peer.send() for peer in peers for _ in range(5)))
            offsets = sorted(int(answer.ext_fields["queueOffset"]) for answer in answers)
            assert offsets == list(range(1, 21))
            store = it.controller.store
            assert store.flushed_where == store.max_physical_offset

    run(main())


def test_sync_flush_makes_puts_without_a_waiter_visible(world, run) -> None:
    """WAIT=false and a delivered delayed message, on a broker that is idle otherwise."""

    async def main() -> None:
        async with world(flushDiskType="SYNC_FLUSH", messageDelayLevel="1s") as it:
            peer = it.peer()
            await peer.send(body=b"first")
            pull = peer.pull(queue_offset=1, suspend_ms=30_000)
            waiting = asyncio.ensure_future(pull)
            await peer.send(body=b"second", WAIT="false")
            answer = await asyncio.wait_for(waiting, 20)
            assert b"second" in answer.body_bytes()
            waiting = asyncio.ensure_future(peer.pull(queue_offset=2, suspend_ms=30_000))
            await peer.send(body=b"third", DELAY="1")
            answer = await asyncio.wait_for(waiting, 20)
            assert b"third" in answer.body_bytes()

    run(main())


def test_many_new_groups_cost_a_few_writes(tmp_path: Path, world, run) -> None:
    class CountingDisk(Disk):
        def __init__(self) -> None:
            self.writes: Counter[str] = Counter()

        def write(self, path, data, *, sync=True) -> None:
            self.writes[os.path.basename(path)] += 1
            super().write(path, data, sync=sync)

    async def main() -> None:
        it, disk = world(), CountingDisk()
        it.controller = BrokerController(it.settings, listen=ANY, disk=disk)
        async with it:
            disk.writes.clear()
            groups = [f"G{number}" for number in range(300)]
            await it.peer().heartbeat(groups=groups)
            context = it.controller.context
            await context.topics.persist()
            await context.groups.persist()
            assert set(groups) <= context.groups.configs.keys()
            # One for the first change of the turn, at most one for changes during that write.
            assert disk.writes["topics.json.tmp"] <= 2
            assert disk.writes["subscriptionGroup.json.tmp"] <= 2
        read = decode_subscription_group(
            (tmp_path / "store" / "config" / "subscriptionGroup.json").read_text()
        )
        assert set(groups) <= read.groups.keys()

    run(main())


def test_tables_that_cannot_be_written_do_not_stop_the_broker(
    world, caplog, monkeypatch, run
) -> None:
    class FullDisk(Disk):
        def write(self, path, data, *, sync=True) -> None:
            if "/config/" in path:
                raise DiskFullError(f"{path}: No space left on device", path=path)
            super().write(path, data, sync=sync)

    async def main() -> None:
        it = world()
        it.controller = BrokerController(it.settings, listen=ANY, disk=FullDisk())
        async with it:
            answer = await it.peer().pull(topic="BenchmarkTest")
            assert answer.code == ResponseCode.PULL_NOT_FOUND
            with pytest.raises(AssertionError, match="No space left on device"):
                await it.peer().send(topic="New")
            assert "New" not in it.controller.context.topics
            assert "New" not in announced

    announced: set[str] = set()
    register = Registrar.register_topics

    async def note(self, topics, *addresses):
        announced.update(config.topic_name for config in topics)
        return await register(self, topics, *addresses)

    monkeypatch.setattr(Registrar, "register_topics", note)
    run(main())
    assert announced
    assert "topics.json: not written" in caplog.text


def test_unknown_code_is_not_supported(world, run) -> None:
    async def main() -> None:
        async with world() as it:
            for code in (RequestCode.POP_ROLLBACK, 9999):
                answer = await it.peer().ask(code)
                assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
                assert str(code) in answer.remark

    run(main())


def test_only_this_machine_may_reconfigure_unless_allowed(world, run) -> None:
    ext = {
        "topic": "Orders",
        "defaultTopic": "TBW102",
        "readQueueNums": 1,
        "writeQueueNums": 1,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
    }

    async def main() -> None:
        async with world() as it:
            peer = it.peer()
            await peer.send()
            for connection in it.controller.context.server.connections:
                connection.access = Access.CLIENT
            code = RequestCode.UPDATE_AND_CREATE_TOPIC
            assert (await peer.ask(code, ext)).code == ResponseCode.NO_PERMISSION
            for other in (
                RequestCode.GET_CONSUMER_RUNNING_INFO,
                RequestCode.CONSUME_MESSAGE_DIRECTLY,
                RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            ):
                assert (await peer.ask(other)).code == ResponseCode.NO_PERMISSION
            await peer.send()
            local = it.peer()
            for key in ("allowRemoteAdmin=true", "adminHosts=0.0.0.0/0", "secretKey=x"):
                changed = await local.ask(RequestCode.UPDATE_BROKER_CONFIG, body=key.encode())
                assert changed.code == ResponseCode.NO_PERMISSION
            assert (await peer.ask(code, ext)).code == ResponseCode.NO_PERMISSION
            assert (await local.ask(code, ext)).code == 0

    run(main())


def test_other_hosts_may_administer_if_configured(world, run) -> None:
    async def main() -> None:
        async with world(adminHosts="192.0.2.0/24") as it:
            rules = it.controller.context.server.access
            assert rules.level_of("192.0.2.9") is Access.ADMINISTRATOR
            assert rules.level_of("192.0.3.9") is Access.CLIENT

    run(main())


def test_error_in_a_handler_is_an_answer(world, run) -> None:
    async def main() -> None:
        async with world() as it:
            answer = await it.peer().ask(RequestCode.PULL_MESSAGE, {"topic": "Orders"})
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "consumerGroup" in answer.remark

    run(main())


def test_address_taken_is_an_error_and_frees_the_store(world, run) -> None:
    async def main() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            it = world(listen=[("127.0.0.1", taken.getsockname()[1])])
            with pytest.raises(ConnectError):
                await it.controller.start()
            await it.controller.close()
        async with world():
            pass

    run(main())


def test_store_in_use_is_an_error(world, run) -> None:
    async def main() -> None:
        async with world():
            with pytest.raises(StoreLockedError):
                await world().controller.start()

    run(main())


def test_the_announced_address_is_the_bound_or_the_configured_one(world, run) -> None:
    async def main() -> None:
        async with world() as it:
            context = it.controller.context
            assert context.address == it.controller.addresses[0]
            answer = await it.peer().send()
            port = int(context.address.rpartition(":")[2])
            assert answer.ext_fields["msgId"].startswith(f"7F000001{port:08X}")
        async with world(brokerIP1="10.1.2.3") as it:
            assert it.controller.context.address.startswith("10.1.2.3:")

    run(main())


def test_port_two_below_is_served_too() -> None:
    assert with_vip_port([("127.0.0.1", 10911)]) == [("127.0.0.1", 10911), ("127.0.0.1", 10909)]
    assert with_vip_port([("127.0.0.1", 0)]) == [("127.0.0.1", 0)]


def test_periodic_work_writes_offsets_and_drops_silent_clients(world, run) -> None:
    """The clock is advanced: nothing waits for real seconds."""

    async def main() -> None:
        it, clock = world(flushConsumerOffsetInterval="1"), ManualClock()
        it.controller = BrokerController(it.settings, listen=ANY, clock=clock)
        async with it:
            peer = it.peer()
            await peer.heartbeat("c1", producers=["P1"])
            context = it.controller.context
            context.offsets.commit("G1", "Orders", 0, 1)
            clock.advance(it.settings.broker.channel_expired_timeout + 1)
            it.controller.run_periodic_work()
            assert await context.files.progress.ended() is None
            assert not context.offsets.changed
            assert context.consumers.get("G1") is None
            assert context.producers.get("P1") == []
            assert (Path(it.settings.store.root) / "config" / "consumerOffset.json").exists()

    run(main())


def test_periodic_work_removes_segments_of_static_topics_that_have_no_messages(world, run) -> None:
    async def main() -> None:
        it, clock = world(deleteWhen=";".join(map(str, range(24)))), ManualClock()
        it.controller = BrokerController(it.settings, listen=ANY, clock=clock)
        async with it:
            mappings, name = it.controller.context.mappings, it.settings.broker.broker_name
            old, leader = (
                LogicQueueMappingItem(gen=gen, queue_id=gen, bname=name, logic_offset=gen * 10)
                for gen in range(2)
            )
            queues = {0: [old, leader]}
            detail = TopicQueueMappingDetail(topic="Fixed", bname=name, hosted_queues=queues)
            mappings.update(detail, force=False)
            await mappings.persist()
            clock.advance(CLEAN_MAPPINGS_MS)
            it.controller.run_periodic_work()
            await asyncio.sleep(0)  # the round, which asks no other broker
            assert mappings.get("Fixed").hosted_queues == {0: [leader]}

    run(main())


def test_an_append_that_the_disk_held_up_rejects_the_waiting_sends(tmp_path: Path, run) -> None:
    """Sends that were received meanwhile fail at once with SYSTEM_BUSY, other requests do not."""

    async def main() -> None:
        settings = Settings(
            {"storePathRootDir": str(tmp_path), "osPageCacheBusyTimeOutMills": "1500"}
        )
        controller = BrokerController(settings, listen=ANY)
        await controller.start()
        server = controller.context.server
        assert server is not None
        try:
            server.slow(RequestCode.SEND_MESSAGE_V2, 1.4)
            assert server.lanes["send"].rejecting == ""
            server.slow(RequestCode.PULL_MESSAGE, 9.0)
            assert server.lanes["send"].rejecting == ""
            server.slow(RequestCode.SEND_MESSAGE_V2, 1.5)
            assert server.lanes["send"].rejecting != ""
            assert server.lanes["pull"].rejecting == ""
            while server.lanes["send"].rejecting:
                await asyncio.sleep(0)
            peer = Peer(controller.addresses[0])
            await peer.send()
            await peer.client.close()
        finally:
            await controller.close()

    run(main())


def test_a_batch_topic_outlives_the_loss_of_its_configuration_and_queues(world, run) -> None:
    """The records show the type of the queues; the attribute is restored with them."""
    batch_queue = {"queue.type": "BatchCQ"}

    async def first() -> None:
        async with world() as it:
            context = it.controller.context
            context.topics.put(TopicConfig(topic_name="Bulk", attributes=batch_queue))
            inner = make_inner(
                "Bulk", 2, sys_flag=INNER_BATCH | NEED_UNWRAP, properties={"INNER_NUM": "3"}
            )
            assert context.store.put_message(inner).queue_offset == 0

    async def second() -> None:
        async with world() as it:
            config = it.controller.context.topics.get("Bulk")
            assert (config.attributes, config.read_queue_nums) == (batch_queue, 3)
            assert it.controller.context.store.get_max_offset("Bulk", 2) == 3

    run(first())
    root = Path(world().settings.store.root)
    for path in root.glob("config/topics.json*"):
        path.unlink()
    shutil.rmtree(root / "batchconsumequeue")
    run(second())
    run(second())  # from topics.json
