"""Popping traffic: one popping client, its acknowledgements, messages a crash may bring back.

Marks in the journal, in addition to those of :mod:`tests.support.traffic`:

=========  ========================================================================
acking     number: the acknowledgement is about to be sent
acked      (number, time ms, end of the log, merged in memory): accepted in time
changed    number: its invisible time is about to be changed
overdue    number: that time is over, so the message is delivered again by its old handle, too
=========  ========================================================================
"""

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.receipt_handle import real_topic
from broker.message.record import scan_records
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request
from tests.support.simulated_broker import SimBroker

if TYPE_CHECKING:
    from tests.support.traffic import Traffic

TOPIC = "P0"
GROUP = "GP"
INVISIBLE_MS = (1_500, 5_000)
PERSISTED_MS = 40_000  # after so long an acknowledged message is below every offset in a file
NEVER = 1 << 62
PASSES = 30  # of a second each, until nothing that was popped is invisible
UNSEEN = 3  # deliveries of one message that left no mark, for each crash before


class Popped(msgspec.Struct):
    """A message that a client holds, and the fields of the request that acknowledges it."""

    number: int
    fields: dict[str, Any]
    visible_ms: int


class PopClient:
    """One popping client of a simulated broker; ``held`` are its unacknowledged messages."""

    def __init__(self, broker: SimBroker, topic: str = "Pop", group: str = "G") -> None:
        self.broker = broker
        self.topic = topic
        self.group = group
        self.held: list[Popped] = []

    async def call(self, code: int, fields: dict[str, Any], body: bytes = b"") -> RemotingCommand:
        """Send a request and wait for its answer."""
        text = {name: str(value) for name, value in fields.items()}
        return await self.broker.peer.call(request(code, text, body))

    async def send(self, number: int) -> bool:
        """Send a message whose body is its number."""
        properties = encode_properties({"UNIQ_KEY": f"{number:032X}", "WAIT": "true"})
        fields = {
            "a": "P", "b": self.topic, "c": "TBW102", "d": 2, "e": number % 2, "f": 0,
            "g": self.broker.clock.now_ms(), "h": 0, "i": properties.decode(), "j": 0,
            "k": "false", "m": "false",
        }  # fmt: skip
        answer = await self.call(RequestCode.SEND_MESSAGE_V2, fields, b"%06d" % number)
        return answer.code == 0

    async def pop(self, invisible_ms: int) -> list[int]:
        """POP_MESSAGE of any queue; return the numbers of the messages."""
        fields = {
            "consumerGroup": self.group, "topic": self.topic, "queueId": -1, "maxMsgNums": 8,
            "invisibleTime": invisible_ms, "pollTime": 0, "bornTime": self.broker.clock.now_ms(),
            "initMode": 0,
        }  # fmt: skip
        answer = await self.call(RequestCode.POP_MESSAGE, fields)
        if answer.code != 0:
            return []
        ext = answer.ext_fields
        starts = {tuple(item.split(" ")[:2]): item for item in ext["startOffsetInfo"].split(";")}
        found = []
        for message in scan_records(answer.body_bytes()):
            handle = message.get_property("POP_CK")
            if handle is None:
                start = starts["0", str(message.queue_id)].split(" ")[2]
                handle = (
                    f"{start} {ext['popTime']} {ext['invisibleTime']} {ext['reviveQid']} 0 "
                    f"broker-a {message.queue_id} {message.queue_offset}"
                )
            found.append(self._popped(message, handle, int(ext["popTime"]) + invisible_ms))
        self.held += found
        return [each.number for each in found]

    def _popped(self, message: MessageExt, handle: str, visible_ms: int) -> Popped:
        fields = {
            "consumerGroup": self.group,
            "topic": real_topic(self.topic, self.group, handle.split(" ")[4]),
            "queueId": message.queue_id,
            "offset": message.queue_offset,
            "extraInfo": handle,
        }
        return Popped(int(message.body[:6]), fields, visible_ms)

    async def ack(self, popped: Popped) -> bool:
        """ACK_MESSAGE."""
        self.held.remove(popped)
        answer = await self.call(RequestCode.ACK_MESSAGE, popped.fields)
        return answer.code == 0

    async def change_invisible(self, popped: Popped, invisible_ms: int) -> bool:
        """CHANGE_MESSAGE_INVISIBLETIME: the message is held under a new handle."""
        fields = {**popped.fields, "invisibleTime": invisible_ms}
        answer = await self.call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields)
        if answer.code != 0:
            return False
        ext = answer.ext_fields
        parts = popped.fields["extraInfo"].split(" ")
        offset = str(popped.fields["offset"])  # the check point is that of this message alone
        parts[:4] = [offset, ext["popTime"], ext["invisibleTime"], ext["reviveQid"]]
        popped.fields = {**popped.fields, "extraInfo": " ".join(parts)}
        popped.visible_ms = int(ext["popTime"]) + int(ext["invisibleTime"])
        return True


class Pops:
    """The popping part of one client's traffic."""

    def __init__(self, traffic: "Traffic", rng: random.Random) -> None:
        self._traffic = traffic
        self._rng = rng
        self._client: PopClient | None = None

    def attach(self, broker: SimBroker) -> None:
        """Pop from this broker from now on; messages held before become visible again."""
        self._client = PopClient(broker, TOPIC, GROUP)

    def step(self) -> None:
        """Pop, acknowledge, or change how long a message stays invisible."""
        client, traffic, rng = self._client, self._traffic, self._rng
        assert client is not None
        roll = rng.random()
        if roll < 0.45 or not client.held:
            traffic.kinds["pop"] += 1
            for number in client.broker.run(client.pop(rng.choice(INVISIBLE_MS))):
                traffic.mark("popped", number)
        elif roll < 0.8:
            client.broker.run(self._ack(client, rng.choice(client.held)))
        else:
            traffic.kinds["change invisible time"] += 1
            popped = rng.choice(client.held)
            traffic.mark("changed", popped.number)
            if client.broker.clock.now_ms() >= popped.visible_ms:
                traffic.mark("overdue", popped.number)
            client.broker.run(client.change_invisible(popped, rng.choice(INVISIBLE_MS)))

    async def _ack(self, client: PopClient, popped: Popped) -> None:
        traffic, broker = self._traffic, client.broker
        traffic.kinds["ack"] += 1
        traffic.mark("acking", popped.number)
        if await client.ack(popped) and broker.clock.now_ms() < popped.visible_ms:
            merged = broker.settings.properties.get("enablePopBufferMerge") == "true"
            end = broker.store.max_physical_offset
            traffic.mark("acked", (popped.number, broker.clock.now_ms(), end, merged))


class ExpectedPops:
    """The expectations from acknowledgements before a cut."""

    def __init__(self) -> None:
        self.acking: set[int] = set()
        self.acked: dict[int, tuple[int, int]] = {}  # number → time, end of the log
        self.changed: Counter[int] = Counter()
        self.overdue: set[int] = set()
        self.popped_before: set[int] = set()  # a crash, and not acknowledged
        self.popped: Counter[int] = Counter()
        self.crashes = 1
        self.failing_ms = NEVER  # from then on the disk fails: perhaps no offset is written
        self.progress_fails = False  # the revive offset may be old: deliveries repeat
        self.found: Counter[int] = Counter()

    def note_acked(self, number: int, at_ms: int, log_end: int, merged: bool) -> None:
        """An acknowledgement was accepted in time; merged in memory a crash may forget it."""
        if not merged:
            self.acked[number] = at_ms, log_end

    def forget_recent(self, now_ms: int) -> None:
        """A start from here on may find pop offsets from before the last acknowledgements."""
        self.acked = {
            number: (at_ms, log_end)
            for number, (at_ms, log_end) in self.acked.items()
            if min(now_ms, self.failing_ms) - at_ms >= PERSISTED_MS
        }

    def note_crash(self) -> None:
        """A message that was popped may be popped again: its first check point stays open."""
        self.popped_before |= self.popped.keys() - self.acked.keys()

    def check(
        self, broker: SimBroker, sent: set[int], once: set[int], durable_end: int, cut_ms: int
    ) -> None:
        """Pop everything: unacknowledged messages arrive, acknowledged ones stay away.

        ``sent`` must be stored; ``once`` are messages that the topic holds one time. Repeated
        checks on one disk add to the messages found: each check acknowledges all it pops.
        """
        client = PopClient(broker, TOPIC, GROUP)
        missing = sent - self.acking
        found: Counter[int] = Counter()
        for turn in range(PASSES):
            while numbers := broker.run(client.pop(600_000)):
                found.update(numbers)
                for popped in list(client.held):
                    assert broker.run(client.ack(popped))
            missing -= found.keys() | self.found.keys()
            if not missing and turn >= 3:
                break
            broker.pass_ms(1_000)
        assert not missing, f"popped messages never delivered again: {sorted(missing)[:5]}"
        self.forget_recent(cut_ms)
        lasting = {
            number
            for number, (at_ms, log_end) in self.acked.items()
            if number in once and log_end <= durable_end
        } - (self.overdue | self.popped_before)
        if self.progress_fails:
            # The old check point is acknowledged after a flush: if that fails, it delivers again.
            lasting -= self.changed.keys()
        again = sorted(lasting & found.keys())
        assert not again, f"acknowledged messages delivered again: {again[:5]}"
        # Each check point that a crash brought back delivers its message once more.
        often = {
            number: times
            for number, times in found.items()
            if times > (UNSEEN + self.popped[number] + self.changed[number]) * self.crashes
        }
        if not self.progress_fails:
            assert not often.keys() & once, f"delivered too often: {often}"
        self.found += found
