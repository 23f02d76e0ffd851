"""SlaveTable: how many slaves have the log up to an offset, from the reports of all connections.

Copies are counted by slave, not by connection: a slave that has reconnected may have an old
connection that has not ended yet. Java counts connections. Two connections belong to one slave if
they have the same broker address; to two slaves if their addresses differ, or the hosts of
connections without an address (Java's slaves send none).

Connections without an address from one host are one slave with two connections, or two slaves. A
slave closes its connection before it opens the next one, so they are two slaves only when both of
these are known:

* The older connection has acknowledged bytes that were sent on it after the newer one was
  accepted. Its slave was connected there when the newer connection was open. Reports alone prove
  nothing: the network may deliver those of a closed connection late.
* Each has acknowledged an offset at which a transfer has ended on no other connection
  (``own_end``). Its reports are then not copies of the other's, made by a proxy that duplicates
  connections.

Until then the slaves that are certain count: the newer connection of a possible pair replaces the
older one. Two slaves of one host are proven with the first record that is appended after the newer
one has connected, and for as long as both connections last. Whether a slave is in sync decides
refusals only, not acknowledgements, so reports that arrive after those of the newer connection
suffice there: an idle log proves nothing, and sends that are refused would keep it idle.

**Source:** RocketMQ DefaultHAService#inSyncReplicasNums, GroupTransferService.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple


class SlaveReport(NamedTuple):
    """State of a connection: acknowledged offset, and the facts that identify its slave.

    ``start`` is the physical offset of its first transfer, ``own_end`` as above, ``name`` the
    broker address of the slave, empty while it is unknown.
    """

    acknowledged: int
    start: int = 0
    own_end: bool = False
    name: str = ""


_NO_REPORT = SlaveReport(-1)


@dataclass(eq=False, slots=True)
class _Connection:
    host: str
    # Older connection → end of the bytes sent on it when this one was accepted.
    sent_before: Mapping[Hashable, int]
    key: Hashable
    report: SlaveReport = _NO_REPORT
    reached: int = -1
    # Numbers of the first and the last report among those of all connections.
    first_number: int = -1
    last_number: int = -1
    # Newer connections that may belong to the same slave.
    successors: list["_Connection"] = field(default_factory=list)

    def was_open_with(self, newer: "_Connection") -> bool:
        """Whether it has acknowledged bytes that were sent after ``newer`` was accepted."""
        sent = newer.sent_before.get(self.key, -1)
        return self.reached > max(sent, self.report.start)


def _may_be_same(older: _Connection, newer: _Connection) -> bool:
    """Whether two connections may belong to one slave, by proof."""
    names = older.report.name, newer.report.name
    if all(names):
        return names[0] == names[1]
    if older.host != newer.host:
        return False
    own = all(one.report.own_end or one.report.name for one in (older, newer))
    return not (own and older.was_open_with(newer))


def _seem_same(older: _Connection, newer: _Connection) -> bool:
    """Whether two connections belong to one slave as far as their last reports show."""
    if not _may_be_same(older, newer):
        return False
    same_name = bool(older.report.name) and older.report.name == newer.report.name
    return same_name or older.last_number < newer.first_number


class SlaveTable:
    """The connections of all slaves, in the order in which they were accepted."""

    def __init__(self) -> None:
        self._connections: dict[Hashable, _Connection] = {}
        # The n-th entry: physical offset up to which n + 1 slaves have the log.
        self._copied: list[int] = []
        self._numbers = 0

    def connected(self, key: Hashable, host: str, sent: Mapping[Hashable, int]) -> None:
        """Add a connection; ``sent``: end of the bytes sent on each other one, -1 without any."""
        self._connections[key] = _Connection(host, dict(sent), key)

    def reported(self, key: Hashable, report: SlaveReport) -> None:
        """Record a report; a lower offset than before counts: the slave has lost data."""
        one = self._connections[key]
        self._numbers += 1
        one.report = report
        one.reached = max(one.reached, report.acknowledged)
        one.last_number = self._numbers
        if one.first_number < 0:
            one.first_number = self._numbers
        self._copied = self._offsets(_may_be_same)

    def disconnected(self, key: Hashable) -> None:
        """Remove a connection."""
        if self._connections.pop(key, None) is not None:
            self._copied = self._offsets(_may_be_same)

    def acknowledged_by(self, copies: int) -> int:
        """Physical offset up to which ``copies`` slaves have the log; -1 with fewer slaves."""
        if copies <= 0:
            raise ValueError(f"{copies} copies")
        return self._copied[copies - 1] if copies <= len(self._copied) else -1

    def in_sync(self, max_offset: int, max_gap_bytes: int) -> int:
        """Number of slaves that seem to be less than ``max_gap_bytes`` from ``max_offset``."""
        offsets = self._offsets(_seem_same)
        return sum(max_offset - offset < max_gap_bytes for offset in offsets)

    def _offsets(self, same: Callable[[_Connection, _Connection], bool]) -> list[int]:
        """Return the offsets up to which 1, 2, 3… slaves have the log, at the least.

        The least number of slaves with an offset: its connections without those that a newer one
        may replace, one each. It is the size of a matching, extended from the highest offset down.
        """
        reported = [one for one in self._connections.values() if one.first_number >= 0]
        uncertain = False
        for one in reported:
            one.successors = []
        for older, newer in combinations(reported, 2):
            if same(older, newer):
                older.successors.append(newer)
                uncertain = True
        reported.sort(key=lambda one: -one.report.acknowledged)
        if not uncertain:
            return [one.report.acknowledged for one in reported]
        replaced: dict[_Connection, _Connection] = {}
        return [
            one.report.acknowledged for one in reported if not _replace(one, replaced, reported)
        ]


def _replace(
    older: _Connection,
    replaced: dict[_Connection, _Connection],
    reported: Sequence[_Connection],
) -> bool:
    """Match ``older`` with a newer connection, moving other matches if needed (augmenting path).

    ``replaced``: newer connection → the one it replaces.
    """
    tried: set[_Connection] = set()

    def match(one: _Connection) -> bool:
        for newer in one.successors:
            if newer in tried:
                continue
            tried.add(newer)
            if newer not in replaced or match(replaced[newer]):
                replaced[newer] = one
                return True
        return False

    return match(older)
