"""Listeners: the callbacks that an application passes to a push consumer.

**Source:** RocketMQ ``MessageListenerConcurrently``, ``MessageListenerOrderly`` and their contexts.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import msgspec

from broker.client.results import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus
from broker.common.java import INT32_MAX
from broker.common.message_queue import MessageQueue
from broker.message.message import MessageExt


class ConsumeConcurrentlyContext(msgspec.Struct, kw_only=True):
    """Passed to each call; a listener may set the two decisions.

    ``delay_level_when_next_consume`` 0: the broker decides, -1: DLQ now, above 0: that level.
    ``ack_index`` last message of the batch that was consumed, by default all.
    """

    message_queue: MessageQueue
    delay_level_when_next_consume: int = 0
    ack_index: int = INT32_MAX


class ConsumeOrderlyContext(msgspec.Struct, kw_only=True):
    """Passed to each call; a listener may set the two decisions.

    ``suspend_current_queue_ms`` -1 means the consumer's setting. ``auto_commit`` False: messages
    stay uncommitted until a call returns COMMIT or ROLLBACK.
    """

    message_queue: MessageQueue
    auto_commit: bool = True
    suspend_current_queue_ms: int = -1


ConcurrentListener: TypeAlias = Callable[
    [Sequence[MessageExt], ConsumeConcurrentlyContext],
    "ConsumeConcurrentlyStatus | Awaitable[ConsumeConcurrentlyStatus]",
]
OrderlyListener: TypeAlias = Callable[
    [Sequence[MessageExt], ConsumeOrderlyContext],
    "ConsumeOrderlyStatus | Awaitable[ConsumeOrderlyStatus]",
]
