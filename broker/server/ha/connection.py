"""HAConnection: the master's thread that sends the CommitLog to one slave.

::

    first report → position (0: start of the last file) → transfers, heartbeats while idle
    each further report → the acknowledged offset

The thread reads the log through its mapping and sends with the interpreter lock released, so cold
pages delay only this slave. It waits in ``select`` for reports, for new log data (a byte on the
wake socket), or for the next heartbeat.

**Source:** RocketMQ DefaultHAConnection.ReadSocketService, WriteSocketService.
"""

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
from broker.server.ha.tls import TlsSocket
from broker.store.commitlog import CommitLog
from broker.store.ha.frames import ReportDecoder, encode_transfer_header

log = logging.getLogger("broker.server")

_RECEIVE_BYTES: Final = 4_096
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
    """One slave's connection; ``on_report`` and ``on_closed`` are called in its thread."""

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
        """Report new log data; wakes the thread only if it sleeps."""
        if self._sleeping:
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

    def stop(self) -> None:
        """Close the connection and wait for the thread."""
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
                if self.transfer_from < 0 or not self._transfer():
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
            self._last_received = time.monotonic()
            offsets = self._reports.feed(data)
            if not offsets:
                continue
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
        """Send one transfer; False if there is nothing to send now."""
        end = self._log.max_offset
        limit = min(self._config.ha_transfer_batch_size, end - self.transfer_from)
        if limit <= 0 or self._ahead:
            self._record_start = end
            return False
        data = self._log.rest_of_file(self.transfer_from)
        if data is None:
            raise RemoteProtocolError(
                f"physical offset {self.transfer_from} is not in the log any more"
                f" ({self._log.min_offset} to {self._log.max_offset})"
            )
        limit = min(limit, len(data))
        if self._flow is not None:
            limit = self._flow.allowance(limit, time.monotonic())
            if limit <= 0:
                time.sleep(0.01)
                return True
        if self._marking and self.transfer_from == self._record_start and limit > self.mark_bytes:
            limit, self._marking = self.mark_bytes, False
            self._marked_end = self.transfer_from + limit
        header = encode_transfer_header(self.transfer_from, limit)
        # Reports are read during the send, too: the slave may have a part of it already.
        self._sending_until = self.transfer_from + limit
        with data, data[:limit] as body:
            self._send([memoryview(header), body])
        self.transfer_from += limit
        if self.transfer_from == end:  # appends are whole: the next record starts there
            self._record_start = end
        self._count(limit)
        return True

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
