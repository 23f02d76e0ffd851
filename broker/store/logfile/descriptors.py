"""DescriptorReserve: spare file descriptors, so that connections cannot take the store's last one.

RLIMIT_NOFILE limits files and sockets of a process together. If client connections exhaust it, the
next sync of a queue cannot open its file, and no CommitLog file can be created. The reserve has
open descriptors of ``/dev/null``: after EMFILE or ENFILE a call closes one of them and is repeated.
:meth:`DescriptorReserve.close` returns a descriptor to the reserve in one system call (dup2), so
that no connection can take it in between.

**Source:** no Java counterpart; RocketMQ maps the error to a failed flush or allocation.
"""

import errno
import os
import resource
import threading
from collections.abc import Callable
from typing import Final, TypeVar

LIMIT_ERRORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
# Size of the reserve: at most this number, and at most an eighth of the process's limit.
MAX_RESERVED: Final = 64
_SHARE: Final = 8

Result = TypeVar("Result")


class DescriptorReserve:
    """The reserve of this process, shared by its open stores; empty without open stores."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spare: list[int] = []
        # Descriptor that the spare ones duplicate; -1 without open stores.
        self._null = -1
        self._holders = 0
        self._size = 0

    @property
    def spare(self) -> int:
        """Number of descriptors in the reserve."""
        return len(self._spare)

    def acquire(self) -> None:
        """Register an open store and fill the reserve."""
        with self._lock:
            self._holders += 1
            if self._holders == 1:
                self._size = min(MAX_RESERVED, _descriptor_limit() // _SHARE)
                self._null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.refill()

    def release(self) -> None:
        """Unregister a store; close the descriptors with the last one."""
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                for fd in (*self._spare, self._null):
                    os.close(fd)
                self._spare.clear()
                self._null = -1
                self._size = 0

    def refill(self) -> None:
        """Fill the reserve up to its size, as far as descriptors are available."""
        with self._lock:
            while len(self._spare) < self._size:
                try:
                    self._spare.append(os.dup(self._null))
                except OSError:
                    return

    def call(self, operation: Callable[[], Result], *, lasting: bool = False) -> Result:
        """Run ``operation``; after EMFILE or ENFILE close a spare descriptor and run it again.

        Operations that keep their descriptor (``lasting``) may use half of the reserve: the rest
        is for syncs, which return theirs. OSError if the reserve is used up.
        """
        keep = self._size // 2 if lasting else 0
        while True:
            try:
                return operation()
            except OSError as error:
                if error.errno not in LIMIT_ERRORS:
                    raise
                with self._lock:
                    if len(self._spare) <= keep:
                        raise
                    os.close(self._spare.pop())

    def close(self, fd: int) -> None:
        """Close ``fd``; if the reserve is not full, its number becomes a spare descriptor."""
        with self._lock:
            if len(self._spare) < self._size:
                os.dup2(self._null, fd, inheritable=False)
                self._spare.append(fd)
                return
        os.close(fd)


def _descriptor_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_RESERVED * _SHARE if soft == resource.RLIM_INFINITY else soft
