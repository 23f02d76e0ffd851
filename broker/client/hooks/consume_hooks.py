"""ConsumeHooks: calls the hooks of one consumer on its event loop.

**Source:** RocketMQ ``DefaultMQPushConsumerImpl#executeHookBefore``, ``#executeHookAfter``.
"""

import asyncio
import logging
import uuid
from collections.abc import Sequence

from broker.client.hooks.events import (
    EXCEPTION,
    FAILED,
    RETURNED_NULL,
    SUCCESS,
    TIME_OUT,
    ConsumeEvent,
    ConsumeHook,
)
from broker.common.clock import Clock
from broker.common.message_queue import MessageQueue
from broker.message.message import MessageExt

log = logging.getLogger("broker.client")


class ConsumeHooks:
    """The hooks of one consumer group; does nothing while the list is empty."""

    def __init__(self, group: str, clock: Clock, hooks: list[ConsumeHook]) -> None:
        self._group = group
        self._clock = clock
        self._hooks = hooks
        self._loop = asyncio.get_running_loop()

    def before(self, messages: Sequence[MessageExt], queue: MessageQueue) -> str:
        """Report the start of a listener call, from any thread; returns the id of the call."""
        if not self._hooks:
            return ""
        request_id = uuid.uuid4().hex.upper()
        event = ConsumeEvent(
            group=self._group,
            request_id=request_id,
            queue=queue,
            messages=messages,
            before=True,
            at_ms=self._clock.now_ms(),
        )
        self._loop.call_soon_threadsafe(self._run, event)
        return request_id

    def after(
        self,
        request_id: str,
        messages: Sequence[MessageExt],
        queue: MessageQueue,
        *,
        cost_ms: float,
        code: int,
    ) -> None:
        """Report the end of a listener call, on the loop."""
        if not self._hooks:
            return
        self._run(
            ConsumeEvent(
                group=self._group,
                request_id=request_id,
                queue=queue,
                messages=messages,
                before=False,
                at_ms=self._clock.now_ms(),
                cost_ms=cost_ms,
                success=code == SUCCESS,
                context_code=code,
            )
        )

    def _run(self, event: ConsumeEvent) -> None:
        for hook in self._hooks:
            try:
                hook(event)
            except Exception:  # code of the application: anything may be raised
                log.exception("%s: a consume hook failed", self._group)


def code_of(result: object, success: object, *, cost_ms: float, timeout_ms: float) -> int:
    """Return the context code of a listener's result."""
    if isinstance(result, BaseException):
        return EXCEPTION
    if result is None:
        return RETURNED_NULL
    if cost_ms >= timeout_ms:
        return TIME_OUT
    return SUCCESS if result is success else FAILED
