"""Sending one stored message again, as its producer sent it.

Body, flag, keys, tags and the application's properties are kept; properties that brokers and
consumers added are removed. Java's ``queryMsgById -s`` also sends those, so that the new message
keeps the delay, retry and transaction properties of the stored one.
"""

from collections.abc import Sequence

import msgspec

from broker.common.topic import group_of_dlq_topic, is_retry_topic
from broker.errors import ClientError
from broker.message import message as names
from mqadmin.admin.dlq.replay import CLEANED
from mqadmin.admin.message.message_sender import MessageSender
from mqadmin.admin.message.send import SendRecord
from mqadmin.admin.session import AdminSession
from mqadmin.message_row import MessageRow, body_bytes


class ResendPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The message to send, its record so far, and the brokers that may receive it."""

    message: names.Message
    record: SendRecord
    addresses: Sequence[str]


class ResendAdmin:
    """Sends stored messages again. Rows need their body (``BodyView(encoding="base64")``)."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin
        self._sender = MessageSender(admin, routes=admin.routes)

    def plan(self, row: MessageRow, *, to: str | None = None) -> ResendPlan:
        """Return the message that would be sent; ``to`` is the topic, by default its origin.

        ClientError for a topic that does not exist and for a message whose origin is unknown.
        """
        topic = to or origin_of(row)
        message = names.Message(topic, body_bytes(row.body or "", row.body_encoding), flag=row.flag)
        message.properties = {
            name: value
            for name, value in row.properties.items()
            if name not in CLEANED and not name.startswith(names.TRANSIENT_PREFIX)
        }
        found = {self._sender.master(queue) for queue in self._sender.queues(message)}
        return ResendPlan(
            message=message,
            record=SendRecord(
                topic=topic,
                broker_name=None,
                queue_id=None,
                queue_offset=None,
                offset_msg_id=None,
                uniq_key=row.uniq_key,
                send_status="planned",
            ),
            addresses=sorted(address for address in found if address is not None),
        )

    def send(self, plan: ResendPlan) -> SendRecord:
        """Send the message of a plan."""
        self._admin.renew()
        sent = self._sender.send(plan.message)
        return SendRecord(
            topic=plan.message.topic,
            broker_name=sent.message_queue.broker_name,
            queue_id=sent.message_queue.queue_id,
            queue_offset=sent.queue_offset,
            offset_msg_id=sent.offset_msg_id,
            uniq_key=sent.msg_id,
            send_status=sent.send_status,
        )


def origin_of(row: MessageRow) -> str:
    """Return the topic that a message was sent to; ClientError if a dead letter lacks it."""
    if not is_retry_topic(row.topic) and not group_of_dlq_topic(row.topic):
        return row.topic
    origin = row.properties.get("DLQ_ORIGIN_TOPIC") or row.properties.get("RETRY_TOPIC")
    if origin is None:
        raise ClientError(
            f"message {row.offset_msg_id} of topic {row.topic} does not contain its original topic",
            "name the topic with --to",
        )
    return origin
