"""The counter of a popped queue."""

from broker.client.pop.pop_process_queue import PopProcessQueue


def test_unfinished_messages_are_counted_and_a_silent_loop_expires() -> None:
    queue = PopProcessQueue(1_000)
    queue.found(5)
    queue.finished(3)
    assert queue.wait_ack_count == 2
    assert not queue.is_pull_expired(121_000)
    assert queue.is_pull_expired(121_001)
    queue.dropped = True
    assert queue.is_dropped()
