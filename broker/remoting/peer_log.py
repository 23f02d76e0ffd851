"""PeerLog: warnings caused by peers, limited per host and in total, so that no peer fills the log.

Lines are counted between two calls of ``next_period`` (the endpoint's idle scan, every 5 s).
Suppressed lines are counted, and their number is logged at the end of the period.
"""

import logging
from collections import Counter

from broker.errors import ForeignProtocolError, RemoteProtocolError
from broker.remoting.limits import PEER_LOG_LIMIT, PERIOD_LOG_LIMIT

log = logging.getLogger("broker.remoting")

MAX_PEERS = 64
"""Hosts with a counter each; further hosts share one counter."""

OTHERS = "other peers"


def refusal_text(error: RemoteProtocolError) -> str:
    """Return the text of the line about a peer that sent invalid frames."""
    if isinstance(error, ForeignProtocolError):
        return f"{error.kind} bytes on a RocketMQ remoting port: closing"
    return f"not a remoting frame: {error.message}: closing"


class PeerLog:
    """The log lines of one endpoint that peers can cause."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lines: Counter[str] = Counter()
        self._logged = 0

    def warning(self, address: str, text: str, *, error: BaseException | None = None) -> None:
        """Log ``text`` about the peer at ``address`` (ip:port), with the trace of ``error``."""
        host = address.rpartition(":")[0]
        if host not in self._lines and len(self._lines) >= MAX_PEERS:
            host = OTHERS
        self._lines[host] += 1
        if self._lines[host] > PEER_LOG_LIMIT or self._logged >= PERIOD_LOG_LIMIT:
            return
        self._logged += 1
        level = logging.WARNING if error is None else logging.ERROR
        log.log(level, "%s: %s: %s", self.name, address, text, exc_info=error)

    def next_period(self) -> None:
        """Log the number of suppressed lines and reset the counters."""
        left_out = self._lines.total() - self._logged
        if left_out:
            most = ", ".join(f"{host} {count}" for host, count in self._lines.most_common(3))
            log.warning(
                "%s: %d more lines not logged; lines per peer: %s", self.name, left_out, most
            )
        self._lines.clear()
        self._logged = 0
