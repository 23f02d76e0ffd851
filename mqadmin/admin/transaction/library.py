"""Transactions: those that are open or were given up, and resuming the latter.

Half and op queues are read with pull requests; no offset is committed.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from broker.common.address import format_address
from broker.common.clock import Clock, SystemClock
from broker.common.group import SYS_TRANS_GROUP
from broker.common.topic import (
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from broker.errors import ClientError, ConfigError, RemoteProtocolError, RocketMQError
from broker.message.message_id import parse_offset_msg_id
from broker.message.transaction import REMOVE_TAG, decode_op_body
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from mqadmin.admin.delayed.reader import BrokerReader
from mqadmin.admin.failure import describe
from mqadmin.admin.message.query import MessageQueries
from mqadmin.admin.result import Listing, TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target
from mqadmin.transaction_row import DISCARDED, OPEN, TransactionRow, transaction_row

DEFAULT_LIMIT: Final = 1_000
MAX_SETTLED: Final = 5_000_000
"""Listed half messages that are kept while op records are read."""


class ResumeItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A discarded transaction: "planned", "resumed" (checked again), or "failed" with ``note``."""

    offset_msg_id: str
    broker_name: str | None
    address: str
    status: str
    note: str = ""
    error: TargetError | None = None


class TransactionAdmin:
    """Queries about transactions, and resuming discarded ones."""

    def __init__(self, admin: AdminSession, clock: Clock | None = None) -> None:
        self._admin = admin
        self._clock = clock or SystemClock()

    def list(
        self,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        limit: int = DEFAULT_LIMIT,
    ) -> Listing[TransactionRow]:
        """Return open half messages and discarded ones of each broker, by queue offset."""
        targets = self._admin.topology.readers(cluster=cluster, broker=broker)
        return self._listing(targets, limit, lambda _: True)

    def find(self, text: str, *, limit: int = DEFAULT_LIMIT) -> Listing[TransactionRow]:
        """Return the transactions with a uniqKey, an offsetMsgId or a key."""
        return self._listing(self._admin.topology.readers(), limit, lambda row: row.matches(text))

    def _listing(
        self, targets: Sequence[Target], limit: int, wanted: Callable[[TransactionRow], bool]
    ) -> Listing[TransactionRow]:
        items: list[TransactionRow] = []
        errors: list[TargetError] = []
        for target in targets:
            try:
                for row in filter(wanted, self._rows(target)):
                    if len(items) >= limit:
                        return Listing(items=items, errors=errors, truncated=True)
                    items.append(row)
            except RocketMQError as error:
                errors.append(describe(error, address=target.address, target=target.label))
        return Listing(items=items, errors=errors)

    def plan_resume(self, ids: Sequence[str]) -> Sequence[ResumeItem]:
        """Return the messages to resume, with an error if it is not a discarded transaction.

        ConfigError for a text that is not an offsetMsgId.
        """
        return [self._item(text) for text in ids]

    def _item(self, text: str) -> ResumeItem:
        try:
            host, port, _ = parse_offset_msg_id(text)
        except RemoteProtocolError as invalid:
            raise ConfigError(invalid.message, invalid.hint) from invalid
        address = format_address(host, port)
        names = {target.address: target.broker_name for target in self._admin.topology.targets}
        item = ResumeItem(
            offset_msg_id=text,
            broker_name=names.get(address),
            address=address,
            status="planned",
        )
        error = self._not_discarded(item)
        return item if error is None else _failed(item, error)

    def _not_discarded(self, item: ResumeItem) -> TargetError | None:
        """Return why a message cannot be resumed.

        Java brokers do not compare the topic: they store any message again as a half message.
        """
        found = MessageQueries(self._admin).query_id(item.offset_msg_id)
        detail, hint = found.detail, found.hint
        if found.items:
            if found.items[0].topic == TRANS_CHECK_MAX_TIME_TOPIC:
                return None
            detail = (
                f"message {item.offset_msg_id} of topic {found.items[0].topic}"
                " is not a discarded transaction"
            )
            hint = "mqadmin tx list shows the discarded ones"
        kind = found.errors[0].kind if found.errors else "client"
        return TargetError(
            kind=kind, message=detail, hint=hint, address=item.address, target=item.offset_msg_id
        )

    def resume(self, item: ResumeItem) -> ResumeItem:
        """Put a discarded half message back; its checks count from 0.

        **Source:** RocketMQ AdminBrokerProcessor#resumeCheckHalfMessage.
        """
        try:
            self._admin.call(
                item.address,
                RequestCode.RESUME_CHECK_HALF_MESSAGE,
                topic=TRANS_CHECK_MAX_TIME_TOPIC,
                msg_id=item.offset_msg_id,
            )
        except RocketMQError as error:
            return _failed(item, describe(error, address=item.address, target=item.offset_msg_id))
        return msgspec.structs.replace(item, status="resumed")

    def _rows(self, target: Target) -> Iterator[TransactionRow]:
        now_ms = self._clock.now_ms()
        reader = BrokerReader(self._admin, target)
        # The order matters on a broker in use: no op record of a listed half message is missed.
        op_offset = self._committed(target, TRANS_OP_HALF_TOPIC)
        first = self._committed(target, TRANS_HALF_TOPIC)
        halves = reader.queue(TRANS_HALF_TOPIC, 0)
        _, end = reader.bounds(halves)
        decided: set[int] = set()
        ops = reader.queue(TRANS_OP_HALF_TOPIC, 0)
        for message in reader.messages(ops, op_offset):
            if message.tags == REMOVE_TAG:
                decided.update(at for at in decode_op_body(message.body) if at >= first)
            if len(decided) > MAX_SETTLED:
                raise ClientError(
                    f"{target.label}: over {MAX_SETTLED} decided transactions are not yet passed",
                    "the check rounds of this broker lag; mqadmin tx list --store reads its files",
                )
        for message in reader.messages(halves, first, end):
            if message.queue_offset not in decided:
                yield transaction_row(message, target.broker_name, OPEN, now_ms)
        for message in reader.messages(reader.queue(TRANS_CHECK_MAX_TIME_TOPIC, 0), 0):
            yield transaction_row(message, target.broker_name, DISCARDED, now_ms)

    def _committed(self, target: Target, topic: str) -> int:
        """Return a committed offset of the broker's own group, 0 if there is none."""
        reply = self._admin.call(
            target.address,
            RequestCode.QUERY_CONSUMER_OFFSET,
            accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
            consumer_group=SYS_TRANS_GROUP,
            topic=topic,
            queue_id=0,
            set_zero_if_not_found=False,
        )
        return int(reply.command.ext_fields.get("offset") or 0)


def _failed(item: ResumeItem, error: TargetError) -> ResumeItem:
    return msgspec.structs.replace(item, status="failed", note=error.message, error=error)
