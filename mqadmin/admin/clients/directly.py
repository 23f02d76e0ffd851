"""Passing one message to one consumer, whose listener processes it at once.

The broker reads the message at its physical offset and forwards it; no offset is committed, and a
failure is not retried.

**Source:** RocketMQ ``AdminBrokerProcessor#consumeMessageDirectly``.
"""

import msgspec

from broker.errors import ClientError
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.connections import consumer_connections
from mqadmin.admin.session import AdminSession
from mqadmin.message_row import MessageRow

SUCCESS = "CR_SUCCESS"


class DirectResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of a listener. ``consumeResult`` is CR_SUCCESS, CR_LATER, CR_THROW_EXCEPTION, …

    ``remark`` is the stack trace of an exception, ``spentTimeMills`` the duration in ms. In a plan
    ``consumeResult`` is None.
    """

    group: str
    client_id: str
    topic: str
    offset_msg_id: str
    broker_name: str | None
    consume_result: str | None
    order: bool | None = None
    auto_commit: bool | None = None
    remark: str | None = None
    spent_time_mills: int | None = None


class DirectAdmin:
    """Consumption of one message by a selected client."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin

    def plan(
        self, message: MessageRow, group: str, *, client_id: str | None = None
    ) -> tuple[str, DirectResult]:
        """Return the broker's address and the request as a result without an outcome.

        ``client_id`` may be omitted if one client is connected to the broker of the message.
        ClientError if the client is not connected to that broker.
        """
        address = self._address(message)
        connected = consumer_connections(self._admin, group)
        there = [
            client.client_id
            for client in connected.connections
            if message.broker_name is None or message.broker_name in client.brokers
        ]
        hint = f"mqadmin consumer connections {group} lists the clients"
        if client_id is None and len(there) == 1:
            client_id = there[0]
        if client_id is None:
            raise ClientError(
                f"{len(there)} clients of group {group} are connected to "
                f"{message.broker_name or address}",
                "name one with --client" if there else hint,
            )
        if client_id not in there:
            raise ClientError(
                f"no client {client_id} of group {group} is connected to "
                f"{message.broker_name or address} (connected: {', '.join(there) or 'none'})",
                hint,
            )
        return address, DirectResult(
            group=group,
            client_id=client_id,
            topic=message.topic,
            offset_msg_id=message.offset_msg_id,
            broker_name=message.broker_name,
            consume_result=None,
        )

    def consume(
        self, message: MessageRow, group: str, *, client_id: str | None = None
    ) -> DirectResult:
        """Let the client process the message and return the result of its listener."""
        address, plan = self.plan(message, group, client_id=client_id)
        self._admin.renew()
        result = self._admin.call(
            address,
            RequestCode.CONSUME_MESSAGE_DIRECTLY,
            consumer_group=group,
            client_id=plan.client_id,
            msg_id=message.offset_msg_id,
            broker_name=message.broker_name,
            topic=message.topic,
        ).value
        return msgspec.structs.replace(
            plan,
            consume_result=result.consume_result,
            order=result.order,
            auto_commit=result.auto_commit,
            remark=result.remark,
            spent_time_mills=result.spent_time_mills,
        )

    def _address(self, message: MessageRow) -> str:
        """Return the broker of a message: the master of its name, else the address in its id."""
        if message.broker_name is not None:
            return self._admin.topology.readers(broker=message.broker_name)[0].address
        return message.store_host
