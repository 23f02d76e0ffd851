"""PopCollector: the messages that one pop collects, up to its limits, and its response.

**Source:** RocketMQ PopMessageProcessor#popMsgFromQueue, PopMessageResponseHeader.
"""

from typing import Final

from broker.message import message as props
from broker.message.properties import append_property, peek_property
from broker.message.receipt_handle import (
    ITEM_SEPARATOR,
    ReceiptHandle,
    encode_handle,
    message_offset_item,
    start_offset_item,
)
from broker.message.record import decode_record, encode_record, peek_record
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.protocol.framing import encode_reply_json
from broker.store.results import GetMessageResult

_PEEKED: Final = b'{"invisibleTime":"0","popTime":"0","restNum":"%d","reviveQid":"0"}'
_REPLY: Final = (
    b'{"invisibleTime":"%d","msgOffsetInfo":"%b","popTime":"%d","restNum":"%d",'
    b'"reviveQid":"%d","startOffsetInfo":"%b"%b}'
)


class PopCollector:
    """Records of one pop with the strings that describe them; ``limit`` messages at most.

    Memory: the first record at any size, then no further queue beyond ``limit_bytes``.
    ``moved`` is True if an offset advanced past messages that the filter rejected.
    """

    __slots__ = (
        "buffers",
        "count",
        "counts",
        "failure",
        "invisible_time",
        "limit",
        "limit_bytes",
        "messages",
        "moved",
        "pop_time",
        "rest",
        "revive_queue_id",
        "size",
        "starts",
    )

    def __init__(
        self, pop_time: int, invisible_time: int, revive_queue_id: int, limits: tuple[int, int]
    ) -> None:
        self.pop_time = pop_time
        self.invisible_time = invisible_time
        self.revive_queue_id = revive_queue_id
        self.limit, self.limit_bytes = limits
        self.buffers: list[bytes | memoryview] = []
        self.count = self.size = self.rest = 0
        self.starts: list[str] = []
        self.messages: list[str] = []
        self.counts: list[str] = []
        self.moved = False
        self.failure = ""

    @property
    def full(self) -> bool:
        """Whether no further message is wanted."""
        return self.count >= self.limit or self.size >= self.limit_bytes

    def add(self, flag: str, queue_id: int, start_offset: int, result: GetMessageResult) -> None:
        """Add the records of one queue as they are stored."""
        self._describe(flag, queue_id, start_offset, message_offsets(result))
        self.buffers += result.buffers
        self.count += result.message_count
        self.size += result.total_bytes

    def add_retried(
        self, handle: ReceiptHandle, shown_topic: str, result: GetMessageResult
    ) -> None:
        """Add the records of a retry queue under ``shown_topic``, each with its own handle.

        ``handle`` is the one of the check point; clients take POP_CK from the properties.
        """
        offsets = message_offsets(result)
        self._describe(handle.retry_flag, handle.queue_id, handle.start_offset, offsets)
        for buffer in result.buffers:
            position = 0
            while position < len(buffer):
                message = decode_record(buffer, position)
                position += message.total_size
                message.topic = shown_topic
                message.magic = 0  # chosen again: the length of the topic has changed
                if peek_property(message.properties_raw, _POP_CK) is None:
                    text = encode_handle(handle._replace(queue_offset=message.queue_offset))
                    message.properties_raw = append_property(
                        message.properties_raw, _POP_CK, text.encode()
                    )
                record = encode_record(message)
                self.buffers.append(record)
                self.size += len(record)
        self.count += result.message_count

    def _describe(self, flag: str, queue_id: int, start_offset: int, offsets: list[int]) -> None:
        self.starts.append(start_offset_item(flag, queue_id, start_offset))
        self.messages.append(message_offset_item(flag, queue_id, offsets))

    def reply(self, request: RemotingCommand, code: int, status: str) -> bytes:
        """Return the reply; numeric fields are present in every outcome, as clients require."""
        counts = b""
        if self.counts:
            joined = ITEM_SEPARATOR.join(self.counts)
            counts = b',"orderCountInfo":"%b"' % joined.encode()
        ext = _REPLY % (
            self.invisible_time,
            ITEM_SEPARATOR.join(self.messages).encode(),
            self.pop_time,
            self.rest,
            self.revive_queue_id,
            ITEM_SEPARATOR.join(self.starts).encode(),
            counts,
        )
        return self._encode(request, code, ext, status)

    def peeked(self, request: RemotingCommand, code: int, status: str) -> bytes:
        """Return the reply to a peek, which opens no check point and describes none."""
        return self._encode(request, code, _PEEKED % self.rest, status)

    def _encode(self, request: RemotingCommand, code: int, ext: bytes, status: str) -> bytes:
        body = self.buffers if code == 0 else []
        head = encode_reply_json(
            request.opaque,
            code,
            ext,
            remark_json=b'"%b"' % status.encode(),
            body_size=sum(map(len, body)),
        )
        # One copy: the slices of the log do not outlive this call.
        return b"".join((head, *body))


_POP_CK: Final = props.PROPERTY_POP_CK.encode()


def message_offsets(result: GetMessageResult) -> list[int]:
    """Return the queue offsets of the records of a read."""
    offsets = []
    for buffer in result.buffers:
        position = 0
        while position < len(buffer):
            head = peek_record(buffer, position)
            if head is None:
                break
            offsets.append(head.queue_offset)
            position += head.total_size
    return offsets
