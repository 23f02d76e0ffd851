"""The events that hooks receive; a hook must not block and must not raise.

**Source:** RocketMQ ``SendMessageContext``, ``ConsumeMessageContext``, ``EndTransactionContext``.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from broker.client.results import LocalTransactionState, SendResult
from broker.common.message_queue import MessageQueue
from broker.message.message import MessageExt

log = logging.getLogger("broker.client")

Event = TypeVar("Event")


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


class EndTransactionEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One decision about a half message, before it is sent to the broker at ``address``.

    ``from_check`` whether the broker asked for it, ``at_ms`` epoch ms.
    """

    group: str
    topic: str
    msg_id: str
    tags: str
    keys: str
    address: str
    region_id: str
    transaction_id: str
    state: LocalTransactionState
    from_check: bool
    at_ms: int


SendHook = Callable[[SendEvent], None]
ConsumeHook = Callable[[ConsumeEvent], None]
EndTransactionHook = Callable[[EndTransactionEvent], None]

NORMAL_MSG, TRANS_MSG_HALF, TRANS_MSG_COMMIT, DELAY_MSG, ORDER_MSG = range(5)
SUCCESS, TIME_OUT, EXCEPTION, RETURNED_NULL, FAILED = range(5)


def run_hooks(hooks: Iterable[Callable[[Event], None]], event: Event, name: str) -> None:
    """Call the hooks; one that fails is logged by its ``name`` and does not disturb the others."""
    for hook in hooks:
        try:
            hook(event)
        except Exception:  # code of the application: anything may be raised
            log.exception("%s hook failed", name)
