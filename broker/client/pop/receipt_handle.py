"""Receipt handles of popped messages: pure text.

::

    ckQueueOffset popTime invisibleTime reviveQid retryFlag brokerName queueId queueOffset

The response to a pop does not contain handles; the client builds one per message from the header.

**Source:** RocketMQ ``ExtraInfoUtil``, ``MQClientAPIImpl#processPopResponse``.
"""

from collections.abc import Iterable, Mapping

import msgspec

from broker.common.java import INT64_MAX, parse_number
from broker.common.topic import RETRY_PREFIX, pop_retry_topic
from broker.errors import ClientError, RemoteProtocolError
from broker.message.message import PROPERTY_FIRST_POP_TIME, PROPERTY_POP_CK, MessageExt
from broker.remoting.protocol.header.consumer.pop import PopMessageResponseHeader

NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"
ORDERED_REVIVE_QID = 999


class ReceiptHandle(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery of one message; times in ms, offsets are queue offsets.

    >>> handle = ReceiptHandle.parse("120 1700000000000 60000 3 0 broker-a 1 121")
    >>> handle.broker_name, handle.queue_id, handle.queue_offset, handle.expires_ms
    ('broker-a', 1, 121, 1700000060000)
    """

    start_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_qid: int
    retry_flag: str
    broker_name: str
    queue_id: int
    queue_offset: int

    @property
    def expires_ms(self) -> int:
        """When the message becomes visible again, epoch ms."""
        return self.pop_time_ms + self.invisible_ms

    @property
    def text(self) -> str:
        """The form on the wire."""
        return (
            f"{self.start_offset} {self.pop_time_ms} {self.invisible_ms} {self.revive_qid} "
            f"{self.retry_flag} {self.broker_name} {self.queue_id} {self.queue_offset}"
        )

    @classmethod
    def parse(cls, text: str) -> "ReceiptHandle":
        """Read a handle; ClientError if it is not one."""
        parts = text.split(" ")
        numbers = [parse_number(one, 0, INT64_MAX) for one in parts]
        if len(parts) != 8 or None in (*numbers[:4], *numbers[6:]) or not parts[5]:
            raise ClientError(
                f"not a receipt handle: {text!r:.200}", "use a message of SimpleConsumer.receive"
            )
        return cls(
            start_offset=numbers[0] or 0,
            pop_time_ms=numbers[1] or 0,
            invisible_ms=numbers[2] or 0,
            revive_qid=numbers[3] or 0,
            retry_flag=parts[4],
            broker_name=parts[5],
            queue_id=numbers[6] or 0,
            queue_offset=numbers[7] or 0,
        )

    def topic(self, topic: str, group: str) -> str:
        """Return the topic that the message was popped from: ``topic`` or its retry topic."""
        if self.retry_flag == NORMAL:
            return topic
        return pop_retry_topic(topic, group, version_2=self.retry_flag == RETRY_V2)


def handle_of(message: MessageExt) -> ReceiptHandle:
    """Return the handle of a popped message; ClientError if it has none."""
    return ReceiptHandle.parse(message.properties.get(PROPERTY_POP_CK, ""))


def parse_offset_info(text: str | None) -> dict[tuple[str, int], list[int]]:
    """Read ``retryFlag queueId off,off;…`` of a pop response; a bad item is an error."""
    found: dict[tuple[str, int], list[int]] = {}
    for item in (text or "").split(";"):
        if not item:
            continue
        parts = item.split(" ")
        queue_id = parse_number(parts[1], 0) if len(parts) == 3 else None
        offsets = [parse_number(one, 0) for one in parts[2].split(",")] if len(parts) == 3 else []
        if queue_id is None or None in offsets:
            raise RemoteProtocolError(f"offsets of a pop response: {item!r:.100}")
        found[parts[0], queue_id] = [one for one in offsets if one is not None]
    return found


def retry_flag_of(topic: str, subscribed: str, group: str) -> str:
    """Return the flag of the topic of a record."""
    if topic == subscribed or not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if topic == pop_retry_topic(subscribed, group, version_2=True) else RETRY_V1


def attach_handles(
    messages: Iterable[MessageExt],
    header: PopMessageResponseHeader,
    *,
    topic: str,
    group: str,
    broker_name: str,
) -> None:
    """Give each message its handle and restore the subscribed topic.

    Retried messages usually have a handle already: the broker encodes them again under their
    original topic. Raises RemoteProtocolError if the header does not fit the messages.
    """
    starts = parse_offset_info(header.start_offset_info)
    known = parse_offset_info(header.msg_offset_info)
    by_queue: dict[tuple[str, int], list[MessageExt]] = {}
    for message in messages:
        message.properties.setdefault(PROPERTY_FIRST_POP_TIME, str(header.pop_time))
        if PROPERTY_POP_CK not in message.properties:
            flag = retry_flag_of(message.topic, topic, group)
            by_queue.setdefault((flag, message.queue_id), []).append(message)
        message.topic = topic
    for (flag, queue_id), batch in by_queue.items():
        batch.sort(key=lambda one: one.queue_offset)
        start = _start(starts, (flag, queue_id), batch[0].queue_offset)
        offsets = _offsets(known, (flag, queue_id), batch)
        for message, offset in zip(batch, offsets, strict=True):
            message.properties[PROPERTY_POP_CK] = ReceiptHandle(
                start_offset=start,
                pop_time_ms=header.pop_time,
                invisible_ms=header.invisible_time,
                revive_qid=header.revive_qid,
                retry_flag=flag,
                broker_name=broker_name,
                queue_id=queue_id,
                queue_offset=offset,
            ).text


def _start(starts: Mapping[tuple[str, int], list[int]], key: tuple[str, int], first: int) -> int:
    if not starts:
        return first
    if not starts.get(key):
        raise RemoteProtocolError(f"pop response: no start offset for queue {key[1]}")
    return starts[key][0]


def _offsets(
    known: Mapping[tuple[str, int], list[int]], key: tuple[str, int], batch: list[MessageExt]
) -> list[int]:
    if not known:
        return [message.queue_offset for message in batch]
    offsets = known.get(key, [])
    if len(offsets) < len(batch):
        raise RemoteProtocolError(
            f"pop response: {len(offsets)} offsets for {len(batch)} messages of queue {key[1]}"
        )
    return sorted(offsets)[: len(batch)]
