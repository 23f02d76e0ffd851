"""The limits fit each other: no limit can be reached only after a larger one."""

import msgspec
import pytest

from broker.remoting import limits
from broker.remoting.limits import EndpointLimits, LaneLimits
from broker.remoting.protocol.serialize import MAX_HEADER_BYTES


def test_every_limit_is_positive() -> None:
    numbers = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert numbers
    assert all(value > 0 for value in numbers.values())


def test_reading_resumes_below_the_pause_and_pauses_below_the_close() -> None:
    assert limits.UNSENT_RESUME_BYTES < limits.UNSENT_PAUSE_BYTES < limits.UNSENT_LIMIT_BYTES


def test_a_peer_may_hold_a_whole_frame_and_all_peers_several() -> None:
    assert limits.FRAME_LIMIT_BYTES < limits.HELD_LIMIT_BYTES < limits.HELD_TOTAL_LIMIT_BYTES


def test_a_response_that_is_joined_is_flushed_with_others() -> None:
    assert limits.JOIN_LIMIT_BYTES < limits.FLUSH_BYTES < limits.UNSENT_PAUSE_BYTES


def test_a_remark_fits_into_a_header_even_if_every_character_is_escaped() -> None:
    assert limits.REMARK_LIMIT_CHARS * len("\\ud83d\\ude00") < MAX_HEADER_BYTES


def test_an_idle_connection_is_found_within_a_small_part_of_its_time() -> None:
    assert limits.IDLE_SCAN_MS * 10 <= limits.IDLE_MS


def test_one_host_cannot_use_up_the_log_of_a_period() -> None:
    assert limits.PEER_LOG_LIMIT * 2 <= limits.PERIOD_LOG_LIMIT


@pytest.mark.parametrize("cls", [EndpointLimits, LaneLimits])
def test_limits_are_values_that_cannot_change(cls) -> None:
    made = cls()
    name = cls.__struct_fields__[0]
    with pytest.raises(AttributeError):
        setattr(made, name, 1)
    assert msgspec.structs.replace(made, **{name: 1}) != made


def test_lanes_of_two_endpoints_are_not_shared() -> None:
    assert EndpointLimits().lanes is not EndpointLimits().lanes
