"""The reading of the log at recovery: what it tells on the way. (Damages: test_recovery.py.)"""

import logging

from broker.store import log_scan
from broker.store.log_scan import Progress


def test_a_long_reading_tells_how_far_it_is_and_how_long_it_takes(monkeypatch, caplog):
    now = 100.0
    monkeypatch.setattr(log_scan.time, "monotonic", lambda: now)
    progress = Progress(10 << 20, 110 << 20)
    with caplog.at_level(logging.INFO):
        progress.at(20 << 20)
        assert not caplog.messages
        now = 110.0
        progress.at(30 << 20)
        progress.at(31 << 20)
    assert caplog.messages == [
        "recovery: 20 of 100 MiB of the log read (20 %), 2 MiB/s, about 40 s left"
    ]


def test_a_long_recovery_is_heard_of(stores, inner, monkeypatch, caplog):
    store = stores.start()
    for number in range(40):
        store.put_message(inner(body=b"%04d" % number * 150))
    stores.close(store)
    (stores.root / "abort").write_bytes(b"")
    monkeypatch.setattr(log_scan, "_NOTE_SECONDS", 0)
    monkeypatch.setattr(log_scan, "_PAGE_OUT_BYTES", 2048)
    with caplog.at_level(logging.INFO):
        stores.start()
    assert any("MiB of the log read" in message for message in caplog.messages)
