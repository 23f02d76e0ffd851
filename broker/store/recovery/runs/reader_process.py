"""A child process that encodes segments of the log for recovery.

It finds a :class:`Setup` behind the slots of the memory that it shares with its parent, reads
requests from standard input, writes the runs of each segment to a slot and the answer to standard
output. It ends with the input: when the parent closes it or ends.

**Source:** no Java counterpart.
"""

import marshal
import mmap
import os
import signal
import sys
from struct import Struct
from typing import BinaryIO, Final, NamedTuple, Self, cast

from broker.store.dispatch.tag_codes import TagCodes
from broker.store.recovery.runs.encoded_run import ReadOptions, encode_segment, pack_runs

SLOT_BYTES: Final = 4 << 20
# Number of the file, positions from which to which records start, number of the slot.
REQUEST: Final = Struct(">4q")
# Length of the packed runs in the slot; 0: there are none, or they do not fit.
ANSWER: Final = Struct(">q")


class LogFile(NamedTuple):
    """Path, physical offset and length of a CommitLog file."""

    path: str
    start: int
    size: int


class Setup(NamedTuple):
    """The log files, which requests refer to by number, and how to read them."""

    files: list[LogFile]
    options: ReadOptions

    def packed(self) -> bytes:
        """The value as bytes for :meth:`unpacked`."""
        return marshal.dumps(([tuple(file) for file in self.files], tuple(self.options)))

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        """The value of :meth:`packed`."""
        files, options = marshal.loads(data)
        return cls([LogFile(*file) for file in files], ReadOptions(*options))


def serve(requests: BinaryIO, answers: BinaryIO, arena: mmap.mmap, slots: int) -> None:
    """Answer ``requests`` until their end; ``arena`` is the shared memory with that many slots."""
    setup = Setup.unpacked(arena[slots * SLOT_BYTES :])
    tag_codes = TagCodes()
    opened: tuple[int, mmap.mmap] | None = None
    while len(request := requests.read(REQUEST.size)) == REQUEST.size:
        number, start, stop, slot = REQUEST.unpack(request)
        file = setup.files[number]
        if opened is None or opened[0] != number:
            if opened is not None:
                opened[1].close()
            opened = number, _map(file)
        mapping = opened[1]
        positions = start, stop, file.size
        content = cast("bytes", mapping)
        runs = encode_segment(content, positions, file.start, setup.options, tag_codes)
        data = pack_runs(runs)
        length = len(data) if len(data) <= SLOT_BYTES else 0
        arena[slot * SLOT_BYTES : slot * SLOT_BYTES + length] = data[:length]
        mapping.madvise(mmap.MADV_DONTNEED)
        answers.write(ANSWER.pack(length))
        answers.flush()


def _map(file: LogFile) -> mmap.mmap:
    fd = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return mmap.mmap(fd, file.size, prot=mmap.PROT_READ)
    finally:
        os.close(fd)


def main() -> None:
    """Run the process: the arguments are the descriptor of the memory and the number of slots."""
    # The parent decides when it ends, also after Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    fd, slots = map(int, sys.argv[1:])
    with mmap.mmap(fd, 0) as arena:
        serve(sys.stdin.buffer, sys.stdout.buffer, arena, slots)


if __name__ == "__main__":
    main()
