"""Compare the extension files of ConsumeQueues (consumequeue_ext) with the queues and the log.

The tags code of a ConsumeQueue unit is then the address of an extension unit, which repeats tags
code and storeTimestamp of the record. A lost extension unit loses no message: brokers deliver the
message to every consumer, whose client compares the tags again.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker.errors import RemoteProtocolError
from broker.store.format.commitlog import Damage
from broker.store.format.consumequeue import (
    EXT_HEAD_SIZE,
    UNIT_SIZE,
    ConsumeQueueExtUnit,
    decode_ext_unit,
    ext_offset,
    is_ext_address,
    scan_ext_units,
)
from mqadmin.inspector.damage import WARNING
from mqadmin.inspector.directory import QueueFiles, StoreDirectory
from mqadmin.inspector.files import open_bytes
from mqadmin.inspector.log import LogReader
from mqadmin.inspector.queries.queues import live_units
from mqadmin.inspector.units import Unit
from mqadmin.inspector.verify.queue_checks import OpenFiles
from mqadmin.inspector.verify.record_checks import tags_code
from mqadmin.inspector.verify.report import Findings

EXT_DIR: Final = "consumequeue_ext"


class ExtFiles:
    """The extension files of one queue, read-only."""

    def __init__(self, store: StoreDirectory, topic: str, queue_id: int) -> None:
        root = store.root or store.path
        self.folder = root / EXT_DIR / topic / str(queue_id)
        self.files = store.numbered(self.folder)
        self._open = OpenFiles()

    def unit(self, offset: int) -> ConsumeQueueExtUnit | None:
        """Return the extension unit at a byte offset, None if there is none."""
        for path, start, *_ in reversed(self.files):
            if start <= offset:
                try:
                    return decode_ext_unit(self._open.get(path).data, offset - start)
                except RemoteProtocolError:
                    return None
        return None

    def scan(self) -> Iterator[tuple[Path, int, ConsumeQueueExtUnit] | tuple[Path, int, Damage]]:
        """Yield (path, byte offset, extension unit) of all files, and damage."""
        for path, start, *_ in self.files:
            with open_bytes(path, sequential=True) as file:
                for item in scan_ext_units(file.data, start, file.data_end):
                    if isinstance(item, Damage):
                        yield path, item.physical_offset or start, item
                    else:
                        yield path, item[0], item[1]

    def close(self) -> None:
        """Close the files."""
        self._open.close()


def check_extensions(
    store: StoreDirectory, log: LogReader, findings: Findings, topic: str | None
) -> None:
    """Report damaged extension units, and those that differ from their records."""
    if store.root is None or not (store.root / EXT_DIR).is_dir():
        return
    for queue in store.queue_files(topic):
        files = ExtFiles(store, queue.topic, queue.queue_id)
        if files.files and queue.kind == "classic":
            _check_files(queue, files, findings)
            _check_units(queue, files, log, findings)
        files.close()


def _check_files(queue: QueueFiles, files: ExtFiles, findings: Findings) -> None:
    for path, offset, item in files.scan():
        if isinstance(item, Damage):
            findings.add(
                "extUnit",
                path,
                f"{queue.topic}/{queue.queue_id}: {item.detail}",
                file_position=offset,
                length=item.length,
                severity=WARNING,
                queue=(queue.topic, queue.queue_id),
            )


def _check_units(queue: QueueFiles, files: ExtFiles, log: LogReader, findings: Findings) -> None:
    wrong: list[tuple[Unit, str]] = []
    count = 0
    for unit in live_units(queue, log):
        problem = _problem(unit, files, log) if is_ext_address(unit.tags_code) else ""
        if problem:
            count += 1
            wrong = wrong or [(unit, problem)]
    if wrong:
        unit, problem = wrong[0]
        findings.add(
            "extUnit",
            files.folder,
            f"{queue.topic}/{queue.queue_id}: {count} units have no valid extension unit; the first"
            f" at queue offset {unit.queue_offset}: {problem}",
            file_position=unit.queue_offset * UNIT_SIZE,
            length=EXT_HEAD_SIZE,
            severity=WARNING,
            queue=(queue.topic, queue.queue_id),
        )


def _problem(unit: Unit, files: ExtFiles, log: LogReader) -> str:
    offset = ext_offset(unit.tags_code)
    found = files.unit(offset)
    if found is None:
        return f"no extension unit at byte {offset}"
    place = log.record(unit.physical_offset)
    if place is None:
        return ""
    if found.tags_code != tags_code(place[1]):
        return f"the extension unit at byte {offset} has another tags code than the record"
    if found.store_timestamp != place[1].store_timestamp:
        return f"the extension unit at byte {offset} has another storeTimestamp than the record"
    return ""
