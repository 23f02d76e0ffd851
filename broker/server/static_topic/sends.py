"""Sends to a static topic: the queue of the request, and place and offset in the response.

**Source:** RocketMQ SendMessageProcessor#processRequest, #rewriteResponseForStaticTopic.
"""

from broker.remoting.protocol.command import RemotingCommand
from broker.server.static_topic.mapping import led_queues, logical_offset
from broker.server.static_topic.mapping_table import TopicQueueMappingManager
from broker.server.static_topic.requests import not_leader

REWRITTEN = "lo"  # "false": the queue id of the request is that of a queue of this broker


def to_led_queue(
    mappings: TopicQueueMappingManager, request: RemotingCommand, topic: str, field: str
) -> RemotingCommand | None:
    """Replace the queue id in ``field`` of a send; return the refusal of a queue not led here.

    ValueError if the field is not a number, KeyError if it is missing.
    """
    fields = request.ext_fields
    if fields.get(REWRITTEN) == "false":
        return None
    queue_id = int(fields[field])
    queue = mappings.queue(topic, queue_id)
    if queue is None or not queue.is_led:
        detail = mappings.get(topic)
        return not_leader(request, topic, queue_id, (detail.bname if detail else None) or "")
    fields[field] = str(queue.leader.queue_id)
    fields[REWRITTEN] = "false"
    return None


def shown_place(
    mappings: TopicQueueMappingManager, topic: str, queue_id: int, offset: int
) -> tuple[int, int]:
    """Return logical queue id and offset of a message stored in a queue of this broker."""
    detail = mappings.get(topic)
    if detail is not None:
        for logical_id, led in led_queues(detail).items():
            queue = mappings.queue(topic, logical_id)
            if led == queue_id and queue is not None:
                return logical_id, logical_offset(queue.leader, offset)
    return queue_id, offset
