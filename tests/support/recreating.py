"""A topic that is deleted and recreated while messages are sent to it.

Marks in the journal, in addition to those of :mod:`tests.support.traffic`:

=========  ========================================================================
deleting   DELETE_TOPIC_IN_BROKER is about to be sent
deleted    it was answered with SUCCESS
=========  ========================================================================

A send that overlaps with a deletion leaves no mark: its message may be deleted or not.
"""

from typing import TYPE_CHECKING

from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request

if TYPE_CHECKING:
    from tests.support.traffic import Stored, Traffic

TOPIC = "D0"


class Deletions:
    """The deletions of one client's traffic."""

    def __init__(self, traffic: "Traffic") -> None:
        self._traffic = traffic
        self._events = 0  # requests and responses of deletions
        self._pending = False

    def now(self) -> int | None:
        """For :meth:`overlaps`: the time of a send, None while a deletion is pending."""
        return None if self._pending else self._events

    def overlaps(self, sent: int | None) -> bool:
        """Whether a send of that time may be before or after a deletion."""
        return sent is None or sent != self._events

    async def delete(self) -> None:
        """DELETE_TOPIC_IN_BROKER; consumers of the topic restart at their committed offsets."""
        traffic = self._traffic
        traffic.kinds["topic deleted"] += 1
        self._events += 1
        self._pending = True
        traffic.mark("deleting")

        def note(answer: RemotingCommand) -> None:
            self._events += 1
            self._pending = False
            if answer.code == ResponseCode.SUCCESS:
                traffic.mark("deleted")
            else:
                assert traffic.disk_fails, answer.remark

        command = request(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})
        await traffic.broker.peer.call(command, note)
        traffic.forget_positions(TOPIC)


class ExpectedDeletions:
    """The state of the topic after the marks before a cut."""

    def __init__(self) -> None:
        self.requested = False  # whether there was a deletion
        self.ambiguous = False  # whether the last deletion was not answered with SUCCESS
        self.deleted: set[int] = set()  # numbers of messages that are in no queue of it any more
        self.maybe: set[int] = set()  # numbers of messages that may be in one
        self.ended: set[int] = set()  # numbers of delayed ones whose delivery may have been deleted

    def begin(self, stored: "list[Stored]") -> None:
        """Begin a deletion of these messages, which were sent to the topic."""
        self.requested = self.ambiguous = True
        self.maybe |= {each.number for each in stored if each.target is None}
        self.ended |= {each.number for each in stored if each.target is not None}

    def end(self) -> None:
        """The deletion has succeeded."""
        self.ambiguous = False
        self.deleted |= self.maybe
        self.maybe.clear()
