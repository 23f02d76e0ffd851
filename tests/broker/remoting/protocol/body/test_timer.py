import pytest

from broker.errors import RemoteProtocolError
from broker.remoting.protocol.body.timer import TimerCheckpoint


def test_a_checkpoint_is_seven_longs():
    checkpoint = TimerCheckpoint(
        last_read_time_ms=1,
        last_timer_log_flush_pos=2,
        last_timer_queue_offset=3,
        master_timer_queue_offset=4,
        state_version=5,
        timestamp=6,
        counter=7,
    )
    data = checkpoint.to_bytes()
    assert data == b"".join(number.to_bytes(8) for number in range(1, 8))
    assert TimerCheckpoint.from_bytes(data) == checkpoint


def test_an_older_checkpoint_has_no_version():
    data = b"".join(number.to_bytes(8) for number in range(1, 5))
    checkpoint = TimerCheckpoint.from_bytes(data)
    assert (checkpoint.master_timer_queue_offset, checkpoint.counter) == (4, 0)


def test_a_cut_checkpoint_is_refused():
    with pytest.raises(RemoteProtocolError, match="31 bytes"):
        TimerCheckpoint.from_bytes(bytes(31))
