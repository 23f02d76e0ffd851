"""MappedFileLimit: at most so many files of a kind are mapped at a time.

A mapping counts for vm.max_map_count, and before Python 3.13 it holds a descriptor. A broker can
have a million ConsumeQueues, far more than either limit allows. Beyond the limit the file that was
mapped first is unmapped; its next use maps it again (about 20 us).

**Source:** no Java counterpart: RocketMQ keeps every file mapped, and needs higher limits of the
system. (ConsumeQueue#swapMap releases memory, not mappings.)
"""

import resource
from collections import deque
from typing import Final, Protocol

MAX_MAPPED: Final = 16_000
"""A quarter of the default of vm.max_map_count (65,530)."""
_DESCRIPTOR_SHARE: Final = 8
_MIN_MAPPED: Final = 16


class Mapped(Protocol):
    """A file that can be unmapped."""

    def release_mapping(self) -> None:
        """Unmap the file until its next use."""


class MappedFileLimit:
    """Files in the order in which they were mapped, at most ``most``; for one thread."""

    __slots__ = ("_files", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self._files: deque[Mapped] = deque()

    def add(self, file: Mapped) -> None:
        """Count a file that was mapped just now; unmap the one mapped first if there are too many.

        A file that was unmapped meanwhile counts until its turn comes.
        """
        files = self._files
        files.append(file)
        if len(files) > self.most and (oldest := files.popleft()) is not file:
            oldest.release_mapping()


def max_mapped_files() -> int:
    """Return how many files may be mapped: an eighth of the limit of descriptors, and MAX_MAPPED.

    Half of the descriptors that connections leave for files (see
    ``broker.remoting.server.connections_that_fit``).
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_MAPPED
    return max(_MIN_MAPPED, min(MAX_MAPPED, soft // _DESCRIPTOR_SHARE))
