"""Progress of long work: not logged at every step, and with the remaining time."""

import logging

from broker.store.recovery import progress
from broker.store.recovery.progress import MIB, Progress, Unit


def test_long_work_reports_progress_and_remaining_time(monkeypatch, caplog):
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    reading = Progress("recovery: reading the log", 10 << 20, 110 << 20, MIB)
    entries = Progress("the index", 0, 100, Unit("entries"))
    with caplog.at_level(logging.INFO):
        reading.at(20 << 20)
        assert not caplog.messages
        now = 110.0
        reading.at(30 << 20)
        reading.at(31 << 20)
        entries.at(50)
    assert caplog.messages == [
        "recovery: reading the log: 20 of 100 MiB (20 %), 2 MiB/s, about 40 s left",
        "the index: 50 of 100 entries (50 %), 5 entries/s, about 10 s left",
    ]


def test_work_past_the_expected_end_has_no_negative_remaining_time(monkeypatch, caplog):
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    reading = Progress("it", 0, 10, Unit("things"))
    now = 10.0
    with caplog.at_level(logging.INFO):
        reading.at(20)
    assert caplog.messages == ["it: 20 of 10 things (100 %), 2 things/s, about 0 s left"]
