"""The scan of the log at recovery: its progress lines. (Damaged logs: test_store_recovery.py.)"""

import logging

from broker.store.recovery import log_scan, progress


def test_a_long_recovery_is_heard_of(stores, inner, monkeypatch, caplog):
    store = stores.start()
    for number in range(40):
        store.put_message(inner(body=b"%04d" % number * 150))
    stores.close(store)
    (stores.root / "abort").write_bytes(b"")
    monkeypatch.setattr(progress, "_NOTE_SECONDS", 0)
    monkeypatch.setattr(log_scan, "_PAGE_OUT_BYTES", 2048)
    with caplog.at_level(logging.INFO):
        stores.start()
    assert any(
        "reading the log: " in message and "s left" in message for message in caplog.messages
    )
