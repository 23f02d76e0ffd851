"""The brokers that are compared: Java's, ours without and with the compiled loops of the extra."""

import asyncio
import importlib.util
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from local_broker import LocalBroker

from broker.remoting.client import RemotingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from broker.server.configuration.config import FIELD_OF_KEY

FAST_SETTING = "vectorizedIngestEnable"
FAST_STATE = "vectorizedIngestState"
FAST_PACKAGES = ("numpy", "numba")
LOAD_LIMIT_S = 120


class Target(NamedTuple):
    """A broker to compare: its name in results, the program, and its settings."""

    name: str
    program: str
    settings: dict[str, object]


def targets(only: list[str] | None = None) -> list[Target]:
    """The brokers that can run here, Java's first; ``fast`` needs the extra and the setting."""
    found = []
    if shutil.which("java"):
        found.append(Target("java", "java", {}))
    known = FAST_SETTING in FIELD_OF_KEY
    found.append(Target("plain", "ours", {FAST_SETTING: "false"} if known else {}))
    if known and all(importlib.util.find_spec(name) for name in FAST_PACKAGES):
        found.append(Target("fast", "ours", {FAST_SETTING: "true"}))
    return [target for target in found if not only or target.name in only]


async def runtime_info(address: str) -> dict[str, str]:
    """The runtime information of a broker (code 28)."""
    client = RemotingClient()
    try:
        answer = await client.call(
            address, request(RequestCode.GET_BROKER_RUNTIME_INFO, {}), timeout_ms=10_000
        )
    finally:
        await client.close()
    table = json.loads(answer.body_bytes())["table"]
    return {str(key): str(value) for key, value in table.items()}


def await_fast_path(
    broker: LocalBroker, warm_up: Callable[[], None], limit_s: float = LOAD_LIMIT_S
) -> None:
    """Wait until the compiled loops serve; ``warm_up`` sends while they wait for traffic.

    Exits if they do not serve within ``limit_s``: figures of the plain path must not be reported.
    """
    deadline = time.monotonic() + limit_s
    state = ""
    while time.monotonic() < deadline:
        state = asyncio.run(runtime_info(broker.address)).get(FAST_STATE, "not reported")
        if state == "active":
            return
        if state == "waiting":
            warm_up()
        elif state != "loading":
            break
        else:
            time.sleep(0.5)
    sys.exit(
        f"error: {broker.name}: {FAST_STATE} is {state}\nhint: measure with --targets java,plain"
    )


def set_cores(pid: int, cores: set[int]) -> None:
    """Let all threads of a process run on ``cores`` only."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), cores)


def core_steps(processors: int) -> list[int]:
    """1, 2, 4 ... and all processors."""
    steps = [1]
    while steps[-1] * 2 < processors:
        steps.append(steps[-1] * 2)
    return steps if processors == 1 else [*steps, processors]
