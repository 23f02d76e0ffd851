"""The two frames of the HA connection.

::

    slave → master   report     8 bytes: the slave's next physical offset. The first one requests
                                the start of the transfer; 0 requests the master's last file.
    master → slave   transfer   12 bytes (physical offset, body length), then raw CommitLog bytes.
                                Body length 0 is a heartbeat; its offset is the next one.

A transfer never crosses the end of a CommitLog file. It may end in the middle of a record.

**Source:** RocketMQ DefaultHAConnection, DefaultHAClient.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from broker.errors import RemoteProtocolError
from broker.store.format.ha import REPORT, TRANSFER

# Java's slave has a buffer of 4 MiB, so no master sends a longer body.
MAX_BODY_BYTES: Final = 4 << 20

_REPORT: Final = REPORT.packer()
_TRANSFER: Final = TRANSFER.packer()


def encode_report(max_offset: int) -> bytes:
    """Encode a slave's report of its next physical offset."""
    return _REPORT.pack(max_offset)


def encode_transfer_header(physical_offset: int, body_length: int) -> bytes:
    """Encode the header of a transfer."""
    return _TRANSFER.pack(physical_offset, body_length)


class ReportDecoder:
    """Reports from a byte stream; only the latest one matters."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[int]:
        """Return the offsets of the reports that ``data`` completes, the last one is the newest.

        RemoteProtocolError for a negative offset.
        """
        data = self._rest + data
        whole = len(data) - len(data) % _REPORT.size
        self._rest = data[whole:]
        offsets = [offset for (offset,) in _REPORT.iter_unpack(data[:whole])]
        lowest = min(offsets, default=0)
        if lowest < 0:
            raise RemoteProtocolError(f"HA report: physical offset {lowest}", position=0)
        return offsets


class Transfer(NamedTuple):
    """A part of a transfer's body, or a heartbeat (empty ``data``)."""

    physical_offset: int
    data: bytes


class TransferDecoder:
    """Transfers from a byte stream; bodies are returned in parts, as they arrive."""

    def __init__(self) -> None:
        self._header = b""
        self._offset = 0
        self._left = 0

    def feed(self, data: bytes) -> Iterator[Transfer]:
        """Yield the parts that ``data`` completes.

        RemoteProtocolError for a negative offset or a body length outside 0 to
        :data:`MAX_BODY_BYTES`.
        """
        position = 0
        while position < len(data):
            if self._left:
                part = data[position : position + self._left]
                yield Transfer(self._offset, part)
                self._offset += len(part)
                self._left -= len(part)
                position += len(part)
                continue
            missing = _TRANSFER.size - len(self._header)
            self._header += data[position : position + missing]
            position += missing
            if len(self._header) < _TRANSFER.size:
                return
            self._offset, self._left = _TRANSFER.unpack(self._header)
            self._header = b""
            if self._offset < 0 or not 0 <= self._left <= MAX_BODY_BYTES:
                raise RemoteProtocolError(
                    f"HA transfer: physical offset {self._offset}, {self._left} bytes",
                    position=position,
                )
            if not self._left:
                yield Transfer(self._offset, b"")
