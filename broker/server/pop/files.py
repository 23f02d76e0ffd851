"""The files of pop consumption in ``config/``: consumerOrderInfo.json, messageRequestMode.json.

Request modes are written after every change, before the request is answered. Order info is
progress: it is written on a timer and only after the log is flushed (:class:`FlushBarrier`).

**Source:** RocketMQ ConsumerOrderInfoManager, MessageRequestModeManager (their persistence).
"""

import logging
import os

from broker.server.pop.assignment.request_mode import RequestMode
from broker.server.pop.service import PopService
from broker.server.tables.config_loader import load_config
from broker.server.tables.table_writer import (
    CallSoon,
    Job,
    RunJob,
    TableWriter,
    run_at_once,
    run_in_place,
)
from broker.store.config_file import ConfigFile
from broker.store.format import config as files
from broker.store.logfile.disk import Disk

log = logging.getLogger("broker.server")


class PopFiles:
    """The two files of one store; ``soon`` and ``run`` as for :class:`TableWriter`."""

    def __init__(
        self,
        root: str,
        disk: Disk,
        *,
        soon: CallSoon = run_at_once,
        run: RunJob = run_in_place,
    ) -> None:
        folder = os.path.join(root, "config")
        self.orders_file = ConfigFile(os.path.join(folder, files.CONSUMER_ORDER_INFO), disk)
        self.modes_file = ConfigFile(os.path.join(folder, files.MESSAGE_REQUEST_MODE), disk)
        self._call_soon = soon
        self._run = run

    def check(self) -> None:
        """Check that both files are readable, before any other file of the store is opened.

        StoreError for the first unreadable file.
        """
        load_config(self.orders_file, _decode_orders, report=False)
        load_config(self.modes_file, _decode_modes, report=False)

    def load(self, pop: PopService) -> None:
        """Fill the tables, and write the request modes from now on whenever they change."""
        orders = load_config(self.orders_file, _decode_orders)
        if orders is not None:
            pop.orders.load(orders.table)
        modes = load_config(self.modes_file, _decode_modes)
        if modes is not None:
            pop.modes.load(modes.table)
        pop.modes.writer = TableWriter[RequestMode | None](
            lambda: self._modes_job(pop),
            pop.modes.restore,
            lambda error: log.error("%s: not written: %s", self.modes_file.path, error),
            soon=self._call_soon,
            run=self._run,
        )

    def snapshot_orders(self, pop: PopService) -> Job | None:
        """Return the job that writes the order info, None if it has not changed."""
        if not pop.orders.changed:
            return None
        pop.orders.changed = False
        content = files.ConfigFile(name=files.CONSUMER_ORDER_INFO, table=pop.orders.snapshot())
        write = pop.parts.store.flush_barrier.before(
            lambda: self.orders_file.persist(files.encode_config(content))
        )

        def run() -> None:
            try:
                write()
            except BaseException:
                pop.orders.changed = True
                raise

        return run

    def save_orders(self, pop: PopService) -> None:
        """Write the order info now if it has changed; StoreError or OSError if it cannot be."""
        job = self.snapshot_orders(pop)
        if job is not None:
            job()

    def _modes_job(self, pop: PopService) -> Job:
        content = files.ConfigFile(name=files.MESSAGE_REQUEST_MODE, table=pop.modes.to_file())
        return lambda: self.modes_file.persist(files.encode_config(content))


def _decode_orders(text: str) -> files.ConfigFile:
    return files.decode_config(files.CONSUMER_ORDER_INFO, text)


def _decode_modes(text: str) -> files.ConfigFile:
    return files.decode_config(files.MESSAGE_REQUEST_MODE, text)
