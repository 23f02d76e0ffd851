"""Pops and acknowledgements of the load on a broker that will be killed.

Messages of TOPIC are popped in any order, those of ORDERED in order. A message that was stored and
never acknowledged is delivered again after each kill. An acknowledgement that was sent may count,
answered or not: such a message is delivered once more or not at all.

An acknowledgement lasts if it was answered while the message was invisible and the consumer offset
in the file is after the message when the broker ends, by a stop in order or by a kill: the message
is not delivered again. Check point and acknowledgement are in the log before the offset is in the
file, even if they were merged in memory. Without that offset the queue is popped again from the
offset in the file, as in Java.
"""

import base64
from typing import Any

import msgspec

from broker.message.receipt_handle import real_topic
from broker.message.record import scan_records
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.body.consumer.pop import BatchAck, BatchAckMessageRequestBody
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request
from tests.support.timer_load import wall_ms

TOPIC = "Popped"
ORDERED = "PoppedInOrder"
GROUP = "Poppers"
BROKER_NAME = "under-fire"
# Check points of the longer time are merged in memory with enablePopBufferMerge.
INVISIBLE_MS = (1_500, 5_000)
SETTINGS = {"popCkStayBufferTimeOut": "1500", "popCkStayBufferTime": "4000"}
KEPT_HANDLES = 100
BATCH = 8


class Held(msgspec.Struct, frozen=True):
    """A delivered message: its number and the fields of the request that acknowledges it.

    ``in_time``: its invisible time was never changed after its end.
    """

    number: int
    fields: dict[str, str]
    visible_ms: int
    in_time: bool = True

    @property
    def place(self) -> tuple[str, int, int]:
        """Topic, queue id and queue offset."""
        fields = self.fields
        return fields["topic"], int(fields["queueId"]), int(fields["offset"])

    @property
    def visible_again(self) -> bool:
        """Whether the broker may deliver the message to another consumer."""
        return not self.in_time or wall_ms() >= self.visible_ms


class PopLedger:
    """The stored messages of a topic, their deliveries and acknowledgements."""

    def __init__(self, topic: str = TOPIC) -> None:
        self.topic = topic
        self.ordered = topic == ORDERED
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
        found = delivered(answer, self.topic)
        for held in found:
            self.check_delivery(held)
            # An ordered batch is delivered again from its first unacknowledged message.
            if not self.ordered:
                assert held.place not in self._places, f"delivered twice: {held}"
                again = held.number in self._acked
                assert not again, f"delivered after its acknowledgement, without a kill: {held}"
            self._places.add(held.place)
        self.held += found
        del self.held[:-KEPT_HANDLES]

    def check_delivery(self, held: Held) -> None:
        """A message whose acknowledgement lasts is never delivered."""
        again = held.number in self.lasting
        assert not again, f"delivered after its acknowledgement: {held}"

    def pop_request(self, invisible_ms: int = INVISIBLE_MS[0]) -> RemotingCommand:
        """POP_MESSAGE of any queue, answered at once."""
        fields: dict[str, Any] = {
            "consumerGroup": GROUP, "topic": self.topic, "queueId": -1, "maxMsgNums": 16,
            "invisibleTime": invisible_ms, "pollTime": 0, "bornTime": wall_ms(),
            "initMode": 0, "order": str(self.ordered).lower(),
        }  # fmt: skip
        text = {name: str(value) for name, value in fields.items()}
        return request(RequestCode.POP_MESSAGE, text)

    def ack_request(self, held: Held) -> RemotingCommand:
        """ACK_MESSAGE: from now on the message may be missing."""
        self.sent_acks.add(held.number)
        return request(RequestCode.ACK_MESSAGE, held.fields)

    def batch_ack_request(self, batch: list[Held]) -> RemotingCommand:
        """BATCH_ACK_MESSAGE: from now on the messages may be missing."""
        self.sent_acks |= {held.number for held in batch}
        body = BatchAckMessageRequestBody(
            broker_name=BROKER_NAME, acks=[_batch_ack(self.topic, held) for held in batch]
        )
        return request(RequestCode.BATCH_ACK_MESSAGE, {}, body.to_bytes())

    def note_acked(self, *batch: Held) -> None:
        """Acknowledgements were answered with success; those of other copies do not last."""
        for held in batch:
            known = held.place[0] == self.topic and held.number in self._new
            if known and not held.visible_again:
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
        # Changed too late, the message is delivered by both check points.
        self.held.append(Held(held.number, fields, visible_ms, not held.visible_again))

    def note_ended(self, offsets: dict[int, int]) -> None:
        """The broker has ended; ``offsets`` of the queues of the topic are in the file."""
        for number, (_, queue_id, queue_offset) in self._acked.items():
            if queue_offset < offsets.get(queue_id, 0):
                self.lasting.add(number)
        self._acked.clear()


def _batch_ack(topic: str, held: Held) -> BatchAck:
    """One message as an entry of BATCH_ACK_MESSAGE."""
    start, popped_ms, invisible_ms, revive_queue_id, retry, *_ = held.fields["extraInfo"].split()
    distance = int(held.fields["offset"]) - int(start)
    bits = (1 << distance).to_bytes(distance // 8 + 1, "little")
    return BatchAck(
        consumer_group=GROUP,
        topic=topic,
        retry=retry,
        start_offset=int(start),
        queue_id=int(held.fields["queueId"]),
        revive_queue_id=int(revive_queue_id),
        pop_time=int(popped_ms),
        invisible_time=int(invisible_ms),
        bit_set=base64.b64encode(bits).decode(),
    )


def delivered(answer: RemotingCommand, topic: str = TOPIC) -> list[Held]:
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
            "topic": real_topic(topic, GROUP, handle.split(" ")[4]),
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
        ledger = self._ledger
        while (answer := client.call(address, ledger.pop_request())).code == 0:
            for held in delivered(answer, ledger.topic):
                self._seen.add(held.number)
                ledger.check_delivery(held)
                acked = client.call(address, request(RequestCode.ACK_MESSAGE, held.fields))
                assert acked.code == 0, acked.remark
        return sorted(ledger.stored - ledger.sent_acks - self._seen)

    def note_acknowledged(self) -> None:
        """Record the acknowledgements of this audit in the ledger."""
        self._ledger.sent_acks |= self._seen
