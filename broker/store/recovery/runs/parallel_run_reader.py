"""ParallelRunReader: recovery's runs, encoded ahead of the scan by child processes.

Python executes one thread at a time, and encoding takes most of the time of a scan without the
compiled loops. The log is divided into segments of a few MiB. Child processes encode those ahead
of the scan, and the scan itself those that no child has::

    segment     0       1        2        3        4        5
                scan    child 1  child 2  child 1  scan     child 2

A segment starts within a record, so a child begins at the first place that looks like a record. The
scan takes a child's run only at the position that it has reached itself, so wrong guesses cost time
and change nothing. If a child cannot be started, fails, or does not answer, the scan encodes its
segments. A child ends when its input is closed, also if this process is killed.

**Source:** no Java counterpart; RocketMQ's recovery has one thread.
"""

import logging
import mmap
import os
import select
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from broker.store.dispatch.tag_codes import TagCodes
from broker.store.logfile.mapped_file import MappedFile
from broker.store.recovery.runs.encoded_run import (
    EncodedRun,
    ReadOptions,
    encode_run,
    encode_segment,
    unpack_runs,
)
from broker.store.recovery.runs.reader_process import (
    ANSWER,
    REQUEST,
    SLOT_BYTES,
    LogFile,
    Setup,
)

_log = logging.getLogger(__name__)

SEGMENT_BYTES: Final = 4 << 20
# Segments of one process at a time: one in work, one that waits.
IN_PROCESS: Final = 2
# Segments encoded ahead of the scan, its own included; bounds memory.
MAX_AHEAD: Final = 12
# One more would wait for the scan, which adds units and entries four times as fast as it encodes.
MAX_PROCESSES: Final = 3
ANSWER_LIMIT_S: Final = 30.0


def process_count() -> int:
    """Number of child processes that this machine has free processors for."""
    if sys.platform != "linux":
        return 0
    return min(len(os.sched_getaffinity(0)) - 1, MAX_PROCESSES)


class _Segment:
    """A part of a log file, by positions; ``runs`` by position, None until it is encoded."""

    __slots__ = ("file", "passed", "runs", "start", "stop")

    def __init__(self, file: MappedFile, start: int, stop: int) -> None:
        self.file = file
        self.start = start
        self.stop = stop
        self.runs: dict[int, EncodedRun] | None = None
        self.passed = False


def _segments(files: Sequence[MappedFile], begin: int) -> Iterator[_Segment]:
    for file in files:
        for start in range(max(0, begin - file.start), file.size, SEGMENT_BYTES):
            yield _Segment(file, start, min(start + SEGMENT_BYTES, file.size))


class _Process:
    """A child process and the segments that it was given, in order."""

    def __init__(self, arena: int, slots: int) -> None:
        self.segments: deque[tuple[_Segment, int]] = deque()
        self._answer = b""
        root = str(Path(__file__).parents[4])
        known = os.environ.get("PYTHONPATH")
        module = "broker.store.recovery.runs.reader_process"
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(arena), str(slots)],
            env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{known}" if known else root},
            pass_fds=(arena,),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._requests, self._answers = self._child.stdin, self._child.stdout
        os.set_blocking(self._answers.fileno(), False)

    def fileno(self) -> int:
        """The descriptor that is readable when there is an answer."""
        return self._answers.fileno()

    def give(self, file_number: int, segment: _Segment, slot: int) -> None:
        """Let the process encode a segment into a slot; OSError if it has ended."""
        self._requests.write(REQUEST.pack(file_number, segment.start, segment.stop, slot))

    def answer(self) -> int | None:
        """Length of the runs of the first segment, None if it has none; OSError if it has ended."""
        try:
            data = os.read(self._answers.fileno(), ANSWER.size - len(self._answer))
        except BlockingIOError:
            return None
        if not data:
            raise ConnectionError("end of its output")
        self._answer += data
        if len(self._answer) < ANSWER.size:
            return None
        length: int = ANSWER.unpack(self._answer)[0]
        self._answer = b""
        return length

    def close(self) -> None:
        """End the process."""
        self._child.kill()
        self._child.wait()
        self._requests.close()
        self._answers.close()


class ParallelRunReader:
    """Reads the runs of ``files`` from physical offset ``begin`` on; see the module.

    ``segments_received``: number of segments that child processes have encoded.
    """

    def __init__(
        self, files: Sequence[MappedFile], begin: int, options: ReadOptions, processes: int
    ) -> None:
        self._options = options
        self._tag_codes = TagCodes()
        self._upcoming = _segments(files, begin)
        # The segment of the scan, and those that are being encoded or wait for the scan.
        self._open: deque[_Segment] = deque()
        self._numbers = {file.start: number for number, file in enumerate(files)}
        self._free = list(range(processes * IN_PROCESS))
        self._processes: list[_Process] = []
        self._arena: mmap.mmap | None = None
        self.segments_received = 0
        setup = Setup([LogFile(file.path, file.start, file.size) for file in files], options)
        try:
            self._start(processes, setup.packed())
        except OSError as error:
            _log.warning("recovery: no child process reads the log ahead: %s", error)

    def _start(self, processes: int, setup: bytes) -> None:
        """Start the processes, with the memory that they share."""
        slots = len(self._free)
        size = slots * SLOT_BYTES + len(setup)
        fd = os.memfd_create("recovery")
        try:
            os.ftruncate(fd, size)
            self._arena = mmap.mmap(fd, size)
            self._arena[slots * SLOT_BYTES :] = setup
            for _ in range(processes):
                self._processes.append(_Process(fd, slots))
        finally:
            os.close(fd)

    def read(self, file: MappedFile, position: int) -> EncodedRun | None:
        """The run that starts at a position of a file; None if no valid record does."""
        segment = self._segment_of(file, position)
        if segment is None:
            return self._encode(file, position, file.size)
        self._receive(0.0)
        self._give()
        while segment.runs is None:
            ahead = self._take_ahead()
            if ahead is not None:
                self._encode_ahead(ahead)
            self._receive(0.0 if ahead is not None else ANSWER_LIMIT_S)
            self._give()
        run = segment.runs.pop(position, None)
        if run is not None:
            return run
        stop = min((start for start in segment.runs if start > position), default=segment.stop)
        return self._encode(file, position, stop)

    def close(self) -> None:
        """End the processes."""
        while self._processes:
            self._processes.pop().close()
        if self._arena is not None:
            self._arena.close()

    def _encode_ahead(self, segment: _Segment) -> None:
        positions = (segment.start, segment.stop, segment.file.size)
        runs = encode_segment(
            segment.file.mapping, positions, segment.file.start, self._options, self._tag_codes
        )
        segment.runs = {run.start - segment.file.start: run for run in runs}

    def _encode(self, file: MappedFile, position: int, stop: int) -> EncodedRun | None:
        positions = (position, stop, file.size)
        return encode_run(file.mapping, positions, file.start, self._options, self._tag_codes)

    def _segment_of(self, file: MappedFile, position: int) -> _Segment | None:
        """The segment that contains a position; the scan takes it if no process has it."""
        offset = file.start + position
        while True:
            if not self._open:
                upcoming = next(self._upcoming, None)
                if upcoming is None:
                    return None
                upcoming.runs = {}
                self._open.append(upcoming)
            segment = self._open[0]
            if offset < segment.file.start + segment.stop:
                return segment if offset >= segment.file.start + segment.start else None
            segment.passed = True
            self._open.popleft()

    def _take_ahead(self) -> _Segment | None:
        """The next segment that no process has, if the scan is not too far ahead."""
        if len(self._open) >= MAX_AHEAD:
            return None
        segment = next(self._upcoming, None)
        if segment is not None:
            self._open.append(segment)
        return segment

    def _give(self) -> None:
        """Give every process its next segments, one each in turn."""
        for given in range(IN_PROCESS):
            for process in list(self._processes):
                if len(process.segments) > given or not self._free:
                    continue
                segment = self._take_ahead()
                if segment is None:
                    return
                slot = self._free.pop()
                process.segments.append((segment, slot))
                try:
                    process.give(self._numbers[segment.file.start], segment, slot)
                except OSError as error:
                    self._lose(process, error)

    def _receive(self, seconds: float) -> None:
        """Take the runs that the processes have encoded; wait for one of them at most that long.

        A process that does not answer in time is ended.
        """
        by_fd = {process.fileno(): process for process in self._processes}
        poll = select.poll()
        for fd in by_fd:
            poll.register(fd, select.POLLIN)
        ready = poll.poll(seconds * 1000)
        for fd, _ in ready:
            process = by_fd[fd]
            try:
                while (length := process.answer()) is not None:
                    segment, slot = process.segments.popleft()
                    self.segments_received += 1
                    if not segment.passed:
                        segment.runs = self._decode(segment, slot, length)
                    self._free.append(slot)
            except OSError as error:
                self._lose(process, error)
        if seconds and not ready:
            for process in by_fd.values():
                if process.segments:
                    self._lose(process, TimeoutError(f"no answer within {seconds:.0f} s"))

    def _decode(self, segment: _Segment, slot: int, length: int) -> dict[int, EncodedRun]:
        assert self._arena is not None
        start = slot * SLOT_BYTES
        with memoryview(self._arena) as arena, arena[start : start + length] as data:
            runs = unpack_runs(data) if length else []
        return {run.start - segment.file.start: run for run in runs}

    def _lose(self, process: _Process, error: OSError) -> None:
        """End a process that failed; the scan encodes its segments."""
        _log.warning("recovery: a child process failed, the scan reads its part: %s", error)
        self._processes.remove(process)
        for segment, slot in process.segments:
            segment.runs = {}
            self._free.append(slot)
        process.close()
