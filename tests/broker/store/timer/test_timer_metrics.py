"""Pending counts per topic and their file."""

import pytest

from broker.errors import RemoteProtocolError
from broker.store.timer.timer_metrics import TimerMetrics

# written by the TimerMetrics class of 5.3.3
JAVA = (
    '{"dataVersion":{"counter":7,"stateVersion":0,"timestamp":1700000000000},'
    '"timingCount":{"TopicA":{"count":2,"timeStamp":1700000000000}}}'
)


def test_file_is_that_of_java() -> None:
    metrics = TimerMetrics()
    metrics.decode(JAVA)
    assert metrics.topics["TopicA"].count == 2
    assert metrics.encode() == JAVA


def test_counts_add_up_and_bump_the_version() -> None:
    metrics = TimerMetrics()
    metrics.add(b"A", 1, 10)
    metrics.add(b"A", 1, 20)
    metrics.add(b"A", -1, 30)
    entry = metrics.topics["A"]
    assert (entry.count, entry.time_stamp) == (1, 30)
    assert (metrics.counter, metrics.timestamp) == (3, 30)


def test_copy_is_taken_once_per_change() -> None:
    metrics = TimerMetrics()
    assert metrics.take_changed() is None
    metrics.add(b"A", 1, 10)
    copy = metrics.take_changed()
    assert copy is not None
    metrics.add(b"A", 5, 20)
    assert copy.topics["A"].count == 1
    assert metrics.take_changed() is not None
    assert metrics.take_changed() is None


def test_counted_again_topics_without_messages_have_none() -> None:
    metrics = TimerMetrics()
    metrics.add(b"A", 5, 10)
    metrics.replace({"B": 2}, 20)
    assert {topic: entry.count for topic, entry in metrics.topics.items()} == {"A": 0, "B": 2}


def test_deleted_topic_is_forgotten() -> None:
    metrics = TimerMetrics()
    metrics.add(b"A", 5, 10)
    metrics.remove("A")
    metrics.remove("A")
    assert metrics.topics == {}
    assert metrics.counter == 2


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"timingCount":[]}',
        '{"timingCount":{"A":1}}',
        '{"timingCount":{"A":{"count":"x"}}}',
        '{"timingCount":{"A":{"count":99999999999999999999}}}',
        *(JAVA[:end] for end in range(1, len(JAVA), 9)),
    ],
)
def test_malformed_files_are_refused_and_change_nothing(text: str) -> None:
    metrics = TimerMetrics()
    metrics.add(b"A", 1, 10)
    with pytest.raises(RemoteProtocolError):
        metrics.decode(text)
    assert metrics.topics["A"].count == 1
