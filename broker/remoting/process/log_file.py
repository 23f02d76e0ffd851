"""The rotated log file of a daemon. Imported with --log-dir only: logging.handlers takes 17 ms."""

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

log: Final = logging.getLogger("broker.daemon")


class RotatedLogFile(RotatingFileHandler):
    """A log file that is rotated at ``max_bytes``, or continued if that fails.

    The next attempt follows after ``max_bytes`` more: in a directory that has become unwritable a
    file without a limit is better than no log.
    """

    def __init__(self, path: Path, *, max_bytes: int, count: int) -> None:
        super().__init__(path, maxBytes=max_bytes, backupCount=count, encoding="utf-8")
        self._step_bytes = max_bytes

    def doRollover(self) -> None:
        """Rotate the files, or report why the present one is continued."""
        try:
            super().doRollover()
        except OSError as error:
            self.maxBytes += self._step_bytes
            log.warning("%s: not rotated: %s", self.baseFilename, error.strerror or error)
        else:
            self.maxBytes = self._step_bytes
