"""Load for a broker that will be killed: every kind of traffic, and a ledger of the responses.

Messages go to TOPIC. A mirrored message names MIRROR for multi-dispatch, a light one the light
queue LIGHT. A delayed one and a timer come into TOPIC later, unless the timer is recalled; one that
is sent back comes into the retry topic of GROUP a second later. An inner batch is one record in
BULK, whose queues are BatchConsumeQueues.
"""

import hashlib
import random
import selectors
import socket
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import msgspec

from broker.message.batch import encode_batch
from broker.message.message import Message
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.remoting.protocol.framing import FrameDecoder, encode_frame
from tests.support import payer, pop_load, timer_load
from tests.support.child import Child
from tests.support.send_frames import sys_flag_of

TOPIC = "UnderFire"
MIRROR = "Mirror"
LIGHT = "%LMQ%fire"
BULK = "Bulk"
GROUP = "Retriers"
QUEUES = 4

PLAIN = ("plain", "plain", "plain", "plain", "plain", "batch")
EVERYTHING = (
    *PLAIN,
    "WAIT=false",
    "WAIT=false",
    "delayed",
    "timer",
    "timer",
    "recall",
    "inner batch",
    "for pop",
    "pop",
    "ack",
    "ack",
    "batch ack",
    "change invisible time",
    "for ordered pop",
    "ordered pop",
    "ordered ack",
    "ordered change",
    "mirrored",
    "light",
    "sent back",
    "commit",
    "administration",
    "transactional",
    "transactional",
    "end",
)
MULTI_DISPATCH = ("mirrored", "light")
# The topic of a kind; TOPIC of the others.
TOPICS = {
    "transactional": payer.TOPIC,
    "inner batch": BULK,
    "for pop": pop_load.TOPIC,
    "for ordered pop": pop_load.ORDERED,
}
POPS = {"pop", "ack", "batch ack", "change invisible time"}
ORDERED_POPS = {"ordered pop", "ordered ack", "ordered change"}
MADE_AT_MOST = 40  # topics, and as many groups: each making writes the whole file


class Ledger:
    """The sent messages and the responses of the broker."""

    def __init__(self) -> None:
        self.sent = 0
        self.acked: dict[tuple[int, int], int] = {}
        self.codes: Counter[int] = Counter()
        self.kinds: Counter[str] = Counter()
        self.unanswered = 0
        self.timers = timer_load.TimerLedger()
        # Numbers of messages; a queue id for each mirrored one.
        self.mirrored: dict[int, int] = {}
        self.light: set[int] = set()
        self.sent_back: Counter[int] = Counter()
        # Messages that can be sent back, with their physical offsets.
        self.places: list[tuple[int, int]] = []
        # Half messages, and those whose end was not sent yet.
        self.halves: dict[int, payer.Place] = {}
        self.undecided: list[int] = []
        self.checks: Counter[int] = Counter()
        self.commits: defaultdict[int, set[int]] = defaultdict(set)
        self.bulk: dict[tuple[int, int], int] = {}  # as acked, of BULK
        self.pops = pop_load.PopLedger()
        self.ordered_pops = pop_load.PopLedger(pop_load.ORDERED)
        self.topics: set[str] = set()
        self.groups: set[str] = set()
        self.made = 0

    def body(self, number: int) -> bytes:
        """The body of message ``number``: some 20 bytes to 4 KiB that follow from the number."""
        seed = hashlib.blake2b(number.to_bytes(8, "big"), digest_size=64).digest()
        size = int.from_bytes(seed[:2], "big") % (4000 if seed[2] < 64 else 400)
        return b"%012d:" % number + (seed * (size // 64 + 1))[:size]

    def new(self, count: int = 1) -> int:
        """The first of ``count`` numbers never used before."""
        self.sent += count
        return self.sent - count

    def note_stored(self, kind: str, numbers: range, answer: RemotingCommand) -> None:
        """A send was answered with success."""
        if kind in ("delayed", "timer"):
            self.timers.note_stored(numbers.start, answer)
            return
        if kind.startswith("for "):
            pops = self.pops if kind == "for pop" else self.ordered_pops
            pops.note_stored(numbers.start)
            return
        if kind == "transactional":
            self.halves[numbers.start] = payer.place_of(answer)
            self.undecided.append(numbers.start)
            return
        queue_id = int(answer.ext_fields["queueId"])
        queue_offset = int(answer.ext_fields["queueOffset"])
        acked = self.bulk if kind == "inner batch" else self.acked
        for number in numbers:
            place = (queue_id, queue_offset + number - numbers.start)
            assert place not in acked, f"{place} acknowledged twice"
            acked[place] = number
        if kind == "mirrored":
            self.mirrored[numbers.start] = queue_id
        elif kind == "light":
            self.light.add(numbers.start)
        if len(numbers) == 1:
            self.places.append((numbers.start, int(answer.ext_fields["msgId"][16:], 16)))
            del self.places[:-100]


class _Sent(msgspec.Struct, frozen=True):
    """A request in flight, and the action on success."""

    kind: str
    messages: int
    succeeded: Callable[[RemotingCommand], object]


class _Peer:
    """One connection with a number of requests under way."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.sock = socket.create_connection((host, int(port)), timeout=10)
        self.sock.setblocking(False)
        self.decoder = FrameDecoder()
        self.out = bytearray()
        self.waiting: dict[int, _Sent] = {}


class Senders:
    """Connections that send as quickly as they are answered, in one thread.

    ``kinds`` are drawn from at equal chances.
    """

    def __init__(
        self,
        child: Child,
        ledger: Ledger,
        rng: random.Random,
        *,
        connections: int = 6,
        kinds: Sequence[str] = PLAIN,
    ) -> None:
        self.ledger = ledger
        self._rng = rng
        self._kinds = kinds
        self._inflight = 8
        self._selector = selectors.DefaultSelector()
        self.peers = [_Peer(child.address) for _ in range(connections)]
        for peer in self.peers:
            self._selector.register(peer.sock, selectors.EVENT_READ, peer)

    def run(self, until: Callable[[], bool], *, patience: float = 60) -> None:
        """Send until ``until()``, or until every connection has ended."""
        deadline = time.monotonic() + patience
        while self.peers and not until():
            for peer in self.peers:
                while len(peer.waiting) < self._inflight:
                    self._send(peer)
            self._run_turn(0.2)
            assert time.monotonic() < deadline, "no progress"

    def drain(self, *, patience: float = 60) -> None:
        """Take every answer that is still on its way; ends when the connections do."""
        deadline = time.monotonic() + patience
        while self.peers and any(peer.waiting for peer in self.peers):
            self._run_turn(0.2)
            assert time.monotonic() < deadline, "responses are missing"
        self.close()

    def close(self) -> None:
        for peer in list(self.peers):
            self._drop(peer)
        self._selector.close()

    def _run_turn(self, timeout: float) -> None:
        for key, _ in self._selector.select(timeout):
            peer = key.data
            try:
                if peer.out:
                    del peer.out[: peer.sock.send(peer.out)]
                data = peer.sock.recv(1 << 18)
            except BlockingIOError:
                self._watch(peer)
                continue
            except OSError:
                self._drop(peer)
                continue
            if not data:
                self._drop(peer)
                continue
            for frame in peer.decoder.feed(data):
                self._take(peer, frame)
            self._watch(peer)

    def _watch(self, peer: _Peer) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.out else 0)
        self._selector.modify(peer.sock, events, peer)

    def _drop(self, peer: _Peer) -> None:
        self.ledger.unanswered += sum(sent.messages for sent in peer.waiting.values())
        self._selector.unregister(peer.sock)
        peer.sock.close()
        self.peers.remove(peer)

    def _take(self, peer: _Peer, frame: RemotingCommand) -> None:
        sent = peer.waiting.pop(frame.opaque, None)
        if sent is None:
            return
        self.ledger.codes[frame.code] += 1
        if frame.code == ResponseCode.SUCCESS:
            self.ledger.kinds[sent.kind] += 1
            sent.succeeded(frame)

    # ---- requests

    def _send(self, peer: _Peer) -> None:
        command, sent = self._request(self._rng.choice(self._kinds))
        if sent is None:
            self.ledger.kinds["end unknown"] += 1
        else:
            peer.waiting[command.opaque] = sent
        idle = not peer.out
        peer.out += encode_frame(command)
        if idle:
            try:
                del peer.out[: peer.sock.send(peer.out)]
            except OSError:
                pass  # the next turn handles it
        self._watch(peer)

    def _request(self, kind: str) -> tuple[RemotingCommand, _Sent | None]:
        """Return a request, and how to take its answer, None without one."""
        ledger = self.ledger
        if kind == "sent back" and ledger.places:
            return self._send_back(*self._rng.choice(ledger.places))
        if kind == "commit" and ledger.acked:
            return self._commit(*self._rng.choice(list(ledger.acked)[-50:]))
        if kind == "administration" and ledger.made < MADE_AT_MOST and self._rng.random() < 0.1:
            return self._make()
        if kind == "end" and ledger.undecided:
            number = ledger.undecided.pop(self._rng.randrange(len(ledger.undecided)))
            unknown = payer.is_undecided(number)
            command = payer.end_request(number, ledger.halves[number], unknown=unknown)
            return command, None if unknown else _Sent("end", 0, lambda _: None)
        if kind == "recall" and (timers := ledger.timers.recallable()):
            return self._recall(self._rng.choice(timers))
        if kind in POPS:
            return self._pop_request(kind, ledger.pops)
        if kind in ORDERED_POPS:
            return self._pop_request(kind, ledger.ordered_pops)
        if kind in ("sent back", "commit", "administration", "end", "recall"):
            kind = "plain"
        numbers = range(ledger.sent, ledger.sent + (5 if kind.endswith("batch") else 1))
        ledger.new(len(numbers))
        sent = _Sent(kind, len(numbers), lambda answer: ledger.note_stored(kind, numbers, answer))
        return self._message(kind, numbers), sent

    def _recall(self, number: int) -> tuple[RemotingCommand, _Sent]:
        timers = self.ledger.timers
        command = timers.recall_request(number, TOPIC)
        return command, _Sent("recall", 0, lambda _: timers.note_recalled(number))

    def _pop_request(self, kind: str, pops: pop_load.PopLedger) -> tuple[RemotingCommand, _Sent]:
        rng, invisible_ms = self._rng, self._rng.choice(pop_load.INVISIBLE_MS)
        if kind.endswith("pop") or not pops.held:
            kind = "ordered pop" if pops.ordered else "pop"
            return pops.pop_request(invisible_ms), _Sent(kind, 0, pops.note_popped)
        if kind == "batch ack":
            rng.shuffle(pops.held)
            batch, pops.held = pops.held[: pop_load.BATCH], pops.held[pop_load.BATCH :]
            command = pops.batch_ack_request(batch)
            return command, _Sent(kind, 0, lambda _: pops.note_acked(*batch))
        held = pops.held.pop(rng.randrange(len(pops.held)))
        if kind.endswith("ack"):
            return pops.ack_request(held), _Sent(kind, 0, lambda _: pops.note_acked(held))
        command = pops.change_request(held, invisible_ms)
        return command, _Sent(kind, 0, lambda answer: pops.note_changed(held, answer))

    def _message(self, kind: str, numbers: range) -> RemotingCommand:
        first = numbers.start
        properties = {"KEYS": f"k{first} all", "UNIQ_KEY": f"U{first:08d}", "TAGS": f"t{first % 7}"}
        if kind == "WAIT=false":
            properties["WAIT"] = "false"
        elif kind == "delayed":
            properties["DELAY"] = "1"
            self.ledger.timers.due_ms[first] = timer_load.wall_ms() + timer_load.LEVEL_MS
        elif kind == "timer":
            delay_ms = self._rng.choice(timer_load.DELAYS_MS)
            properties["TIMER_DELAY_MS"] = str(delay_ms)
            self.ledger.timers.due_ms[first] = timer_load.wall_ms() + delay_ms
        elif kind in MULTI_DISPATCH:
            properties["INNER_MULTI_DISPATCH"] = MIRROR if kind == "mirrored" else LIGHT
        elif kind == "transactional":
            properties.update(payer.properties_of(first))
        fields = {
            "a": "crash",
            "b": TOPICS.get(kind, TOPIC),
            "c": "TBW102",
            "d": str(QUEUES),
            "e": str(self._rng.randrange(QUEUES)),
            "f": sys_flag_of(first),
            # A half message that looks older than the log is kept is given up, not checked.
            "g": str(time.time_ns() // 1_000_000),
            "h": "0",
            "i": "".join(f"{name}\x01{value}\x02" for name, value in properties.items()),
            "j": "0",
            "k": "false",
            "l": "16",
            "m": "false",
        }
        body = self.ledger.body
        if not kind.endswith("batch"):
            return request(RequestCode.SEND_MESSAGE_V2, fields, body(first))
        messages = [Message(topic=fields["b"], body=body(n), keys=f"k{n}") for n in numbers]
        fields = {**fields, "m": "true", "i": ""}
        return request(RequestCode.SEND_BATCH_MESSAGE, fields, encode_batch(messages))

    def _send_back(self, number: int, physical_offset: int) -> tuple[RemotingCommand, _Sent]:
        fields = {
            "offset": str(physical_offset),
            "group": GROUP,
            "delayLevel": "1",
            "maxReconsumeTimes": "16",
        }
        command = request(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
        return command, _Sent("sent back", 0, lambda _: self.ledger.sent_back.update((number,)))

    def _commit(self, queue_id: int, queue_offset: int) -> tuple[RemotingCommand, _Sent]:
        fields = {
            "consumerGroup": GROUP,
            "topic": TOPIC,
            "queueId": str(queue_id),
            "commitOffset": str(queue_offset + 1),
        }
        # From now on it may be found.
        self.ledger.commits[queue_id].add(queue_offset + 1)
        command = request(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
        return command, _Sent("commit", 0, lambda _: None)

    def _make(self) -> tuple[RemotingCommand, _Sent]:
        ledger = self.ledger
        ledger.made += 1
        name = f"Made{ledger.made}"
        if ledger.made % 2:
            return group_request(name), _Sent("group", 0, lambda _: ledger.groups.add(name))
        return topic_request(name), _Sent("topic", 0, lambda _: ledger.topics.add(name))


def topic_request(name: str, attributes: str = "") -> RemotingCommand:
    """Make a topic with QUEUES queues."""
    fields = {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": str(QUEUES),
        "writeQueueNums": str(QUEUES),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
        "attributes": attributes,
    }
    return request(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


def group_request(name: str) -> RemotingCommand:
    """Make a consumer group."""
    body = msgspec.json.encode({"groupName": name})
    return request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)
