"""The events that hooks receive; a hook must not block and must not raise.

**Source:** RocketMQ ``SendMessageContext``, ``ConsumeMessageContext``.
"""

from collections.abc import Callable, Sequence

import msgspec

from broker.client.results import SendResult
from broker.common.message_queue import MessageQueue
from broker.message.message import MessageExt


class SendEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One finished send, all attempts included; ``result`` None if it failed with ``error``.

    ``born_ms`` epoch ms of the call, ``cost_ms`` its duration, ``body_bytes`` as sent, ``address``
    of the broker asked last, ``message_type`` the ordinal of Java's MessageType.
    """

    group: str
    topic: str
    msg_id: str
    tags: str
    keys: str
    body_bytes: int
    address: str
    message_type: int
    born_ms: int
    cost_ms: float
    result: SendResult | None = None
    error: BaseException | None = None


class ConsumeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One listener call; ``context_code`` 0 success, 1 time-out, 2 exception, 3 null, 4 failed.

    ``before`` is True for the event at the start of the call, whose other results are not set.
    """

    group: str
    request_id: str
    queue: MessageQueue
    messages: Sequence[MessageExt]
    before: bool
    at_ms: int
    cost_ms: float = 0.0
    success: bool = True
    context_code: int = 0


SendHook = Callable[[SendEvent], None]
ConsumeHook = Callable[[ConsumeEvent], None]

NORMAL_MSG, TRANS_MSG_HALF, TRANS_MSG_COMMIT, DELAY_MSG, ORDER_MSG = range(5)
SUCCESS, TIME_OUT, EXCEPTION, RETURNED_NULL, FAILED = range(5)
