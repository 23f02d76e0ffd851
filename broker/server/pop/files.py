"""The files of pop consumption in ``config/``: consumerOrderInfo.json, messageRequestMode.json.

Request modes are written after every change, before the request is answered. Order info is
progress: it is written on a timer and only after the log is flushed (:class:`FlushBarrier`).

**Source:** RocketMQ ConsumerOrderInfoManager, MessageRequestModeManager (their persistence).
"""

import logging
import os
from collections.abc import Callable

from broker.errors import ConfigError, RocketMQError, StoreError
from broker.server.pop.assignment.request_mode import RequestMode
from broker.server.pop.service import PopService
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

        ConfigError or StoreError for the first unreadable file.
        """
        _load(self.orders_file, files.CONSUMER_ORDER_INFO, lambda file: None, report=False)
        _load(self.modes_file, files.MESSAGE_REQUEST_MODE, lambda file: None, report=False)

    def load(self, pop: PopService) -> None:
        """Fill the tables, and write the request modes from now on whenever they change."""
        _load(self.orders_file, files.CONSUMER_ORDER_INFO, lambda file: pop.orders.load(file.table))
        _load(self.modes_file, files.MESSAGE_REQUEST_MODE, lambda file: pop.modes.load(file.table))
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


def _load(
    file: ConfigFile,
    name: str,
    accept: Callable[[files.ConfigFile], None],
    *,
    report: bool = True,
) -> None:
    """Pass the decoded file, else its backup, to ``accept``; nothing if neither exists.

    ConfigError when neither can be decoded, StoreError when a file cannot be read.
    """
    try:
        text = file.load()
        if not text.strip():
            return
        try:
            accept(files.decode_config(name, text))
            return
        except RocketMQError as error:
            backup = "" if file.backup_counts else file.load_backup()
            reason = error.message
    except OSError as error:
        raise StoreError(
            f"{file.path}: {error.strerror or error}",
            "check the disk; nothing was changed",
            path=file.path,
        ) from error
    try:
        if not backup.strip():
            raise ConfigError("no backup")
        accept(files.decode_config(name, backup))
    except RocketMQError as error:
        raise ConfigError(f"{file.path}: {reason}", "repair the file, or remove it") from error
    file.backup_counts = True
    if report:
        log.warning("%s: %s: %s is used", file.path, reason, file.backup_path)
