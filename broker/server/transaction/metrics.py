"""TransactionMetrics: the number of undecided half messages of each topic, and their file.

The numbers are statistics: nothing is decided by them. A crash loses the changes since the last
write, as in Java.

**Source:** RocketMQ TransactionMetrics, TransactionMetricsFlushService.
"""

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.errors import RocketMQError
from broker.store.config_file import ConfigFile
from broker.store.format.config import TRANSACTION_METRICS
from broker.store.timer.timer_metrics import TimerMetrics

if TYPE_CHECKING:
    from broker.common.clock import Clock
    from broker.store.message_store import MessageStore

log = logging.getLogger("broker.server")

Job = Callable[[], None]


class TransactionMetrics:
    """``config/transactionMetrics`` of one store."""

    def __init__(self, store: "MessageStore", clock: "Clock") -> None:
        self.counts = TimerMetrics(TRANSACTION_METRICS)
        self._store = store
        self._clock = clock
        path = os.path.join(store.config.root, "config", TRANSACTION_METRICS)
        self._file = ConfigFile(path, store.disk)

    def load(self) -> None:
        """Read the file; start with no counts if it is missing or cannot be used."""
        try:
            text = self._file.load()
            if text.strip():
                self.counts.decode(text)
        except (RocketMQError, OSError) as error:
            reason = error.message if isinstance(error, RocketMQError) else str(error)
            log.warning("%s: %s; the counts start at 0", self._file.path, reason)

    def add(self, topic: str, number: int) -> None:
        """Add to the undecided half messages of a real topic; a decision subtracts."""
        self.counts.add(topic.encode(), number, self._clock.now_ms())

    def snapshot(self) -> Job | None:
        """Return the job that writes the counts, None if they have not changed."""
        counts = self.counts.take_changed()
        if counts is None:
            return None
        write = self._store.flush_barrier.before(lambda: self._file.persist(counts.encode()))

        def run() -> None:
            try:
                write()
            except BaseException:
                self.counts.changed = True
                raise

        return run
