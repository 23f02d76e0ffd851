"""A TCP proxy that refuses, cuts, drops, delays and duplicates connections; seeded."""

import asyncio
import contextlib
import random
from collections.abc import Callable

PART_BYTES = 8 * 1024


class FaultyProxy:
    """Relays to ``target()`` (host, port); each connection gets one fault, or none when calm.

    ``refuse``: closed at once. ``cut``: closed after some bytes of one direction, also in the
    middle of a frame. ``drop``: nothing passes any more in one direction for a while, then it is
    closed. ``delay``: the parts of one direction wait. ``twice``: the target gets a second
    connection with the same bytes, whose answers are discarded.
    """

    FAULTS = ("none", "cut", "drop", "delay", "twice", "refuse")

    def __init__(self, chance: random.Random, target: Callable[[], tuple[str, int]]) -> None:
        self.port = 0
        self.calm = False
        # Faults of the next connections, before random ones.
        self.planned: list[str] = []
        self.faults: dict[str, int] = dict.fromkeys(self.FAULTS, 0)
        self._chance = chance
        self._target = target
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Cut every connection."""
        for task in self._tasks:
            task.cancel()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        fault = "none" if self.calm else self._chance.choice(self.FAULTS)
        if self.planned:
            fault = self.planned.pop(0)
        self.faults[fault] += 1
        opened = [writer]
        try:
            if fault == "refuse":
                return
            far_reader, far = await asyncio.open_connection(*self._target())
            opened.append(far)
            targets = [far]
            async with asyncio.TaskGroup() as group:
                if fault == "twice":
                    discarded, second = await asyncio.open_connection(*self._target())
                    opened.append(second)
                    targets.append(second)
                    group.create_task(self._discard(discarded))
                hit = self._chance.randrange(2)
                limit = self._chance.randrange(40_000)
                plan = [fault if hit == way else "none" for way in range(2)]
                # Reports are few bytes: a fault there comes after few of them.
                group.create_task(self._relay(reader, targets, plan[0], limit % 64))
                group.create_task(self._relay(far_reader, [writer], plan[1], limit))
        except* (OSError, EOFError, asyncio.CancelledError):
            pass
        finally:
            for one in opened:
                with contextlib.suppress(OSError, RuntimeError):
                    one.transport.abort()

    async def _discard(self, reader: asyncio.StreamReader) -> None:
        while await reader.read(PART_BYTES):
            pass

    async def _relay(
        self,
        reader: asyncio.StreamReader,
        writers: list[asyncio.StreamWriter],
        fault: str,
        limit: int,
    ) -> None:
        """Relay one direction; raise EOFError at its end, which also ends the other one."""
        passed = 0
        while data := await reader.read(PART_BYTES):
            if fault == "delay":
                await asyncio.sleep(self._chance.random() * 0.01)
            if fault in ("cut", "drop") and passed + len(data) > limit:
                writers[0].write(data[: limit - passed])
                await writers[0].drain()
                if fault == "drop":
                    await asyncio.sleep(0.03)
                raise EOFError
            passed += len(data)
            for writer in writers:
                if not writer.is_closing():
                    writer.write(data)
                    await writer.drain()
        raise EOFError
