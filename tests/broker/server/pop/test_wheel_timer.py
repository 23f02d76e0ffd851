"""WheelTimer: the timer's progress counts only when the delivered records are visible."""

from broker.server.pop.wheel_timer import WheelTimer


class Timers:
    """The properties of the timer messages that the adapter reads."""

    def __init__(self) -> None:
        self.read_time_ms = 1_000
        self.offset_behind = 0

    def intercept(self, inner, properties):
        return None


def test_a_reading_counts_when_the_log_up_to_it_is_dispatched(desk) -> None:
    desk.topic("Orders")
    timers = Timers()
    timer = WheelTimer(desk.store)
    timer.attach(timers)
    assert timer.delivered_until_ms() == 1_000
    desk.deferred = True
    desk.send()
    timers.read_time_ms = 2_000
    assert timer.delivered_until_ms() == 1_000
    timers.read_time_ms = 3_000
    desk.store.dispatch()
    assert timer.delivered_until_ms() == 2_000
    assert timer.delivered_until_ms() == 3_000


def test_messages_that_are_not_in_the_wheel_yet_hold_it_back(desk) -> None:
    timers = Timers()
    timers.offset_behind = 3
    timer = WheelTimer(desk.store)
    timer.attach(timers)
    assert timer.delivered_until_ms() == 0
    timers.offset_behind = 0
    assert timer.delivered_until_ms() == 1_000
    timers.read_time_ms, timers.offset_behind = 2_000, 1
    assert timer.delivered_until_ms() == 1_000


def test_a_message_that_was_in_the_log_and_not_in_the_wheel_is_delivered_first(desk) -> None:
    """An acknowledgement is in the log, not dispatched and due: its copy must be visible, too."""
    desk.topic("Orders")
    timers = Timers()
    timer = WheelTimer(desk.store)
    timer.attach(timers)
    desk.deferred = True
    desk.send()
    timers.read_time_ms = 2_000
    assert timer.delivered_until_ms() == 0
    desk.store.dispatch()
    timers.offset_behind = 1  # dispatched to the timer topic
    assert timer.delivered_until_ms() == 0
    desk.send()  # delivered by the wheel, which is due to be dispatched
    timers.offset_behind = 0
    assert timer.delivered_until_ms() == 0
    desk.store.dispatch()
    assert timer.delivered_until_ms() == 2_000


def test_without_timer_messages_nothing_can_be_deferred(desk) -> None:
    timer = WheelTimer(desk.store)
    assert not timer.available
    assert timer.defer(None, {}) == "timerWheelEnable is false"
    assert timer.delivered_until_ms() == 0


def test_a_refusal_is_a_reason(desk) -> None:
    desk.timer.refusal = "slot full"
    assert desk.pop_service.parts.timer.defer(None, {"TIMER_DELIVER_MS": "1"}) == "slot full"
