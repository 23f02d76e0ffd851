"""Process-level tasks around a running broker: limits, the ready line, the orderly stop.

Shared by the broker program and by the broker with a name server in one process.

**Source:** RocketMQ BrokerStartup#start (the ready line).
"""

import asyncio
import gc
import logging
from typing import Protocol

from broker.remoting import daemon
from broker.remoting.server import raise_file_limit
from broker.server.settings import Settings

log = logging.getLogger("broker.server")

OPEN_FILES_SPARE = 4_000
"""File descriptors in addition to client connections, mainly for mapped store files."""

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


def freeze_start_objects() -> None:
    """Freeze the objects created at start: they are permanent, so gc need not scan them again."""
    gc.collect()
    gc.freeze()
