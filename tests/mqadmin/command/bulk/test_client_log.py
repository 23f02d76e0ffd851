import logging
from typing import Any

import pytest

from mqadmin.command.bulk.client_log import MAX_WARNINGS, client_warnings


class FakeSession:
    def __init__(self, **options: Any) -> None:
        self.options = options
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_a_warning_of_the_client_is_printed_once() -> None:
    session: Any = FakeSession()
    with client_warnings(session) as seen:
        for _ in range(3):
            logging.getLogger("broker.client").warning("broker %s hangs", "a")
    assert session.notes == ["warning: broker a hangs"]
    assert seen == {"broker a hangs"}


def test_other_loggers_are_silent(capfd: pytest.CaptureFixture[str]) -> None:
    session: Any = FakeSession()
    with client_warnings(session):
        logging.getLogger("broker.remoting").warning("the loop was held up")
    assert session.notes == []
    assert capfd.readouterr().err == ""


def test_verbose_prints_every_logger() -> None:
    session: Any = FakeSession(verbose=True)
    with client_warnings(session):
        logging.getLogger("broker.remoting").warning("the loop was held up")
    assert session.notes == ["warning: the loop was held up"]


def test_warnings_are_bounded_and_handlers_removed() -> None:
    session: Any = FakeSession()
    logger = logging.getLogger("broker.client")
    before = list(logger.handlers)
    with client_warnings(session):
        for number in range(MAX_WARNINGS * 2):
            logger.warning("warning %d", number)
    assert len(session.notes) == MAX_WARNINGS
    assert logger.handlers == before
