"""HAClient: the slave's task that copies the master's CommitLog.

::

    connect → request the overlap → equal → validate, append, report ─┐
       ▲            └ different → DivergedError: nothing is appended  │
       └──── RECONNECT_MS after a closed connection or an error ◄─────┘

A report acknowledges whole valid records: appended ones under ASYNC_FLUSH, flushed ones under
SYNC_FLUSH. Java's slave acknowledges any appended bytes.

**Source:** RocketMQ DefaultHAClient.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Container
from typing import Final, Protocol

from broker.common.address import format_address, parse_address
from broker.common.clock import Clock
from broker.errors import RocketMQError, StoreError
from broker.remoting.protocol.body.ha import HAClientRuntimeInfo, HARuntimeInfo
from broker.server.ha.config import HaConfig
from broker.server.ha.tasks import cancel
from broker.server.ha.tls import make_context
from broker.store.ha.frames import TransferDecoder, encode_report
from broker.store.ha.overlap import DivergedError, OverlapCheck
from broker.store.ha.received_records import ReceivedRecords
from broker.store.message_store import MessageStore
from broker.store.results import PutMessageStatus

log = logging.getLogger("broker.server")

RECONNECT_MS: Final = 5_000
CONNECT_TIMEOUT_S: Final = 5.0
# Bytes received per event-loop iteration: about 2 ms of validation and append.
RECEIVE_BYTES: Final = 128 * 1024
# Bounds the memory of one record. Java's default maxMessageSize is 4 MiB; a master may allow more.
MAX_RECORD_BYTES: Final = 64 << 20


class TopicCopies(Protocol):
    """The master's topics that are on this slave's disk."""

    @property
    def known(self) -> Container[bytes]:
        """Encoded names of the topics whose records may be appended."""
        ...

    async def add_topic(self, topic: bytes) -> None:
        """Make a topic known: copy the master's topics and write them."""
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
        self._writer: asyncio.StreamWriter | None = None
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
            reader, writer = await self._connect(master)
            self._writer = writer
            if self._on_connected is not None:
                own = writer.get_extra_info("sockname")
                self._on_connected(format_address(own[0], own[1]))
            try:
                if await self._session(reader, overlap):
                    return
            finally:
                self.connected = False
                self._writer = None
                # Not close(): it would wait until the master has read the last report.
                writer.transport.abort()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

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

    async def _connect(self, master: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = parse_address(master)
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            return await asyncio.open_connection(host, port, limit=RECEIVE_BYTES, ssl=self._tls)

    def _read(self, physical_offset: int, size: int) -> bytes:
        """Bytes of the own log, up to the end of a file."""
        rest = self._store.log.rest_of_file(physical_offset)
        return b"" if rest is None else bytes(rest[:size])

    async def _session(self, reader: asyncio.StreamReader, overlap: OverlapCheck) -> bool:
        """One connection. True when it has ended, False if a new request needs another one."""
        decoder = TransferDecoder()
        request = overlap.requests
        received: ReceivedRecords | None = None
        self._report(0 if overlap.done else overlap.request)
        if overlap.done:
            received = self._begin()
        while True:
            data = await self._receive(reader)
            if not data:
                if received is None:
                    overlap.master_refuses()
                self._stopped("the master closed the connection")
                return True
            for offset, part in decoder.feed(data):
                if received is None:
                    if not part:
                        overlap.master_ends(offset)
                    rest = overlap.feed(offset, part) if part else None
                    if overlap.requests != request:
                        return False
                    if overlap.done:
                        received = self._begin()
                        if rest:
                            await self._append(received, offset + len(part) - len(rest), rest)
                elif part:
                    await self._append(received, offset, part)
                self._master_end = max(self._master_end, offset + len(part))
            self._acknowledge()

    def _begin(self) -> ReceivedRecords:
        store = self._store
        self.connected = True
        self.problem = ""
        self.diverged_at = None
        log.info("master %s: followed from %d", self._master, store.max_physical_offset)
        return ReceivedRecords(
            store.max_physical_offset,
            store.log.file_size,
            MAX_RECORD_BYTES,
            self._blank_end,
            None if self._topics is None else self._topics.known,
        )

    async def _receive(self, reader: asyncio.StreamReader) -> bytes:
        """Return received bytes, b"" at the end; reports every heartbeat interval meanwhile.

        TimeoutError when nothing has arrived for haHousekeepingInterval.
        """
        heartbeat = self._config.ha_send_heartbeat_interval / 1000
        left = self._config.ha_housekeeping_interval / 1000
        while True:
            try:
                async with asyncio.timeout(min(heartbeat, left)):
                    data = await reader.read(RECEIVE_BYTES)
            except TimeoutError:
                left -= heartbeat
                if left <= 0:
                    raise TimeoutError("the master has sent nothing for too long") from None
                if self.connected:
                    self._report(self._acknowledged)
                continue
            self._last_read_ms = self._clock.now_ms()
            self._count(len(data))
            return data

    async def _append(self, received: ReceivedRecords, physical_offset: int, data: bytes) -> None:
        if not self._store.max_physical_offset and not received.next_offset:
            # An empty log starts where the master starts.
            received.start_at(physical_offset)
        valid = received.feed(physical_offset, data)
        while True:
            if valid is not None:
                self._store.writer.append_replica(
                    valid.data, valid.physical_offset, valid.store_timestamp, valid.positions
                )
                self._blank_end = received.blank_end
            topic = received.unknown_topic
            if topic is None or self._topics is None:
                return
            await self._topics.add_topic(topic)
            valid = received.feed(received.next_offset, b"")

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
        if self._writer is None or self._writer.is_closing():
            return
        self._reported = physical_offset
        self._last_write_ms = self._clock.now_ms()
        self._writer.write(encode_report(physical_offset))

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
