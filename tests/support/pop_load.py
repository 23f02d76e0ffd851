"""Pops and acknowledgements of the load on a broker that will be killed.

A message of TOPIC that was stored and never acknowledged is delivered again after each kill. An
acknowledgement that was sent may count, answered or not, and may be lost while it is merged in
memory: such a message is delivered once more or not at all.
"""

import time
from typing import Any

import msgspec

from broker.message.receipt_handle import real_topic
from broker.message.record import scan_records
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request

TOPIC = "Popped"
GROUP = "Poppers"
BROKER_NAME = "under-fire"
INVISIBLE_MS = 2_000
KEPT_HANDLES = 100


class Held(msgspec.Struct, frozen=True):
    """A delivered message: its number and the fields of the request that acknowledges it."""

    number: int
    fields: dict[str, str]


class PopLedger:
    """The stored messages of TOPIC, their deliveries and acknowledgements."""

    def __init__(self) -> None:
        self.stored: set[int] = set()
        self.sent_acks: set[int] = set()
        self.held: list[Held] = []

    def note_popped(self, answer: RemotingCommand) -> None:
        """Keep the handles of the messages of a pop."""
        self.held += delivered(answer)
        del self.held[:-KEPT_HANDLES]

    def ack_request(self, held: Held) -> RemotingCommand:
        """ACK_MESSAGE: from now on the message may be missing."""
        self.sent_acks.add(held.number)
        return request(RequestCode.ACK_MESSAGE, held.fields)


def pop_request() -> RemotingCommand:
    """POP_MESSAGE of any queue, answered at once."""
    fields: dict[str, Any] = {
        "consumerGroup": GROUP, "topic": TOPIC, "queueId": -1, "maxMsgNums": 16,
        "invisibleTime": INVISIBLE_MS, "pollTime": 0, "bornTime": time.time_ns() // 1_000_000,
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
        found.append(Held(int(message.body[:12]), fields))
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
                acked = client.call(address, request(RequestCode.ACK_MESSAGE, held.fields))
                assert acked.code == 0, acked.remark
        ledger = self._ledger
        return sorted(ledger.stored - ledger.sent_acks - self._seen)

    def note_acknowledged(self) -> None:
        """Record the acknowledgements of this audit in the ledger."""
        self._ledger.sent_acks |= self._seen
