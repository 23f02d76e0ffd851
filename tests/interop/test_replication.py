"""Master and slave as processes, ours and Java's in every pairing: same bytes, reads, kills."""

import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.client import (
    ClientConfig,
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumerConfig,
    MessageExt,
    PushConsumer,
)
from broker.errors import RemotingError
from broker.message.batch import encode_batch
from broker.message.message import Message
from broker.message.properties import encode_properties
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.body.ha import HARuntimeInfo
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request

FILE = 1024 * 1024
SETTINGS = {
    "brokerName": "pair",
    "mappedFileSizeCommitLog": FILE,
    "mappedFileSizeConsumeQueue": 6000,
    "slaveReadEnable": "true",
}
SLAVE = {"brokerRole": "SLAVE", "brokerId": 1}
SEND = dict.fromkeys("abcdefghijk", "0") | {
    "a": "P",
    "c": "TBW102",
    "d": "4",
    "i": "",
    "k": "false",
}
KILLS = int(os.environ.get("HA_KILLS", "6"))
STOPPED_S = (0.05, 0.4, 1.5)  # shorter and longer than slaveTimeout
# Properties of the messages that are sent in turn.
KINDS = (
    {},
    {"DELAY": "1"},
    {"TIMER_DELAY_MS": "1500"},
    {"TRAN_MSG": "true", "PGROUP": "P"},
    {"KEYS": "k", "TAGS": "A"},
)


def ha_status(broker: str) -> HARuntimeInfo | None:
    """GET_BROKER_HA_STATUS of a broker of either side; None while it does not answer."""
    try:
        with BlockingClient(timeout_ms=5000) as client:
            answer = client.call(broker, request(RequestCode.GET_BROKER_HA_STATUS))
    except RemotingError:
        return None
    return HARuntimeInfo.from_bytes(answer.body_bytes()) if answer.code == 0 else None


def copied(master: str, slaves: int = 1) -> int:
    """The end of the master's log if ``slaves`` have acknowledged all of it, else 0."""
    status = ha_status(master)
    if status is None or len(status.ha_connection_info) != slaves:
        return 0
    ends = {one.slave_ack_offset for one in status.ha_connection_info}
    end = status.master_commit_log_max_offset
    return end if ends == {end} else 0


def log_bytes(store: Path, end: int) -> bytes:
    """The CommitLog of a store up to the physical offset ``end``."""
    data = b"".join(path.read_bytes() for path in sorted((store / "commitlog").iterdir()))
    assert len(data) >= end
    return data[:end]


def fill(peer: Any, namesrv: str, topic: str) -> list[dict[str, Any]]:
    """Messages over several log files: plain ones, a batch, a delayed one."""
    words = {"namesrv": namesrv, "topic": topic}
    sent: list[dict[str, Any]] = peer.produce(
        **words, count=1200, mode="async", size=2000, keys="k{i}", tags="A,B"
    )
    peer.produce(namesrv=namesrv, topic=f"{topic}Batch", count=20, mode="batch")
    peer.produce(**words, first=1200, count=1, delayLevel=18)
    return sent


def test_our_slave_follows_a_java_master_and_serves_its_consumers_alone(
    java_servers: Any,
    our_servers: Any,
    peer_533: Any,
    make_topic: Callable[..., None],
    until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    namesrv = our_servers.namesrv(tmp_path / "namesrv")
    stores = [tmp_path / "java-store", tmp_path / "our-store"]
    master = java_servers.broker(tmp_path / "java", stores[0], namesrv, **SETTINGS)
    make_topic(master.address, "Copied")
    slave = our_servers.broker(tmp_path / "ours", stores[1], namesrv, **SETTINGS, **SLAVE)
    sent = fill(peer_533, namesrv, "Copied")
    end = until(lambda: copied(master.address), "the copy of the whole log")
    assert end > 2 * FILE
    assert log_bytes(stores[1], end) == log_bytes(stores[0], end)
    printed = peer_533.mqadmin("haStatus", "-n", namesrv, "-b", slave.address)
    assert f"#CommitLogMaxOffset\t{end}" in printed, printed
    assert f"#MasterFlushOffset\t{end}" in printed, printed
    printed = peer_533.mqadmin("haStatus", "-n", namesrv, "-b", master.address)
    assert printed.count(str(end)) >= 2, printed  # the master's end and the acknowledged offset
    until(lambda: "Copied" in table(stores[1], "topics.json"), "the topic at the slave")
    master.kill()
    peer_533.ask("forget", namesrv=namesrv)
    words = {"namesrv": namesrv, "topic": "Copied", "group": "left"}
    peer_533.ask("consume", consumer="left@slave", **words)
    seen = peer_533.messages_with("left@slave", {one["msgId"] for one in sent})
    peer_533.ask("stop", consumer="left@slave")
    peer_533.ask("forget", namesrv=namesrv)
    assert len({one["uniqKey"] for one in seen}) == len(sent)


def table(store: Path, name: str) -> str:
    """A table of a store as it is on disk now, empty without one."""
    path = store / "config" / name
    return path.read_text() if path.exists() else ""


def test_a_java_slave_follows_our_master(
    java_servers: Any,
    our_servers: Any,
    peer_533: Any,
    make_topic: Callable[..., None],
    until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    namesrv = our_servers.namesrv(tmp_path / "namesrv")
    stores = [tmp_path / "our-store", tmp_path / "java-store"]
    master = our_servers.broker(
        tmp_path / "ours",
        stores[0],
        namesrv,
        **SETTINGS,
        brokerRole="SYNC_MASTER",
        inSyncReplicas=2,
        slaveTimeout=60_000,
    )
    make_topic(master.address, "Copied")
    java_servers.broker(tmp_path / "java", stores[1], namesrv, **SETTINGS, **SLAVE)
    sent = fill(peer_533, namesrv, "Copied")
    assert {one["status"] for one in sent} == {"SEND_OK"}
    end = until(lambda: copied(master.address), "the copy of the whole log")
    assert end > 2 * FILE
    assert log_bytes(stores[1], end) == log_bytes(stores[0], end)
    printed = peer_533.mqadmin("haStatus", "-n", namesrv, "-b", master.address)
    assert printed.count(str(end)) >= 2, printed
    until(lambda: "Copied" in table(stores[1], "topics.json"), "the topic at the slave")
    peer_533.ask("forget", namesrv=namesrv)


def test_two_java_slaves_of_one_host_are_two_copies(
    java_servers: Any,
    our_servers: Any,
    peer_533: Any,
    make_topic: Callable[..., None],
    until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    namesrv = our_servers.namesrv(tmp_path / "namesrv")
    copies = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 3, "slaveTimeout": 5_000}
    store = tmp_path / "our-store"
    master = our_servers.broker(tmp_path / "ours", store, namesrv, **SETTINGS, **copies)
    make_topic(master.address, "Three")
    slaves = [
        java_servers.broker(
            tmp_path / f"java{number}",
            tmp_path / f"java-store{number}",
            namesrv,
            **{**SETTINGS, **SLAVE, "brokerId": number},
        )
        for number in (1, 2)
    ]
    words = {"namesrv": namesrv, "topic": "Three"}
    until(lambda: in_sync_slaves(master.address) == 2, "both slaves")
    sent = peer_533.produce(**words, count=100)
    assert {one["status"] for one in sent} == {"SEND_OK"}
    end = until(lambda: copied(master.address, 2), "both copies of the whole log")
    for number in (1, 2):
        assert log_bytes(tmp_path / f"java-store{number}", end) == log_bytes(store, end)
    slaves[0].kill()
    until(lambda: in_sync_slaves(master.address) == 1, "the end of the connection")
    sent = peer_533.produce(**words, first=100, count=1)
    assert {one["status"] for one in sent} == {"FLUSH_SLAVE_TIMEOUT"}
    peer_533.ask("forget", namesrv=namesrv)


def in_sync_slaves(master: str) -> int:
    """The connected slaves in sync that a master shows."""
    status = ha_status(master)
    return 0 if status is None else status.in_sync_slave_nums


def send_request(number: int, body: bytes) -> RemotingCommand:
    """A send of the kind that is the number's turn: the last one is a batch."""
    kind = number % (len(KINDS) + 1)
    fields = {**SEND, "b": "Fire", "e": str(number % 4)}
    if kind == len(KINDS):
        batch = encode_batch([Message(topic="Fire", body=body), Message(topic="Fire", body=b"2")])
        return request(RequestCode.SEND_BATCH_MESSAGE, {**fields, "m": "true"}, batch)
    properties = {"UNIQ_KEY": f"{number:032X}", **KINDS[kind]}
    fields["f"] = "4" if "TRAN_MSG" in properties else "0"
    fields["i"] = encode_properties(properties).decode()
    return request(RequestCode.SEND_MESSAGE_V2, fields, body)


def acknowledged(events: list[dict[str, Any]]) -> set[str]:
    """The ids of acknowledged sends; a JVM on a busy machine may send some of them too late."""
    sent = {one["msgId"] for one in events if one["event"] == "sent"}
    assert sent, events
    return sent


def test_consumers_continue_at_the_slave_and_return_to_the_restarted_master(
    our_servers: Any,
    peer_533: Any,
    make_topic: Callable[..., None],
    until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    """Both clients, Java's and ours, with consumers that are started while the master is dead."""
    namesrv = our_servers.namesrv(tmp_path / "namesrv")
    stores = [tmp_path / "master-store", tmp_path / "slave-store"]
    master = our_servers.broker(tmp_path / "master", stores[0], namesrv, **SETTINGS)
    make_topic(master.address, "Moved")
    our_servers.broker(tmp_path / "slave", stores[1], namesrv, **SETTINGS, **SLAVE)
    words = {"namesrv": namesrv, "topic": "Moved"}
    sent = acknowledged(peer_533.produce(**words, count=50))
    until(lambda: copied(master.address), "the copy of the whole log")
    until(lambda: "Moved" in table(stores[1], "topics.json"), "the topic at the slave")
    port = int(master.address.rpartition(":")[2])
    master.kill()
    got: set[str] = set()

    def listener(
        messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        got.update(message.uniq_key for message in messages)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    first = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer = PushConsumer("ours", ClientConfig(namesrv=[namesrv]), first)
    consumer.subscribe("Moved")
    consumer.listen(listener)
    peer_533.ask("forget", namesrv=namesrv)
    peer_533.ask("consume", consumer="java@moved", group="java", **words)
    with consumer:
        peer_533.messages_with("java@moved", sent)
        until(lambda: sent <= got, "the messages from the slave")
        settings = {**SETTINGS, "listenPort": port}
        our_servers.broker(tmp_path / "master", stores[0], namesrv, **settings)
        later = acknowledged(peer_533.produce(**words, first=50, count=20))
        peer_533.messages_with("java@moved", later)
        until(lambda: later <= got, "the messages after the restart")
    peer_533.ask("stop", consumer="java@moved")
    peer_533.ask("forget", namesrv=namesrv)


class Sender(threading.Thread):
    """Send numbered bodies until it is stopped; keeps those that were acknowledged as stored."""

    def __init__(self, broker: str) -> None:
        super().__init__(daemon=True)
        self.broker = broker
        self.acknowledged: list[bytes] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            try:
                with BlockingClient(timeout_ms=5000) as client:
                    while not self.stopping.is_set():
                        number += 1
                        body = b"<%08d>" % number + b"x" * (number % 900)
                        command = send_request(number, body)
                        if client.call(self.broker, command).code == 0:
                            self.acknowledged.append(body[:10])
            except RemotingError:
                self.stopping.wait(0.05)


@pytest.mark.timeout(180 + 10 * KILLS)
@pytest.mark.parametrize("seed", [int(os.environ.get("HA_FAULT_SEED", "13"))])
def test_messages_acknowledged_with_two_replicas_survive_kills_and_stops_of_both(
    our_servers: Any,
    make_topic: Callable[..., None],
    until: Callable[..., Any],
    tmp_path: Path,
    seed: int,
) -> None:
    chance = random.Random(seed)
    namesrv = our_servers.namesrv(tmp_path / "namesrv")
    stores = {"master": tmp_path / "master-store", "slave": tmp_path / "slave-store"}
    copies = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 500}
    roles: dict[str, dict[str, Any]] = {
        "master": {**SETTINGS, **copies},
        "slave": {**SETTINGS, **SLAVE},
    }

    def start(name: str) -> Any:
        daemon = our_servers.broker(tmp_path / name, stores[name], namesrv, **roles[name])
        roles[name]["listenPort"] = int(daemon.address.rpartition(":")[2])
        return daemon

    running = {name: start(name) for name in roles}
    address = running["master"].address
    make_topic(address, "Fire")
    sender = Sender(address)
    sender.start()
    for _ in range(KILLS):
        before = len(sender.acknowledged)
        wanted = before + chance.randrange(20, 400)
        until(lambda wanted=wanted: len(sender.acknowledged) >= wanted, "acknowledged sends")
        name = chance.choice(list(roles))
        if chance.random() < 0.4:
            running[name].process.send_signal(signal.SIGSTOP)
            time.sleep(chance.choice(STOPPED_S))  # the length of the stop is the fault
            running[name].process.send_signal(signal.SIGCONT)
            continue
        running[name].kill()
        running[name] = start(name)
    before = len(sender.acknowledged)
    until(lambda: len(sender.acknowledged) > before + 20, "sends after the last restart")
    sender.stopping.set()
    sender.join()
    end = until(lambda: copied(address), "the copy of the whole log")
    for daemon in running.values():
        daemon.kill()
    logs = [log_bytes(store, end) for store in stores.values()]
    assert logs[0] == logs[1]
    found = set(re.findall(rb"<[0-9]{8}>", logs[0]))
    missing = [body for body in sender.acknowledged if body not in found]
    assert not missing, f"seed {seed}: {len(missing)} of {len(sender.acknowledged)} are missing"
