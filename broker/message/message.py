"""Message (as sent by an application), MessageExt (as stored), and property names.

**Source:** RocketMQ Message, MessageExt, MessageConst.
"""

from collections.abc import Iterable, Mapping

from broker.common import sysflag
from broker.common.address import decode_host
from broker.common.java import INT32_MAX, parse_number
from broker.errors import ClientError
from broker.message.compression import decompress
from broker.message.properties import decode_properties, peek_property

# Property names as stored. Set by: (p) producer, (b) broker, (c) consumer client.
PROPERTY_KEYS = "KEYS"  # p: index keys, separated by blanks
PROPERTY_TAGS = "TAGS"  # p: one tag
PROPERTY_WAIT_STORE_MSG_OK = "WAIT"  # p: wait for flush and replication
PROPERTY_DELAY_TIME_LEVEL = PROPERTY_DELAY = "DELAY"  # p, b: delay level 1..18
PROPERTY_RETRY_TOPIC = "RETRY_TOPIC"  # b: first topic of a retried message
PROPERTY_REAL_TOPIC = "REAL_TOPIC"  # b: original topic of a message stored in a system topic
PROPERTY_REAL_QUEUE_ID = "REAL_QID"
PROPERTY_TRANSACTION_PREPARED = "TRAN_MSG"
PROPERTY_PRODUCER_GROUP = "PGROUP"
PROPERTY_MIN_OFFSET = "MIN_OFFSET"  # c: never stored
PROPERTY_MAX_OFFSET = "MAX_OFFSET"  # c: never stored
PROPERTY_BUYER_ID = "BUYER_ID"
PROPERTY_ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"  # b: offsetMsgId of the first copy
PROPERTY_TRANSFER_FLAG = "TRANSFER_FLAG"
PROPERTY_CORRECTION_FLAG = "CORRECTION_FLAG"
PROPERTY_MQ2_FLAG = "MQ2_FLAG"
PROPERTY_RECONSUME_TIME = "RECONSUME_TIME"
PROPERTY_MSG_REGION = "MSG_REGION"  # b
PROPERTY_TRACE_SWITCH = "TRACE_ON"  # b
PROPERTY_UNIQ_KEY = "UNIQ_KEY"  # p, b: the message id that clients show
PROPERTY_EXTEND_UNIQ_INFO = "EXTEND_UNIQ_INFO"
PROPERTY_MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
PROPERTY_CONSUME_START_TIMESTAMP = "CONSUME_START_TIME"  # c: never stored
PROPERTY_INNER_NUM = "INNER_NUM"  # b: messages in an inner batch
PROPERTY_INNER_BASE = "INNER_BASE"  # b: queue offset of the first of them
PROPERTY_DUP_INFO = "DUP_INFO"
PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"
PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
PROPERTY_TRANSACTION_ID = "__transactionId__"
PROPERTY_TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
PROPERTY_INSTANCE_ID = "INSTANCE_ID"
PROPERTY_CORRELATION_ID = "CORRELATION_ID"
PROPERTY_MESSAGE_REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
PROPERTY_MESSAGE_TTL = "TTL"
PROPERTY_REPLY_MESSAGE_ARRIVE_TIME = "ARRIVE_TIME"
PROPERTY_PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
PROPERTY_CLUSTER = "CLUSTER"  # b
PROPERTY_MESSAGE_TYPE = "MSG_TYPE"
PROPERTY_POP_CK = "POP_CK"
PROPERTY_POP_CK_OFFSET = "POP_CK_OFFSET"
PROPERTY_FIRST_POP_TIME = "1ST_POP_TIME"
PROPERTY_FORWARD_QUEUE_ID = "PROPERTY_FORWARD_QUEUE_ID"
PROPERTY_REDIRECT = "REDIRECT"
PROPERTY_INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
PROPERTY_INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
PROPERTY_TRACE_CONTEXT = "TRACE_CONTEXT"
PROPERTY_SHARDING_KEY = "__SHARDINGKEY"
PROPERTY_CRC32 = "__CRC32#"
PROPERTY_BORN_HOST = "__BORNHOST"
PROPERTY_BORN_TIMESTAMP = "BORN_TIMESTAMP"
PROPERTY_DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
PROPERTY_DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"
PROPERTY_TIMER_DELAY_SEC = "TIMER_DELAY_SEC"  # p (5.x)
PROPERTY_TIMER_DELAY_MS = "TIMER_DELAY_MS"
PROPERTY_TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
PROPERTY_TIMER_OUT_MS = "TIMER_OUT_MS"  # b: due time in the wheel
PROPERTY_TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
PROPERTY_TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
PROPERTY_TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
PROPERTY_TIMER_DELAY_LEVEL = "TIMER_DELAY_LEVEL"
PROPERTY_TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY"
PROPERTY_TRANSIENT_TOPIC_CONFIG = "__RMQ.TRANSIENT.TOPIC_SYS_FLAG"
PROPERTY_TRANSIENT_GROUP_CONFIG = "__RMQ.TRANSIENT.GROUP_SYS_FLAG"
TRANSIENT_PREFIX = "__RMQ.TRANSIENT."  # c: such names are never stored

KEY_SEPARATOR = " "

RESERVED_PROPERTIES = frozenset(
    value for name, value in tuple(globals().items()) if name.startswith("PROPERTY_")
)
"""Property names that applications must not use."""


class Message:
    """A message as sent by a producer: topic, body and properties (including tags and keys).

    ``flag`` is a number defined by the application. With ``wait`` the broker responds only after
    the flush and replication that its configuration requires.

    **Source:** RocketMQ Message.
    """

    __slots__ = ("body", "flag", "properties", "topic")

    def __init__(
        self,
        topic: str,
        body: bytes,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        flag: int = 0,
        properties: Mapping[str, str] | None = None,
        wait: bool = True,
    ) -> None:
        self.topic = topic
        self.body = body
        self.flag = flag
        try:
            self.properties: dict[str, str] = dict(properties) if properties else {}
        except (TypeError, ValueError):
            raise ClientError(
                f"message to topic {topic}: properties is {properties!r:.80}: it must be a mapping",
                'example: {"name": "value"}',
            ) from None
        if tags:
            self.properties[PROPERTY_TAGS] = tags
        if keys is not None and (joined := _join_keys(topic, keys)):
            self.properties[PROPERTY_KEYS] = joined
        self.properties[PROPERTY_WAIT_STORE_MSG_OK] = "true" if wait else "false"

    @property
    def tags(self) -> str | None:
        """The tag, None if there is none."""
        return self.properties.get(PROPERTY_TAGS)

    @property
    def keys(self) -> list[str]:
        """The index keys."""
        return split_keys(self.properties.get(PROPERTY_KEYS))

    @property
    def uniq_key(self) -> str | None:
        """The client's message id, None until a producer sets it."""
        return self.properties.get(PROPERTY_UNIQ_KEY)

    @property
    def wait(self) -> bool:
        """Whether the broker must respond only after flush and replication."""
        return self.properties.get(PROPERTY_WAIT_STORE_MSG_OK, "true") == "true"

    @property
    def delay_level(self) -> int:
        """The delay level, 0 for none or for text that is not a number."""
        return parse_number(self.properties.get(PROPERTY_DELAY, "0"), 0, INT32_MAX) or 0

    def __repr__(self) -> str:
        return f"Message({self.topic!r}, {len(self.body)} bytes, {self.properties!r})"


def _join_keys(topic: str, keys: str | Iterable[str]) -> str:
    try:
        return keys if isinstance(keys, str) else KEY_SEPARATOR.join(keys)
    except TypeError:
        raise ClientError(
            f"message to topic {topic}: keys is {keys!r:.80}: it must be text or a list of text",
            "convert numbers and bytes: str(number), data.decode()",
        ) from None


def split_keys(text: str | None) -> list[str]:
    """Split a KEYS property into keys; empty keys are dropped.

    **Source:** RocketMQ IndexService#buildIndex splits at single blanks.
    """
    return [key for key in text.split(KEY_SEPARATOR) if key] if text else []


class MessageExt:
    """One decoded record; hosts, properties and payload are computed at access.

    ``body`` is as stored (compressed if the sysFlag bit is set), ``body_size`` its length even if
    the decoder skipped it. ``topic`` is text, ``properties_raw`` the property string as stored.
    Times are ms, hosts 8 or 20 bytes. The values are not checked here but in record.py.

    **Source:** RocketMQ MessageExt.
    """

    __slots__ = (
        "_properties",
        "body",
        "body_crc",
        "body_size",
        "born_host_raw",
        "born_timestamp",
        "flag",
        "magic",
        "physical_offset",
        "prepared_transaction_offset",
        "properties_raw",
        "queue_id",
        "queue_offset",
        "reconsume_times",
        "store_host_raw",
        "store_timestamp",
        "sys_flag",
        "topic",
        "total_size",
    )

    def __init__(
        self,
        topic: str = "",
        body: bytes = b"",
        properties_raw: bytes = b"",
        *,
        total_size: int = 0,
        magic: int = 0,
        body_crc: int = 0,
        queue_id: int = 0,
        flag: int = 0,
        queue_offset: int = 0,
        physical_offset: int = 0,
        sys_flag: int = 0,
        born_timestamp: int = 0,
        born_host_raw: bytes = b"\0" * 8,
        store_timestamp: int = 0,
        store_host_raw: bytes = b"\0" * 8,
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
        body_size: int | None = None,
    ) -> None:
        self.total_size = total_size
        self.magic = magic
        self.body_crc = body_crc
        self.queue_id = queue_id
        self.flag = flag
        self.queue_offset = queue_offset
        self.physical_offset = physical_offset
        self.sys_flag = sys_flag
        self.born_timestamp = born_timestamp
        self.born_host_raw = born_host_raw
        self.store_timestamp = store_timestamp
        self.store_host_raw = store_host_raw
        self.reconsume_times = reconsume_times
        self.prepared_transaction_offset = prepared_transaction_offset
        self.body = body
        self.body_size = len(body) if body_size is None else body_size
        self.topic = topic
        self.properties_raw = properties_raw
        self._properties: dict[str, str] | None = None

    @property
    def born_host(self) -> str:
        """The producer's address, ``1.2.3.4:567`` or ``[::1]:567``."""
        raw = self.born_host_raw
        return decode_host(raw, 0, len(raw) == 20)

    @property
    def store_host(self) -> str:
        """The broker's address, ``1.2.3.4:567`` or ``[::1]:567``."""
        raw = self.store_host_raw
        return decode_host(raw, 0, len(raw) == 20)

    @property
    def properties(self) -> dict[str, str]:
        """All properties; decoded once and cached, so changes to the dict affect this object."""
        properties = self._properties
        if properties is None:
            properties = self._properties = decode_properties(self.properties_raw)
        return properties

    @properties.setter
    def properties(self, value: dict[str, str]) -> None:
        self._properties = value

    def get_property(self, name: str) -> str | None:
        """Return one property, without splitting the others; None if absent."""
        if self._properties is not None:
            return self._properties.get(name)
        raw = peek_property(self.properties_raw, name.encode("utf-8", "replace"))
        return None if raw is None else raw.decode("utf-8", "replace")

    @property
    def tags(self) -> str | None:
        """The tag, None if there is none."""
        return self.get_property(PROPERTY_TAGS)

    @property
    def keys(self) -> list[str]:
        """The index keys."""
        return split_keys(self.get_property(PROPERTY_KEYS))

    @property
    def uniq_key(self) -> str | None:
        """The client's message id, None if the record has none."""
        return self.get_property(PROPERTY_UNIQ_KEY)

    @property
    def offset_msg_id(self) -> str:
        """The broker's message id: store host and physical offset, upper-case hex."""
        raw = self.store_host_raw + self.physical_offset.to_bytes(8, "big", signed=True)
        return raw.hex().upper()

    @property
    def is_compressed(self) -> bool:
        """Whether ``body`` is compressed."""
        return bool(self.sys_flag & sysflag.COMPRESSED)

    @property
    def is_inner_batch(self) -> bool:
        """Whether ``body`` contains several messages (see batch.unwrap_inner_batch)."""
        return bool(self.sys_flag & sysflag.INNER_BATCH)

    def payload(self, limit_bytes: int = 64 * 1024 * 1024) -> bytes:
        """Return the body, decompressed if necessary.

        Raises RemoteProtocolError if it cannot be decompressed or exceeds ``limit_bytes``.
        """
        if not self.sys_flag & sysflag.COMPRESSED:
            return self.body
        return decompress(self.body, self.sys_flag, limit_bytes)

    def __repr__(self) -> str:
        return (
            f"MessageExt({self.topic!r}, queue_id={self.queue_id},"
            f" queue_offset={self.queue_offset}, physical_offset={self.physical_offset},"
            f" total_size={self.total_size})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MessageExt):
            return NotImplemented
        return all(
            getattr(self, name) == getattr(other, name)
            for name in MessageExt.__slots__
            if name != "_properties"
        )

    __hash__ = None  # type: ignore[assignment]
