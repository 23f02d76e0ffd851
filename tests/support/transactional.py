"""Transactional traffic: half messages, their ends and the checks of a producer group.

Marks in the journal, in addition to those of :mod:`tests.support.traffic`:

=========  ========================================================================
half       a :class:`Half`: its position was answered
decided    (number, decision): known to the producer, before it ends the transaction
=========  ========================================================================

A decision is known to the producer from then on: it repeats it whenever the broker asks.
"""

import random
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import decode_record
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request
from tests.support.simulated_broker import SimBroker

if TYPE_CHECKING:
    from tests.support.traffic import Traffic

TOPIC = "X0"
QUEUE_ID = 1
GROUP = "PT"
OP_QUEUE = ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0)
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
ROUNDS_MS = 8_500  # with two more seconds: three check rounds, and between two of them


class Half(msgspec.Struct, frozen=True, kw_only=True):
    """A half message that was acknowledged."""

    number: int
    queue_offset: int
    physical_offset: int
    waited: bool


class Producer:
    """A producer that answers checks: as decided, "unknown" about a half it has not decided.

    It rolls back unknown transactions: the response to their send was lost.
    """

    def __init__(
        self, broker: SimBroker, halves: Mapping[int, Half], decisions: Mapping[int, int]
    ) -> None:
        self.broker = broker
        self._halves = halves
        self._decisions = decisions
        self.asked = 0
        broker.peer.on_request = self._checked

    async def register(self) -> None:
        """HEART_BEAT of the group."""
        body = {"clientID": "tx", "producerDataSet": [{"groupName": GROUP}], "consumerDataSet": []}
        command = request(RequestCode.HEART_BEAT, {}, msgspec.json.encode(body))
        answer = await self.broker.peer.call(command)
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    def _checked(self, command: RemotingCommand) -> None:
        """CHECK_TRANSACTION_STATE."""
        assert command.code == RequestCode.CHECK_TRANSACTION_STATE
        message = decode_record(command.body_bytes(), check_crc=True)
        assert (message.topic, message.queue_id) == (TOPIC, QUEUE_ID)
        self.asked += 1
        number = number_of(message)
        otherwise = UNKNOWN if number in self._halves else ROLLBACK
        fields = {
            **{name: command.ext_fields[name] for name in ("tranStateTableOffset", "msgId")},
            "commitLogOffset": command.ext_fields["commitLogOffset"],
            "producerGroup": GROUP,
            "commitOrRollback": str(self._decisions.get(number, otherwise)),
            "fromTransactionCheck": "true",
        }
        ended = request(RequestCode.END_TRANSACTION, fields, oneway=True)
        self.broker.peer.send(ended)


def number_of(message: MessageExt) -> int:
    """The number in a body."""
    return int(message.body[:6])


class Transactions:
    """The transactional part of one client's traffic."""

    def __init__(self, traffic: "Traffic", rng: random.Random) -> None:
        self._traffic = traffic
        self._rng = rng
        self.halves: dict[int, Half] = {}
        self.decisions: dict[int, int] = {}
        self._producer: Producer | None = None

    def attach(self, broker: SimBroker) -> None:
        """Answer the checks of this broker from now on."""
        self._producer = Producer(broker, self.halves, self.decisions)
        broker.run(self._producer.register())

    def return_to(self, halves: Mapping[int, Half], decisions: Mapping[int, int]) -> None:
        """Return to the state before a cut: the producer lost its power, too."""
        self.halves = dict(halves)
        self.decisions = dict(decisions)

    def step(self) -> None:
        """Begin or end a transaction, or end one wrongly."""
        broker = self._traffic.broker
        roll = self._rng.random()
        undecided = [number for number in self.halves if number not in self.decisions]
        if roll < 0.5 or not undecided:
            broker.run(self.begin(wait=self._rng.random() < 0.6))
        elif roll < 0.9:
            number = self._rng.choice(undecided)
            broker.run(self.decide(number, self._rng.choice((COMMIT, COMMIT, ROLLBACK))))
        else:
            broker.run(self._end_wrongly(self._rng.choice(undecided)))

    async def begin(self, *, wait: bool, body: bytes = b"") -> int:
        """Send a half message; return its number."""
        traffic = self._traffic
        number = traffic.number
        traffic.number += 1
        traffic.kinds["half" + ("" if wait else " WAIT=false")] += 1
        properties = {
            "UNIQ_KEY": f"X{number:08d}",
            "KEYS": f"k{number}",
            "TRAN_MSG": "true",
            "PGROUP": GROUP,
            "WAIT": "true" if wait else "false",
        }
        fields = {
            "a": GROUP,
            "b": TOPIC,
            "c": "TBW102",
            "d": "2",
            "e": str(QUEUE_ID),
            "f": "4",
            "g": str(traffic.broker.clock.now_ms()),
            "h": "0",
            "j": "0",
            "k": "false",
            "i": encode_properties(properties).decode(),
            "m": "false",
        }
        command = request(RequestCode.SEND_MESSAGE_V2, fields, b"%06d" % number + body)

        def note(answer: RemotingCommand) -> None:
            if answer.code != ResponseCode.SUCCESS:
                traffic.refused[answer.code] += 1
                return
            half = self.halves[number] = Half(
                number=number,
                queue_offset=int(answer.ext_fields["queueOffset"]),
                physical_offset=int(answer.ext_fields["msgId"][16:], 16),
                waited=wait and traffic.sync,
            )
            traffic.mark("half", half)

        await traffic.broker.peer.call(command, note)
        return number

    async def decide(self, number: int, decision: int) -> None:
        """Decide a transaction and end it; the request may be lost on its way."""
        traffic = self._traffic
        self.decisions[number] = decision
        traffic.mark("decided", (number, decision))
        if self._rng.random() < 0.2:
            traffic.kinds["end lost"] += 1
            return
        traffic.kinds["commit" if decision == COMMIT else "rollback"] += 1
        await self.end_transaction(number, decision)

    async def _end_wrongly(self, number: int) -> None:
        """END_TRANSACTION of a foreign group."""
        self._traffic.kinds["foreign end"] += 1
        answer = await self.end_transaction(number, COMMIT, producerGroup="Foreign")
        assert answer.code == ResponseCode.SYSTEM_ERROR, answer.remark

    async def end_transaction(self, number: int, decision: int, **changes: str) -> RemotingCommand:
        half = self.halves[number]
        fields = {
            "producerGroup": GROUP,
            "tranStateTableOffset": str(half.queue_offset),
            "commitLogOffset": str(half.physical_offset),
            "commitOrRollback": str(decision),
            "msgId": f"X{number:08d}",
            **changes,
        }
        return await self._traffic.broker.peer.call(request(RequestCode.END_TRANSACTION, fields))

    def wait_until(self) -> None:
        """Decide every open transaction: afterwards no check appends anything."""
        broker = self._traffic.broker
        for number in [each for each in self.halves if each not in self.decisions]:
            broker.run(self.decide(number, ROLLBACK))
        broker.pass_ms(ROUNDS_MS)


def check_transactions(
    broker: SimBroker,
    halves: Mapping[int, Half],
    decisions: Mapping[int, int],
    found: Mapping[tuple[str, int], list[MessageExt]],
    *,
    power_cuts: int,
) -> None:
    """Each transaction ended as its producer decided, or is open still.

    ``found`` is every message of the broker after check rounds that the producer answered. Each
    power cut may lose a copy of a half message, but not the message that was delivered for it.
    """
    visible: dict[int, int] = {}
    for message in found.get((TOPIC, QUEUE_ID), ()):
        visible[number_of(message)] = visible.get(number_of(message), 0) + 1
    transactions = broker.context.transactions
    assert transactions is not None
    scanned = transactions.bridge.half_offset()
    records = found.get(("RMQ_SYS_TRANS_HALF_TOPIC", 0), [])
    copies = Counter(number_of(message) for message in records)
    open_halves = {number_of(m) for m in records if m.queue_offset >= scanned}
    for number, half in halves.items():
        decision, times = decisions.get(number, UNKNOWN), visible.get(number, 0)
        if decision == COMMIT:
            # A check that a crash forgot is repeated with another copy; no copy counts twice.
            most = copies[number] + power_cuts
            assert 1 <= times <= most, f"committed, delivered {times} times: {half}"
        else:
            assert times == 0, f"delivered without a commit: {half}"
        if decision == UNKNOWN:
            assert number in open_halves, f"an undecided half message is lost: {half}"
