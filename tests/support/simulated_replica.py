"""A slave of a simulated broker: its store on a second simulated disk, the link in memory.

The master's controller, HAService, decoding and acknowledging, and the slave's HAClient are the
real ones; only the sockets and the threads that send are replaced::

    HAClient ── LinkEnd ──► SimLink ──► LinkSocket ── SimHAConnection (pumped by the event loop)
             ◄─────────── faults: cut, stalled, late, refused ───────────

``mark`` writes each mark of the traffic into both journals, so that the answers of any moment are
known on either disk.
"""

import asyncio
import os
import random
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import msgspec

from broker.errors import RemoteProtocolError, RequestTimeoutError
from broker.server.ha.client import HAClient
from broker.server.ha.config import HaConfig
from broker.server.ha.connection import HAConnection
from broker.server.ha.link.master_stream import MasterStream
from broker.server.ha.service import HAService
from broker.store.config_file import ConfigFile
from broker.store.format import config as files
from broker.store.ha.frames import encode_transfer_header
from broker.store.message_store import MessageStore
from tests.support.simulated_broker import ROOT, SimBroker
from tests.support.simulated_disk import SimDisk
from tests.support.traffic import BULK_TOPIC, Traffic

REPORT_ROOM = 64  # reports are few bytes: a fault there comes after few of them
ROOM = 6_000


class LinkSocket:
    """The master's end, as HAConnection uses a socket."""

    def __init__(self, link: "SimLink") -> None:
        self._link = link
        self.inbox = bytearray()
        self.closed = False

    def recv(self, size: int) -> bytes:
        """Reports; BlockingIOError without one, b"" after the end."""
        if not self.inbox and not self.closed:
            raise BlockingIOError
        data = bytes(self.inbox[:size])
        del self.inbox[:size]
        return data

    def sendmsg(self, parts: list[memoryview]) -> int:
        """Send to the slave."""
        if self.closed:
            raise ConnectionResetError("cut")
        data = b"".join(parts)
        self._link.to_slave(data)
        return len(data)

    def close(self) -> None:
        """Close the link."""
        self._link.cut()


class SimHAConnection(HAConnection):
    """Pumped by the event loop instead of a thread."""

    def start(self) -> None:
        """Do nothing: the event loop pumps."""

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Pump on this loop from now on."""
        self._pumping = loop
        # They are not used; a loss of power would leave them open.
        self._wake_in.close()
        self._wake_out.close()
        self._beat()

    def wake(self) -> None:
        """Send appended records after the append."""
        self._pumping.call_soon(self.pump)

    def stop(self) -> None:
        """Close the connection."""
        self._stopping = True
        self._pumping.call_soon_threadsafe(self._sock.close)

    def pump(self) -> None:
        """Read reports, send the log."""
        if self._stopping:
            return
        try:
            alive = self._receive()
            while alive and self.transfer_from >= 0 and self._transfer():
                pass
        except (OSError, RemoteProtocolError):
            alive = False
        if not alive:
            self._stopping = True
            self._sock.close()
            self._on_closed(self)

    def _beat(self) -> None:
        if self._stopping:
            return
        if self.transfer_from >= 0:
            try:
                self._send([memoryview(encode_transfer_header(self.transfer_from, 0))])
            except OSError:
                pass  # pump() finds the end
        self.pump()
        self._pumping.call_later(self._config.ha_send_heartbeat_interval / 1000, self._beat)


class SimHAService(HAService):
    """The real service without a listener."""

    @property
    def running(self) -> bool:
        """Whether the service has been started."""
        return self._loop is not None

    async def start(self, host: str, port: int) -> None:
        """Start without a socket."""
        self._loop = asyncio.get_running_loop()
        self.port = port
        self._store.scheduler.on_appended = self._appended

    def admit(self, link: "SimLink") -> None:
        """Accept the connection of a link."""
        assert self._loop is not None
        sock: socket.socket = link.master_end  # type: ignore[assignment]
        connection = SimHAConnection(
            sock,
            ("127.0.0.1", 50_000),
            self._store.log,
            self._config,
            self._flow,
            on_report=self._reported,
            on_closed=self._closed,
            on_level=lambda _connection: False,
            mark_bytes=self._free_mark(),
        )
        self._enter(connection)
        link.connection = connection
        connection.attach(self._loop)


class LinkEnd:
    """The slave's end, as HAClient uses a transport."""

    def __init__(self, link: "SimLink") -> None:
        self._link = link

    def write(self, data: bytes) -> None:
        """A report."""
        self._link.to_master(data)

    def is_closing(self) -> bool:
        return self._link.closed

    def abort(self) -> None:
        self._link.cut()

    def pause_reading(self) -> None:
        self._link.paused = True

    def resume_reading(self) -> None:
        self._link.paused = False


class SimLink:
    """One connection; ``limits``: bytes to the master and to the slave before it is cut."""

    def __init__(self, pair: "SimPair", limits: tuple[int, int]) -> None:
        self.closed = False
        self.master_end = LinkSocket(self)
        self.paused = False
        self.stream = MasterStream()
        self.stream.connection = LinkEnd(self)
        self.connection: SimHAConnection | None = None
        self._pair = pair
        self._left = list(limits)
        self._queues: tuple[deque[bytes], deque[bytes]] = (deque(), deque())
        self._loop = asyncio.get_running_loop()

    def to_master(self, data: bytes) -> None:
        """Bytes of the slave."""
        self._later(0, data)

    def to_slave(self, data: bytes) -> None:
        """Bytes of the master."""
        self._later(1, data)

    def _later(self, way: int, data: bytes) -> None:
        self._queues[way].append(data)
        self._loop.call_later(self._pair.delay_s, self._pass, way)

    def _pass(self, way: int) -> None:
        """Deliver the first bytes that wait in this direction; they stay in order."""
        queue = self._queues[way]
        if self.closed or not queue:
            return
        if self._pair.stalled or (
            way and self.paused
        ):  # as a stopped process: nothing is read, nothing is lost
            self._loop.call_later(0.05, self._pass, way)
            return
        data = queue.popleft()
        part = data[: self._left[way]]
        self._left[way] -= len(part)
        if way:
            self.stream.data_received(part)
        else:
            self.master_end.inbox += part
            if self.connection is not None:
                self.connection.pump()
        if len(part) < len(data):
            self.cut()

    def cut(self) -> None:
        """Close both ends."""
        if self.closed:
            return
        self.closed = self.master_end.closed = True
        self._loop.call_soon(self.stream.connection_lost, None)
        if self.connection is not None:
            self._loop.call_soon(self.connection.pump)


class SimHAClient(HAClient):
    """The real client over links of a pair."""

    pair: "SimPair"

    async def _connect(self, master: str) -> MasterStream:
        return self.pair.connect().stream


class SimTopics:
    """The slave's copy of the master's topics, as SlaveSynchronize makes it, without a request."""

    def __init__(self, pair: "SimPair") -> None:
        self._pair = pair
        self._file = ConfigFile(os.path.join(ROOT, "config", files.TOPICS), pair.disk)
        self.known: set[bytes] = set()
        self.deleted_before: dict[bytes, int] = {}

    async def add_topic(self, topic: bytes, received_end: int) -> None:
        """Write the master's topics to the slave's disk."""
        if self._pair.stalled:
            raise RequestTimeoutError("the master does not answer")
        table = self._pair.broker.context.topics
        content = files.TopicsFile(
            topics=dict(table.configs), data_version=table.data_version.to_file()
        )
        self._file.persist(files.encode_topics(content))
        self._pair.store.queue_table.set_batch_topics(
            name for name in table.configs if name == BULK_TOPIC
        )
        copied = {name.encode() for name in table.configs}
        self.known.intersection_update(copied)
        self.known.update(copied)
        if topic not in copied:
            end = self._pair.broker.store.max_physical_offset
            self.deleted_before[topic] = max(received_end, end)


class SimPair:
    """The slave of a simulated broker, and the link between them."""

    def __init__(self, broker: SimBroker, rng: random.Random, disk: SimDisk, flush: str) -> None:
        self.broker = broker
        self.rng = rng
        self.disk = disk
        self.stalled = False
        self.refusing = False
        self.delay_s = 0.0
        self.faulty = False
        self.link: SimLink | None = None
        self.links = 0
        disk.on_call = broker.threads.switch_point
        config = msgspec.structs.replace(broker.settings.store, flush_disk_type=flush)
        broker.run(self._start(config))

    async def _start(self, config: msgspec.Struct) -> None:
        loop = asyncio.get_running_loop()
        self.store = MessageStore(
            config,  # type: ignore[arg-type]
            clock=self.broker.clock,
            disk=self.disk,
            defer=loop.call_soon,
            notify=loop.call_soon_threadsafe,
        )
        self.store.load()
        self.store.start()
        self.store.flags.make_replica()
        self.client = SimHAClient(
            *(self.store, HaConfig(), self.broker.clock, lambda: "master"),
            topics=SimTopics(self),
        )
        self.client.pair = self
        self.client.start()

    @property
    def service(self) -> SimHAService:
        """The master's service of its present life."""
        service = self.broker.controller.replication.service
        assert isinstance(service, SimHAService)
        return service

    def connect(self) -> SimLink:
        """A new connection of the slave."""
        if self.refusing or not self.service.running:
            raise ConnectionRefusedError("refused")
        self.links += 1
        limits = (1 << 40, 1 << 40)
        if self.faulty and self.rng.random() < 0.5:
            limits = (self.rng.randrange(8, REPORT_ROOM), 1 << 40)
        elif self.faulty and self.rng.random() < 0.8:
            limits = (1 << 40, self.rng.randrange(ROOM))
        self.link = SimLink(self, limits)
        self.service.admit(self.link)
        return self.link

    def cut(self) -> None:
        """Cut the connection."""
        if self.link is not None:
            self.link.cut()

    def is_level(self) -> bool:
        """Whether both logs end at the same offset."""
        return self.store.max_physical_offset == self.broker.store.max_physical_offset

    def check_gap(self) -> None:
        """The gap that the master shows is at least as large as the real one."""
        status = self.broker.context.ha_status()
        end = self.broker.store.max_physical_offset
        assert status.master_commit_log_max_offset == end
        for one in status.ha_connection_info:
            assert one.slave_ack_offset <= self.store.max_physical_offset
            assert one.diff == end - one.slave_ack_offset


class ReplicatedTraffic(Traffic):
    """Traffic whose marks reach the journals of both disks."""

    pair: SimPair

    @property
    def sync(self) -> bool:
        """Whether an answer means that the message is on both disks."""
        return True

    def mark(self, *entry: object) -> None:
        """Mark both journals."""
        self.pair.disk.mark("flushed", self.pair.store.flushed_where)
        self.pair.disk.mark("time", self.broker.clock.now_ms())
        self.pair.disk.mark(*entry)
        super().mark(*entry)

    def restart(self) -> None:
        """Restart the master; a full disk gets room first, as an administrator would do."""
        self.broker.disk.capacity = 1 << 40
        super().restart()

    def be_quiet(self) -> None:
        """Let time pass."""
        self.broker.pass_ms(30_000)


@contextmanager
def simulated_service() -> Iterator[None]:
    """Have controllers use the service without a socket."""
    with patch("broker.server.ha.replication.HAService", SimHAService):
        yield
