"""From a message to the request that sends it.

Parts that do not depend on the queue (checks, unique key, compression, properties) are made once,
in :func:`encode_message` or :func:`encode_batch_message`; :func:`send_request` builds the request
of one attempt.

**Source:** RocketMQ ``DefaultMQProducerImpl#sendKernelImpl``, ``MessageBatch``, ``Validators``.
"""

from collections.abc import Sequence

import msgspec

from broker.common import sysflag
from broker.common.java import INT32_MAX, INT32_MIN, parse_number
from broker.common.message_queue import MessageQueue
from broker.common.topic import TBW102, check_topic_name, is_not_allowed_send_topic, is_retry_topic
from broker.errors import ClientError
from broker.message import compression
from broker.message.batch import encode_batch
from broker.message.message import (
    PROPERTY_CONSUME_START_TIMESTAMP,
    PROPERTY_INSTANCE_ID,
    PROPERTY_MAX_RECONSUME_TIMES,
    PROPERTY_MESSAGE_TYPE,
    PROPERTY_RECONSUME_TIME,
    PROPERTY_TRANSACTION_PREPARED,
    PROPERTY_UNIQ_KEY,
    PROPERTY_WAIT_STORE_MSG_OK,
    Message,
)
from broker.message.properties import encode_properties
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.remoting.protocol.header.fields import encode_header_fields
from broker.remoting.protocol.header.send import SendMessageRequestHeaderV2

REPLY_TYPE = "reply"
"""Value of MSG_TYPE of a reply, which has its own request code."""


class SendRules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that a request depends on, with Java's defaults; sizes in bytes.

    ``compress_over`` bodies of at least this size are compressed with ``compress_type`` (zlib, lz4,
    zstd); batches never. ``create_topic_key`` template of topics created by a first send.

    **Source:** RocketMQ ``DefaultMQProducer``.
    """

    compress_over: int = 4_096
    compress_level: int = 5
    compress_type: str = "zlib"
    max_message_size: int = 4 * 1024 * 1024
    create_topic_key: str = TBW102
    default_topic_queue_nums: int = 4


class EncodedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One request's content: topic on the wire, body as stored, flags, property string."""

    topic: str
    body: bytes
    sys_flag: int
    flag: int
    properties: str
    msg_id: str
    batch: bool = False
    reply: bool = False
    reconsume_times: int = 0
    max_reconsume_times: int | None = None

    @property
    def size(self) -> int:
        """Bytes kept while the message is in flight."""
        return len(self.body) + len(self.properties)


def check_message(message: Message, config: SendRules, topic: str) -> None:
    """Raise ClientError for a message that no broker stores.

    **Source:** RocketMQ ``Validators#checkMessage``.
    """
    reason = check_topic_name(topic)
    if reason is not None:
        raise ClientError(f"topic {message.topic!r:.200}: {reason}")
    if is_not_allowed_send_topic(topic):
        raise ClientError(f"topic {message.topic} is reserved for the broker", "choose another")
    if not message.body:
        raise ClientError("a message needs a body", "brokers refuse an empty one")
    _check_types(message)
    if len(message.body) > config.max_message_size:
        raise ClientError(
            f"the body has {len(message.body)} bytes, the limit is {config.max_message_size}",
            "split it, or raise max_message_size here and on the broker",
        )


def _check_types(message: Message) -> None:
    """Raise ClientError for a body or properties of a wrong type.

    The connection would fail with them, and all requests of other threads on it.
    """
    if not isinstance(message.body, bytes | bytearray | memoryview):
        raise ClientError(
            f"message to topic {message.topic}: the body is a {type(message.body).__name__}, not"
            " bytes",
            "encode text: text.encode()",
        )
    for name, value in message.properties.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise ClientError(
                f"message to topic {message.topic}: property {name!r:.80} is {value!r:.80}: names"
                " and values must be text",
                "convert it: str(value)",
            )


def encode_message(
    message: Message, config: SendRules, *, topic: str, new_key: str, namespace: str = ""
) -> EncodedMessage:
    """Check and encode one message; ``topic`` is the name on the wire.

    The unique key is also set in the message, so that the application can log it.
    """
    check_message(message, config, topic)
    properties = message.properties
    key = properties.setdefault(PROPERTY_UNIQ_KEY, new_key)
    if namespace:
        properties[PROPERTY_INSTANCE_ID] = namespace
    body, sys_flag = message.body, 0
    if len(body) >= config.compress_over:
        body = compression.compress(body, config.compress_type, config.compress_level)
        sys_flag = sysflag.COMPRESSED | compression.compression_bits(config.compress_type)
    if properties.get(PROPERTY_TRANSACTION_PREPARED) == "true":
        sys_flag |= sysflag.TRANSACTION_PREPARED
    sent, reconsume_times, max_reconsume_times = _retry_fields(topic, properties)
    return EncodedMessage(
        topic=topic,
        body=body,
        sys_flag=sys_flag,
        flag=message.flag,
        properties=encode_properties(sent).decode(),
        msg_id=key,
        reply=properties.get(PROPERTY_MESSAGE_TYPE) == REPLY_TYPE,
        reconsume_times=reconsume_times,
        max_reconsume_times=max_reconsume_times,
    )


def _retry_fields(topic: str, properties: dict[str, str]) -> tuple[dict[str, str], int, int | None]:
    """Move the counters of a message to a retry topic from its properties to header fields."""
    if not is_retry_topic(topic) and PROPERTY_CONSUME_START_TIMESTAMP not in properties:
        return properties, 0, None
    sent = dict(properties)
    sent.pop(PROPERTY_CONSUME_START_TIMESTAMP, None)
    if not is_retry_topic(topic):
        return sent, 0, None
    times = sent.pop(PROPERTY_RECONSUME_TIME, "0")
    limit = sent.pop(PROPERTY_MAX_RECONSUME_TIMES, None)
    return (
        sent,
        _counter(PROPERTY_RECONSUME_TIME, times),
        None if limit is None else _counter(PROPERTY_MAX_RECONSUME_TIMES, limit),
    )


def _counter(name: str, text: str) -> int:
    """Parse a counter of a message to a retry topic; ClientError if it has another value."""
    number = parse_number(text, INT32_MIN, INT32_MAX)
    if number is None:
        raise ClientError(f"property {name} is {text!r:.60}: not a 32-bit integer")
    return number


def encode_batch_message(
    messages: Sequence[Message],
    config: SendRules,
    *,
    topic: str,
    new_keys: Sequence[str],
    namespace: str = "",
) -> EncodedMessage:
    """Check and encode several messages of one topic as one request; never compressed.

    Raises ClientError for mixed topics or WAIT flags, a delay, a retry topic, or a body larger than
    ``max_message_size``.
    """
    if not messages:
        raise ClientError("a batch needs at least one message")
    first = messages[0]
    for message, key in zip(messages, new_keys, strict=True):
        check_message(message, config, topic)
        if message.topic != first.topic or message.wait != first.wait:
            raise ClientError("the messages of a batch need the same topic and WAIT flag")
        if message.delay_level > 0:
            raise ClientError("a batch cannot be delayed", "send delayed messages one by one")
        message.properties.setdefault(PROPERTY_UNIQ_KEY, key)
        if namespace:
            message.properties[PROPERTY_INSTANCE_ID] = namespace
    if is_retry_topic(topic):
        raise ClientError(f"a batch cannot be sent to the retry topic {topic}")
    body = encode_batch(messages)
    if len(body) > config.max_message_size:
        raise ClientError(
            f"the batch has {len(body)} bytes, the limit is {config.max_message_size}",
            "send it in several batches",
        )
    header = {PROPERTY_WAIT_STORE_MSG_OK: first.properties[PROPERTY_WAIT_STORE_MSG_OK]}
    return EncodedMessage(
        topic=topic,
        body=body,
        sys_flag=0,
        flag=first.flag,
        properties=encode_properties(header).decode(),
        msg_id=",".join(one.properties[PROPERTY_UNIQ_KEY] for one in messages),
        batch=True,
    )


def send_request(
    encoded: EncodedMessage,
    queue: MessageQueue,
    group: str,
    config: SendRules,
    *,
    born_timestamp_ms: int,
    unit_mode: bool = False,
) -> RemotingCommand:
    """Build the request of one attempt."""
    header = SendMessageRequestHeaderV2(
        producer_group=group,
        topic=encoded.topic,
        default_topic=config.create_topic_key,
        default_topic_queue_nums=config.default_topic_queue_nums,
        queue_id=queue.queue_id,
        sys_flag=encoded.sys_flag,
        born_timestamp=born_timestamp_ms,
        flag=encoded.flag,
        properties=encoded.properties,
        reconsume_times=encoded.reconsume_times,
        unit_mode=unit_mode,
        max_reconsume_times=encoded.max_reconsume_times,
        batch=encoded.batch,
        bname=queue.broker_name,
    )
    code = RequestCode.SEND_MESSAGE_V2
    if encoded.batch:
        code = RequestCode.SEND_BATCH_MESSAGE
    elif encoded.reply:
        code = RequestCode.SEND_REPLY_MESSAGE_V2
    return request(code, encode_header_fields(header), encoded.body)
