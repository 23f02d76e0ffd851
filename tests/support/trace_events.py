"""A send and the end of a transaction as the trace hooks of our client see them."""

from broker.client.hooks.events import EndTransactionEvent, SendEvent
from broker.client.results import LocalTransactionState, SendResult, SendStatus
from broker.common.message_queue import MessageQueue

QUEUE = MessageQueue("T", "broker-a", 0)
RESULT = SendResult(
    send_status=SendStatus.SEND_OK,
    msg_id="KEY",
    offset_msg_id="OFFSET",
    message_queue=QUEUE,
    queue_offset=5,
    region_id="Region",
)
SENT = SendEvent(
    group="pg",
    topic="T",
    msg_id="KEY",
    tags="A",
    keys="k1 k2",
    body_bytes=12,
    address="1.2.3.4:5",
    message_type=3,
    born_ms=1_000,
    cost_ms=7.9,
    result=RESULT,
)
ENDED = EndTransactionEvent(
    group="pg",
    topic="T",
    msg_id="KEY",
    tags="A",
    keys="k1 k2",
    address="1.2.3.4:5",
    region_id="Region",
    transaction_id="TX",
    state=LocalTransactionState.ROLLBACK_MESSAGE,
    from_check=True,
    at_ms=1_000,
)
