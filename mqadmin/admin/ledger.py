"""The ledger of a replay: what was sent, kept in a file, so that nothing is sent twice.

One JSON object per line: ``sending`` before a message goes out, ``sent`` with its new place when
the broker has answered, ``refused`` when it was not taken. A line ``sending`` without an answer is
a message *in doubt*: the run was killed or the broker was silent.
"""

import os
from types import TracebackType
from typing import BinaryIO, Final, Self

import msgspec

from broker.errors import ConfigError

SENDING: Final = "sending"
SENT: Final = "sent"
REFUSED: Final = "refused"


class Entry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One line: the id of the dead letter, what happened (at which epoch ms), where it went."""

    id: str
    state: str
    at: int
    topic: str
    broker_name: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    offset_msg_id: str | None = None


class Ledger:
    """A ledger file: :attr:`entries` by id as they were read, :meth:`write` adds one."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.entries: dict[str, Entry] = {}
        self._file: BinaryIO | None = None

    def read(self) -> Self:
        """Read what is there. ConfigError for a line that is none; a torn last one is let go."""
        try:
            with open(self.path, "rb") as file:
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            return self
        for number, line in enumerate(lines, 1):
            if not line:
                continue
            try:
                entry = msgspec.json.decode(line, type=Entry)
            except msgspec.MsgspecError as error:
                if number == len(lines):
                    break  # a run was killed while it wrote: nothing was sent before it is whole
                raise ConfigError(
                    f"{self.path}, line {number}: no line of a ledger: {error}",
                    "give another file with --ledger",
                ) from error
            self.entries[entry.id] = entry
        return self

    def __enter__(self) -> Self:
        """Open for writing and read what is there; ConfigError while another replay writes."""
        import fcntl

        self._file = open(self.path, "a+b")  # closed by __exit__
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise ConfigError(
                f"{self.path}: another replay is writing this ledger", "wait for it to end"
            ) from error
        self.read()
        self._end_torn_line()
        return self

    def _end_torn_line(self) -> None:
        assert self._file is not None
        self._file.seek(0)
        data = self._file.read()
        if not data or data.endswith(b"\n"):
            return
        begin = data.rfind(b"\n") + 1
        try:
            msgspec.json.decode(data[begin:], type=Entry)
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
        """Add a line; it outlives the process from now on."""
        assert self._file is not None, "a ledger is written inside its context"
        self._file.write(msgspec.json.encode(entry) + b"\n")
        self._file.flush()
        self.entries[entry.id] = entry
