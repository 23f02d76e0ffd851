"""An embedded broker, and the command as a child process."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from broker.client import Message, Producer
from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topic import TopicAdmin

SMALL = {"mappedFileSizeCommitLog": "8388608", "maxHashSlotNum": "500", "maxIndexNum": "2000"}


@pytest.fixture(scope="package")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingEmbeddedBroker]:
    with BlockingEmbeddedBroker(str(tmp_path_factory.mktemp("bulk") / "store"), SMALL) as broker:
        yield broker


@pytest.fixture
def namesrv(embedded: BlockingEmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("NAMESRV_ADDR", embedded.namesrv_address)
    return embedded.namesrv_address


@pytest.fixture
def new_topic(namesrv: str) -> Callable[..., str]:
    """``new_topic("T", queues=4, messages=0)`` creates a topic with numbered messages."""

    def create(name: str, queues: int = 4, messages: int = 0) -> str:
        with AdminSession([namesrv], timeout_ms=30_000) as admin:
            topics = TopicAdmin(admin)
            topics.apply(topics.plan_create(name, queues=queues))
        if messages:
            with Producer("fill", namesrv) as producer:
                for number in range(messages):
                    producer.send(Message(name, b"%d" % number, tags="A", keys=f"k{number}"))
        return name

    return create


@pytest.fixture
def child(namesrv: str) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """``child("msg", "consume", ...)`` starts the command; it is killed at the end of the test."""
    running: list[subprocess.Popen[bytes]] = []
    program = str(Path(sys.executable).parent / "mqadmin")

    def start(*words: str, **options: Any) -> subprocess.Popen[bytes]:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        process = subprocess.Popen([program, *words], env=dict(os.environ), **{**pipes, **options})
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(OSError):  # the rest of a closed pipe
                    pipe.close()
