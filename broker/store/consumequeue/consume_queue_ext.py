"""ConsumeQueueExt: the extension units of one queue (enableConsumeQueueExt).

The tags code of a ConsumeQueue unit is then the address of an extension unit, which has the tags
code, the store time and the Bloom bits of the groups whose SQL92 filter accepts the message.

An extension unit is written before the ConsumeQueue unit that refers to it. After a power cut the
latter may be on the disk without the former: such an address is never used again, so that it cannot
refer to another message, and the reader treats the message as one that any filter may accept.

**Source:** RocketMQ ConsumeQueueExt.
"""

from collections.abc import Sequence
from typing import Final

from broker.errors import RemoteProtocolError, StoreError
from broker.store.format.consumequeue import (
    EXT_END,
    EXT_END_LEFT,
    EXT_HEAD_SIZE,
    ConsumeQueueExtUnit,
    decode_ext_unit,
    encode_ext_unit,
    ext_address,
    ext_offset,
    is_ext_address,
)
from broker.store.logfile.disk import Disk
from broker.store.logfile.mapped_file import MappedFileQueue
from broker.store.logfile.mapped_file_limit import MappedFileLimit

Unit = tuple[int, int, int]

NO_ADDRESS: Final = -1


class ConsumeQueueExt:
    """The extension units of one queue; ``end`` is the byte offset after the last one."""

    __slots__ = ("_files", "_size", "end", "flushed_bytes")

    def __init__(
        self, disk: Disk, folder: str, file_size: int, limit: MappedFileLimit | None = None
    ) -> None:
        detected = MappedFileQueue(disk, folder, 1).detect_size()
        self._size = detected or file_size
        self._files = MappedFileQueue(disk, folder, self._size, reserve_ahead=True, limit=limit)
        self.end = 0
        self.flushed_bytes = 0

    def load(self, last_address: int, *, crashed: bool = False, notes: list[str]) -> None:
        """Open the files; the next unit follows the one at ``last_address``, the last one in use.

        ``last_address`` is a byte offset, or NO_ADDRESS. If the unit is lost, the next one starts
        a new file.
        """
        self._files.load(crashed=crashed, notes=notes)
        files = self._files.files
        if last_address < 0:
            self.end = files[-1].start + self._size if files else 0
            return
        last = self._read(last_address)
        if last is None:
            self.end = (last_address // self._size + 1) * self._size
        else:
            self.end = last_address + EXT_HEAD_SIZE + len(last.bit_map)
        file = self._files.find(self.end)
        if file is not None:
            file.clear_after(self.end - file.start)
            file.written = self.end - file.start
        self.flushed_bytes = self.end

    def put(self, unit: ConsumeQueueExtUnit) -> int:
        """Append a unit; return the tags code that refers to it.

        DiskFullError or StoreError if a file cannot be created or grown, or is shorter than the
        unit.
        """
        data = encode_ext_unit(unit)
        if len(data) + EXT_END_LEFT > self._size:
            raise StoreError(f"extension unit of {len(data)} bytes, a file has {self._size}")
        position = self.end % self._size
        if position and self._size - position - EXT_END_LEFT < len(data):
            file = self._files.find(self.end)
            if file is not None:
                file.reserve_ahead(position + len(EXT_END))
                file.mapping[position : position + len(EXT_END)] = EXT_END
            self.end += self._size - position
            position = 0
        file = self._files.find(self.end) or self._files.create(self.end - position)
        file.reserve_ahead(position + len(data))
        file.mapping[position : position + len(data)] = data
        file.written = position + len(data)
        address = ext_address(self.end)
        self.end += len(data)
        return address

    def get(self, code: int) -> ConsumeQueueExtUnit | None:
        """Return the unit that a tags code refers to, None if it is lost or the code is a hash.

        Never a unit past ``end``, whose bytes may be from before a crash.
        """
        if not is_ext_address(code):
            return None
        offset = ext_offset(code)
        return self._read(offset) if offset < self.end else None

    def _read(self, offset: int) -> ConsumeQueueExtUnit | None:
        file = self._files.find(offset)
        if file is None:
            return None
        try:
            return decode_ext_unit(file.mapping, offset - file.start)
        except RemoteProtocolError:
            return None

    def resolve(self, units: Sequence[Unit]) -> list[Unit]:
        """Replace the addresses in ConsumeQueue units by tags codes; lost ones stay addresses."""
        resolved = []
        for unit in units:
            found = self.get(unit[2])
            resolved.append(unit if found is None else (unit[0], unit[1], found.tags_code))
        return resolved

    def delete_before(self, code: int) -> int:
        """Remove the files before the unit that a tags code refers to; return their number."""
        removed = 0
        files = self._files.files
        if is_ext_address(code):
            while len(files) > 1 and files[1].start <= ext_offset(code):
                self._files.remove_first()
                removed += 1
        return removed

    def sync(self) -> None:
        """Wait until the units are on the disk; for the flushing thread."""
        end = self.end
        for file in list(self._files.files):
            if file.start + self._size > self.flushed_bytes and file.start < end:
                file.sync()
        self.flushed_bytes = end

    def close(self) -> None:
        """Close the files."""
        self._files.close()

    def destroy(self) -> None:
        """Remove the folder."""
        self._files.close()
        self._files.destroy()
        self.end = self.flushed_bytes = 0
