"""Timers, delay levels, transactions and POP check points across a role change.

Each kind has messages that were delivered before the change and messages that wait for it. After a
planned change every message is delivered once, after an unplanned one at least once.
"""

import asyncio
from collections import Counter
from pathlib import Path
from typing import cast

import pytest

from broker.common.clock import SystemClock
from broker.message.properties import encode_properties
from broker.message.record import decode_record
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand
from broker.server.ha import client as ha_client
from tests.support.popping import PopClient
from tests.support.replicas import until
from tests.support.simulated_broker import SimBroker
from tests.support.switch_cluster import SEND, SwitchCluster

pytestmark = pytest.mark.timeout(240)

TOPIC = "Orders"
PENDING_MS = 6_000
INVISIBLE_MS = 15_000  # longer than a switch on a busy machine
COMMIT = "8"
PROPERTIES = {
    "messageDelayLevel": f"1s {PENDING_MS // 1000}s",
    "transactionTimeOut": "600000",
    "mappedFileSizeTimerLog": "65536",
}
PATIENCE_S = 90.0


@pytest.fixture(autouse=True)
def short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_client, "RECONNECT_MS", 20)


class Peer:
    """One broker of the cluster, as PopClient uses a simulated broker."""

    def __init__(self, cluster: SwitchCluster, number: int) -> None:
        self.clock = SystemClock()
        self.peer = self
        self._cluster = cluster
        self._number = number

    async def call(self, command: RemotingCommand) -> RemotingCommand:
        address = self._cluster.brokers[self._number].address
        return await self._cluster.client.call(address, command, 30_000)


class Everything:
    """Messages of every kind; ``halves`` are open transactions by body."""

    def __init__(self, cluster: SwitchCluster) -> None:
        self.halves: dict[bytes, RemotingCommand] = {}
        self._cluster = cluster
        self._sequence = 0

    async def send(self, number: int, body: bytes, **properties: object) -> RemotingCommand:
        self._sequence += 1
        pairs = {"UNIQ_KEY": f"{self._sequence:032X}"}
        pairs |= {name: str(value) for name, value in properties.items()}
        fields = {**SEND, "b": TOPIC, "i": encode_properties(pairs).decode()}
        if "TRAN_MSG" in pairs:
            fields["f"] = "4"
        answer = await self._cluster.call(number, RequestCode.SEND_MESSAGE_V2, fields, body)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer

    async def half(self, number: int, body: bytes) -> None:
        self.halves[body] = await self.send(number, body, TRAN_MSG="true", PGROUP="P")

    async def commit(self, number: int, body: bytes) -> None:
        half = self.halves.pop(body)
        fields = {
            "producerGroup": "P",
            "tranStateTableOffset": half.ext_fields["queueOffset"],
            "commitLogOffset": str(int(half.ext_fields["msgId"][16:], 16)),
            "commitOrRollback": COMMIT,
            "msgId": "X",
        }
        answer = await self._cluster.call(number, RequestCode.END_TRANSACTION, fields)
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    async def early(self, number: int) -> None:
        """Messages that are delivered at this broker."""
        await self.send(number, b"plain")
        await self.send(number, b"early delay", DELAY=1)
        await self.send(number, b"early timer", TIMER_DELAY_MS=1_000)
        await self.half(number, b"early transaction")
        await self.commit(number, b"early transaction")
        early = {b"plain", b"early delay", b"early timer", b"early transaction"}
        await until(lambda: early <= set(self.delivered(number)), PATIENCE_S)

    async def pending(self, number: int) -> None:
        """Messages that wait for a time or for a decision."""
        await self.send(number, b"late delay", DELAY=2)
        await self.send(number, b"late timer", TIMER_DELAY_MS=PENDING_MS)
        await self.half(number, b"late transaction")

    async def complete(self, number: int) -> None:
        """Until the waiting messages and later ones of the same kinds are delivered."""
        await self.commit(number, b"late transaction")
        late = {b"late delay", b"late timer", b"late transaction"}
        await until(lambda: late <= set(self.delivered(number)), PATIENCE_S)
        # A second delivery of an early message would precede these.
        await self.send(number, b"last delay", DELAY=1)
        await self.send(number, b"last timer", TIMER_DELAY_MS=1_000)
        last = {b"last delay", b"last timer"}
        await until(lambda: last <= set(self.delivered(number)), PATIENCE_S)

    def delivered(self, number: int) -> Counter[bytes]:
        """The bodies that consumers of a broker see."""
        controller = self._cluster.brokers[number].controller
        assert controller is not None
        store = controller.store
        found: Counter[bytes] = Counter()
        for offset in range(store.get_max_offset(TOPIC, 0)):
            for buffer in store.get_message(TOPIC, 0, offset, 1).buffers:
                found[bytes(decode_record(bytes(buffer)).body)] += 1
        return found


def popping(cluster: SwitchCluster, number: int) -> PopClient:
    return PopClient(cast(SimBroker, Peer(cluster, number)), topic="Popped")


async def pop_again(client: PopClient, wanted: int) -> list[int]:
    """Pop until a number has arrived; every number in order."""
    numbers: list[int] = []
    async with asyncio.timeout(PATIENCE_S):
        while wanted not in numbers:
            numbers += await client.pop(60_000)
            await asyncio.sleep(0.05)
    return numbers


ALL = {
    b"plain",
    *(
        b"%s %s" % (time, kind)
        for time in (b"early", b"late", b"last")
        for kind in (b"delay", b"timer")
    ),
    b"early transaction",
    b"late transaction",
}


async def prepare(cluster: SwitchCluster, traffic: Everything) -> PopClient:
    """Traffic of every kind at broker 0; message 1 is acknowledged, 2 is popped, 3 is not."""
    await traffic.early(0)
    client = popping(cluster, 0)
    for number in (1, 2):
        assert await client.send(number)
    while len(client.held) < 2:
        await client.pop(PENDING_MS)
    assert await client.ack(next(held for held in client.held if held.number == 1))
    assert await client.send(3)
    await traffic.pending(0)
    return client


def test_a_planned_switch_delivers_every_kind_of_message_once(tmp_path: Path, run) -> None:
    async def main() -> None:
        async with SwitchCluster(tmp_path, properties=PROPERTIES) as cluster:
            traffic = Everything(cluster)
            await prepare(cluster, traffic)
            end = cluster.info(0).max_offset
            await until(lambda: cluster.info(1).max_offset >= end)
            assert (await cluster.step(1, "synchronize")).code == 0
            await cluster.switch()
            await traffic.complete(1)
            assert traffic.delivered(1) == dict.fromkeys(ALL, 1)
            again = await pop_again(popping(cluster, 1), 2)
            assert sorted(again) == [2, 3]

    run(main())


def test_a_message_popped_before_a_planned_switch_is_acknowledged_after_it(
    tmp_path: Path, run
) -> None:
    async def main() -> None:
        async with SwitchCluster(tmp_path, properties=PROPERTIES) as cluster:
            old = popping(cluster, 0)
            assert await old.send(1)
            while not old.held:
                await old.pop(INVISIBLE_MS)
            end = cluster.info(0).max_offset
            await until(lambda: cluster.info(1).max_offset >= end)
            assert (await cluster.step(1, "synchronize")).code == 0
            await cluster.switch()
            new = popping(cluster, 1)
            new.held = old.held
            assert await new.ack(new.held[0])
            assert await new.send(2)
            while not new.held:
                assert 1 not in await new.pop(INVISIBLE_MS)
            # A second delivery of the first message would precede that of the second one.
            assert await pop_again(new, 2) == [2]

    run(main())


def test_an_unplanned_switch_loses_no_kind_of_message(tmp_path: Path, run) -> None:
    async def main() -> None:
        async with SwitchCluster(tmp_path, properties=PROPERTIES) as cluster:
            traffic = Everything(cluster)
            await prepare(cluster, traffic)
            end = cluster.info(0).max_offset
            await until(lambda: cluster.info(1).max_offset >= end)
            await cluster.brokers[0].close()
            target = cluster.brokers[1].address
            assert (await cluster.step(1, "fence", epoch=1, target=target)).code == 0
            promoted = await cluster.step(1, "promote", epoch=1, expectedOffset=end)
            assert promoted.code == 0, promoted.remark
            await cluster.until_serving(1)
            await traffic.complete(1)
            assert set(traffic.delivered(1)) == ALL
            numbers = await pop_again(popping(cluster, 1), 2)
            assert {2, 3} <= set(numbers)

    run(main())
