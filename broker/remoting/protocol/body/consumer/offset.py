"""Offset tables: reset, status, slave synchronisation."""

# ruff: noqa: RUF012  (msgspec copies empty defaults per instance)

from broker.common.message_queue import MessageQueue
from broker.remoting.protocol.body.base import Body
from broker.remoting.protocol.body.version import DataVersion


class ResetOffsetBody(Body, frozen=True, kw_only=True):
    """INVOKE_BROKER_TO_RESET_OFFSET (222), RESET_CONSUMER_CLIENT_OFFSET (220).

    **Source:** RocketMQ ``ResetOffsetBody``.
    """

    offset_table: dict[MessageQueue, int] = {}


class MessageQueueForC(Body, frozen=True, kw_only=True):
    """One entry of the list form.

    **Source:** RocketMQ ``MessageQueueForC``.
    """

    topic: str = ""
    broker_name: str = ""
    queue_id: int = 0
    offset: int = 0


class ResetOffsetBodyForC(Body, frozen=True, kw_only=True):
    """RESET_CONSUMER_CLIENT_OFFSET (220) when the requesting admin client is a CPP client.

    **Source:** RocketMQ ``ResetOffsetBodyForC``.
    """

    offset_table: list[MessageQueueForC] = []


class GetConsumerStatusBody(Body, frozen=True, kw_only=True):
    """221 (``message_queue_table``) and 223 (``consumer_table``, by client id): queue to offset.

    **Source:** RocketMQ ``GetConsumerStatusBody``.
    """

    message_queue_table: dict[MessageQueue, int] = {}
    consumer_table: dict[str, dict[MessageQueue, int]] = {}


class ConsumerOffsetSerializeWrapper(Body, frozen=True, kw_only=True):
    """GET_ALL_CONSUMER_OFFSET (43): ``topic@group`` to queue id to consumer offset.

    5.x slaves fail without ``data_version``.

    **Source:** RocketMQ ``ConsumerOffsetSerializeWrapper``.
    """

    offset_table: dict[str, dict[int, int]] = {}
    data_version: DataVersion | None = None


class DelayOffsetSerializeWrapper(Body, frozen=True, kw_only=True):
    """GET_ALL_DELAY_OFFSET (45): delay level to queue offset.

    **Source:** RocketMQ ``DelayOffsetSerializeWrapper``.
    """

    offset_table: dict[int, int] = {}
    data_version: DataVersion | None = None
