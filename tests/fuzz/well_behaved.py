"""A client that keeps to the rules while others do not: it must be served all the time.

It runs in a separate thread. ``longest`` is the longest wait for an answer, with the time on the
processor that the daemon used meanwhile: a machine that is busy with something else makes waits
long, a request that holds up the daemon's loop makes both long.
"""

import threading
import time
from pathlib import Path
from typing import NamedTuple

from broker.message.properties import encode_properties
from broker.message.record import scan_records
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request
from tests.fuzz.frames import LONG_TOPIC
from tests.support.broker_process import RawPeer

PAUSE_S = 0.005
ANSWER_TIMEOUT_S = 120.0
NANOSECONDS = 1_000_000_000


class Gap(NamedTuple):
    """One wait: when it began (monotonic), how long, how much of it the daemon computed."""

    began: float
    seconds: float
    computed_seconds: float
    code: int


NONE = Gap(0.0, 0.0, 0.0, 0)


class WellBehavedClient:
    """Sends one request after the other in a thread; subclasses define them."""

    def __init__(self, address: str, pid: int) -> None:
        self.longest = NONE
        # Of the current request: its time, the CPU time of the daemon at that time, its code.
        self._asked: tuple[float, int, int] | None = None
        self.failure: BaseException | None = None
        self.answers = 0
        self._address = address
        self._pid = pid
        self._peer = RawPeer(address, ANSWER_TIMEOUT_S)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="well-behaved", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more; the last answer has come then."""
        self._stopping.set()
        self._thread.join(ANSWER_TIMEOUT_S)
        self._peer.close()

    @property
    def is_served(self) -> bool:
        """Whether every question so far was answered as it should be."""
        return self.failure is None

    def forget(self) -> None:
        """Begin a new longest wait."""
        self.longest = NONE

    @property
    def gap(self) -> Gap:
        """The wait that lasts, as long as it has lasted."""
        asked = self._asked
        if asked is None:
            return NONE
        began, computed, code = asked
        used = self._computed() - computed
        return Gap(began, time.monotonic() - began, used / NANOSECONDS, code)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(PAUSE_S):
                self.ask()
        except BaseException as error:
            self.failure = error

    def ask(self) -> None:
        """One round of questions; AssertionError for an answer that is wrong."""
        raise NotImplementedError

    def call(self, command: RemotingCommand) -> RemotingCommand:
        """One question; AssertionError when the connection is closed instead of an answer."""
        self._asked = (time.monotonic(), self._computed(), command.code)
        answer = self._peer.call(command)
        gap = self.gap
        self._asked = None
        if gap.seconds > self.longest.seconds:
            self.longest = gap
        assert answer is not None, f"the connection was closed at request {command.code}"
        self.answers += 1
        return answer

    def _computed(self) -> int:
        """Time on the processor of the daemon's main thread, in ns."""
        return int(Path(f"/proc/{self._pid}/task/{self._pid}/schedstat").read_text().split()[0])


BUSY_LIMIT_S = 30.0  # of refusals by flow control


LONG_QUEUES = 4
LONG_COUNT = 32
LONG_BODY = bytes(2_000)


class MessageClient(WellBehavedClient):
    """Sends to its own topic and reads every message back.

    Also pulls the messages of :meth:`store_long`, whose responses are longer than those that are
    joined, and that hostile peers pull too.
    """

    TOPIC = "WellBehaved"

    def __init__(self, address: str, pid: int) -> None:
        super().__init__(address, pid)
        # Queue offset to body of everything acknowledged.
        self.acknowledged: dict[int, bytes] = {}
        self._number = 0
        self._long: list[bytes] = []  # the records of each queue of LONG_TOPIC

    def ask(self) -> None:
        body = b"%08d" % self._number
        self._number += 1
        offset = self._send(body)
        self.acknowledged[offset] = body
        answer = self.call(pull_request(self.TOPIC, offset))
        assert answer.code == ResponseCode.SUCCESS, f"pull: {answer.code} {answer.remark}"
        (message, *_) = scan_records(answer.body_bytes())
        assert (message.queue_offset, message.body) == (offset, body)
        if self._long:
            queue_id = self._number % LONG_QUEUES
            assert self._pull_long(queue_id) == self._long[queue_id]

    def store_long(self) -> None:
        """Send to the queues of LONG_TOPIC in turn, so that no two records of one are adjacent."""
        for number in range(LONG_COUNT * LONG_QUEUES):
            self._send(LONG_BODY, LONG_TOPIC, number % LONG_QUEUES)
        self._long = [self._pull_long(queue_id) for queue_id in range(LONG_QUEUES)]
        for records in self._long:
            assert [len(message.body) for message in scan_records(records)] == [2_000] * LONG_COUNT

    def _pull_long(self, queue_id: int) -> bytes:
        answer = self.call(pull_request(LONG_TOPIC, 0, queue_id))
        assert answer.code == ResponseCode.SUCCESS, f"pull: {answer.code} {answer.remark}"
        return bytes(answer.body_bytes())

    def _send(self, body: bytes, topic: str = TOPIC, queue_id: int = 0) -> int:
        fields = {
            "a": "WellBehaved",
            "b": topic,
            "c": "TBW102",
            "d": str(LONG_QUEUES),
            "e": str(queue_id),
            "f": "0",
            "g": "1700000000000",
            "h": "0",
            "i": encode_properties({"UNIQ_KEY": f"W{self._number:08d}", "KEYS": "w"}).decode(),
        }
        deadline = time.monotonic() + BUSY_LIMIT_S
        while True:
            answer = self.call(request(RequestCode.SEND_MESSAGE_V2, fields, body))
            # Flow control while the disk of this machine is slow: producers send again.
            if answer.code != ResponseCode.SYSTEM_BUSY or time.monotonic() > deadline:
                break
        assert answer.code == ResponseCode.SUCCESS, f"send: {answer.code} {answer.remark}"
        return int(answer.ext_fields["queueOffset"])

    def check_all(self, address: str) -> None:
        """Everything acknowledged is there, read over a new connection."""
        found: dict[int, bytes] = {}
        with RawPeer(address) as peer:
            offset, end = 0, max(self.acknowledged) + 1
            while offset < end:
                answer = peer.call(pull_request(self.TOPIC, offset))
                assert answer is not None
                assert answer.code == ResponseCode.SUCCESS, f"{answer.code} {answer.remark}"
                for message in scan_records(answer.body_bytes()):
                    found[message.queue_offset] = bytes(message.body)
                offset = int(answer.ext_fields["nextBeginOffset"])
        lost = [o for o, body in self.acknowledged.items() if found.get(o) != body]
        assert not lost, f"{len(lost)} acknowledged messages are lost: {lost[:5]}"


class KvClient(WellBehavedClient):
    """Writes and reads its own namespace at a name server."""

    def __init__(self, address: str, pid: int) -> None:
        super().__init__(address, pid)
        self._number = 0

    def ask(self) -> None:
        self._number += 1
        place = {"namespace": "WellBehaved", "key": "key"}
        value = str(self._number)
        answer = self.call(request(RequestCode.PUT_KV_CONFIG, {**place, "value": value}))
        assert answer.code == ResponseCode.SUCCESS, f"put: {answer.code} {answer.remark}"
        answer = self.call(request(RequestCode.GET_KV_CONFIG, place))
        assert answer.code == ResponseCode.SUCCESS, f"get: {answer.code} {answer.remark}"
        assert answer.ext_fields["value"] == value


def pull_request(topic: str, offset: int, queue_id: int = 0) -> RemotingCommand:
    """A pull of a queue, suspended like a consumer's until a message arrives.

    A message is acknowledged when it is in the log; a backlog of other peers' messages may be
    dispatched before it.
    """
    fields = {
        "consumerGroup": "WellBehaved",
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": "6",
        "commitOffset": "0",
        "suspendTimeoutMillis": "15000",
        "subscription": "*",
        "subVersion": "0",
    }
    return request(RequestCode.PULL_MESSAGE, fields)
