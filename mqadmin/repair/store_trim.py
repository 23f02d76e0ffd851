"""Remove the oldest CommitLog files of a stopped store, in a copy, and verify the copy.

Whole files are removed from the beginning of the log, as a broker removes expired files; then the
ConsumeQueue files and IndexFiles all of whose units and entries refer to removed records, but never
the last file of a queue or of the index. Remaining units below the new begin of the log are
skipped by brokers. The other files are hard-linked, so that the copy needs little space.

**Source:** RocketMQ ``CommitLog#deleteExpiredFile``, ``ConsumeQueue#deleteExpiredFile``,
``IndexService#deleteExpiredFile``.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from broker.common.topic import SCHEDULE_TOPIC
from broker.errors import ConfigError, RemoteProtocolError, StoreError
from broker.store.format import config, state
from broker.store.format.commitlog import is_plausible, store_timestamp
from broker.store.format.indexfile import decode_header
from broker.store.format.state import QUEUE_ENDS
from mqadmin.inspector.configs import consumer_offset_file
from mqadmin.inspector.damage import NOTICE
from mqadmin.inspector.directory import LogFile, StoreDirectory
from mqadmin.inspector.files import open_bytes, read_all
from mqadmin.inspector.log import LogReader
from mqadmin.inspector.queries.queues import live_units
from mqadmin.inspector.queries.summary import count_records
from mqadmin.inspector.rows import DamageRow
from mqadmin.inspector.store_manifest import encode_log_min
from mqadmin.inspector.verify.report import VerifySummary
from mqadmin.inspector.verify.verifier import Progress, VerifyOptions, verify
from mqadmin.repair.files import Output, check_output
from mqadmin.repair.queue_tail import last_unit
from mqadmin.repair.store_copy import check_places, find_bounds
from mqadmin.repair.store_repair import exchange, refuse_elsewhere, refuse_running

# The group that the plan names for delay levels, whose progress is in delayOffset.json.
DELAY_SERVICE: Final = "delayOffset.json"


class TrimPlan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The files that are removed, and the messages in them.

    ``newMinPhysicalOffset`` is the begin of the log afterwards. ``files`` are paths below the root.
    ``messages`` counts the removed messages. ``unconsumed`` lists the groups with committed offsets
    below the first remaining message of a queue.
    """

    path: str
    min_physical_offset: int
    new_min_physical_offset: int
    max_physical_offset: int
    files: list[str]
    bytes: int
    messages: int
    unconsumed: list["Unconsumed"]


class Unconsumed(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Messages of one queue that a group has not consumed and that are removed."""

    group: str
    topic: str
    queue_id: int
    messages: int


class TrimResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of a trim.

    ``findings`` are those of the copy that the store did not have; ``ok``: there are none.
    ``backup`` is the old directory after an exchange.
    """

    output: str
    backup: str | None
    ok: bool
    plan: TrimPlan
    files_linked: int
    files_copied: int
    findings: list[DamageRow]
    summary: VerifySummary


def first_kept_by_time(store: StoreDirectory, before_ms: int) -> int:
    """Return the start of the first log file that is kept if older records are removed.

    A file is removed if the first record of the next one is stored before ``before_ms``: all its
    records are then older.
    """
    files = store.log_files()
    kept = files[0].start if files else 0
    for file in files[1:]:
        with open_bytes(file.path) as opened:
            if not is_plausible(opened.data, 0, file.start):
                break
            if store_timestamp(opened.data, 0) >= before_ms:
                break
        kept = file.start
    return kept


def first_kept_by_size(store: StoreDirectory, keep_bytes: int) -> int:
    """Return the start of the file that contains the first of the last ``keep_bytes`` bytes."""
    begin, end = find_bounds(store)
    files = [file for file in store.log_files() if file.start < end]
    return max((f.start for f in files if f.start <= end - keep_bytes), default=begin)


def plan_trim(store: StoreDirectory, first_kept: int) -> TrimPlan:
    """Return the files that a trim removes; ``first_kept`` is the start of a log file.

    Raises StoreLockedError while a broker runs on the store, ConfigError for a part of a store.
    """
    root = store.root
    if root is None or store.path != root:
        raise ConfigError(f"{store.path} is not the directory of a store", "give its root")
    refuse_running(store)
    begin, end = find_bounds(store)
    log = [file for file in store.log_files() if file.start < first_kept]
    paths = [file.path for file in log]
    paths += _queue_files(store, first_kept)
    paths += _index_files(store, first_kept)
    return TrimPlan(
        path=str(store.path),
        min_physical_offset=begin,
        new_min_physical_offset=max(first_kept, begin),
        max_physical_offset=end,
        files=[str(path.relative_to(root)) for path in paths],
        bytes=sum(path.stat().st_blocks * 512 for path in paths),
        messages=_messages(store, first_kept, log),
        unconsumed=_unconsumed(store, first_kept) if log else [],
    )


def _messages(store: StoreDirectory, first_kept: int, log: list[LogFile]) -> int:
    if not log:
        return 0
    part = count_records(store, False, 0, first_kept)
    return sum(messages for _, _, messages, _ in part.queues)


def _queue_files(store: StoreDirectory, first_kept: int) -> list[Path]:
    found = []
    for queue in store.queue_files():
        for path, _ in queue.files[:-1]:
            tail = last_unit(path, queue.kind)
            if tail is None or tail.physical_offset >= first_kept:
                break
            found.append(path)
    return found


def _index_files(store: StoreDirectory, first_kept: int) -> list[Path]:
    found = []
    for path in store.index_files()[:-1]:
        with open_bytes(path) as opened:
            try:
                header = decode_header(opened.data)
            except RemoteProtocolError:
                break
        if header.end_physical_offset >= first_kept:
            break
        found.append(path)
    return found


def _unconsumed(store: StoreDirectory, first_kept: int) -> list[Unconsumed]:
    """Compare the committed offsets with the first remaining message of each queue."""
    begins = _new_begins(store, first_kept)
    found = []
    for group, topic, queue_id, offset in _committed(store):
        old, new = begins.get((topic, queue_id), (0, 0))
        count = new - max(offset, old)
        if count > 0:
            found.append(Unconsumed(group=group, topic=topic, queue_id=queue_id, messages=count))
    return sorted(found, key=lambda row: (row.group, row.topic, row.queue_id))


def _new_begins(store: StoreDirectory, first_kept: int) -> dict[tuple[str, int], tuple[int, int]]:
    """Return by queue its first queue offset and the first one of a record that is kept."""
    found = {}
    with LogReader(store) as log:
        for queue in store.queue_files():
            first = new = None
            end = 0
            for unit in live_units(queue, log):
                first = unit.queue_offset if first is None else first
                end = unit.queue_offset + (unit.batch_size or 1)
                if unit.physical_offset >= first_kept:
                    new = unit.queue_offset
                    break
            if first is not None:
                found[queue.topic, queue.queue_id] = (first, end if new is None else new)
    return found


def _committed(store: StoreDirectory) -> Iterator[tuple[str, str, int, int]]:
    """Yield group, topic, queue id and offset of the configuration; ConfigError if damaged."""
    folder = store.folder(state.CONFIG_DIR)
    assert folder is not None
    name = consumer_offset_file(folder).name
    try:
        data = read_all(folder / name)
        if data:
            stored = config.decode_consumer_offset(data)
            light = {key: {0: offset} for key, offset in (stored.lmq_offsets or {}).items()}
            for key, queues in (*stored.offsets.items(), *light.items()):
                topic, group = config.split_topic_group(key)
                for queue_id, offset in queues.items():
                    yield group, topic, queue_id, offset
        name = config.DELAY_OFFSET
        data = read_all(folder / name)
        for level, offset in config.decode_delay_offset(data).offsets.items() if data else ():
            yield DELAY_SERVICE, SCHEDULE_TOPIC, level - 1, offset
    except RemoteProtocolError as error:
        raise ConfigError(
            f"{folder / name}: {error.message}", "mqadmin store repair restores it in a copy"
        ) from error


def trim_store(
    store: StoreDirectory,
    plan: TrimPlan,
    output: Path,
    *,
    links: bool = True,
    progress: Progress | None = None,
) -> TrimResult:
    """Copy a store without the files of a plan into ``output``, and verify the copy.

    Raises StoreLockedError while a broker runs on the store, ConfigError if ``output`` is not empty
    or cannot be written, DiskFullError; the incomplete output is removed.
    """
    root = check_places(store, output)
    refuse_running(store)
    check_output(output)
    before = verify(store, VerifyOptions(), progress).findings
    made = Output(output, links=links)
    try:
        _copy_rest(store, made, root, frozenset(plan.files))
        refuse_running(store)
        made.sync()
        after = verify(StoreDirectory(output), VerifyOptions(), progress)
    except BaseException:
        made.discard()
        raise
    findings = _new_findings(before, after.findings)
    return TrimResult(
        output=str(output),
        backup=None,
        ok=not findings,
        plan=plan,
        files_linked=made.linked,
        files_copied=made.copied,
        findings=findings,
        summary=after.summary,
    )


def _new_findings(before: list[DamageRow], after: list[DamageRow]) -> list[DamageRow]:
    """Return the findings of a copy that the store does not have.

    A finding about removed and kept messages, such as keys without entries, has other numbers in
    the copy: it is new if the store has fewer findings of that kind.
    """
    known = {(row.kind, row.detail) for row in before}
    kinds = Counter(row.kind for row in before)
    kinds.subtract(row.kind for row in after)
    return [
        row
        for row in after
        if row.severity != NOTICE and (row.kind, row.detail) not in known and kinds[row.kind] < 0
    ]


def _copy_rest(store: StoreDirectory, made: Output, root: Path, removed: frozenset[str]) -> None:
    """Link full files, copy the others; leave out the lock and the removed files."""
    _, end = find_bounds(store)
    sealed = {file.path for file in store.log_files() if file.start + file.length < end}
    for queue in store.queue_files():
        sealed |= {path for path, _ in queue.files[:-1]}
    sealed |= set(store.index_files()[:-1])
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_file() and name != state.LOCK and name not in removed:
            made.take(path, name, sealed=path in sealed)
    kept = [
        f.start for f in store.log_files() if f"{state.COMMITLOG_DIR}/{f.path.name}" not in removed
    ]
    recorded = read_all(root / QUEUE_ENDS)
    if recorded and kept:
        made.write(QUEUE_ENDS, encode_log_min(recorded, min(kept)))


def trim_in_place(
    store: StoreDirectory,
    plan: TrimPlan,
    backup: Path,
    *,
    links: bool = True,
    progress: Progress | None = None,
) -> TrimResult:
    """Trim next to the store, then exchange both: ``backup`` is the old directory afterwards.

    Raises StoreError if the copy does not verify or cannot be exchanged; the store is then
    unchanged. Raises ConfigError if the backup exists or would be on another file system.
    """
    root = check_places(store, backup).resolve()
    if backup.exists():
        raise ConfigError(f"{backup} exists", "name a backup that does not exist")
    refuse_elsewhere(root, backup)
    copy = root.with_name(root.name + ".trimming")
    result = trim_store(store, plan, copy, links=links, progress=progress)
    if not result.ok:
        raise StoreError(
            f"{copy} does not verify; {root} was left unchanged",
            f"check it with mqadmin store verify {copy}",
            path=str(copy),
        )
    exchange(root, copy, backup)
    return msgspec.structs.replace(result, output=str(root), backup=str(backup))
