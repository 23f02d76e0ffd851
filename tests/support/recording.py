"""Lives of a broker over one simulated disk, and every disk that they may leave behind.

::

    recording = Recording(rng, "SYNC_FLUSH")
    recording.live(lambda traffic: traffic.steps(30))     # ends with the loss of the process
    for image in recording.images(60):
        image.check()
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

from broker.common.clock import ManualClock
from broker.store.message_store import MessageStore
from tests.support import simulated_broker
from tests.support.expected_state import ExpectedState
from tests.support.simulated_broker import SimBroker
from tests.support.simulated_disk import Cutter, SimDisk
from tests.support.traffic import Traffic

KEEP = (0.0, 0.5, 1.0)  # shares of the unsynced sectors that happen to reach the disk
LATER_MS = 3_600_000  # everything that was delayed is due
DRAWN = ("enablePopBufferMerge", "enableMultiDispatch")
# For runs whose threads change at any line: the worker flushes as often as requests arrive.
OFTEN = {
    "flushIntervalConsumeQueue": "1",
    "flushConsumeQueueThoroughInterval": "0",
    "flushIntervalCommitLog": "1",
    "flushCommitLogLeastPages": "0",
}

Marks = list[tuple[Any, ...]]


class Image:
    """A disk after a restart, and the guarantees for it."""

    def __init__(
        self, recording: "Recording", disk: SimDisk, marks: Marks, event: str, *, killed: bool
    ) -> None:
        self._recording = recording
        self.disk = disk
        self.marks = marks
        self.event = event
        self.expected = ExpectedState(marks, killed=killed)

    def check(self, *, again: bool = False) -> None:
        """Look at the files, start a broker on them, stop it; with ``again`` twice."""
        recording = self._recording
        try:
            config = simulated_broker.settings(recording.properties).store
            self.expected.check_files(self.disk, config)
            disk, rng = self.disk.copy(), recording.rng
            now_ms = (self.expected.now_ms or simulated_broker.START_MS) + LATER_MS
            for _ in range(1 + again):
                with SimBroker(disk, rng, recording.properties, now_ms=now_ms) as broker:
                    self.expected.check_broker(broker)
                    broker.stop()
                    end = broker.store.max_physical_offset
                # A record that the start after a cut dropped stays dropped after a clean stop.
                found = MessageStore(config, disk=disk.copy()).load()
                assert (found.clean, found.log_end) == (True, end), found
                # Records of a deleted topic at the end of the log are read at every start.
                assert not found.dispatched or self.expected.deletions.requested, found
        except BaseException as error:
            error.add_note(f"{recording.properties}, {self.event}")
            raise

    def next_life(self) -> "Recording":
        """A recording that begins on this disk, with the same traffic."""
        recording = self._recording
        following = Recording(
            recording.rng,
            recording.properties["flushDiskType"],
            preempt_lines=recording.preempt_lines,
        )
        following.properties = recording.properties
        following.disk = self.disk
        following.base = self.disk.copy()
        following.marks = [*self.marks, ("crash", False)]
        following.traffic = recording.traffic
        expected = self.expected
        following.traffic.transactions.return_to(expected.durable_halves(), expected.decisions)
        # The clock never runs backwards: a delay level delivers early if it does, as in Java.
        following.now_ms = recording.now_ms
        return following


class Recording:
    """The journal of one disk, from an empty or a given one on.

    ``preempt_lines``: of :class:`~tests.support.simulated_threads.SimThreads`.
    """

    def __init__(self, rng: random.Random, flush: str, *, preempt_lines: float = 0.0) -> None:
        self.rng = rng
        self.preempt_lines = preempt_lines
        # Without multi-dispatch, as by default, records are dispatched together.
        drawn = {name: rng.choice(("true", "false")) for name in DRAWN}
        often = OFTEN if preempt_lines else {}
        self.properties = {"flushDiskType": flush, **drawn, **often}
        self.disk = SimDisk()
        self.base = SimDisk()
        self.marks: Marks = []
        self.traffic = Traffic(rng)
        self.now_ms = ManualClock().now_ms()
        self.ingested = 0  # messages that took the vectorized path

    def live(self, script: Callable[[Traffic], None]) -> None:
        """Start a broker, run a script, kill it."""
        disk = self.disk
        disk.recording = True
        disk.locked = False
        with SimBroker(
            disk,
            self.rng,
            self.properties,
            now_ms=self.now_ms,
            preempt_lines=self.preempt_lines,
        ) as broker:
            self.traffic.attach(broker)
            script(self.traffic)
            self.now_ms = broker.clock.now_ms()
            self.ingested += broker.context.ingest.frames
            # Before the threads end: a killed process stores nothing while it unwinds.
            disk.mark("crash", True)
            disk.recording = False

    @property
    def is_serving(self) -> bool:
        """Whether the journal ends while a broker serves."""
        return ExpectedState(self.disk.journal_marks, killed=False).serving

    def last_images(self, *, power_cuts: int = 1) -> list[Image]:
        """The disk after a kill and after power cuts at the end of the journal.

        The process may have seen a failed sync: only flushed bytes count for either.
        """
        cutter = Cutter(self.disk.journal, self.base)
        cutter.marks = list(self.marks)
        cutter.advance(len(self.disk.journal))
        disks = {"killed": cutter.killed()}
        for number in range(power_cuts):
            disks[f"power cut {number}"] = cutter.cut(self.rng, 0.5)
        return [Image(self, disks[event], cutter.marks, event, killed=False) for event in disks]

    def images(self, count: int = 0, *, killed: bool = False) -> Iterator[Image]:
        """Disks after a power cut, or a kill, at ``count`` points of the journal (0: at each)."""
        journal = self.disk.journal
        length = len(journal)
        positions = list(range(1, length + 1))
        if killed:
            # Writes through mappings are recorded together: only complete snapshots are states.
            positions = [p for p in positions if journal[p - 1][0] in ("seen", "mark")]
        if 0 < count < length:
            positions = sorted(self.rng.sample(positions, count))
        cutter = Cutter(journal, self.base)
        cutter.marks = list(self.marks)
        for number, position in enumerate(positions):
            cutter.advance(position)
            if killed:
                disk, event = cutter.killed(), "killed"
            else:
                keep = KEEP[number % len(KEEP)]
                disk, event = cutter.cut(self.rng, keep), f"power cut that keeps {keep:.0%}"
            event = f"{event} at {position} of {length}"
            yield Image(self, disk, list(cutter.marks), event, killed=killed)
