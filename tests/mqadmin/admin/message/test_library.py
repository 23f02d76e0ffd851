"""The facade of messages: following a topic ends, reports and closes its connections."""

from collections.abc import Iterator
from typing import Any

import pytest

from mqadmin.admin.message.library import MessageAdmin
from mqadmin.admin.message.record import BodyView


def test_messages_before_the_end_are_yielded_and_the_tail_stops_there(admin, broker_a) -> None:
    for number in range(5):
        broker_a.store("orders", 0, body=b"%d" % number)
    rows = list(admin.message.tail("orders", last=3, follow=False, body=BodyView(encoding="text")))
    assert [row.body for row in rows] == ["2", "3", "4"]
    assert {row.broker_name for row in rows} == {"broker-a"}


def test_only_the_requested_broker_and_queue_are_read(admin, broker_a, broker_b) -> None:
    for queue_id in (0, 1):
        broker_a.store("orders", queue_id)
        broker_b.store("orders", queue_id)
    rows = list(admin.message.tail("orders", last=9, follow=False, broker="broker-b", queue_id=1))
    assert [(row.broker_name, row.queue_id) for row in rows] == [("broker-b", 1)]


class ClosedSession:
    """Counts how often a tail opens and closes a session."""

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0

    def without_deadline(self, round_ms: int) -> "ClosedSession":
        assert round_ms > 0
        self.opened += 1
        return self

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("follow", [True, False])
def test_a_session_is_opened_for_following_only_and_closed_when_it_ends(
    monkeypatch: pytest.MonkeyPatch, follow: bool
) -> None:
    from mqadmin.admin.message import library

    def broken(admin: object, question: object, report: object) -> Iterator[Any]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(library, "tail", broken)
    session = ClosedSession()
    with pytest.raises(KeyboardInterrupt):
        list(MessageAdmin(session).tail("orders", follow=follow))  # type: ignore[arg-type]
    assert (session.opened, session.closed) == (int(follow), int(follow))
