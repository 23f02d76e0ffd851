"""Ordinary pulls: those of a consumer that catches up, answered from the bytes of their header.

A pull is ordinary if it asks for all messages of a queue of this broker and finds some, and no
setting asks for more than reading them. Everything else, each refusal included, is left to
:class:`broker.server.processor.pull.PullMessageProcessor`, with which the responses are equal.

**Source:** RocketMQ PullMessageProcessor; no Java counterpart for the form.
"""

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from broker.common.subscription import is_tag_type
from broker.common.sysflag import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION
from broker.common.topic import PERM_READ
from broker.remoting.direct import DirectHeader
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.framing import PREFIX, reply_format
from broker.remoting.protocol.header.consumer.pull import PullMessageRequestHeader
from broker.server.processor.pull import REMARKS, REPLY
from broker.server.processor.send.batch_records import is_batch_topic
from broker.store.results import GetMessageStatus

if TYPE_CHECKING:
    from broker.remoting.server import Connection
    from broker.server.context import BrokerContext
    from broker.server.processor.pull import PullMessageProcessor


class _Fields(
    PullMessageRequestHeader, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True
):
    """The ext fields of an ordinary pull; no booleans: Java's texts are not those of msgspec."""

    lo: None = None
    nsd: None = None
    oway: None = None


class _Request(DirectHeader, frozen=True, kw_only=True, gc=False):
    """The JSON header of an ordinary pull."""

    code: Literal[11]
    ext_fields: _Fields


_ALL: Final = ("*", None, "")
_BY_TAGS: Final = ("TAG", None, "")
_FOUND: Final = reply_format(ResponseCode.SUCCESS, REPLY, REMARKS[GetMessageStatus.FOUND])
_decode: Final = msgspec.json.Decoder(_Request, strict=False).decode


class OrdinaryPulls:
    """Answers ordinary pulls for a processor; one instance per broker."""

    def __init__(self, context: "BrokerContext", pulls: "PullMessageProcessor") -> None:
        self._context = context
        self._pulls = pulls
        self._read_config()

    def answer(
        self, connection: "Connection", header: bytes
    ) -> tuple[int, list[bytes | memoryview]] | None:
        """Return size (bytes) and parts of the response to a pull, None if it is not ordinary."""
        try:
            request = _decode(header)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        fields, context, pulls = request.ext_fields, self._context, self._pulls
        if context.config is not self._config:
            self._read_config()
        name = fields.consumer_group
        group = context.groups.configs.get(name)
        topic = context.topics.configs.get(fields.topic)
        if (
            not self._usable
            or group is None
            or topic is None
            or fields.topic in context.mappings.details
            or (topic.attributes and is_batch_topic(topic))
            or not group.consume_enable
            or not topic.perm & PERM_READ
            or not 0 <= fields.queue_id < topic.read_queue_nums
        ):
            return None
        if fields.sys_flag & PULL_SUBSCRIPTION:
            is_all = fields.subscription in _ALL and fields.expression_type in _BY_TAGS
        else:
            is_all = self._subscribes_to_all(fields, group.consume_broadcast_enable)
        offsets = context.offsets
        if not is_all or (
            offsets.resets and offsets.reset_pending(name, fields.topic, fields.queue_id)
        ):
            return None
        count, start = fields.max_msg_nums, fields.queue_offset
        if count < 1:
            count = 1
        elif count > pulls.max_count:
            count = pulls.max_count
        found = context.store.get_ordinary(fields.topic, fields.queue_id, start, count)
        if found is None:
            return None
        count, size, records, queue = found
        if fields.sys_flag & PULL_COMMIT_OFFSET and fields.commit_offset >= 0:
            offsets.commit(name, fields.topic, fields.queue_id, fields.commit_offset)
        key = f"{fields.topic}@{name}"
        offsets.note_pull(key, fields.queue_id, start + count)
        pulls.count(key, count, size)
        head = _FOUND % (
            group.group_sys_flag,
            queue.max_offset,
            queue.min_offset,
            start + count,
            0,
            topic.topic_sys_flag,
            request.opaque,
        )
        length = len(head)
        head = PREFIX.pack(4 + length + size, length) + head
        size += len(head)
        if len(records) == 1:  # it may be the buffer that the next pull uses again
            return size, [b"".join((head, *records))]
        return size, [head, *records]

    def _read_config(self) -> None:
        """Note whether a setting asks for more than reading."""
        config = self._config = self._context.config
        self._usable = not (
            config.slave_read_enable
            or not config.broker_permission & PERM_READ
            or config.cold_data_flow_control_enable
            or config.disable_consume_if_consumer_read_slowly
        )

    def _subscribes_to_all(self, fields: _Fields, broadcast: bool) -> bool:
        """Whether the group's heartbeats subscribe to all messages of the topic."""
        context = self._context
        online = context.consumers.get(fields.consumer_group)
        if online is None or (online.broadcasting and not broadcast):
            return False
        data = online.subscriptions.get(fields.topic)
        return (
            data is not None
            and data.sub_version >= fields.sub_version
            and data.sub_string == "*"
            and is_tag_type(data.expression_type)
            and context.groups.may_read(fields.consumer_group, fields.topic)
        )
