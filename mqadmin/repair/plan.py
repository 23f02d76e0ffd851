"""Plan a repair: list its steps without writing."""

from pathlib import Path
from struct import Struct
from typing import Final

import msgspec

from broker.common.sysflag import BORNHOST_V6, TRANSACTION_PREPARED
from broker.common.topic import TIMER_TOPIC
from broker.errors import RemoteProtocolError, StoreError, StorePathError
from broker.store.format import config, indexfile, state
from broker.store.format.commitlog import RECORD, LogRecord, read_record
from broker.store.format.consumequeue import BATCH_FILE_SIZE, FILE_SIZE, UNIT_SIZE, UNIT_STRUCT
from mqadmin.inspector.configs import (
    BACKUP,
    TIMER_CHECK,
    content,
    decode_file,
    keep_valid_entries,
    missing_table,
)
from mqadmin.inspector.damage import NOTICE
from mqadmin.inspector.delayed.timer_files import TimerFiles
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.files import open_bytes
from mqadmin.inspector.log import LogReader
from mqadmin.inspector.rows import DamageRow
from mqadmin.inspector.store_manifest import read_queue_ends
from mqadmin.inspector.verify.config_checks import Settings, read_settings
from mqadmin.inspector.verify.derived.timer_checks import TIMER_KINDS
from mqadmin.inspector.verify.index_chains import shape_of
from mqadmin.inspector.verify.queue_checks import usual_lengths
from mqadmin.inspector.verify.verdict import Mismatch
from mqadmin.inspector.verify.verifier import Progress, Verification, VerifyOptions, verify
from mqadmin.repair.filler import LEAST
from mqadmin.repair.survey import Arrangement, ReorderedQueue, Survey, arrange

INDEX_KINDS: Final = frozenset(
    {"index", "indexChain", "indexEntry", "indexMissing", "indexOverlap"}
)
# Kinds that rebuilding cannot change: the verification of the result reports them again.
BEYOND_REPAIR: Final = frozenset(
    {"superseded", "order", "timestamp", "transaction", "topicUnknown"}
)
MAX_GAPS: Final = 65_536
"""Missing files that a repair creates: 64 TiB of the default length; more are not of one store."""
_FROM_LOG: Final = " with the queues the log knows of; permissions and attributes are defaults"
_BLANK_LEAST: Final = 8
_OWN_AT: Final = RECORD.offset("physicalOffset")
_QUEUE_ID_AT: Final = RECORD.offset("queueId")
_QUEUE_OFFSET_AT: Final = RECORD.offset("queueOffset")
_SYS_FLAG_AT: Final = RECORD.offset("sysFlag")
_INT: Final = Struct(">i")
_LONG: Final = Struct(">q")
# Bytes by which an IPv6 born host shifts the fields after it.
_IPV6_MORE: Final = 12


class Step(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One step of a repair; ``physicalOffset`` and ``length`` if it concerns a region."""

    action: str
    target: str
    detail: str
    physical_offset: int | None = None
    length: int | None = None


class RepairPlan(msgspec.Struct, kw_only=True):
    """All steps of a repair, and the data they are derived from."""

    store: StoreDirectory
    arrangement: Arrangement
    survey: Survey
    before: Verification
    settings: Settings
    steps: list[Step]
    patches: list[tuple[int, int, str]]  # [begin, end) of a covered region, and "fill" or "blank"
    fields: list[tuple[int, bytes]]  # physical offset and correct bytes of single damaged fields
    gaps: list[int]  # starts of missing files
    rebuild_queues: set[tuple[str, int]]
    rebuild_index: bool
    rebuild_timers: bool
    queue_sizes: tuple[int, int]
    index_shape: tuple[int, int]
    # file of config/ -> "keep", "trim", "restore", "drop", "entries", "topics" or "addTopics"
    configs: dict[str, str]
    log_end: int

    @property
    def findings(self) -> list[DamageRow]:
        """The findings of the verification."""
        return self.before.findings


def make_plan(store: StoreDirectory, progress: Progress | None = None) -> RepairPlan:
    """Verify a store and plan its repair; nothing is written.

    ``progress`` as in :func:`verify`. Raises StoreError if ``store`` is not the root of a store,
    contains no valid record, or has an unreadable CommitLog file.
    """
    if store.root is None or store.path != store.root:
        raise StorePathError(
            f"{store.path} is not a store directory",
            "give the directory that holds commitlog/; for single files: mqadmin store recover",
            path=str(store.path),
        )
    for file in store.log_files():
        with open_bytes(file.path):
            pass  # an unreadable file is not lost, so a plan without it would drop its messages
    found = arrange(store)
    arranged = ReorderedQueue(store, found.files)
    survey = Survey(arranged)
    if not survey.records:
        raise StoreError(
            f"{store.path}: the log holds no whole record",
            "mqadmin store recover looks for messages in single files, too",
            path=str(store.path),
        )
    before = verify(arranged, VerifyOptions(), progress)
    plan = RepairPlan(
        store=store,
        arrangement=found,
        survey=survey,
        before=before,
        settings=read_settings(store),
        steps=[],
        patches=[],
        fields=[],
        gaps=[],
        rebuild_queues=set(before.broken_queues),
        rebuild_index=False,
        rebuild_timers=False,
        queue_sizes=queue_sizes(store),
        index_shape=(indexfile.SLOTS, indexfile.ENTRIES),
        configs={},
        log_end=survey.end,
    )
    _plan_files(plan)
    _plan_fields(plan)
    _plan_damaged_regions(plan)
    _plan_tail(plan)
    _plan_losses(plan)
    _plan_queues(plan)
    _plan_index(plan)
    _plan_timers(plan)
    _plan_configs(plan)
    _plan_markers(plan)
    return plan


def _add_step(plan: RepairPlan, action: str, target: object, detail: str, **place: int) -> None:
    plan.steps.append(Step(action=action, target=str(target), detail=detail, **place))


def _plan_files(plan: RepairPlan) -> None:
    """Plan renames, duplicate and misnamed files to leave out, wrong lengths, and gaps."""
    found = plan.arrangement
    for file in found.moved:
        home = next(f.start for f in found.files if f.path == file.path)
        _add_step(plan, "rename", file.path, f"according to its records it starts at {home}")
    for file in found.doubles:
        _add_step(plan, "leaveOut", file.path, "another file contains its records")
    for path in plan.store.unexpected_log_names():
        if path not in found.paths:
            detail = "not named after a physical offset: brokers do not start"
            _add_step(plan, "leaveOut", path, detail)
    last = max((file.start for file in found.files if file.start < plan.log_end), default=0)
    for file in found.files:
        length = file.length + file.overlap
        if length != found.size and file.start <= last:
            detail = f"{length} bytes become {found.size}"
            _add_step(plan, "resize", file.path, detail, physical_offset=file.start + length)
    starts = {file.start for file in found.files}
    first = min(starts, default=0)
    if (last - first) // found.size - len(starts) > MAX_GAPS:
        far = next(file.path for file in reversed(found.files) if file.start == last)
        raise StoreError(
            f"{far}: more than {MAX_GAPS} files before it are missing, by its records or its name",
            "if it is of another store, move it away; mqadmin store recover reads single files",
            path=str(far),
        )
    plan.gaps = [start for start in range(first, last, found.size) if start not in starts]
    for start in plan.gaps:
        _add_step(
            plan,
            "insertFile",
            f"commitlog/{start:020d}",
            "the file is missing: an empty one closes the gap, its messages are lost",
            physical_offset=start,
            length=found.size,
        )


def _plan_fields(plan: RepairPlan) -> None:
    """Plan corrections of single fields of complete records that another file determines.

    They are the physical offset of a record between good ones to which its unit points; topic,
    queue id, queue offset or sysFlag, if a unit of the right size points to the record and the
    unit at the record's own queue offset does not; and invalid storeTimestamps.
    """
    with LogReader(ReorderedQueue(plan.store, plan.arrangement.files)) as log:
        for row in plan.before.damaged_regions:
            at = row.physical_offset
            if row.kind != "position" or at is None or row.length is None:
                continue
            is_single = (at, at + row.length) in plan.survey.bad_parts(at - 1, at + row.length + 1)
            if is_single and _has_unit(plan, row):
                plan.fields.append((at + _OWN_AT, _LONG.pack(at)))
                _add_step(
                    plan,
                    "setField",
                    row.path,
                    f"physicalOffset becomes {at}: {row.detail}",
                    physical_offset=at,
                    length=row.length,
                )
        for mismatch in plan.before.mismatches:
            place = log.record(mismatch.physical_offset)
            if place is None:
                continue
            unqueued = place[1].sys_flag & TRANSACTION_PREPARED
            if unqueued or not _is_at_home(plan, place[1]):
                _plan_header(plan, mismatch, place[1])
        for at, moment in plan.survey.timeless.items():
            place = log.record(at)
            if place is not None:
                _plan_time(plan, place[1], moment)


def _plan_time(plan: RepairPlan, record: LogRecord, moment: int) -> None:
    """Plan the correction of an invalid storeTimestamp, which breaks searches and the index."""
    at = record.physical_offset + RECORD.offset("storeTimestamp")
    at += _IPV6_MORE * bool(record.sys_flag & BORNHOST_V6)
    plan.fields.append((at, _LONG.pack(moment)))
    _add_step(
        plan,
        "setField",
        f"{record.topic.decode('utf-8', 'replace')}/{record.queue_id}",
        f"storeTimestamp {record.store_timestamp} is invalid: it becomes {moment}, the time of the"
        " record next to it",
        physical_offset=record.physical_offset,
        length=record.total_size,
    )


def _plan_header(plan: RepairPlan, mismatch: Mismatch, record: LogRecord) -> None:
    topic = mismatch.topic.encode("utf-8", "surrogateescape")
    at = record.physical_offset
    changes = []
    if record.topic != topic and len(record.topic) == len(topic):
        end = at + record.total_size - len(record.properties) - 2
        changes.append(("topic", end - len(topic), topic))
    if record.queue_id != mismatch.queue_id:
        changes.append(("queueId", at + _QUEUE_ID_AT, _INT.pack(mismatch.queue_id)))
    if record.queue_offset != mismatch.queue_offset:
        changes.append(("queueOffset", at + _QUEUE_OFFSET_AT, _LONG.pack(mismatch.queue_offset)))
    if record.sys_flag & TRANSACTION_PREPARED:
        # Prepared and rollback records have no unit; without this bit the type is one that has.
        flags = record.sys_flag & ~TRANSACTION_PREPARED
        changes.append(("sysFlag", at + _SYS_FLAG_AT, _INT.pack(flags)))
    # Only a single differing field is corrected: with more, the unit may be the corrupt one.
    if len(changes) != 1 or (record.topic != topic and changes[0][0] != "topic"):
        return
    name, place, data = changes[0]
    plan.fields.append((place, data))
    _add_step(
        plan,
        "setField",
        f"{mismatch.topic}/{mismatch.queue_id}",
        f"{name} of the record is set to that of the unit at queue offset {mismatch.queue_offset}",
        physical_offset=at,
        length=record.total_size,
    )


def _unit_at(plan: RepairPlan, topic: str, queue_id: int, queue_offset: int) -> tuple[int, int]:
    """Return physical offset and size of a SimpleCQ unit, (-1, -1) if there is none."""
    for queue in plan.store.queue_files(topic, queue_id):
        for path, start in queue.files:
            at = queue_offset * UNIT_SIZE - start
            if queue.kind == "classic" and 0 <= at < path.stat().st_size - UNIT_SIZE + 1:
                with open_bytes(path) as file:
                    unit = UNIT_STRUCT.unpack_from(file.data, at)
                    return int(unit[0]), int(unit[1])
    return -1, -1


def _is_at_home(plan: RepairPlan, record: LogRecord) -> bool:
    """Whether the unit at the queue offset of a record points to the record."""
    topic = record.topic.decode("utf-8", "surrogateescape")
    unit = _unit_at(plan, topic, record.queue_id, record.queue_offset)
    return unit == (record.physical_offset, record.total_size)


def _has_unit(plan: RepairPlan, row: DamageRow) -> bool:
    """Whether the unit of a record with a wrong physical offset points to its actual position."""
    file = next(
        f
        for f in plan.arrangement.files
        if f.start <= (row.physical_offset or 0) < f.start + f.length
    )
    assert row.physical_offset is not None
    with open_bytes(file.path) as opened:
        record = read_record(opened.data, row.physical_offset - file.start, file.start)
    return _is_at_home(plan, record)


def _plan_damaged_regions(plan: RepairPlan) -> None:
    """Plan how to cover the damaged regions of the log that a scan cannot continue past."""
    size = plan.arrangement.size
    for file in plan.arrangement.files:
        end = file.start + size
        for begin, stop in plan.survey.bad_parts(file.start, min(end, plan.log_end)):
            why = next(
                (
                    row.kind
                    for row in plan.before.damaged_regions
                    if row.physical_offset is not None
                    and begin <= row.physical_offset < stop
                    and row.kind != "fileSize"
                ),
                "damage",
            )
            if (begin + _OWN_AT, _LONG.pack(begin)) in plan.fields:
                continue
            if stop == end and stop - begin >= _BLANK_LEAST:
                how, detail = "blank", f"{why}: the file ends here with a blank record"
            elif stop - begin >= LEAST:
                how, detail = "fill", f"{why}: covered by a filler record, kept under damaged/"
            else:
                how, detail = "", f"{why}: too short for a filler record, stays as it is"
            if how:
                plan.patches.append((begin, stop, how))
            _add_step(
                plan,
                "cover" if how else "leave",
                file.path,
                detail,
                physical_offset=begin,
                length=stop - begin,
            )


def _plan_tail(plan: RepairPlan) -> None:
    """Plan to zero the bytes after the last complete record."""
    for file in plan.arrangement.files:
        end = plan.log_end
        if file.start + file.length <= end:
            continue
        begin = max(end - file.start, 0)
        with open_bytes(file.path) as opened:
            rest = bytes(opened.data[begin : opened.data_end]).rstrip(b"\0")
        if rest:
            _add_step(
                plan,
                "cut",
                file.path,
                "the torn end of the log becomes zeros, kept under damaged/",
                physical_offset=file.start + begin,
                length=len(rest),
            )


def _plan_losses(plan: RepairPlan) -> None:
    """List the lost messages by queue; no unit or index entry of the copy points to them."""
    for loss in plan.before.losses:
        target = "" if loss.topic is None else f"{loss.topic}/{loss.queue_id}"
        _add_step(plan, "lost", target, f"{loss.text}: their records are not in the log")


def _log_changes(plan: RepairPlan) -> bool:
    is_shorter = plan.log_end < plan.before.summary.max_physical_offset
    return bool(
        plan.patches
        or plan.fields
        or plan.gaps
        or plan.arrangement.moved
        or plan.survey.torn
        or is_shorter
    )


def _plan_queues(plan: RepairPlan) -> None:
    if _log_changes(plan):
        plan.rebuild_queues |= {(item.topic, item.queue_id) for item in plan.before.queues}
    behind = plan.before.lagging_queues - plan.rebuild_queues
    plan.rebuild_queues |= behind
    reasons = {row.kind for row in plan.findings}
    for topic, queue_id in sorted(plan.rebuild_queues):
        why = "the log was repaired" if _log_changes(plan) else "units and records disagree"
        if (topic, queue_id) in behind:
            why = "its last records are not dispatched"
        if "queueMissing" in reasons and not any(
            (item.topic, item.queue_id) == (topic, queue_id) for item in plan.before.queues
        ):
            why = "the queue is missing"
        _add_step(plan, "rebuildQueue", f"{topic}/{queue_id}", why)


def index_shape(path: Path) -> tuple[int, int] | None:
    """Return slots and entries of an IndexFile, None if damage hides them; StoreError.

    A file whose header counts more entries than it has was truncated, one with a part of an entry
    truncated or lengthened.
    """
    with open_bytes(path) as file:
        slots = shape_of(file.data, 0)
        if not slots:
            return None
        entries, rest = divmod(len(file) - indexfile.file_size(slots, 0), indexfile.ENTRY_SIZE)
        header = indexfile.IndexHeader._make(indexfile.HEADER_STRUCT.unpack_from(file.data))
        return None if rest or header.index_count > entries else (slots, entries)


_DEFAULT_SHAPE: Final = (
    ": the defaults, as neither a broker.conf in or next to the store nor a file of it determines"
    " others"
)


def _index_shape(plan: RepairPlan, paths: list[Path]) -> tuple[int, int] | None:
    """Return slots and entries of rebuilt IndexFiles: those with which the store was opened.

    None if neither a broker.conf nor a file of the store determines them.
    """
    settings = plan.settings
    slots, entries = settings.number("maxHashSlotNum"), settings.number("maxIndexNum")
    if slots and entries:
        return slots, entries
    recorded = read_queue_ends(plan.store).index_shape
    if all(recorded):
        return recorded
    shapes: list[tuple[int, int]] = []
    for path in paths:
        try:
            shape = index_shape(path)
        except StoreError:
            continue
        if shape is not None:
            shapes.append(shape)
    if shapes:
        # Among equally frequent shapes the largest: truncation makes files only smaller.
        return max(shapes, key=lambda shape: (shapes.count(shape), shape))
    if slots or entries:
        return slots or indexfile.SLOTS, entries or indexfile.ENTRIES
    return None


def _plan_index(plan: RepairPlan) -> None:
    paths = plan.store.index_files()
    for path in paths:
        if not path.name.isdecimal():
            _add_step(plan, "leaveOut", path, "not named after a time")
    settings = plan.settings
    shape = _index_shape(plan, paths)
    plan.index_shape = shape or (indexfile.SLOTS, indexfile.ENTRIES)
    wrong = sorted({row.kind for row in plan.findings} & INDEX_KINDS)
    stale = any(row.kind == "stale" and "index" in row.path for row in plan.findings)
    if settings.index_enabled is False or not plan.before.summary.keys:
        return
    summary = plan.before.summary
    # The copy is in the state of a clean stop: its start would not dispatch the missing keys.
    behind = summary.state == "crashed" and summary.keys_indexed < summary.keys
    lost = bool(plan.before.losses and paths)  # entries that point to lost messages
    plan.rebuild_index = bool(wrong or stale or behind or lost or (_log_changes(plan) and paths))
    if plan.rebuild_index:
        why = ", ".join(wrong) or (
            "the log was repaired"
            if _log_changes(plan)
            else "entries lead to lost messages"
            if lost
            else "the last keys are missing"
        )
        _add_step(
            plan,
            "rebuildIndex",
            "index/",
            f"{why}: {plan.before.summary.keys} keys; the files need"
            f" maxHashSlotNum={plan.index_shape[0]}, maxIndexNum={plan.index_shape[1]}"
            + ("" if shape else _DEFAULT_SHAPE),
        )


def _plan_timers(plan: RepairPlan) -> None:
    """Plan to build wheel, timer log and checkpoint from the timer queue."""
    wrong = sorted({row.kind for row in plan.findings} & TIMER_KINDS)
    with TimerFiles(plan.store) as files:
        used = files.exist or bool(files.log_files)
    plan.rebuild_timers = bool(wrong) or (used and _log_changes(plan))
    if plan.rebuild_timers:
        why = ", ".join(wrong) or "the log was repaired"
        _add_step(plan, "rebuildTimers", "timerwheel", f"{why}: from the queue of {TIMER_TOPIC}")


def _plan_configs(plan: RepairPlan) -> None:
    """Plan configuration files: kept, restored from backup, left out, or built from the log."""
    folder = plan.store.path / state.CONFIG_DIR
    if not folder.is_dir() and not plan.rebuild_timers:
        return  # else the copy has a folder, and it needs the topics
    names = {
        path.name.removesuffix(BACKUP)
        for path in (folder.iterdir() if folder.is_dir() else ())
        if not path.name.endswith(".tmp") and (path.is_file() or _is_misplaced(path))
    }
    names.add(config.TOPICS)
    for name in sorted(names):
        good = _is_valid(name, content(folder / name))
        spare = _is_valid(name, content(folder / (name + BACKUP)))
        if good:
            plan.configs[name] = "keep"
        elif _is_valid(name, content(folder / name).strip(b"\0")):
            plan.configs[name] = "trim"
            _add_step(plan, "repairConfig", folder / name, "NUL bytes around the text are removed")
        elif spare:
            plan.configs[name] = "restore"
            _add_step(plan, "restoreConfig", folder / name, f"from {name}{BACKUP}")
            # The backup is one change older. A topic that a readable file lacks was deleted.
            unknown = sum(row.kind == "topicUnknown" for row in plan.findings)
            if name == config.TOPICS and unknown:
                plan.configs[name] = "addTopics"
                _add_step(plan, "makeTopics", folder / name, f"{unknown} topics{_FROM_LOG}")
        else:
            _plan_entries(plan, folder / name)
    wrong = {row.path for row in plan.findings if row.kind in ("offset", "delayOffset")}
    for name in (config.CONSUMER_OFFSET, config.LMQ_CONSUMER_OFFSET, config.DELAY_OFFSET):
        # Verification compared the offsets with ends that include covered and cut records.
        compared = {str(folder / name), str(folder / (name + BACKUP))}
        if wrong & compared or (_log_changes(plan) and name in plan.configs):
            _add_step(
                plan,
                "clampOffsets",
                folder / name,
                "offsets beyond the ends of their queues become these ends: nothing new is skipped",
            )


def _plan_entries(plan: RepairPlan, path: Path) -> None:
    """Plan to keep the valid entries of a file without a valid backup; topics come from the log."""
    kept = keep_valid_entries(path.name, content(path))
    if kept is not None:
        names = ", ".join(kept.invalid)
        _add_step(plan, "repairConfig", path, f"left out, as they are invalid: {names:.200}")
    if path.name == config.TOPICS:
        plan.configs[path.name] = "topics"
        known = set(config.decode_topics(kept.text).topics) if kept is not None else set()
        missing = {item.topic for item in plan.before.queues} - known
        _add_step(plan, "makeTopics", path, f"{len(missing)} topics{_FROM_LOG}")
    elif kept is not None:
        plan.configs[path.name] = "entries"
    else:
        plan.configs[path.name] = "drop"
        _add_step(plan, "leaveOut", path, "neither it nor its backup can be read")


def _is_valid(name: str, data: bytes) -> bool:
    """Whether a broker can read this content of a configuration file, and finds its table."""
    if not data.strip():
        return False
    try:
        return name == TIMER_CHECK or not missing_table(name, decode_file(name, data))
    except RemoteProtocolError:
        return False


def _is_misplaced(path: Path) -> bool:
    """Whether an entry of ``config/`` that is not a file has the name of one."""
    kind = state.wrong_type(
        state.CONFIG_DIR, path.name, is_file=False, is_folder=path.is_dir(), exists=path.exists()
    )
    return kind is not None


def _plan_markers(plan: RepairPlan) -> None:
    root = plan.store.root
    assert root is not None
    wrong = {row.kind for row in plan.findings if row.severity != NOTICE}
    if "checkpoint" in wrong or _log_changes(plan) or plan.rebuild_index:
        _add_step(plan, "writeCheckpoint", root / state.CHECKPOINT, "times of the last message")
    if "state" in wrong or plan.before.summary.state == "crashed":
        _add_step(
            plan,
            "leaveOut",
            root / state.ABORT,
            "the copy is whole: a broker need not recover, which would drop its newest IndexFile",
        )


def queue_sizes(store: StoreDirectory) -> tuple[int, int]:
    """Return the file lengths of SimpleCQs and BatchConsumeQueues in bytes."""
    settings = read_settings(store)
    usual = usual_lengths(store)
    _, classic, batch = read_queue_ends(store).file_sizes
    classic = settings.number("mappedFileSizeConsumeQueue") or classic
    batch = settings.number("mapperFileSizeBatchConsumeQueue") or batch
    return usual["classic"] or classic or FILE_SIZE, usual["batch"] or batch or BATCH_FILE_SIZE
