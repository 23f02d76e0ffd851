"""Warnings of the client while a command runs: on stderr, each sentence once."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from mqadmin.command.execution.session import Session

MAX_WARNINGS = 100
"""A broker that fails for hours must not fill the screen or the memory."""


class _Notes(logging.Handler):
    """Prints each warning once; collects them in ``seen``."""

    def __init__(self, session: Session) -> None:
        super().__init__(logging.WARNING)
        self._session = session
        self.seen: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record, unless it was printed before."""
        text = record.getMessage()
        if text not in self.seen and len(self.seen) < MAX_WARNINGS:
            self.seen.add(text)
            self._session.note(f"warning: {text}")


@contextmanager
def client_warnings(session: Session) -> Iterator[set[str]]:
    """Print warnings of ``broker.client``; yield those printed so far.

    Other loggers of the core are silent: a command shares its machine with others, and a slow
    event loop is not the user's concern. With -v everything is printed.
    """
    core, client = logging.getLogger("broker"), logging.getLogger("broker.client")
    handler, quiet = _Notes(session), logging.NullHandler()
    verbose = bool(session.options.get("verbose"))
    target = core if verbose else client
    target.addHandler(handler)
    core.addHandler(quiet)
    try:
        yield handler.seen
    finally:
        target.removeHandler(handler)
        core.removeHandler(quiet)
