"""Pops and acknowledgements of the load on a broker that will be killed.

A message of TOPIC that was stored and never acknowledged is delivered again after each kill. An
acknowledgement that was sent may count, answered or not: such a message is delivered once more or
not at all. One that was answered while the message was invisible lasts if the broker then stops in
order, with the consumer offset after the message in its file: it is not delivered again.
"""

from typing import Any

import msgspec

from broker.message.receipt_handle import real_topic
from broker.message.record import scan_records
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request
from tests.support.timer_load import wall_ms

TOPIC = "Popped"
GROUP = "Poppers"
BROKER_NAME = "under-fire"
INVISIBLE_MS = 2_000
KEPT_HANDLES = 100


class Held(msgspec.Struct, frozen=True):
    """A delivered message: its number and the fields of the request that acknowledges it."""

    number: int
    fields: dict[str, str]
    visible_ms: int

    @property
    def place(self) -> tuple[str, int, int]:
        """Topic, queue id and queue offset."""
        fields = self.fields
        return fields["topic"], int(fields["queueId"]), int(fields["offset"])


class PopLedger:
    """The stored messages of TOPIC, their deliveries and acknowledgements."""

    def __init__(self) -> None:
        self.stored: set[int] = set()
        self.sent_acks: set[int] = set()
        self.held: list[Held] = []
        self.lasting: set[int] = set()
        # Of this life of the broker:
        self._new: set[int] = set()
        self._places: set[tuple[str, int, int]] = set()
        self._acked: dict[int, tuple[str, int, int]] = {}

    def begin_life(self) -> None:
        """The broker starts: it may deliver again all that no offset in a file excludes."""
        self._new.clear()
        self._places.clear()
        self._acked.clear()

    def note_stored(self, number: int) -> None:
        """A message was stored."""
        self.stored.add(number)
        self._new.add(number)

    def note_popped(self, answer: RemotingCommand) -> None:
        """Keep the handles of the messages of a pop."""
        found = delivered(answer)
        for held in found:
            assert held.place not in self._places, f"delivered twice: {held}"
            self._places.add(held.place)
        self.held += found
        del self.held[:-KEPT_HANDLES]

    def ack_request(self, held: Held) -> RemotingCommand:
        """ACK_MESSAGE: from now on the message may be missing."""
        self.sent_acks.add(held.number)
        return request(RequestCode.ACK_MESSAGE, held.fields)

    def note_acked(self, held: Held) -> None:
        """An acknowledgement was answered with success; that of another copy does not last."""
        if held.place[0] == TOPIC and held.number in self._new and wall_ms() < held.visible_ms:
            self._acked[held.number] = held.place

    def change_request(self, held: Held, invisible_ms: int) -> RemotingCommand:
        """CHANGE_MESSAGE_INVISIBLETIME."""
        fields = {**held.fields, "invisibleTime": str(invisible_ms)}
        return request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields)

    def note_changed(self, held: Held, answer: RemotingCommand) -> None:
        """The message is held with another handle."""
        ext = answer.ext_fields
        parts = held.fields["extraInfo"].split(" ")
        # The new check point is that of this message alone.
        parts[:4] = [
            held.fields["offset"], ext["popTime"], ext["invisibleTime"], ext["reviveQid"]
        ]  # fmt: skip
        fields = {**held.fields, "extraInfo": " ".join(parts)}
        visible_ms = int(ext["popTime"]) + int(ext["invisibleTime"])
        self.held.append(Held(held.number, fields, visible_ms))

    def note_stopped(self, offsets: dict[int, int]) -> None:
        """The broker has stopped in order; ``offsets`` of the queues of TOPIC are in the file."""
        for number, (_, queue_id, queue_offset) in self._acked.items():
            if queue_offset < offsets.get(queue_id, 0):
                self.lasting.add(number)


def pop_request() -> RemotingCommand:
    """POP_MESSAGE of any queue, answered at once."""
    fields: dict[str, Any] = {
        "consumerGroup": GROUP, "topic": TOPIC, "queueId": -1, "maxMsgNums": 16,
        "invisibleTime": INVISIBLE_MS, "pollTime": 0, "bornTime": wall_ms(),
        "initMode": 0,
    }  # fmt: skip
    text = {name: str(value) for name, value in fields.items()}
    return request(RequestCode.POP_MESSAGE, text)


def delivered(answer: RemotingCommand) -> list[Held]:
    """The messages of a pop."""
    ext = answer.ext_fields
    starts = {tuple(item.split(" ")[:2]): item for item in ext["startOffsetInfo"].split(";")}
    found = []
    for message in scan_records(answer.body_bytes()):
        handle = message.get_property("POP_CK")
        if handle is None:
            start = starts["0", str(message.queue_id)].split(" ")[2]
            handle = (
                f"{start} {ext['popTime']} {ext['invisibleTime']} {ext['reviveQid']} 0 "
                f"{BROKER_NAME} {message.queue_id} {message.queue_offset}"
            )
        fields = {
            "consumerGroup": GROUP,
            "topic": real_topic(TOPIC, GROUP, handle.split(" ")[4]),
            "queueId": str(message.queue_id),
            "offset": str(message.queue_offset),
            "extraInfo": handle,
        }
        _, popped_ms, invisible_ms, *_ = handle.split(" ")
        visible_ms = int(popped_ms) + int(invisible_ms)
        found.append(Held(int(message.body[:12]), fields, visible_ms))
    return found


class PopAudit:
    """Pops until every message that was never acknowledged has been delivered."""

    def __init__(self, ledger: PopLedger) -> None:
        self._ledger = ledger
        self._seen: set[int] = set()

    def missing(self, client: BlockingClient, address: str) -> list[int]:
        """Pop and acknowledge once more; return the numbers that are still missing."""
        while (answer := client.call(address, pop_request())).code == 0:
            for held in delivered(answer):
                self._seen.add(held.number)
                again = held.number in self._ledger.lasting
                assert not again, f"delivered after its acknowledgement: {held}"
                acked = client.call(address, request(RequestCode.ACK_MESSAGE, held.fields))
                assert acked.code == 0, acked.remark
        ledger = self._ledger
        return sorted(ledger.stored - ledger.sent_acks - self._seen)

    def note_acknowledged(self) -> None:
        """Record the acknowledgements of this audit in the ledger."""
        self._ledger.sent_acks |= self._seen
