"""The ledger of a replay: a file that records sent messages, so that a rerun skips them.

One JSON object per line: ``sending`` before a message is sent, ``sent`` with its new location when
the broker has responded, ``refused`` when it was not stored. A ``sending`` line without a
later line of the same id is a message *in doubt*: the run was killed or the broker did not respond.
"""

import os
from types import TracebackType
from typing import BinaryIO, Final, Self

import msgspec

from broker.errors import ConfigError

SENDING: Final = "sending"
SENT: Final = "sent"
REFUSED: Final = "refused"

MAX_LINE_BYTES: Final = 64 * 1024
"""Bound of one line; names and ids have at most a few hundred bytes."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One line: the id of the message, its state, the time (epoch ms), the target location.

    ``key`` is the uniqKey or offsetMsgId of the original in an import.
    """

    id: str
    state: str
    at: int
    topic: str
    broker_name: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    offset_msg_id: str | None = None
    key: str | None = None


class Ledger:
    """A ledger file: :attr:`entries` by message id, :meth:`write` appends one."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.entries: dict[str, Entry] = {}
        self._file: BinaryIO | None = None

    def read(self) -> Self:
        """Read the file. ConfigError for an invalid line; a torn last line is ignored."""
        try:
            with open(self.path, "rb") as file:
                for number, line in enumerate(file, 1):
                    self._read_line(number, line)
        except FileNotFoundError:
            pass
        return self

    def _read_line(self, number: int, line: bytes) -> None:
        if not line.strip():
            return
        try:
            entry = msgspec.json.decode(line, type=Entry)
        except msgspec.MsgspecError as error:
            if not line.endswith(b"\n"):
                return  # torn by a kill: a message is sent only after its line is complete
            raise ConfigError(
                f"{self.path}, line {number}: no line of a ledger: {error}",
                "give another file with --ledger",
            ) from error
        self.remember(entry)

    def remember(self, entry: Entry) -> None:
        """Take the state of a message from a line that was read or written."""
        self.entries[entry.id] = entry

    def __enter__(self) -> Self:
        """Open for writing and read the entries; ConfigError while another process has the lock."""
        import fcntl

        self._file = open(self.path, "a+b")  # closed by __exit__
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise ConfigError(
                f"{self.path}: another command is writing this ledger", "wait for it to end"
            ) from error
        self.read()
        self._end_torn_line()
        return self

    def _end_torn_line(self) -> None:
        assert self._file is not None
        size = self._file.seek(0, os.SEEK_END)
        first = max(0, size - MAX_LINE_BYTES)
        self._file.seek(first)
        data = self._file.read()
        if not data or data.endswith(b"\n"):
            return
        last = data.rfind(b"\n") + 1
        begin = first + last
        try:
            msgspec.json.decode(data[last:], type=Entry)
        except msgspec.MsgspecError:
            self._file.truncate(begin)
        else:
            self._file.write(b"\n")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._file is not None
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def write(self, entry: Entry) -> None:
        """Append a line; it survives the process once this returns, but not a power failure."""
        assert self._file is not None, "a ledger is written inside its context"
        self._file.write(msgspec.json.encode(entry) + b"\n")
        self._file.flush()
        self.remember(entry)
