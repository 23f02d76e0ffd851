"""The contexts of listeners."""

from broker.client.listener.listeners import ConsumeConcurrentlyContext, ConsumeOrderlyContext
from broker.common.message_queue import MessageQueue


def test_by_default_a_whole_batch_is_acknowledged_and_the_broker_decides_the_delay() -> None:
    context = ConsumeConcurrentlyContext(message_queue=MessageQueue("T", "b", 0))
    assert (context.ack_index, context.delay_level_when_next_consume) == (2**31 - 1, 0)


def test_by_default_the_consumer_setting_decides_how_long_a_queue_waits() -> None:
    context = ConsumeOrderlyContext(message_queue=MessageQueue("T", "b", 0))
    assert context.suspend_current_queue_ms == -1
