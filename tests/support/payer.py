"""A producer group at a broker process: half messages, their ends, the answers to checks.

Whether a transaction is committed follows from its number, so that every answer is the same. One of
seven is undecided at first: its end and the answer to its first check are "unknown".
"""

import socket
from collections import Counter

import msgspec

from broker.message.record import decode_record
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.remoting.protocol.framing import FrameDecoder, encode_frame

TOPIC = "Settled"
GROUP = "Payers"
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
SETTINGS = {
    "transactionTimeOut": "300",
    "transactionCheckInterval": "1000",
    "transactionOpBatchInterval": "200",
    "transactionCheckMax": "1000000",
}


class Place(msgspec.Struct, frozen=True):
    """Where a half message is, by the answer to its send."""

    queue_offset: int
    physical_offset: int


def decision_of(number: int) -> int:
    """Two of three transactions are committed."""
    return ROLLBACK if number % 3 == 0 else COMMIT


def is_undecided(number: int) -> bool:
    """Whether the producer decides this transaction at its second check only."""
    return number % 7 == 5


def place_of(answer: RemotingCommand) -> Place:
    """Read the answer to the send of a half message."""
    sent = answer.ext_fields
    return Place(int(sent["queueOffset"]), int(sent["msgId"][16:], 16))


def properties_of(number: int) -> dict[str, str]:
    """The properties that make a send transactional."""
    return {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": f"X{number:08d}"}


def end_request(
    number: int, place: Place, *, checked: bool = False, unknown: bool = False
) -> RemotingCommand:
    """END_TRANSACTION as decided, or with an unknown state, which a broker does not answer."""
    fields = {
        "producerGroup": GROUP,
        "tranStateTableOffset": str(place.queue_offset),
        "commitLogOffset": str(place.physical_offset),
        "commitOrRollback": str(UNKNOWN if unknown else decision_of(number)),
        "fromTransactionCheck": "true" if checked else "false",
        "msgId": f"X{number:08d}",
    }
    return request(RequestCode.END_TRANSACTION, fields, oneway=checked or unknown)


class Payer:
    """A live producer that answers the checks of a broker.

    ``checks`` counts the checks of each transaction; it may be shared by producers that follow each
    other.
    """

    def __init__(self, address: str, checks: "Counter[int] | None" = None) -> None:
        self.checks = Counter[int]() if checks is None else checks
        host, _, port = address.rpartition(":")
        self._sock = socket.create_connection((host, int(port)), timeout=10)
        self._decoder = FrameDecoder()
        body = {"clientID": "payer", "producerDataSet": [{"groupName": GROUP}]}
        heartbeat = request(
            RequestCode.HEART_BEAT, {}, msgspec.json.encode({**body, "consumerDataSet": []})
        )
        self._sock.sendall(encode_frame(heartbeat))
        self._sock.setblocking(False)

    def answer(self) -> None:
        """Answer the checks that have arrived."""
        while True:
            try:
                data = self._sock.recv(1 << 18)
            except BlockingIOError:
                return
            if not data:
                return
            for frame in self._decoder.feed(data):
                if frame.code == RequestCode.CHECK_TRANSACTION_STATE and not frame.flag & 1:
                    self._answer(frame)

    def _answer(self, check: RemotingCommand) -> None:
        number = int(decode_record(check.body_bytes(), check_crc=True).body[:12])
        fields = check.ext_fields
        place = Place(int(fields["tranStateTableOffset"]), int(fields["commitLogOffset"]))
        self.checks[number] += 1
        unknown = is_undecided(number) and self.checks[number] < 2
        ended = end_request(number, place, checked=True, unknown=unknown)
        self._sock.setblocking(True)
        self._sock.sendall(encode_frame(ended))
        self._sock.setblocking(False)

    def close(self) -> None:
        """Leave without a word."""
        self._sock.close()
