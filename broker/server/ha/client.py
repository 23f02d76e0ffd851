"""HAClient: the slave's task that copies the master's CommitLog.

::

    connect → request the overlap → equal → validate, append, report ─┐
       ▲            └ different → DivergedError: nothing is appended  │
       └──── RECONNECT_MS after a closed connection or an error ◄─────┘

A report acknowledges whole valid records: appended ones under ASYNC_FLUSH, flushed ones under
SYNC_FLUSH. Java's slave acknowledges any appended bytes. Bytes are validated and appended as they
arrive, and reported before they are dispatched: puts of the master wait for the report. The task
wakes for heartbeats, for a record of an unknown topic, and at the end of the connection.

**Source:** RocketMQ DefaultHAClient.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Container, MutableMapping
from typing import Final, Protocol

from broker.common.address import format_address, parse_address
from broker.common.clock import Clock
from broker.errors import RocketMQError, StoreError
from broker.remoting.protocol.body.ha import HAClientRuntimeInfo, HARuntimeInfo
from broker.server.ha.config import HaConfig
from broker.server.ha.link.master_stream import MasterStream
from broker.server.ha.link.tls import make_context
from broker.server.ha.tasks import cancel
from broker.store.ha.frames import Transfer, TransferDecoder, encode_report
from broker.store.ha.overlap import DivergedError, OverlapCheck
from broker.store.ha.received_records import ReceivedRecords
from broker.store.message_store import MessageStore
from broker.store.results import PutMessageStatus

log = logging.getLogger("broker.server")

RECONNECT_MS: Final = 5_000
CONNECT_TIMEOUT_S: Final = 5.0
# Bounds the memory of one record. Java's default maxMessageSize is 4 MiB; a master may allow more.
MAX_RECORD_BYTES: Final = 64 << 20


class TopicCopies(Protocol):
    """The master's topics that are on this slave's disk."""

    @property
    def known(self) -> Container[bytes]:
        """Encoded names of the topics whose records may be appended."""
        ...

    @property
    def deleted_before(self) -> MutableMapping[bytes, int]:
        """Topics that the master lacks → physical offset up to which their records are appended."""
        ...

    async def add_topic(self, topic: bytes, received_end: int) -> None:
        """Copy the master's topics and write them, for a record of one that is not known.

        ``received_end`` is the physical offset after the bytes received so far.
        """
        ...


class HAClient:
    """Follow the master whose HA address ``find_master()`` returns; empty while it is unknown."""

    def __init__(
        self,
        store: MessageStore,
        config: HaConfig,
        clock: Clock,
        find_master: Callable[[], str],
        *,
        topics: TopicCopies | None = None,
        on_connected: Callable[[str], None] | None = None,
    ) -> None:
        """``topics``: None appends records of every topic.

        ``on_connected(address)`` is called with the own address of each connection.
        """
        self.connected = False
        # Why this slave does not follow its master; empty while it does.
        self.problem = "not connected yet"
        self.diverged_at: int | None = None
        self._store = store
        self._config = config
        self._clock = clock
        self._find_master = find_master
        self._topics = topics
        self._on_connected = on_connected
        self._tls = make_context(config, server=False)
        self._task: asyncio.Task[None] | None = None
        self._stream: MasterStream | None = None
        self._decoder = TransferDecoder()
        self._received: ReceivedRecords | None = None
        # Parts of transfers after a record of an unknown topic, of one read at most.
        self._later: deque[Transfer] = deque()
        self._reads = 0
        self._reported = -1
        self._master = ""
        self._last_read_ms = 0
        self._last_write_ms = 0
        self._rate = 0
        self._rate_bytes = 0
        self._rate_from_ms = 0.0
        self._master_end = 0
        self._blank_end = 0

    def start(self) -> None:
        """Start the task."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop the task and close the connection."""
        await cancel(self._task)

    async def _run(self) -> None:
        while True:
            self._master = self._find_master()
            if self._master:
                try:
                    await self._follow(self._master)
                except DivergedError as error:
                    self.diverged_at = error.physical_offset
                    self._stopped(error.message)
                except (RocketMQError, OSError, TimeoutError) as error:
                    self._stopped(str(error) or type(error).__name__)
                except Exception as error:
                    log.exception("replication failed")
                    self._stopped(f"{type(error).__name__}: {error}")
            await asyncio.sleep(RECONNECT_MS / 1000)

    def _stopped(self, reason: str) -> None:
        if reason != self.problem:
            log.error("master %s: not followed: %s", self._master, reason)
        self.problem = reason

    async def _follow(self, master: str) -> None:
        """Find out whether the logs agree, then copy until the connection ends."""
        store = self._store
        await self._flushed()
        overlap = OverlapCheck(self._read, store.min_physical_offset, store.max_physical_offset)
        while True:
            stream = self._stream = await self._connect(master)
            try:
                if await self._session(stream, overlap):
                    return
            finally:
                self.connected = False
                self._stream = None
                await stream.close()

    async def _flushed(self) -> None:
        """With SYNC_FLUSH wait for the flush: the first report counts as an acknowledgement."""
        store = self._store
        if not store.sync_flush or store.log.flushed_where >= store.max_physical_offset:
            return
        loop = asyncio.get_running_loop()
        flushed = asyncio.Event()

        def done(_status: PutMessageStatus) -> None:
            loop.call_soon_threadsafe(flushed.set)

        store.await_flush(store.max_physical_offset, done)
        await flushed.wait()
        if store.log.flushed_where < store.max_physical_offset:
            raise StoreError("this slave's log cannot be flushed")

    async def _connect(self, master: str) -> MasterStream:
        host, port = parse_address(master)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            transport, stream = await loop.create_connection(
                MasterStream, host, port, ssl=self._tls
            )
        if self._on_connected is not None:
            own = transport.get_extra_info("sockname")
            self._on_connected(format_address(own[0], own[1]))
        return stream

    def _read(self, physical_offset: int, size: int) -> bytes:
        """Bytes of the own log, up to the end of a file."""
        rest = self._store.log.rest_of_file(physical_offset)
        return b"" if rest is None else bytes(rest[:size])

    async def _session(self, stream: MasterStream, overlap: OverlapCheck) -> bool:
        """One connection. True when it has ended, False if a new request needs another one."""
        self._decoder = TransferDecoder()
        self._received = None
        self._later.clear()
        request = overlap.requests
        self._report(0 if overlap.done else overlap.request)
        received = self._begin() if overlap.done else None
        while received is None:
            data = await self._receive(stream)
            if not data:
                overlap.master_refuses()
                self._stopped(
                    "the master closed the connection after the request for physical offset"
                    f" {overlap.request}, which may be before the start of its log: see the"
                    " master's log; to copy all of it, start this slave with an empty store"
                    " directory"
                )
                return True
            for offset, part in self._decoder.feed(data):
                if received is None:
                    received = self._compare(overlap, offset, part)
                    if overlap.requests != request:
                        return False
                else:
                    self._later.append(Transfer(offset, part))
        self._received = received
        self._append_later()
        await self._copy(stream)
        return True

    def _compare(self, overlap: OverlapCheck, offset: int, part: bytes) -> ReceivedRecords | None:
        """Compare received bytes with the own log; keep those after it when they agree.

        None while more bytes, or a new request, are needed.
        """
        request = overlap.requests
        if not part:
            overlap.master_ends(offset)
        rest = overlap.feed(offset, part) if part else None
        if overlap.requests != request or not overlap.done:
            return None
        if rest:
            self._later.append(Transfer(offset + len(part) - len(rest), rest))
        return self._begin()

    async def _copy(self, stream: MasterStream) -> None:
        """Copy until the connection ends, after both logs were found equal."""
        await self._add_topics()
        stream.deliver(self._copy_now)
        while not stream.ended:
            await self._add_topics()
            stream.resume()
            await self._change(stream)
        self._stopped("the master closed the connection")

    def _copy_now(self, data: bytes) -> None:
        """Validate, append and acknowledge received bytes."""
        self._note_read(data)
        self._later += self._decoder.feed(data)
        self._append_later()
        if self._later or (self._received and self._received.unknown_topic is not None):
            assert self._stream is not None
            self._stream.pause()

    def _begin(self) -> ReceivedRecords:
        store = self._store
        self.connected = True
        self.problem = ""
        self.diverged_at = None
        log.info("master %s: followed from %d", self._master, store.max_physical_offset)
        topics = self._topics
        if topics is not None:
            topics.deleted_before.clear()  # offsets in the log of the master of that connection
        return ReceivedRecords(
            store.max_physical_offset,
            store.log.file_size,
            MAX_RECORD_BYTES,
            self._blank_end,
            known_topics=None if topics is None else topics.known,
            deleted_before=None if topics is None else topics.deleted_before,
        )

    async def _receive(self, stream: MasterStream) -> bytes:
        """Return received bytes, b"" at the end.

        TimeoutError when nothing has arrived for haHousekeepingInterval.
        """
        async with asyncio.timeout(self._config.ha_housekeeping_interval / 1000):
            data = await stream.read()
        self._note_read(data)
        return data

    async def _change(self, stream: MasterStream) -> None:
        """Wait for a change of ``stream``; reports every heartbeat interval meanwhile.

        TimeoutError when nothing has arrived for haHousekeepingInterval.
        """
        heartbeat = self._config.ha_send_heartbeat_interval / 1000
        left = housekeeping = self._config.ha_housekeeping_interval / 1000
        while True:
            reads = self._reads
            wait = min(heartbeat, left)
            try:
                async with asyncio.timeout(wait):
                    await stream.changed.wait()
            except TimeoutError:
                # Intervals are counted: a process that was stopped for long finds bytes to read.
                left = left - wait if self._reads == reads else housekeeping
                if left <= 0:
                    raise TimeoutError("the master has sent nothing for too long") from None
                self._report(self._acknowledged)
                continue
            stream.changed.clear()
            return

    def _note_read(self, data: bytes) -> None:
        self._reads += 1
        self._last_read_ms = self._clock.now_ms()
        self._count(len(data))

    def _append(self, physical_offset: int, data: bytes) -> None:
        """Append the records that are complete, up to the first one of an unknown topic."""
        received = self._received
        assert received is not None
        if not self._store.max_physical_offset and not received.next_offset:
            # An empty log starts where the master starts.
            received.start_at(physical_offset)
        valid = received.feed(physical_offset, data)
        if valid is not None:
            self._store.writer.append_replica(
                valid.data, valid.physical_offset, valid.store_timestamp, valid.records
            )
            self._blank_end = received.blank_end

    def _append_later(self) -> None:
        """Append parts of transfers, up to the first record of an unknown topic; acknowledge.

        A part is in one file. Records that wait for their topic must be, too.
        """
        received, later = self._received, self._later
        assert received is not None
        while later and received.unknown_topic is None:
            offset, part = later.popleft()
            if part:
                self._append(offset, part)
            if offset + len(part) > self._master_end:
                self._master_end = offset + len(part)
        self._acknowledge()

    async def _add_topics(self) -> None:
        """Append the records that wait for a copy of their topics."""
        received, topics = self._received, self._topics
        assert received is not None
        while (topic := received.unknown_topic) is not None and topics is not None:
            await topics.add_topic(topic, received.next_offset)
            self._append(received.next_offset, b"")
            self._append_later()

    @property
    def _acknowledged(self) -> int:
        store = self._store
        return store.log.flushed_where if store.sync_flush else store.max_physical_offset

    def _acknowledge(self) -> None:
        """Report the end of the log if it has changed; with SYNC_FLUSH after the flush."""
        store = self._store
        if store.sync_flush and store.log.flushed_where < store.max_physical_offset:
            store.await_flush(store.max_physical_offset, lambda _status: self._report_change())
        else:
            self._report_change()

    def _report_change(self) -> None:
        if self.connected and self._acknowledged > self._reported:
            self._report(self._acknowledged)

    def _report(self, physical_offset: int) -> None:
        if self._stream is None or self._stream.connection.is_closing():
            return
        self._reported = physical_offset
        self._last_write_ms = self._clock.now_ms()
        self._stream.connection.write(encode_report(physical_offset))

    def _count(self, size: int) -> None:
        now_ms = self._clock.monotonic_ms()
        self._rate_bytes += size
        if now_ms - self._rate_from_ms >= 1_000:
            self._rate = int(self._rate_bytes * 1000 / (now_ms - self._rate_from_ms))
            self._rate_from_ms, self._rate_bytes = now_ms, 0

    def runtime_info(self) -> HARuntimeInfo:
        """Return the state of this slave, as GET_BROKER_HA_STATUS answers it."""
        return HARuntimeInfo(
            master=False,
            ha_client_runtime_info=HAClientRuntimeInfo(
                master_addr=self._master,
                transferred_byte_in_second=self._rate,
                max_offset=self._store.max_physical_offset,
                last_read_timestamp=self._last_read_ms,
                last_write_timestamp=self._last_write_ms,
                master_flush_offset=self._master_end,
                is_activated=self.connected,
            ),
        )
