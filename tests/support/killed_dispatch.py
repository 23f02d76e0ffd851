"""Kill a store between two writes of units: in dispatch, or in recovery."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from broker.store.consumequeue.consume_queue import ConsumeQueue
from broker.store.index.index_service import IndexService


class Killed(BaseException):
    """Nothing of the process runs after this."""


@contextmanager
def killed_at_write(number: int) -> Iterator[None]:
    """Raise Killed instead of write ``number`` (from 0) of units, one or many, to a queue.

    The caller then ends the store with ``Stores.kill``. A killed process writes no index header.
    """
    left = number

    def counted(write):
        def call(queue, *args):
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return write(queue, *args)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("append", "append_units"):
            patch.setattr(ConsumeQueue, name, counted(getattr(ConsumeQueue, name)))
        patch.setattr(IndexService, "flush_header", lambda index: None)
        yield
