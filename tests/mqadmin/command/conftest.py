"""One embedded broker for the commands that change things, and commands as child processes."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from broker.server.standalone import BlockingEmbeddedBroker
from tests.support.live_broker import until

SMALL = {"mappedFileSizeCommitLog": "4194304", "maxHashSlotNum": "500", "maxIndexNum": "2000"}


@pytest.fixture(scope="session")
def running_broker(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[BlockingEmbeddedBroker]:
    """A broker with its name server; tests use topics and groups of their own names."""
    store = tmp_path_factory.mktemp("commands") / "store"
    with BlockingEmbeddedBroker(str(store), SMALL) as running:
        yield running


@pytest.fixture
def online(
    mqadmin: Callable[..., Any],
    running_broker: BlockingEmbeddedBroker,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Callable[..., Any]:
    """Run a command line on the running broker; the working directory is ``tmp_path``.

    A broker whose connection to the name server was lost is not registered for a second.
    """
    with BlockingClient(timeout_ms=20_000) as client:
        clusters = request(RequestCode.GET_BROKER_CLUSTER_INFO)
        place = running_broker.namesrv_address
        until(lambda: b"broker-a" in client.call(place, clusters).body_bytes())
    monkeypatch.setenv("NAMESRV_ADDR", running_broker.namesrv_address)
    monkeypatch.chdir(tmp_path)
    return mqadmin


@pytest.fixture
def hung(running_broker: BlockingEmbeddedBroker) -> Iterator[list[str]]:
    """Options with which the broker accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
        yield ["--timeout", "1s", "--address-map", f"{running_broker.address}={place}"]


@pytest.fixture
def closed_pipe() -> Callable[..., tuple[int, str]]:
    """Run a command whose output is not read; return its status and the diagnostics."""

    def run(*words: str) -> tuple[int, str]:
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [sys.executable, "-m", "mqadmin", *words],
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
        os.close(writer)
        return done.returncode, done.stderr

    return run
