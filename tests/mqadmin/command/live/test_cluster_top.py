"""``mqadmin cluster top --once``, and its screen on a terminal."""

import json
import os
import pty
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.server.standalone import BlockingEmbeddedBroker
from tests.support.fake_brokers import FakeCluster
from tests.support.live_broker import SMALL


def test_the_busiest_broker_is_first(mqadmin: Callable[..., Any], cluster: FakeCluster) -> None:
    done = mqadmin("cluster", "top", "--once", "-o", "json")
    rows = json.loads(done.out)["items"]
    assert (done.status, [row["brokerName"] for row in rows]) == (0, ["broker-b", "broker-a"])
    table = mqadmin("cluster", "top", "--once", "-c", "DefaultCluster").out
    assert table.splitlines()[1].split()[:4] == ["broker-b", "0", "ok", "9.0/s"]


def test_a_broker_that_does_not_answer_is_a_row_and_status_5(
    mqadmin: Callable[..., Any], cluster: FakeCluster
) -> None:
    cluster.brokers[0].down = True
    done = mqadmin("cluster", "top", "--once", "-o", "json")
    assert done.status == 5
    assert [row["state"] for row in json.loads(done.out)["items"]] == ["ok", "down"]
    cluster.namesrvs[0].down = True
    assert mqadmin("cluster", "top", "--once").status == 3


def test_the_screen_shows_a_broker_and_ends_with_q(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with BlockingEmbeddedBroker(str(tmp_path / "store"), SMALL) as broker:
        command = [sys.executable, "-m", "mqadmin", "cluster", "top"]
        environ = {**os.environ, "TERM": "xterm", "COLUMNS": "160", "LINES": "20"}
        with subprocess.Popen(
            [*command, "-n", broker.namesrv_address],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environ,
        ) as child:
            os.close(theirs)
            got = ""
            while "broker-a" not in got:
                assert select.select([ours], [], [], 60)[0], got
                got += os.read(ours, 65_536).decode("utf-8", "replace")
            os.write(ours, b"q")
            while child.poll() is None:
                if select.select([ours], [], [], 0.1)[0]:
                    try:
                        os.read(ours, 65_536)
                    except OSError:
                        break
            assert child.wait(30) == 0
    os.close(ours)
