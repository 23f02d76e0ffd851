"""Transactions at a broker without sockets."""

from typing import Any

from broker.common.topic import (
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from broker.message.message import MessageExt
from broker.message.record import decode_record
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand
from broker.server.client.clients import ClientChannel
from broker.server.transaction.check_round import CheckRound
from broker.server.transaction.check_service import TransactionalMessageCheckService

GROUP = "P1"


class Ledger:
    """One transactional producer at a broker core without sockets."""

    def __init__(self, desk: Any) -> None:
        self.desk = desk
        self.number = 0
        self._attach()

    def restart(self) -> None:
        """Stop the broker in order and start it again; the producer registers again."""
        self.desk.restart()
        self._attach()
        self.online()

    def _attach(self) -> None:
        desk = self.desk
        self.checks = TransactionalMessageCheckService(
            desk.context.transactions,
            desk.clock,
            lambda: desk.context.config,
            desk.context.producers,
            desk.context.topics,
        )
        desk.topic("Orders")

    @property
    def service(self) -> Any:
        return self.desk.context.transactions

    def online(self, connection: Any = None, group: str = GROUP) -> Any:
        """Register a producer of the group."""
        connection = connection or self.desk.connection
        channel = ClientChannel(connection, "c1", "JAVA", 479, self.desk.clock.now_ms())
        self.desk.context.producers.register(group, channel)
        return connection

    def begin(self, body: bytes = b"hello", **properties: str) -> RemotingCommand:
        """Send a half message; return the answer."""
        self.number += 1
        given = {
            "TRAN_MSG": "true",
            "PGROUP": GROUP,
            "UNIQ_KEY": f"U{self.number:031d}",
            **properties,
        }
        answer = self.desk.send(body=body, properties=given, queue_id=1, f=4)
        assert answer is not None
        assert answer.code == 0, answer.remark
        return answer

    def end(self, half: RemotingCommand | dict[str, str], decision: int, **fields: Any) -> Any:
        """END_TRANSACTION for a half: the answer to its send, or the fields of a check."""
        if isinstance(half, RemotingCommand):
            known = {
                "tranStateTableOffset": half.ext_fields["queueOffset"],
                "commitLogOffset": int(half.ext_fields["msgId"][16:], 16),
                "msgId": half.ext_fields["transactionId"],
            }
        else:
            names = ("tranStateTableOffset", "commitLogOffset", "msgId")
            known = {name: half[name] for name in names} | {"fromTransactionCheck": "true"}
        header = {"producerGroup": GROUP, "commitOrRollback": decision, **known, **fields}
        return self.desk.ask(RequestCode.END_TRANSACTION, header)

    def commit(self, half: Any, **fields: Any) -> Any:
        return self.end(half, 8, **fields)

    def rollback(self, half: Any, **fields: Any) -> Any:
        return self.end(half, 12, **fields)

    def flip(self, message: MessageExt) -> None:
        """Flip a bit in the body of a stored record, or flip it back."""
        file = self.desk.store.log.files.find(message.physical_offset)
        with open(file.path, "r+b") as raw:
            raw.seek(message.physical_offset - file.start + 90)
            byte = raw.read(1)[0]
            raw.seek(-1, 1)
            raw.write(bytes([byte ^ 1]))

    def write_ops(self) -> None:
        """Let the op batch interval pass and write the op records."""
        self.desk.clock.advance(self.desk.context.config.transaction_op_batch_interval)
        assert self.desk.store.flush()
        assert self.service.write_due_ops()

    def check(self, after_ms: int = 0) -> CheckRound:
        """Let time pass, then run one whole check round."""
        self.desk.clock.advance(after_ms)
        found = self.checks.new_round()
        for _ in found.steps():
            pass
        return found

    def asked(self, connection: Any = None) -> list[dict[str, str]]:
        """The fields of each CHECK_TRANSACTION_STATE request a producer received."""
        connection = connection or self.desk.connection
        return [
            command.ext_fields
            for command in connection.commands
            if command.code == RequestCode.CHECK_TRANSACTION_STATE
        ]

    def all(self, topic: str, queue_id: int = 0) -> list[MessageExt]:
        """Every message of a queue."""
        store = self.desk.store
        low, high = store.get_min_offset(topic, queue_id), store.get_max_offset(topic, queue_id)
        return [
            decode_record(store.get_message(topic, queue_id, offset, 1).buffers[0])
            for offset in range(max(low, 0), high)
        ]

    def halves(self) -> list[MessageExt]:
        return self.all(TRANS_HALF_TOPIC)

    def ops(self) -> list[bytes]:
        return [message.body for message in self.all(TRANS_OP_HALF_TOPIC)]

    def discarded(self) -> list[MessageExt]:
        return self.all(TRANS_CHECK_MAX_TIME_TOPIC)

    def visible(self) -> list[bytes]:
        return [message.body for message in self.all("Orders", 1)]
