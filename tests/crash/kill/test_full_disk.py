"""A full disk: code 14 with path and reason, reads continue, the broker recovers by itself.

Space runs out by a limit on the size of files, which needs no rights, and on a small file system of
its own where one can be mounted.
"""

import os
import random
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.command import request
from tests.support.replica_set import until

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]

SYSTEM_BUSY = 2  # a machine with other load: a request waited for too long
SERVICE_NOT_AVAILABLE = 14


def refusal(client: BlockingClient, child: Any, topic: str = "UnderFire") -> Any:
    """The answer to one small send."""
    values = (
        "p",
        topic,
        "TBW102",
        "4",
        "0",
        "0",
        "1",
        "0",
        "KEYS\x01probe\x02",
        "0",
        "false",
        "16",
    )
    ext = dict(zip("abcdefghijkl", values, strict=True))
    return client.call(child.address, request(310, ext, b"x" * 3000))


def send_until_refused(senders: Any, ledger: Any) -> None:
    senders.run(lambda: ledger.codes[SERVICE_NOT_AVAILABLE] > 0)


def check_full_and_back(
    child: Any, ledger: Any, make_senders: Any, make_audit: Any, free: Callable[[], None]
) -> None:
    senders = make_senders(child, ledger)
    send_until_refused(senders, ledger)
    senders.drain()
    assert set(ledger.codes) <= {0, SYSTEM_BUSY, SERVICE_NOT_AVAILABLE}, ledger.codes
    with BlockingClient(timeout_ms=10_000) as client:
        answer = refusal(client, child)
        assert answer.code == SERVICE_NOT_AVAILABLE
        assert str(child.store) in answer.remark, answer.remark
        assert "full" in answer.remark.lower()
        make_audit(child, ledger).check()
        free()
        # The disk is asked again at most once a second: the answer changes without a restart.
        for _ in range(100):
            if refusal(client, child, "Later").code == 0:
                break
            child.lives_for(0.1)
        else:
            raise AssertionError("still refused with space to spare")
    senders = make_senders(child, ledger)
    more = len(ledger.acked) + 300
    senders.run(lambda: len(ledger.acked) >= more)
    senders.drain()
    child.signal(signal.SIGKILL)
    child.wait()
    child.start()
    make_audit(child, ledger).check()
    assert child.stop() == 0


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_files_that_may_not_grow(
    make_child: Any, make_senders: Any, make_audit: Any, ledger: Any, flush: str
) -> None:
    child = make_child(flushDiskType=flush)
    child.start()
    hard = resource.prlimit(child.pid, resource.RLIMIT_FSIZE)[1]
    senders = make_senders(child, ledger)
    senders.run(lambda: len(ledger.acked) > 200)
    senders.drain()
    # New files of the log have 2 MiB; everything smaller can still be written.
    resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (1 << 20, hard))
    check_full_and_back(
        child,
        ledger,
        make_senders,
        make_audit,
        lambda: resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (hard, hard)) and None,
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)], capture_output=True
    )
    if made.returncode != 0:
        pytest.skip(f"cannot mount a small file system: {made.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_small_file_system(
    make_child: Any,
    make_senders: Any,
    make_audit: Any,
    ledger: Any,
    small_disk: Path,
    rng: random.Random,
    flush: str,
) -> None:
    ballast = small_disk / "ballast"
    size = rng.randrange(6 << 20, 9 << 20)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    # The ratios of used space would refuse before the last byte is gone.
    child = make_child(
        flushDiskType=flush,
        storePathRootDir=str(small_disk / "store"),
        diskSpaceWarningLevelRatio="99",
    )
    child.store = small_disk / "store"
    child.start()
    check_full_and_back(child, ledger, make_senders, make_audit, ballast.unlink)


def test_a_full_disk_does_not_keep_a_broker_from_starting(
    make_child: Any, make_senders: Any, make_audit: Any, ledger: Any, small_disk: Path
) -> None:
    """Reads need no space; failed writes are reported, and puts resume when there is space."""
    store = small_disk / "store"
    child = make_child(storePathRootDir=str(store), diskSpaceWarningLevelRatio="99")
    child.store = store
    child.start()
    senders = make_senders(child, ledger)
    senders.run(lambda: len(ledger.acked) > 200)
    senders.drain()
    assert child.stop() == 0
    ballast = small_disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
    child.start()
    make_audit(child, ledger).check()
    # The reader's group; topics.json has not changed and is not written.
    groups = str(store / "config" / "subscriptionGroup.json")

    def is_logged() -> bool:
        log_text = (child.folder / "broker.err").read_text()
        return groups in log_text and "No space left" in log_text

    until(is_logged, "a log line about the groups that were not written")
    ballast.unlink()
    with BlockingClient(timeout_ms=10_000) as client:
        for _ in range(100):
            if refusal(client, child, "Later").code == 0:
                break
            child.lives_for(0.1)
        else:
            raise AssertionError("still refused with space to spare")
    child.kill()
    child.start()
    make_audit(child, ledger).check()
    assert child.stop() == 0
