"""A name server, a master and slaves as processes, and the switch between them step by step."""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from broker.errors import RemotingError, RocketMQError
from broker.message.message import Message, MessageExt
from broker.message.record import decode_record
from broker.remoting.protocol.body.role import BrokerRoleInfo
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request
from mqadmin.admin.failover.plan import SwitchPlan
from mqadmin.admin.failover.switch import FailoverAdmin, SwitchResult
from mqadmin.admin.session import AdminSession
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.log import LogWalk
from tests.support.broker_process import BrokerProcess, NameServerProcess

PATIENCE_S = 60.0
T = TypeVar("T")

SMALL = {
    "mappedFileSizeCommitLog": str(1024 * 1024),
    "mappedFileSizeConsumeQueue": "6000",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "waitTimeMillsInSendQueue": "60000",
    "brokerName": "broker-a",
}
SEND = dict.fromkeys("abcdefghijk", "0") | {
    "a": "P",
    "c": "TBW102",
    "d": "4",
    "g": "1700000000000",
    "i": "",
    "k": "false",
}


def until(found: Callable[[], T], event: str, timeout_s: float = PATIENCE_S) -> T:
    """The first true answer of ``found``."""
    deadline = time.monotonic() + timeout_s
    while not (answer := found()):
        assert time.monotonic() < deadline, f"did not happen: {event}"
        time.sleep(0.01)
    return answer


class ReplicaSet:
    """``brokers[0]`` starts as the master, the others as its slaves 1, 2, …"""

    def __init__(
        self,
        folder: Path,
        slaves: int = 1,
        properties: Mapping[str, str] | None = None,
        master: Mapping[str, str] | None = None,
    ) -> None:
        """``properties`` of all brokers, and of the first master only."""
        self.namesrv = NameServerProcess(folder / "namesrv")
        values = {**SMALL, **(properties or {})}
        roles = [
            dict(master or {}),
            *({"brokerRole": "SLAVE", "brokerId": str(n + 1)} for n in range(slaves)),
        ]
        self.brokers = [
            BrokerProcess(
                folder / f"broker-{number}",
                {**values, **role},
                standalone=False,
                options=["-n", self.namesrv.address],
            )
            for number, role in enumerate(roles)
        ]

    def __enter__(self) -> Self:
        self.namesrv.start()
        for broker in self.brokers:
            broker.start()
        until(self.level, "all slaves follow")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for broker in (*self.brokers, self.namesrv):
            broker.__exit__()

    def role(self, number: int) -> BrokerRoleInfo | None:
        """The role of one broker, None while it does not answer."""
        try:
            answer = self.brokers[number].call(request(RequestCode.GET_BROKER_ROLE), 5_000)
        except RemotingError:
            return None
        return BrokerRoleInfo.from_bytes(answer.body_bytes()) if answer.code == 0 else None

    def masters(self) -> list[int]:
        """The brokers that are masters and accept writes."""
        return [
            number
            for number in range(len(self.brokers))
            if (info := self.role(number)) is not None and info.role != "SLAVE" and info.writable
        ]

    def level(self) -> bool:
        """Whether there is one master and every slave that runs has its whole log."""
        roles = [self.role(number) for number, one in enumerate(self.brokers) if one.is_running]
        if any(info is None or info.changing for info in roles):
            return False
        known = [info for info in roles if info is not None]
        ends = {info.max_offset for info in known}
        slaves = [info for info in known if info.role == "SLAVE"]
        return (
            len(ends) == 1
            and len(slaves) == len(known) - 1
            and all(info.connected for info in slaves)
        )

    def registered(self) -> dict[int, str]:
        """Broker id → address at the name server."""
        with self.admin() as admin:
            data = admin.ask_namesrv(RequestCode.GET_BROKER_CLUSTER_INFO).value
            return {
                int(number): address
                for number, address in data.broker_addr_table["broker-a"].broker_addrs.items()
            }

    def admin(self) -> AdminSession:
        """A session with the name server."""
        return AdminSession([self.namesrv.address], timeout_ms=60_000)

    def send(self, number: int, body: bytes = b"x", topic: str = "Orders") -> RemotingCommand:
        """One message to one broker."""
        return self.brokers[number].call(
            request(RequestCode.SEND_MESSAGE_V2, {**SEND, "b": topic}, body), 5_000
        )

    def promote(self, number: int, **options: float) -> SwitchResult:
        """The whole switch to one broker."""
        wait_s = options.get("wait_s", 20.0)
        with self.admin() as admin, FailoverAdmin(admin, wait_s=wait_s) as library:
            return library.run(library.plan_promote(self.brokers[number].address))

    def plan(self, broker: str = "broker-a") -> SwitchPlan:
        """The plan of a promotion."""
        with self.admin() as admin, FailoverAdmin(admin) as library:
            return library.plan_promote(broker)

    def rerun(self) -> SwitchResult:
        """Replace an unfinished switch by one to the most advanced slave."""
        with self.admin() as admin, FailoverAdmin(admin, wait_s=20.0) as library:
            return library.run(library.plan_promote("broker-a", take_over=True))

    def demote(self, number: int) -> SwitchResult:
        """Make a master a slave."""
        with self.admin() as admin, FailoverAdmin(admin) as library:
            return library.run(library.plan_demote(self.brokers[number].address))


class Writer:
    """A producer that sends numbered messages until it is stopped; ``acknowledged`` bodies."""

    def __init__(self, send: Callable[[Message], object], topic: str = "Orders") -> None:
        self.acknowledged: list[bytes] = []
        # (monotonic s, error) of failed sends
        self.failures: list[tuple[float, str]] = []
        self.longest_gap_s = 0.0
        self._send = send
        self._topic = topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        number, last = 0, time.monotonic()
        while not self._stopping.is_set():
            body = b"%d" % number
            try:
                self._send(Message(self._topic, body))
            except RocketMQError as error:
                self.failures.append((time.monotonic(), str(error)))
                self._stopping.wait(0.02)
                continue
            self.longest_gap_s = max(self.longest_gap_s, time.monotonic() - last)
            last = time.monotonic()
            self.acknowledged.append(body)
            number += 1
            self._stopping.wait(0.005)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopping.set()
        self._thread.join(PATIENCE_S)


def records(broker: BrokerProcess, topic: str = "Orders") -> list[MessageExt]:
    """The messages of a topic in a broker's log, in the order of the log."""
    return [
        decode_record(item.file.data, item.record.position)
        for item in LogWalk(StoreDirectory(str(broker.store)))
        if item.record is not None and item.record.topic == topic.encode()
    ]


def bodies(broker: BrokerProcess, topic: str = "Orders") -> list[bytes]:
    """Their bodies."""
    return [bytes(record.body) for record in records(broker, topic)]
