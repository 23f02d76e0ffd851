"""AsyncTransactionProducer: a message that is delivered only if a local transaction commits.

::

    half message stored ─→ local transaction ─→ END_TRANSACTION (commit, rollback, unknown)
                                  │
               no decision ─→ the broker asks (39) any producer of the group ─→ END_TRANSACTION

**Source:** RocketMQ ``TransactionMQProducer``, ``DefaultMQProducerImpl#sendMessageInTransaction``,
``#checkTransactionState``, ``#endTransaction``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol, TypeVar

import msgspec

from broker.client.config import ClientConfig, ProducerConfig
from broker.client.hooks.events import EndTransactionEvent, EndTransactionHook, run_hooks
from broker.client.instance.client_instance import MQClientInstance
from broker.client.listener.listener_pool import is_coroutine_listener
from broker.client.namespace import without_namespace
from broker.client.publish.async_producer import AsyncProducer
from broker.client.results import LocalTransactionState, SendResult, SendStatus
from broker.common.clock import Clock
from broker.errors import ClientError, RocketMQError
from broker.message.message import (
    PROPERTY_DELAY_TIME_LEVEL,
    PROPERTY_KEYS,
    PROPERTY_MSG_REGION,
    PROPERTY_PRODUCER_GROUP,
    PROPERTY_TRANSACTION_ID,
    PROPERTY_TRANSACTION_PREPARED,
    Message,
    MessageExt,
)
from broker.message.message_id import parse_offset_msg_id
from broker.message.record import decode_record
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.protocol.header.fields import decode_header_fields
from broker.remoting.protocol.header.transaction import CheckTransactionStateRequestHeader

log = logging.getLogger("broker.client")

Result = TypeVar("Result")

CHECK_THREADS = 1
_RAISED: Final = (Exception, SystemExit)
"""Errors of the application's listener; SystemExit would end the loop of all blocking clients."""

MAX_WAITING_CHECKS = 2_000
"""Checks that wait for the listener; further ones are dropped, because the broker asks again."""


class TransactionListener(Protocol):
    """The two decisions of an application; plain methods run in a thread."""

    def execute_local_transaction(
        self, message: Message, argument: object
    ) -> "LocalTransactionState | Awaitable[LocalTransactionState]":
        """Run the local transaction after the half message was stored."""
        ...

    def check_local_transaction(
        self, message: MessageExt
    ) -> "LocalTransactionState | Awaitable[LocalTransactionState]":
        """Return how the local transaction of a half message ended."""
        ...


class TransactionSendResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the half message and the decision that was sent to the broker."""

    send_result: SendResult
    local_transaction_state: LocalTransactionState


class AsyncTransactionProducer(AsyncProducer):
    """A producer of transactional messages; members of its group answer each other's checks.

    From the start on the brokers of the template topic and of ``topics`` may ask, later also those
    of the topics sent to. Brokers with ``autoCreateTopicEnable=false`` do not have the template: a
    member that may never send there needs ``topics``.
    """

    def __init__(
        self,
        group: str,
        client: ClientConfig | str,
        listener: TransactionListener,
        config: ProducerConfig | None = None,
        *,
        topics: Iterable[str] = (),
        clock: Clock | None = None,
        instance: MQClientInstance | None = None,
    ) -> None:
        super().__init__(group, client, config, topics=topics, clock=clock, instance=instance)
        self.listener = listener
        self.end_hooks: list[EndTransactionHook] = []
        self._check_slots = asyncio.Semaphore(CHECK_THREADS)
        self._waiting_checks = 0

    def publish_topics(self) -> Iterable[str]:
        """Return the topics given or sent to so far, and the template (``create_topic_key``).

        **Source:** RocketMQ 4.9 ``DefaultMQProducerImpl#start`` (5.x: the given topics only).
        """
        return {*super().publish_topics(), self.config.create_topic_key} - {""}

    def _register(self, instance: MQClientInstance) -> None:
        super()._register(instance)
        # before the first heartbeat: a broker may ask as soon as it knows the group
        instance.add_group_handler(RequestCode.CHECK_TRANSACTION_STATE, self.group, self._check)

    async def send_in_transaction(
        self, message: Message, argument: object = None
    ) -> TransactionSendResult:
        """Store a half message, run the local transaction, report its end to the broker.

        A local transaction that raises leaves the decision to a later check. Raises as ``send`` if
        the half message was not stored: then the local transaction has not been run.
        """
        message.properties.pop(PROPERTY_DELAY_TIME_LEVEL, None)
        message.properties[PROPERTY_TRANSACTION_PREPARED] = "true"
        message.properties[PROPERTY_PRODUCER_GROUP] = self.group
        result = await self.send(message)
        if result.send_status is SendStatus.SEND_OK:
            message.properties[PROPERTY_TRANSACTION_ID] = result.transaction_id or result.msg_id
            try:
                execute = self.listener.execute_local_transaction
                state = await _decide(execute, message, argument)
            except _RAISED as error:
                log.warning("%s: the local transaction raised", self.group, exc_info=error)
                state = LocalTransactionState.UNKNOWN
        else:
            state = LocalTransactionState.ROLLBACK_MESSAGE
        try:
            await self._end(message, result, state)
        except RocketMQError as error:  # the broker will ask
            log.warning("%s: end of transaction not sent: %s", self.group, error.message)
        return TransactionSendResult(send_result=result, local_transaction_state=state)

    async def _end(
        self, message: Message, result: SendResult, state: LocalTransactionState
    ) -> None:
        address = self.instance.routes.master(result.message_queue.broker_name)
        if address is None:
            raise ClientError(f"broker {result.message_queue.broker_name} has no master")
        _, _, physical_offset = parse_offset_msg_id(result.offset_msg_id)
        self._run_end_hooks(message, address, state, msg_id=result.msg_id)
        await self.instance.api.oneway(
            address,
            RequestCode.END_TRANSACTION,
            topic=self.wire_topic(result.message_queue.topic),
            producer_group=self.group,
            tran_state_table_offset=result.queue_offset,
            commit_log_offset=physical_offset,
            commit_or_rollback=state.value,
            msg_id=result.msg_id,
            transaction_id=result.transaction_id,
            bname=result.message_queue.broker_name,
        )

    async def _check(self, address: str, command: RemotingCommand) -> None:
        """Answer a check of the broker at ``address``."""
        if self._waiting_checks >= MAX_WAITING_CHECKS:
            log.warning("%s: a transaction check is dropped: too many wait", self.group)
            return
        header = decode_header_fields(CheckTransactionStateRequestHeader, command.ext_fields)
        message = decode_record(command.body_bytes())
        message.body = message.payload()
        message.topic = without_namespace(self.client.namespace, message.topic)
        self._waiting_checks += 1
        try:
            async with self._check_slots:
                state = await _decide(self.listener.check_local_transaction, message)
        except _RAISED as error:
            log.warning("%s: the transaction check raised", self.group, exc_info=error)
            state = LocalTransactionState.UNKNOWN
        finally:
            self._waiting_checks -= 1
        msg_id = message.uniq_key or header.msg_id or message.offset_msg_id
        self._run_end_hooks(message, address, state, msg_id=msg_id, from_check=True)
        await self.instance.api.oneway(
            address,
            RequestCode.END_TRANSACTION,
            topic=header.topic,
            producer_group=self.group,
            tran_state_table_offset=header.tran_state_table_offset,
            commit_log_offset=header.commit_log_offset,
            commit_or_rollback=state.value,
            from_transaction_check=True,
            msg_id=msg_id,
            transaction_id=header.transaction_id,
            bname=header.bname,
        )

    def _run_end_hooks(
        self,
        message: Message | MessageExt,
        address: str,
        state: LocalTransactionState,
        *,
        msg_id: str,
        from_check: bool = False,
    ) -> None:
        """Call the hooks.

        **Source:** RocketMQ ``DefaultMQProducerImpl#doExecuteEndTransactionHook``: the transaction
        id is the unique key.
        """
        if not self.end_hooks:
            return
        properties = message.properties
        event = EndTransactionEvent(
            group=self.group,
            topic=self.wire_topic(message.topic),
            msg_id=msg_id,
            tags=message.tags or "",
            keys=properties.get(PROPERTY_KEYS, ""),
            address=address,
            region_id=properties.get(PROPERTY_MSG_REGION, ""),
            transaction_id=message.uniq_key or "",
            state=state,
            from_check=from_check,
            at_ms=self.clock.now_ms(),
        )
        run_hooks(self.end_hooks, event, f"{self.group}: an end-of-transaction")


async def _decide(
    method: Callable[..., LocalTransactionState | Awaitable[LocalTransactionState]],
    *arguments: object,
) -> LocalTransactionState:
    """Call a method of the listener, a plain one in a thread; a wrong result is UNKNOWN."""
    if is_coroutine_listener(method):
        found: object = method(*arguments)
    else:
        found = await asyncio.to_thread(method, *arguments)
    if isinstance(found, Awaitable):
        found = await found
    if isinstance(found, LocalTransactionState):
        return found
    log.warning("the transaction listener returned %r, not a LocalTransactionState", found)
    return LocalTransactionState.UNKNOWN
