"""The same bytes sent to a broker core with and without vectorized ingest, and all that they leave.

Reads arrive on connections over fake transports, several in one turn of the loop, with a manual
clock; nothing depends on time. An :class:`Outcome` has the responses per connection, the bytes of
every file after an orderly stop, and the counters.

Vectorized ingest may serve the connections of a turn in another order than their reads arrived.
``Outcome.served`` has the order in which it did, as reads of the same bytes: the plain broker gets
those, which have to leave the same.
"""

import asyncio
import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker.remoting import connection as remoting_connection
from broker.remoting.connection import Connection
from broker.remoting.ingest import Segment
from broker.remoting.server import RemotingServer
from broker.server.ingest.figures import IngestFigures
from broker.server.metrics.message_type import FIFO, NUMS, SIZE
from broker.store.dispatch.block import RecordBlock
from tests.support.desk import Desk
from tests.support.remoting_peer import FakeTransport

Read = tuple[int, bytes]  # number of the connection, bytes received at once
Turn = Sequence[Read]  # received in one iteration of the loop
# Process ids and locks: no traffic changes them.
UNCOMPARED = ("abort", "lock")


@dataclass
class Outcome:
    """Everything that a run left."""

    replies: dict[int, bytes] = field(default_factory=dict)
    closed: dict[int, bool] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    counters: dict[str, Any] = field(default_factory=dict)
    arrivals: list[tuple] = field(default_factory=list)
    served: list[list[Read]] = field(default_factory=list)
    taken: int = 0
    calls: int = 0  # of the loops that took any
    expanded: int = 0  # records of blocks that were dispatched one by one


def peer_of(number: int) -> tuple:
    """The address of a connection; every third one is IPv6."""
    if number % 3 == 2:
        return (f"2001:db8::{number:x}", 40_000 + number, 0, 0)
    return (f"10.0.{number >> 8}.{number & 255}", 40_000 + number)


class NotedConnection(Connection):
    """A connection that notes the bytes which the plain path serves, without incomplete frames."""

    __slots__ = ("incomplete", "note", "number")

    incomplete: bytes
    number: int
    note: Callable[[int, bytes], None]

    def serve_data(self, data: bytes) -> None:
        whole = (self.incomplete if self.decoder.pending_bytes else b"") + data
        super().serve_data(data)
        end = len(whole) - self.decoder.pending_bytes
        self.incomplete = whole[end:]
        if end:
            self.note(self.number, whole[:end])


class IngestRun:
    """One broker core that receives reads; ``attach(desk, server, figures)`` adds ingest."""

    def __init__(
        self,
        folder: Path,
        properties: dict[str, str],
        attach: Callable[[Desk, RemotingServer, IngestFigures], None] | None = None,
        *,
        watched: bool = False,
    ) -> None:
        """``watched``: a listener notes every arrival, as if each topic had a suspended pull."""
        self.watched = watched
        self.desk = Desk(folder, properties)
        self.attach = attach
        self.outcome = Outcome()

    def run(self, turns: Sequence[Turn], prepare: Callable[[Desk], None]) -> Outcome:
        """Serve all turns, stop the store, return the outcome."""
        self.desk.deferred = True
        prepare(self.desk)
        self.desk.end_turn()
        random.seed(1)
        before = remoting_connection.monotonic_s
        remoting_connection.monotonic_s = lambda: 0.0
        try:
            asyncio.run(self._serve(turns))
        finally:
            remoting_connection.monotonic_s = before
        self._collect()
        return self.outcome

    async def _serve(self, turns: Sequence[Turn]) -> None:
        desk, outcome = self.desk, self.outcome
        server = RemotingServer(desk.handlers, clock=desk.clock, name="broker")
        server.share.before_write = desk.store.log.gather()
        desk.context.server = server
        figures = IngestFigures()
        note_block = desk.store.reput.note_block

        def count_expanded(block: RecordBlock) -> None:
            def expand() -> Any:
                outcome.expanded += block.records
                return block.expand()

            note_block(block._replace(expand=expand))

        desk.store.reput.note_block = count_expanded
        if self.attach is not None:
            self.attach(desk, server, figures)
            server.ingest.take = self.note_taken(server.ingest.take)
        if self.watched:
            desk.store.add_arriving_listener(lambda *arrival: outcome.arrivals.append(arrival))
        peers: dict[int, tuple[Connection, FakeTransport]] = {}
        for reads in turns:
            outcome.served.append([])
            for number, data in reads:
                if number not in peers:
                    connection, transport = NotedConnection(server), FakeTransport(peer_of(number))
                    connection.number, connection.note = number, self._note
                    connection.incomplete = b""
                    transport.connection = connection
                    connection.connection_made(transport)
                    peers[number] = connection, transport
                peers[number][0].data_received(data)
            await self._end_turn()
            desk.clock.advance(7)
        for number, (connection, transport) in peers.items():
            outcome.replies[number] = b"".join(transport.writes)
            outcome.closed[number] = connection.closed
        outcome.taken, outcome.calls = figures.frames, figures.reads
        await server.close()

    def _note(self, number: int, data: bytes) -> None:
        """Note bytes that were served; the calls of one connection in a row are one read."""
        served = self.outcome.served[-1]
        if served and served[-1][0] == number:
            served[-1] = number, served[-1][1] + data
        else:
            served.append((number, data))

    def note_taken(self, take: Callable[[Sequence[Segment]], int]) -> Callable[..., int]:
        """Wrap ``take`` of ingest to note the bytes that it serves."""

        def noting(segments: Sequence[Segment]) -> int:
            before = [segment.position for segment in segments]
            done = take(segments)
            for segment, start in zip(segments, before, strict=True):
                if segment.position > start:
                    number = segment.peer.number
                    self._note(number, segment.data[start : segment.position])
            return done

        return noting

    async def _end_turn(self) -> None:
        await asyncio.sleep(0)  # the reads of the turn are served
        for _ in range(4):
            self.desk.end_turn()
            await asyncio.sleep(0)

    def _collect(self) -> None:
        desk, outcome = self.desk, self.outcome
        store, stats = desk.store, desk.context.stats
        outcome.counters = {
            "puts": (store.writer.put_count, store.writer.put_bytes, store.writer.put_failed),
            "total": (stats.put.value, stats.put.calls, stats.put_failed),
            "offset": store.reput.offset,
            "stored": store.log.last_store_timestamp,
        }
        for name, topic in store.queue_table.topics.items():
            for kind in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE", NUMS[FIFO], SIZE[FIFO]):
                counter = stats.find(kind, name)
                if counter is not None:
                    outcome.counters[f"{kind}@{name}"] = (counter.value, counter.calls)
            for queue_id, queue in topic.queues.items():
                ends = queue.next_offset, queue.max_offset, queue.max_physical_offset
                outcome.counters[f"{name}-{queue_id}"] = ends
        store.shutdown()
        root = Path(desk.settings.store.root)
        for path in sorted(root.rglob("*")):
            if path.is_file() and path.name not in UNCOMPARED:
                name = str(path.relative_to(root))
                outcome.files[name] = hashlib.sha256(path.read_bytes()).hexdigest()
