"""HAConnection: sends the CommitLog to one slave, from a thread or from the event loop.

::

    first report → position (0: start of the last file) → transfers, heartbeats while idle
    each further report → the acknowledged offset

    thread      sends until the slave has the whole log ──────────────┐
      ▲                                                               ▼
      └── the socket is full, TAIL_BYTES are unsent, an error ─── event loop

The thread reads the log through its mapping and sends with the interpreter lock released, so cold
pages delay only this slave. It waits in ``select`` for reports, for new log data (a byte on the
wake socket), or for the next heartbeat.

The event loop sends records at the end of the turn that appended them, when their pages are in
memory, and counts reports as it receives them. A put that waits for a copy needs no change of
threads: that took longer than the copy itself. TLS and flow control remain in the thread.

**Source:** RocketMQ DefaultHAConnection.ReadSocketService, WriteSocketService.
"""

import asyncio
import logging
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Final

from broker.common.address import format_address
from broker.common.thread_name import show_thread_name
from broker.errors import RemoteProtocolError
from broker.server.ha.config import HaConfig
from broker.server.ha.link.tls import TlsSocket
from broker.store.commitlog import CommitLog
from broker.store.ha.frames import ReportDecoder, encode_transfer_header

log = logging.getLogger("broker.server")

_RECEIVE_BYTES: Final = 4_096
# Bytes passed to the socket at once.
SEND_BYTES: Final = 256 * 1024
# Unsent bytes from which on the thread sends: on the event loop, more would delay clients.
TAIL_BYTES: Final = SEND_BYTES
_RATE_SECONDS: Final = 1.0


class FlowControl:
    """The transfer rate of all connections together: at most ``limit`` bytes per second.

    **Source:** RocketMQ FlowMonitor.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._second = 0
        self._used = 0

    def allowance(self, wanted: int, now: float) -> int:
        """Take up to ``wanted`` bytes of the current second's allowance; 0 if it is used up."""
        with self._lock:
            if int(now) != self._second:
                self._second, self._used = int(now), 0
            taken = max(0, min(wanted, self._limit - self._used))
            self._used += taken
            return taken


class HAConnection:
    """One slave's connection.

    ``on_level`` and ``on_closed`` are called in its thread, ``on_report`` in the thread or, while
    ``on_loop`` is true, on the event loop. ``on_level`` schedules :meth:`take_over` there and
    returns whether that was possible.
    """

    def __init__(
        self,
        sock: socket.socket,
        peer: tuple[str, int],
        commit_log: CommitLog,
        config: HaConfig,
        flow: FlowControl | None,
        *,
        on_report: Callable[["HAConnection"], None],
        on_closed: Callable[["HAConnection"], None],
        on_level: Callable[["HAConnection"], bool],
        tls: ssl.SSLContext | None = None,
        mark_bytes: int = 1,
    ) -> None:
        self.address = format_address(*peer)
        # Physical offsets: the next byte to send, and the end that the slave has acknowledged.
        self.transfer_from = -1
        self.acknowledged = -1
        # Start of the transfer to a slave with an empty log, until the service has noted it.
        self.skipped_to = 0
        self.transferred_per_second = 0
        # Physical offset of the first transfer.
        self.start_offset = -1
        # Whether an offset was acknowledged at which only a transfer of this connection has ended.
        self.mark_acknowledged = False
        # Bytes of a record in its marked transfer: another number for each present connection.
        self.mark_bytes = mark_bytes
        self._marking = False
        self._marked_end = -1
        self._record_start = -1
        self._sock: socket.socket | TlsSocket = sock
        self._plain = sock
        self._tls = tls
        self._log = commit_log
        self._config = config
        self._flow = flow
        self._on_report = on_report
        self._on_closed = on_closed
        self._on_level = on_level
        # Set while the event loop sends; the thread waits for _returned meanwhile.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._returned = threading.Event()
        self._unsent = b""
        self._error: OSError | RemoteProtocolError | None = None
        self._reports = ReportDecoder()
        self._wake_out, self._wake_in = socket.socketpair()
        self._wake_out.setblocking(False)
        self._wake_in.setblocking(False)
        self._ahead = False
        self._sending_until = 0
        self._sleeping = False
        self._stopping = False
        self._last_received = self._last_sent = time.monotonic()
        self._rate_from = time.monotonic()
        self._rate_bytes = 0
        self._thread = threading.Thread(
            target=self._run, name=f"ha-connection-{self.address}", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Report new log data: send it, or wake the thread if it sleeps; on the event loop."""
        if self._loop is not None:
            self._send_tail()
        elif self._sleeping:
            self._sleeping = False
            try:
                self._wake_out.send(b"\0")
            except (BlockingIOError, OSError):
                pass  # a full socket wakes the thread too; a closed one has no thread

    @property
    def sent(self) -> int:
        """End of the bytes that may have been sent; -1 before the first report."""
        return -1 if self.transfer_from < 0 else max(self.transfer_from, self._sending_until)

    def mark_transfer(self) -> None:
        """End one transfer ``mark_bytes`` after the start of a record, in its fixed fields.

        Only a slave that gets this connection's transfers acknowledges that offset: each Java slave
        reports after each transfer. Slaves of this project acknowledge whole records; they send
        their address instead.
        """
        self._marking = self._marked_end < 0

    def release(self) -> None:
        """End sending on the event loop, for :meth:`stop`; called there."""
        self._stopping = True
        if self._loop is not None:
            self._give_back()

    def stop(self) -> None:
        """Close the connection and wait for the thread; after :meth:`release`."""
        self._stopping = True
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # not connected any more
        self._sleeping = True
        self.wake()
        self._thread.join()

    def _run(self) -> None:
        show_thread_name()
        reason = "closed by the slave"
        try:
            if self._tls is not None:
                self._sock = TlsSocket(self._plain, self._tls)
                self._last_received = self._last_sent = time.monotonic()
            self._sock.setblocking(False)
            while not self._stopping and self._receive():
                sent = self.transfer_from >= 0 and self._transfer()
                if not sent and not self._hand_over():
                    self._wait()
                self._check_idle()
        except (OSError, RemoteProtocolError) as error:
            reason = str(error)
        finally:
            self._sock.close()
            self._wake_in.close()
            self._wake_out.close()
            if not self._stopping:
                log.warning("slave %s: connection closed: %s", self.address, reason)
            self._on_closed(self)

    # ---- reports

    def _receive(self) -> bool:
        """Read the available reports; False at the end of the stream."""
        while True:
            try:
                data = self._sock.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._accept(data)

    def _accept(self, data: bytes) -> None:
        """Note received reports."""
        self._last_received = time.monotonic()
        offsets = self._reports.feed(data)
        if not offsets:
            return
        offset = offsets[-1]
        if self.transfer_from < 0:
            self.start_offset = self._start(offset)
            self.transfer_from = self.start_offset
            log.info(
                "slave %s: reports %d, transfer from %d",
                *(self.address, offset, self.transfer_from),
            )
        elif offset > max(self.transfer_from, self._sending_until):
            raise RemoteProtocolError(
                f"HA report: {offset} is acknowledged, {self.transfer_from} was sent"
            )
        if not self._ahead:
            self.mark_acknowledged |= self._marked_end in offsets
            self.acknowledged = offset
            self._on_report(self)

    def _start(self, offset: int) -> int:
        """Return the start of the transfer; a slave with an empty log gets the last file only.

        A slave whose log ends after the master's has another history: it gets heartbeats, from
        which our slave finds the offset of divergence, and its reports acknowledge nothing. Java's
        master counts them.
        """
        end = self._log.max_offset
        self._ahead = offset > end
        if self._ahead:
            log.error(
                "slave %s: its log ends at %d, after this master's at %d: nothing is sent to it;"
                " start it with an empty store directory",
                *(self.address, offset, end),
            )
        if not offset:
            offset = self.skipped_to = end - end % self._log.file_size
        return offset

    # ---- transfer

    def _transfer(self) -> bool:
        """Send up to SEND_BYTES; False if there is nothing to send now."""
        end = self._log.max_offset
        if end <= self.transfer_from or self._ahead:
            self._record_start = end
            return False
        parts, sent_end = self._transfers(end)
        if not parts:
            time.sleep(0.01)  # the allowance of this second is used up
            return True
        self._send(parts)
        self._sent(sent_end, end)
        return True

    def _transfers(self, end: int) -> tuple[list[memoryview], int]:
        """Return the next transfers up to physical offset ``end``, and the end of the last one.

        At most SEND_BYTES. From now on reports up to there are valid: the slave may have a part of
        a transfer before the send of all of them has ended.
        """
        parts: list[memoryview] = []
        start = position = self.transfer_from
        while position < end and position - start < SEND_BYTES:
            data = self._log.rest_of_file(position)
            if data is None:
                raise RemoteProtocolError(
                    f"physical offset {position} is not in the log any more"
                    f" ({self._log.min_offset} to {self._log.max_offset})"
                )
            limit = min(self._config.ha_transfer_batch_size, end - position, len(data))
            if self._flow is not None:
                limit = self._flow.allowance(limit, time.monotonic())
                if limit <= 0:
                    break
            if self._marking and position == self._record_start and limit > self.mark_bytes:
                limit, self._marking = self.mark_bytes, False
                self._marked_end = position + limit
            parts += (memoryview(encode_transfer_header(position, limit)), data[:limit])
            position += limit
        self._sending_until = position
        return parts, position

    def _sent(self, sent_end: int, log_end: int) -> None:
        """Note that everything up to ``sent_end`` was sent; the log ended at ``log_end``."""
        self._count(sent_end - self.transfer_from)
        self.transfer_from = sent_end
        if sent_end == log_end:  # appends are whole: the next record starts there
            self._record_start = sent_end

    def _send(self, parts: list[memoryview]) -> None:
        """Send all parts; TimeoutError if the slave accepts nothing for the housekeeping time."""
        while parts:
            try:
                sent = self._sock.sendmsg(parts)
            except BlockingIOError:
                wait = self._config.ha_housekeeping_interval / 1000
                if not select.select([], [self._sock], [], wait)[1]:
                    raise TimeoutError(f"the slave accepted no data for {wait:g} s") from None
                self._receive()
                continue
            self._last_sent = time.monotonic()
            while parts and sent >= len(parts[0]):
                sent -= len(parts.pop(0))
            if parts:
                parts[0] = parts[0][sent:]

    def _count(self, size: int) -> None:
        now = time.monotonic()
        self._rate_bytes += size
        if now - self._rate_from >= _RATE_SECONDS:
            self.transferred_per_second = int(self._rate_bytes / (now - self._rate_from))
            self._rate_from, self._rate_bytes = now, 0

    # ---- the event loop

    @property
    def on_loop(self) -> bool:
        """Whether the event loop sends, and receives reports."""
        return self._loop is not None

    def _hand_over(self) -> bool:
        """Let the event loop send until it gives the connection back; False if it must not."""
        level = self.transfer_from == self._log.max_offset and not self._ahead
        if not level or self._tls is not None or self._flow is not None or self._stopping:
            return False
        self._returned.clear()
        if not self._on_level(self):
            return False  # the event loop is closed
        self._returned.wait()
        if self._error is not None:
            raise self._error
        if self._unsent:
            rest, self._unsent = self._unsent, b""
            self._send([memoryview(rest)])
        return True

    def take_over(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send from the event loop; called there after ``on_level``."""
        if self._stopping:
            self._returned.set()
            return
        self._loop = loop
        loop.add_reader(self._sock.fileno(), self._readable)
        self._tick()
        if self._loop is not None:
            self._send_tail()

    def _give_back(self, error: OSError | RemoteProtocolError | None = None) -> None:
        """Let the thread continue; it ends the connection if there is an error."""
        assert self._loop is not None
        self._loop.remove_reader(self._sock.fileno())
        if self._timer is not None:
            self._timer.cancel()
        self._loop = self._timer = None
        self._error = error
        self._returned.set()

    def _readable(self) -> None:
        try:
            data = self._sock.recv(_RECEIVE_BYTES)
            if data:
                self._accept(data)
            else:
                self._give_back()  # the thread finds the end of the stream, too
        except BlockingIOError:
            pass
        except (OSError, RemoteProtocolError) as error:
            self._give_back(error)

    def _send_tail(self) -> None:
        """Send the records that were appended since the last transfer."""
        end = self._log.max_offset
        if end == self.transfer_from:
            return
        if end - self.transfer_from > TAIL_BYTES:
            self._give_back()
            return
        try:
            parts, sent_end = self._transfers(end)
            self._sent(sent_end, end)  # before the thread may continue
            self._pass(parts)
        except (OSError, RemoteProtocolError) as error:
            self._give_back(error)

    def _pass(self, parts: list[memoryview]) -> None:
        """Pass parts to the socket; the thread sends the bytes that it does not accept."""
        try:
            sent = self._sock.sendmsg(parts)
        except BlockingIOError:
            sent = 0
        self._last_sent = time.monotonic()
        if sent < sum(map(len, parts)):
            self._unsent = b"".join(parts)[sent:]
            self._give_back()

    def _tick(self) -> None:
        """Check the time of the last report and send a heartbeat if it is due, every second."""
        assert self._loop is not None
        heartbeat = self._config.ha_send_heartbeat_interval / 1000
        self._count(0)
        self._timer = self._loop.call_later(min(heartbeat, _RATE_SECONDS), self._tick)
        try:
            self._check_idle()
            if self._last_sent + heartbeat <= time.monotonic():
                self._pass([memoryview(encode_transfer_header(self.transfer_from, 0))])
        except OSError as error:
            self._give_back(error)

    # ---- waiting

    def _wait(self) -> None:
        """Wait for a report, for log data, or for the next heartbeat."""
        self._count(0)
        heartbeat = self._config.ha_send_heartbeat_interval / 1000
        wait = self._last_sent + heartbeat - time.monotonic()
        if self.transfer_from >= 0 and wait <= 0:
            self._send([memoryview(encode_transfer_header(self.transfer_from, 0))])
            self._last_sent = time.monotonic()
            return
        self._sleeping = True
        # An append between the last check and the assignment did not wake the thread.
        if 0 <= self.transfer_from < self._log.max_offset and not self._ahead:
            self._sleeping = False
            return
        ready, _, _ = select.select([self._sock, self._wake_in], [], [], max(wait, 0.01))
        self._sleeping = False
        if self._wake_in in ready:
            self._wake_in.recv(_RECEIVE_BYTES)

    def _check_idle(self) -> None:
        idle = time.monotonic() - self._last_received
        if idle > self._config.ha_housekeeping_interval / 1000:
            raise TimeoutError(f"no report for {idle:.0f} s")
