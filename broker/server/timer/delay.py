"""Delayed messages on their way to the store: a delay level, or a delivery time.

Every writer passes through here: sends, and the commit of a transaction.

**Source:** RocketMQ HookUtils#handleScheduleMessage.
"""

from typing import TYPE_CHECKING

from broker.server.schedule import delay_level
from broker.store.results import MessageExtBrokerInner, PutMessageResult, PutMessageStatus
from broker.store.timer.timer_message import REQUEST_PROPERTIES, is_timer_request

if TYPE_CHECKING:
    from broker.server.schedule import ScheduleMessageService
    from broker.store.timer.timer_message_store import TimerMessageStore


def delay_message(
    delays: "ScheduleMessageService | None",
    timers: "TimerMessageStore | None",
    inner: MessageExtBrokerInner,
    properties: dict[str, str],
) -> PutMessageResult | None:
    """Redirect a delayed message to the schedule or timer topic; return a refusal or None.

    A delay level precedes a delivery time. ``properties`` may change; the caller encodes them.
    """
    level = delay_level(properties, delays.max_level) if delays is not None else 0
    if delays is not None and level > 0:
        for name in REQUEST_PROPERTIES:
            properties.pop(name, None)
        reason = delays.suspend(inner, properties, level)
        if reason is None:
            return None
        return PutMessageResult(PutMessageStatus.MESSAGE_ILLEGAL, remark=reason)
    if timers is not None:
        return timers.intercept(inner, properties)
    if not is_timer_request(inner.topic, properties):
        return None
    remark = "timerWheelEnable is false"
    return PutMessageResult(PutMessageStatus.WHEEL_TIMER_NOT_ENABLE, remark=remark)
