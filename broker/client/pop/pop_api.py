"""PopAPI: the requests of POP consumption for one group.

**Source:** RocketMQ ``MQClientAPIImpl#popMessageAsync``, ``#ackMessageAsync``,
``#changeInvisibleTimeAsync``, ``DefaultMQPushConsumerImpl#processPopResult``.
"""

from typing import Any

import msgspec

from broker.client.consumer.messages import read_messages, select_messages
from broker.client.instance.client_instance import MQClientInstance
from broker.client.pop.receipt_handle import ReceiptHandle, attach_handles, handle_of
from broker.client.results import PopStatus
from broker.common.message_queue import MessageQueue
from broker.common.subscription import SubscriptionData
from broker.errors import ClientError
from broker.message.message import PROPERTY_POP_CK, MessageExt
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.rpc.caller import Reply

POP_STATUS = {
    ResponseCode.SUCCESS: PopStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PopStatus.NO_NEW_MSG,
    ResponseCode.POLLING_TIMEOUT: PopStatus.POLLING_NOT_FOUND,
    ResponseCode.POLLING_FULL: PopStatus.POLLING_FULL,
}
RPC_MARGIN_MS = 10_000
"""The response may arrive this long after the broker's wait. **Source:** ``PullAPIWrapper``."""

INIT_MODE_MIN, INIT_MODE_MAX = 0, 1
"""Where a group without POP offset starts. **Source:** ``ConsumeInitMode``."""


class PopRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One pop; the broker waits ``poll_ms`` for a first message, which then stays invisible for
    ``invisible_ms``. A queue id of -1 pops from any queue of the broker.
    """

    queue: MessageQueue
    subscription: SubscriptionData
    max_messages: int
    invisible_ms: int
    poll_ms: int
    init_mode: int = INIT_MODE_MAX


class PopResult(msgspec.Struct, frozen=True, kw_only=True):
    """The response to a pop.

    Messages are decompressed, have their subscribed topic and a receipt handle. ``unwanted`` have a
    tag that only shares its hash with the subscription.
    """

    status: PopStatus
    address: str
    remark: str = ""
    messages: list[MessageExt] = []
    unwanted: list[MessageExt] = []


class PopAPI:
    """Pop, acknowledge and postpone messages of one group; topics are names on the wire."""

    def __init__(self, instance: MQClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group

    async def pop(self, request: PopRequest) -> PopResult:
        """Pop once; a full or expired wait is a status, other refusals are a BrokerError."""
        queue, subscription = request.queue, request.subscription
        address = await self._master(queue.broker_name, queue.topic)
        reply = await self._instance.api.call(
            address,
            RequestCode.POP_MESSAGE,
            accept=POP_STATUS,
            timeout_ms=request.poll_ms + RPC_MARGIN_MS,
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            max_msg_nums=request.max_messages,
            invisible_time=request.invisible_ms,
            poll_time=request.poll_ms,
            born_time=self._instance.clock.now_ms(),
            init_mode=request.init_mode,
            exp_type=subscription.expression_type,
            exp=subscription.sub_string,
            bname=queue.broker_name,
        )
        status = POP_STATUS[reply.code]
        if status is not PopStatus.FOUND:
            return PopResult(status=status, address=address, remark=reply.command.remark or "")
        messages = read_messages(reply.body)
        attach_handles(
            messages,
            reply.header,
            topic=queue.topic,
            group=self._group,
            broker_name=queue.broker_name,
        )
        wanted = select_messages(messages, subscription)
        kept = {id(message) for message in wanted}
        return PopResult(
            status=status,
            address=address,
            messages=wanted,
            unwanted=[one for one in messages if id(one) not in kept],
        )

    async def _master(self, broker_name: str, topic: str) -> str:
        routes = self._instance.routes
        address = routes.master(broker_name)
        if address is None:
            await routes.refresh(topic)
            address = routes.master(broker_name)
        if address is None:
            raise ClientError(f"broker {broker_name} has no master now")
        return address

    async def ack(self, message: MessageExt, topic: str) -> bool:
        """Acknowledge a message; False if its queue does not have it.

        The broker accepts a delivery that has ended as well: the message comes again.
        """
        reply = await self._about(handle_of(message), topic, RequestCode.ACK_MESSAGE)
        return reply.code == ResponseCode.SUCCESS

    async def change_invisible_time(
        self, message: MessageExt, topic: str, invisible_ms: int
    ) -> bool:
        """Let a message stay invisible for ``invisible_ms`` from now, under a new handle.

        The handle before is void. False if the queue does not have the message; a delivery that
        has ended is accepted, and the message comes once more.
        """
        handle = handle_of(message)
        reply = await self._about(
            handle,
            topic,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
            invisible_time=invisible_ms,
        )
        if reply.code != ResponseCode.SUCCESS:
            return False
        header = reply.header
        message.properties[PROPERTY_POP_CK] = msgspec.structs.replace(
            handle,
            start_offset=handle.queue_offset,
            pop_time_ms=header.pop_time,
            invisible_ms=header.invisible_time,
            revive_qid=header.revive_qid,
        ).text
        return True

    async def retry_max_times(self, address: str) -> int:
        """Return ``retryMaxTimes`` of the group at a broker."""
        reply = await self._instance.api.call(
            address, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group=self._group
        )
        return int(reply.value.config.retry_max_times)

    async def move_to_dlq(self, message: MessageExt, topic: str) -> None:
        """Have the broker store a message in the dead-letter queue, then acknowledge it.

        **Source:** RocketMQ ``ConsumerProcessor#forwardMessageToDeadLetterQueue`` of the proxy.
        """
        handle = handle_of(message)
        await self._instance.api.call(
            await self._master(handle.broker_name, topic),
            RequestCode.CONSUMER_SEND_MSG_BACK,
            bname=handle.broker_name,
            offset=message.physical_offset,
            group=self._group,
            delay_level=-1,
            origin_msg_id=message.uniq_key or message.offset_msg_id,
            origin_topic=handle.topic(topic, self._group),
            unit_mode=False,
            max_reconsume_times=0,
        )
        await self.ack(message, topic)

    async def _about(self, handle: ReceiptHandle, topic: str, code: int, **fields: Any) -> Reply:
        """Send a request about one popped message."""
        about: dict[str, Any] = {
            "consumer_group": self._group,
            "topic": handle.topic(topic, self._group),
            "queue_id": handle.queue_id,
            "extra_info": handle.text,
            "offset": handle.queue_offset,
            "bname": handle.broker_name,
        }
        return await self._instance.api.call(
            await self._master(handle.broker_name, topic),
            code,
            accept=(ResponseCode.SUCCESS, ResponseCode.NO_MESSAGE),
            **about,
            **fields,
        )
