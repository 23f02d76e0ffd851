"""DataVersion: equal only in all three parts; a 4.9 version has no state version."""

import pytest

from broker.remoting.protocol.body.version import DataVersion


def test_the_parts_have_the_names_of_java() -> None:
    version = DataVersion(counter=3, state_version=1, timestamp=1700000000000)
    body = b'{"counter":3,"stateVersion":1,"timestamp":1700000000000}'
    assert version.to_bytes() == body
    assert DataVersion.from_bytes(body) == version


def test_a_4_9_version_has_state_version_0() -> None:
    assert DataVersion.from_bytes(b'{"counter":3,"timestamp":9}') == DataVersion(
        counter=3, timestamp=9
    )


@pytest.mark.parametrize("part", ["counter", "state_version", "timestamp"])
def test_versions_that_differ_in_one_part_are_different(part: str) -> None:
    one = {"counter": 1, "state_version": 1, "timestamp": 1}
    assert DataVersion(**one) != DataVersion(**{**one, part: 2})


def test_a_counter_as_text_is_read() -> None:
    """Java's AtomicLong is written as a number, by some tools as text."""
    assert DataVersion.from_bytes(b'{"counter":"3"}').counter == 3
