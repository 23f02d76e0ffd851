"""Sending one message: a plan and the send itself run the same checks."""

from collections.abc import Mapping, Sequence

import msgspec

from broker.common.message_queue import MessageQueue
from broker.errors import ClientError, ConfigError, RocketMQError
from broker.message.message import PROPERTY_DELAY, Message
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.message.message_sender import MessageSender
from mqadmin.admin.session import AdminSession

#: Delay levels of a broker that does not report its own.
#: **Source:** RocketMQ MessageStoreConfig#messageDelayLevel.
DEFAULT_DELAY_LEVELS = 18


class SendRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Location of a sent message. ``sendStatus`` is SEND_OK or the store's flush or slave status.

    In a plan it is ``planned``, and fields that are known only after sending are None.
    """

    topic: str
    broker_name: str | None
    queue_id: int | None
    queue_offset: int | None
    offset_msg_id: str | None
    uniq_key: str | None
    send_status: str


class SendPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A message that would be sent: its record so far, and the brokers that may receive it."""

    record: SendRecord
    addresses: Sequence[str]


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A message to send. ``queue_id`` and ``broker`` (a name) choose the queue.

    Without ``create`` an unknown topic is a ClientError.
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: Sequence[str] = ()
    properties: Mapping[str, str] | None = None
    broker: str | None = None
    queue_id: int | None = None
    delay_level: int = 0
    create: bool = False


def send(admin: AdminSession, outgoing: Outgoing) -> SendRecord:
    """Send; ClientError or ConfigError from the checks before sending, else the broker's error."""
    message, producer, queue, _ = _prepared(admin, outgoing)
    sent = producer.send(message, queue)
    return SendRecord(
        topic=outgoing.topic,
        broker_name=sent.message_queue.broker_name,
        queue_id=sent.message_queue.queue_id,
        queue_offset=sent.queue_offset,
        offset_msg_id=sent.offset_msg_id,
        uniq_key=sent.msg_id,
        send_status=sent.send_status,
    )


def plan_send(admin: AdminSession, outgoing: Outgoing) -> SendPlan:
    """Return the plan of :func:`send`; the queue is None when the producer chooses it."""
    _, _, queue, addresses = _prepared(admin, outgoing)
    return SendPlan(
        record=SendRecord(
            topic=outgoing.topic,
            broker_name=queue.broker_name if queue else None,
            queue_id=queue.queue_id if queue else None,
            queue_offset=None,
            offset_msg_id=None,
            uniq_key=None,
            send_status="planned",
        ),
        addresses=addresses,
    )


def _prepared(
    admin: AdminSession, outgoing: Outgoing
) -> tuple[Message, MessageSender, MessageQueue | None, Sequence[str]]:
    """Return the message, the producer, the queue if selected, and the possible brokers."""
    message = Message(
        outgoing.topic,
        outgoing.body,
        tags=outgoing.tags,
        keys=list(outgoing.keys),
        properties=outgoing.properties,
    )
    if outgoing.delay_level:
        message.properties[PROPERTY_DELAY] = str(outgoing.delay_level)
    producer = MessageSender(admin, routes=admin.routes, create=outgoing.create)
    try:
        queues = producer.queues(message)
    except ClientError as error:
        if not error.hint and admin.routes.find(outgoing.topic) is None:
            error.hint = "mqadmin topic create TOPIC creates it, or send with --create"
        raise
    queue = _chosen_queue(outgoing, queues)
    names = {queue.broker_name} if queue else {one.broker_name for one in queues}
    found = {producer.master(one) for one in queues if one.broker_name in names}
    addresses = sorted(address for address in found if address is not None)
    if outgoing.delay_level:
        _check_delay_level(admin, outgoing.delay_level, addresses)
    return message, producer, queue, addresses


def _chosen_queue(outgoing: Outgoing, queues: Sequence[MessageQueue]) -> MessageQueue | None:
    """Return the queue selected by broker and id, None when the producer may choose."""
    broker, queue_id = outgoing.broker, outgoing.queue_id
    if broker is None and queue_id is None:
        return None
    fitting = [
        queue
        for queue in queues
        if broker in (None, queue.broker_name) and queue_id in (None, queue.queue_id)
    ]
    if not fitting:
        names = sorted({queue.broker_name for queue in queues})
        if broker is not None and broker not in names:
            reason = f"broker {broker} has no writable queue of topic {outgoing.topic}"
            reason += f" (queues: {', '.join(names)})"
        else:
            reason = f"topic {outgoing.topic} has no writable queue {queue_id}"
            reason += f" on {broker or 'any broker'}"
        raise ClientError(reason, f"mqadmin topic route {outgoing.topic} shows its queues")
    if queue_id is not None and len(fitting) > 1:
        several = ", ".join(queue.broker_name for queue in fitting)
        raise ClientError(
            f"{len(fitting)} brokers have a queue {queue_id} of topic {outgoing.topic} ({several})",
            "name one with --broker",
        )
    return fitting[0]


def _check_delay_level(admin: AdminSession, level: int, addresses: Sequence[str]) -> None:
    """ConfigError for a level that a broker does not have.

    A broker silently replaces such a level by its highest. A broker that does not report its
    configuration is assumed to have the default levels.
    """
    answers = admin.call_all(
        [(address, build_request(RequestCode.GET_BROKER_CONFIG, {})) for address in addresses]
    )
    for address, answer in zip(addresses, answers, strict=True):
        levels = DEFAULT_DELAY_LEVELS
        if not isinstance(answer, RocketMQError):
            levels = len(answer.properties.get("messageDelayLevel", "").split()) or levels
        if level > levels:
            raise ConfigError(
                f"delay level {level}: broker {address} has the levels 1 to {levels}",
                "mqadmin broker config show --key messageDelayLevel lists their delays",
            )
