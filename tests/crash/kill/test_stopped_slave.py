"""A slave that is stopped (SIGSTOP): its gap grows in ``broker ha`` and ``check replication``."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.replica_set import ReplicaSet, until

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]

BODY = b"x" * 8_000
IN_SYNC = 400_000
LIMITS = ("--warn", "30000,1h", "--crit", "200000,1h")


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[ReplicaSet]:
    # The master closes no connection during the test: the gap is that of a connected slave.
    properties = {"haHousekeepingInterval": "3600000", "haMaxGapNotInSync": str(IN_SYNC)}
    with ReplicaSet(tmp_path, properties=properties) as brokers:
        yield brokers


class Tool:
    """mqadmin as a process."""

    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv

    def run(self, *words: str) -> tuple[int, dict[str, Any]]:
        """The exit status and the JSON output of a command."""
        done = subprocess.run(
            [
                *(sys.executable, "-m", "mqadmin", "-n", self._namesrv, "--timeout", "3s"),
                *(*words, "-o", "json"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, json.loads(done.stdout)

    def connection(self) -> tuple[int, dict[str, Any]]:
        """The exit status of ``broker ha``, and the master's line of its slave."""
        status, answer = self.run("broker", "ha")
        (line,) = (item for item in answer["items"] if item["role"] == "MASTER")
        return status, line

    def check(self) -> tuple[int, str]:
        """The exit status of ``check replication``, and the status of the pair.

        A slave that does not answer has a further line, without metrics.
        """
        status, answer = self.run("check", "replication", "broker-a", *LIMITS)
        (row,) = (item for item in answer["items"] if item["metrics"])
        return status, row["status"]


def test_the_gap_of_a_stopped_slave_grows_and_is_reported(replicas: ReplicaSet) -> None:
    tool = Tool(replicas.namesrv.address)

    def send(count: int) -> int:
        for _ in range(count):
            assert replicas.send(0, BODY).code == 0
        role = replicas.role(0)
        assert role is not None
        return role.max_offset

    end = send(1)
    until(lambda: tool.connection()[1]["ackOffset"] == end, "the copy")
    assert tool.connection()[0] == 0
    assert tool.check() == (0, "OK")
    os.kill(replicas.brokers[1].pid, signal.SIGSTOP)
    try:
        # The slave that does not answer is UNKNOWN (3), which is more severe than WARNING.
        for count, code, row in ((5, 3, "WARNING"), (25, 2, "CRITICAL"), (30, 2, "CRITICAL")):
            last = send(count)
            status, line = tool.connection()
            assert line["gapBytes"] == last - line["ackOffset"] >= last - end
            assert line["inSync"] == (last - end < IN_SYNC)
            assert status, "broker ha"
            assert tool.check() == (code, row)
        assert last - end >= IN_SYNC
    finally:
        os.kill(replicas.brokers[1].pid, signal.SIGCONT)
    until(lambda: tool.connection()[1]["ackOffset"] == last, "the rest of the copy")
    until(lambda: tool.check() == (0, "OK"), "the end of the gap")
