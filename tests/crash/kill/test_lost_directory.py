"""A broker that loses its store directory, its lock or its descriptors: answers and messages."""

import os
import resource
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]

SERVICE_NOT_AVAILABLE = 14


def until_refused(
    make_senders: Callable[..., Any], child: Any, ledger: Any, lose: Callable[[], None]
) -> None:
    senders = make_senders(child, ledger, connections=2)
    senders.run(lambda: len(ledger.acked) > 50)
    lose()
    senders.run(lambda: ledger.codes[SERVICE_NOT_AVAILABLE] > 0, patience=30)
    acked = len(ledger.acked)
    refused = ledger.codes[SERVICE_NOT_AVAILABLE]
    senders.run(lambda: ledger.codes[SERVICE_NOT_AVAILABLE] > refused + 20, patience=30)
    senders.drain()
    assert len(ledger.acked) - acked <= 16  # requests in flight


def test_a_removed_store_directory_refuses_sends(
    make_child: Callable[..., Any], make_senders: Callable[..., Any], ledger: Any
) -> None:
    child = make_child().start()
    until_refused(make_senders, child, ledger, lambda: shutil.rmtree(child.store))
    child.stop()
    log_text = (child.folder / "broker.err").read_text()
    assert f"{child.store} was removed or replaced while the store was open" in log_text


def test_a_deleted_lock_file_refuses_sends_and_a_second_broker(
    make_child: Callable[..., Any],
    make_senders: Callable[..., Any],
    make_audit: Callable[..., Any],
    ledger: Any,
) -> None:
    child = make_child().start()
    lock = child.store / "lock"
    until_refused(make_senders, child, ledger, lock.unlink)
    second = make_child(storePathRootDir=str(child.store))
    second.spawn()
    assert second.wait() == 4
    assert "another broker uses this store" in (second.folder / "broker.err").read_text()
    child.stop()
    assert (child.store / "abort").exists()
    child.start()
    make_audit(child, ledger).check()
    assert child.stop() == 0


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_hundred_clients_at_a_limit_of_64_files_do_not_stop_writes(
    make_child: Callable[..., Any],
    make_senders: Callable[..., Any],
    make_audit: Callable[..., Any],
    ledger: Any,
    loop: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROCKETMQ_LOOP", loop)
    child = make_child(
        flushDiskType="SYNC_FLUSH",
        mappedFileSizeCommitLog=str(1 << 20),
        mappedFileSizeConsumeQueue=str(6_000_000),
    )
    child.limits = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    child.start()
    senders = make_senders(child, ledger, connections=2)
    senders.run(lambda: len(ledger.acked) > 50)
    host, _, port = child.address.rpartition(":")
    crowd = [socket.create_connection((host, int(port)), timeout=10) for _ in range(100)]
    target = len(ledger.acked) + 3_000
    senders.run(lambda: len(ledger.acked) >= target)
    for sock in crowd:
        sock.close()
    target = len(ledger.acked) + 100
    senders.run(lambda: len(ledger.acked) >= target)
    senders.drain()
    assert set(ledger.codes) == {0}
    make_audit(child, ledger).check()
    assert child.stop() == 0
    assert not (Path(child.store) / "abort").exists()
    assert os.path.getsize(child.folder / "broker.err") < 20_000
