"""Sending a message back: the broker delivers it to the group again, later, or to the DLQ.

If the broker that holds the message does not accept it, the client sends a copy to the retry topic
itself.

**Source:** RocketMQ ``DefaultMQPushConsumerImpl#sendMessageBack``,
``#sendMessageBackAsNormalMessage``.
"""

import logging

from broker.client.instance.client_instance import MQClientInstance
from broker.common.group import CLIENT_INNER_PRODUCER_GROUP
from broker.common.message_queue import MessageQueue
from broker.common.topic import retry_topic
from broker.errors import ClientError, RocketMQError
from broker.message.message import (
    PROPERTY_DELAY_TIME_LEVEL,
    PROPERTY_MAX_RECONSUME_TIMES,
    PROPERTY_ORIGIN_MESSAGE_ID,
    PROPERTY_RECONSUME_TIME,
    PROPERTY_RETRY_TOPIC,
    PROPERTY_TRANSACTION_PREPARED,
    Message,
    MessageExt,
)
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.message_encoder import SendRules, encode_message, send_request
from broker.remoting.rpc.send_response import SEND_STATUS
from broker.remoting.rpc.uniq_key import UniqKeyGenerator

log = logging.getLogger("broker.client")

SEND_BACK_TIMEOUT_MS = 5_000
FIRST_RETRY_LEVEL = 3
UNLIMITED = 2**31 - 1


class SendBack:
    """Sends messages of one group back; ``max_reconsume_times`` decides about the DLQ.

    Without it the broker applies ``retryMaxTimes`` of the group. Java sends 16 if the application
    sets no maximum, so that ``retryMaxTimes`` has no effect on its push consumers.
    """

    def __init__(
        self, instance: MQClientInstance, group: str, max_reconsume_times: int | None
    ) -> None:
        self._instance = instance
        self._group = group
        self.max_reconsume_times = max_reconsume_times
        self._config = SendRules(compress_over=1 << 30)
        self._keys = UniqKeyGenerator(instance.clock, instance.ip)

    async def send(self, message: MessageExt, queue: MessageQueue, delay_level: int) -> bool:
        """Send one message back; False if neither way succeeded."""
        address = self._instance.routes.master(queue.broker_name) or message.store_host
        try:
            await self._instance.api.call(
                address,
                RequestCode.CONSUMER_SEND_MSG_BACK,
                timeout_ms=SEND_BACK_TIMEOUT_MS,
                bname=queue.broker_name,
                offset=message.physical_offset,
                group=self._group,
                delay_level=delay_level,
                origin_msg_id=message.uniq_key or message.offset_msg_id,
                origin_topic=message.topic,
                unit_mode=self._instance.config.unit_mode,
                max_reconsume_times=self.max_reconsume_times,
            )
        except RocketMQError as error:
            log.warning("%s: send back of %s: %s", self._group, message, error.message)
            return await self.send_to_retry_topic(message)
        return True

    async def send_to_retry_topic(self, message: MessageExt) -> bool:
        """Send a copy to the retry topic, due after the usual interval."""
        copy = retry_copy(message, self._group, self.max_reconsume_times)
        try:
            await self._send(copy)
        except RocketMQError as error:
            log.warning("%s: copy to the retry topic: %s", self._group, error.message)
            return False
        return True

    async def _send(self, copy: Message) -> None:
        routes = self._instance.routes
        info = await routes.publish_info(
            copy.topic,
            create_key=self._config.create_topic_key,
            create_queues=1,
        )
        encoded = encode_message(copy, self._config, topic=copy.topic, new_key=self._keys.create())
        last: RocketMQError | None = None
        last_broker: str | None = None
        for _ in range(3):
            queue = info.select_skipping(last_broker)
            last_broker = queue.broker_name
            address = routes.master(queue.broker_name)
            command = send_request(
                encoded,
                queue,
                CLIENT_INNER_PRODUCER_GROUP,
                self._config,
                born_timestamp_ms=self._instance.clock.now_ms(),
            )
            try:
                if address is None:
                    raise ClientError(f"broker {queue.broker_name} has no master")
                await self._instance.api.send(
                    address, command, accept=SEND_STATUS, timeout_ms=SEND_BACK_TIMEOUT_MS
                )
            except RocketMQError as error:
                last = error
            else:
                return
        assert last is not None, "each attempt returns or fails"
        raise last


def retry_copy(message: MessageExt, group: str, max_reconsume_times: int | None) -> Message:
    """Return the message for the retry topic that a failed message becomes.

    It keeps the unique key, so that a message can be found by its id through all deliveries.
    """
    properties = dict(message.properties)
    properties.pop(PROPERTY_TRANSACTION_PREPARED, None)
    properties.setdefault(PROPERTY_RETRY_TOPIC, message.topic)
    properties.setdefault(PROPERTY_ORIGIN_MESSAGE_ID, message.uniq_key or message.offset_msg_id)
    properties[PROPERTY_RECONSUME_TIME] = str(message.reconsume_times + 1)
    properties.pop(PROPERTY_MAX_RECONSUME_TIMES, None)
    if max_reconsume_times is not None:
        properties[PROPERTY_MAX_RECONSUME_TIMES] = str(max_reconsume_times)
    properties[PROPERTY_DELAY_TIME_LEVEL] = str(FIRST_RETRY_LEVEL + message.reconsume_times)
    return Message(
        retry_topic(group), message.body, flag=message.flag, properties=properties, wait=True
    )
