"""A whole broker in memory: the real controller over a simulated disk, threads, loop and clock.

::

    with SimBroker(disk, random.Random(1), {"flushDiskType": "SYNC_FLUSH"}) as broker:
        answer = broker.run(broker.peer.call(request(28)))
        broker.run(asyncio.sleep(10))                 # ten seconds of the manual clock

Leaving the block without :meth:`stop` is a loss of power: threads and tasks end where they wait.
"""

import asyncio
import random
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from types import TracebackType
from typing import Self, TypeVar
from unittest.mock import patch

from broker.common.clock import ManualClock
from broker.server.configuration.settings import Settings
from broker.server.context import BrokerContext
from broker.server.controller import BrokerController
from broker.store import encoded_batch
from broker.store.logfile.mapped_file import MappedFile
from broker.store.message_store import MessageStore
from broker.store.timer.timer_message_store import TimerMessageStore
from tests.support.simulated_disk import CREATED_MS, SimDisk
from tests.support.simulated_loop import SimLoop, SimPeer
from tests.support.simulated_threads import SimThreads

Result = TypeVar("Result")

ROOT = "/sim/store"
PORT = 10911
START_MS = CREATED_MS
# A sync lasts up to so long where threads change at any line; the others run meanwhile.
SYNC_S = 0.02
DELAY_LEVELS_MS = {1: 1_000, 2: 3_000, 3: 7_000}

# Files of a few KiB, so that a run of a few steps rolls all kinds of them.
PROPERTIES = {
    # Hours pass between two requests: the broker must not close the client's connection.
    "channelExpiredTimeout": "86400000",
    "serverChannelMaxIdleTimeSeconds": "86400",
    "storePathRootDir": ROOT,
    "mappedFileSizeCommitLog": "8192",
    "mappedFileSizeConsumeQueue": "400",
    # Java's 13.8 MB are compared at every call to the disk: nine tenths of the time of a run.
    "mapperFileSizeBatchConsumeQueue": "184",
    "maxHashSlotNum": "16",
    "maxIndexNum": "40",
    "maxMessageSize": "3000",
    "messageDelayLevel": "1s 3s 7s",
    "fileReservedTime": "9999",
    "diskMaxUsedSpaceRatio": "95",
    "enableMultiDispatch": "true",
    "mappedFileSizeTimerLog": str(52 * 8 + 16),
    "timerRollWindowSlot": "8",
    "reviveQueueNum": "2",
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "3000",
    "transactionOpBatchInterval": "1000",
    "transactionCheckMax": "100000",
}
# A wheel of Java's length would take most of the time: the disk compares files byte by byte.
WHEEL_SLOTS = 512


def settings(properties: Mapping[str, str]) -> Settings:
    """The settings of such a broker: small files, and these broker.conf keys."""
    return Settings({**PROPERTIES, **properties})


@contextmanager
def rewrites_noted() -> Iterator[None]:
    """Have a simulated disk see the stores that change nothing (recovery after a failed sync)."""
    rewrite = MappedFile.rewrite

    def noted(file: MappedFile) -> None:
        rewrite(file)
        assert isinstance(file.disk, SimDisk)
        file.disk.note_rewrite(file.path)

    with patch.object(MappedFile, "rewrite", noted):
        yield


class SimBroker:
    """One life of a broker over ``disk``, from its start to its stop or its end."""

    def __init__(
        self,
        disk: SimDisk,
        rng: random.Random,
        properties: Mapping[str, str],
        *,
        now_ms: int = START_MS,
        preempt_lines: float = 0.0,
    ) -> None:
        self.disk = disk
        self.settings = settings(properties)
        self.clock = ManualClock(now_ms)
        self._preempt_lines = preempt_lines
        self.threads = SimThreads(self.clock, rng, preempt_lines=preempt_lines)
        self._installed = ExitStack()
        self._loop: SimLoop | None = None
        self._controller: BrokerController | None = None
        self.peer: SimPeer

    @property
    def controller(self) -> BrokerController:
        assert self._controller is not None, "not started"
        return self._controller

    @property
    def store(self) -> MessageStore:
        return self.controller.store

    @property
    def context(self) -> BrokerContext:
        return self.controller.context

    def run(self, work: Awaitable[Result]) -> Result:
        """Run the broker until ``work`` is done."""

        async def wait() -> Result:
            return await work

        assert self._loop is not None
        result = self._loop.run(wait())
        if self.threads.errors:
            raise AssertionError("a thread of the broker died") from self.threads.errors[0]
        return result

    def pass_ms(self, milliseconds: int) -> None:
        """Let so much time pass."""
        self.run(asyncio.sleep(milliseconds / 1000))

    def start(self) -> None:
        """Open the store and serve; ``peer`` is a client from now on."""
        assert self._loop is not None
        self._controller = BrokerController(
            self.settings, clock=self.clock, disk=self.disk, listen=[("127.0.0.1", PORT)]
        )
        self.disk.on_call = self.threads.switch_point
        if self._preempt_lines:
            self.disk.on_sync = partial(self.threads.pause, SYNC_S)
        self.run(self._controller.start())
        self.peer = self._loop.connect(PORT)

    def stop(self) -> None:
        """Stop in order."""
        self.run(self.controller.close())

    def __enter__(self) -> Self:
        self._installed.enter_context(self.threads.installed())
        self._installed.enter_context(rewrites_noted())
        self._installed.enter_context(patch.object(encoded_batch, "LEAST_EQUAL", 3))
        wheel = partial(TimerMessageStore, slots=WHEEL_SLOTS)
        self._installed.enter_context(patch("broker.server.controller.TimerMessageStore", wheel))
        self._loop = SimLoop(self.threads)
        try:
            self.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        """Cut the power: later writes of running threads do not reach the journal."""
        self.disk.capture()
        self.disk.recording = False
        self.disk.on_call = self.disk.on_sync = self.disk.fail = None
        self.threads.abandon()
        loop = self._loop
        assert loop is not None
        while tasks := asyncio.all_tasks(loop):  # callbacks that are due create more of them
            for task in tasks:
                task.cancel()
            loop.run(asyncio.wait(tasks))
        loop.close()
        self._installed.close()
