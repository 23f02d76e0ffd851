"""Process-level tasks around a running broker: limits, the ready line, the orderly stop.

Shared by the broker program and by the broker with a name server in one process.

**Source:** RocketMQ BrokerStartup#start (the ready line).
"""

import asyncio
import gc
import logging
from collections.abc import Mapping
from typing import Final, Protocol

from broker.remoting.process import daemon
from broker.remoting.server import raise_file_limit
from broker.server.configuration.settings import Settings

log = logging.getLogger("broker.server")

OPEN_FILES_SPARE = 4_000
"""File descriptors in addition to client connections, mainly for mapped store files."""

FULL_COLLECTION: Final = 2  # the oldest generation

Listen = list[tuple[str, int]]


class Role(Protocol):
    """An object that serves between ``start`` and ``close``."""

    @property
    def address(self) -> str:
        """The address that the broker announces, valid after the start."""
        ...

    async def start(self) -> None:
        """Start to serve."""
        ...

    async def close(self) -> None:
        """Stop in order."""
        ...


async def serve_until(role: Role, settings: Settings, stop: asyncio.Event) -> int:
    """Run ``role`` until ``stop`` is set; return the exit status."""
    raise_file_limit(settings.broker.max_connections + OPEN_FILES_SPARE)
    gc.freeze()
    gc.set_threshold(*COLLECTED_AT_START)
    gc.enable()  # main() disabled it while modules were loaded
    await role.start()
    try:
        freeze_start_objects()
        daemon.ready(ready_line(settings, role.address))
        await stop.wait()
    finally:
        await role.close()
        log.info("broker stopped")
    return daemon.STATUS_OK


def ready_line(settings: Settings, address: str) -> str:
    """Return the line that Java's broker prints when it is ready."""
    config = settings.broker
    line = f"The broker[{config.broker_name}, {address}] boot success. serializeType=JSON"
    if config.namesrv_addr:
        line += f" and name server is {config.namesrv_addr}"
    return line


COLLECTED_AT_START: Final = (100_000, 20, 20)
"""Thresholds of ``gc`` until the broker is ready. Recovery and tables make hundreds of thousands of
objects, none of which is part of a cycle: with Python's own thresholds a seventh of the time of a
recovery was spent on scanning them."""

COLLECTED_AT_ONCE: Final = (2_000, 5, 2)
"""Thresholds of ``gc``. A full collection comes after at most 20,000 more objects and takes about
10 ms; with Python's own thresholds it scanned every topic, group and client: 60 ms."""


def freeze_start_objects() -> None:
    """Freeze the objects created at start, and from then on the survivors of full collections.

    Tables hold hundreds of thousands of objects for as long as the broker runs: a collection that
    scans all of them blocks the event loop. Frozen objects are still freed by their reference
    counts; only a reference cycle of objects that survived a full collection would stay, and
    connections, requests and table entries do not form any.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED_AT_ONCE)
    if freeze_survivors not in gc.callbacks:
        gc.callbacks.append(freeze_survivors)


def freeze_survivors(phase: str, info: Mapping[str, int]) -> None:
    """Freeze the objects that survived a full collection (callback of ``gc``)."""
    if phase == "stop" and info["generation"] == FULL_COLLECTION:
        gc.freeze()
