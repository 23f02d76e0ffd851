"""Cut a log where it diverges from the log of another broker, and keep its extra records.

A master that returns after a slave was promoted may have records that the new master never
received. It cannot follow the new master until they are cut off. They are written to a file first,
in the form of ``store export`` with bodies in base64, so that they can be replayed.

The cut store is built as a copy and then repaired like any store whose log is shorter than its
queues: ConsumeQueues, IndexFiles and consumer offsets are cut back to the log.
"""

import shutil
from pathlib import Path

import msgspec

from broker.errors import ConfigError, StoreError
from broker.store.format import state
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.files import open_bytes
from mqadmin.inspector.log import LogWalk
from mqadmin.inspector.query import Query
from mqadmin.inspector.verify.verifier import Progress
from mqadmin.repair.export import export
from mqadmin.repair.files import Output
from mqadmin.repair.plan import RepairPlan, index_shape, make_plan
from mqadmin.repair.store_repair import (
    DAMAGED,
    RepairResult,
    exchange,
    refuse_elsewhere,
    refuse_running,
    repair,
)

# Derived from the log, and rebuilt from its rest. Units and index entries that point beyond the cut
# would count as lost messages.
_REBUILT = frozenset(
    {
        state.CONSUMEQUEUE_DIR,
        state.BATCH_CONSUMEQUEUE_DIR,
        state.INDEX_DIR,
        "timercheck",
        "timerwheel",
        "timerlog",
        "queueEnds.json",
    }
)


class Divergence(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a log has from the offset of divergence on; offsets are physical.

    ``cut_at`` is the start of the record that contains the given offset. ``records`` are stored
    from there to ``max_physical_offset``.
    """

    path: str
    cut_at: int
    max_physical_offset: int
    records: int
    bytes: int


class DivergenceResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of a cut: the file with the extra records and the store without them."""

    divergence: Divergence
    records_path: str
    store: str
    backup: str | None
    repair: RepairResult


def find_divergence(store: StoreDirectory, physical_offset: int) -> Divergence:
    """Return what a cut at ``physical_offset`` removes.

    ConfigError if the offset is not in the log; StoreError if nothing would be left.
    """
    walk = LogWalk(store, check_crc=False)
    cut_at, records, end, first = -1, 0, 0, -1
    for item in walk:
        record = item.record
        if record is None or not item.ok:
            continue
        first = record.physical_offset if first < 0 else first
        end = record.physical_offset + record.total_size
        if end > physical_offset:
            cut_at = record.physical_offset if cut_at < 0 else cut_at
            records += 1
    if cut_at < 0 or physical_offset < first:
        raise ConfigError(
            f"{store.path}: physical offset {physical_offset} is not in the log ({first} to {end})",
            "mqadmin broker ha or mqadmin store diff names the offset of divergence",
        )
    if cut_at == first:
        raise StoreError(
            f"{store.path}: its whole log differs: nothing would be left",
            "move the directory away and start the broker with an empty one",
            path=str(store.path),
        )
    return Divergence(
        path=str(store.path),
        cut_at=cut_at,
        max_physical_offset=end,
        records=records,
        bytes=end - cut_at,
    )


def plan_cut(
    store: StoreDirectory, found: Divergence, work: Path, progress: Progress | None = None
) -> RepairPlan:
    """Build the cut store in ``work`` and return the plan of its repair."""
    refuse_running(store)
    made = Output(work)
    try:
        _copy_cut(store, found, made)
        made.sync()
        plan = make_plan(StoreDirectory(str(work)), progress)
        for path in store.index_files():
            shape = index_shape(path)
            if shape is not None:
                plan.index_shape = shape
                plan.rebuild_index = True
        return plan
    except BaseException:
        made.discard()
        raise


def cut(
    store: StoreDirectory,
    found: Divergence,
    *,
    output: Path | None,
    backup: Path,
    records_path: Path,
    progress: Progress | None = None,
) -> DivergenceResult:
    """Write the extra records to ``records_path``, and the store without them to ``output``.

    ``output`` None: replace the store; the old directory becomes ``backup``. Raises
    StoreLockedError while a broker runs on the store, StoreError if the result does not verify;
    the store is then unchanged.
    """
    root = store.root
    assert root is not None
    root = root.resolve()
    refuse_running(store)
    if output is None:
        if backup.exists():
            raise ConfigError(f"{backup} exists", "name a backup that does not exist")
        refuse_elsewhere(root, backup)
    query = Query(from_offset=found.cut_at, body="base64")
    export(store, query, records_path, "ndjson")
    target = output or root.with_name(root.name + ".repairing")
    work = target.with_name(target.name + ".cutting")
    try:
        result = repair(plan_cut(store, found, work, progress), target, progress=progress)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if not result.ok:
        raise StoreError(
            f"{target} does not verify; {root} was left as it is",
            f"look at it with mqadmin store verify {target}",
            path=str(target),
        )
    if output is None:
        exchange(root, target, backup)
    return DivergenceResult(
        divergence=found,
        records_path=str(records_path),
        store=str(output or root),
        backup=str(backup) if output is None else None,
        repair=result,
    )


def _copy_cut(store: StoreDirectory, found: Divergence, made: Output) -> None:
    root = store.root
    assert root is not None
    log = {file.path: file for file in store.log_files()}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if not path.is_file() or name in (state.LOCK, state.ABORT):
            continue
        if _REBUILT & set(path.relative_to(root).parts):
            continue
        file = log.get(path)
        if file is None:
            made.take(path, name, sealed=False)
        elif file.start + file.length <= found.cut_at:
            made.take(path, name, sealed=True)
        elif file.start < found.cut_at:
            made.take(path, name, sealed=False)
            with made.open(name) as blocks:
                blocks.clear(found.cut_at - file.start, file.length)
        if file is not None and file.start + file.length > found.cut_at:
            _keep(made, path, max(file.start, found.cut_at), file.start)


def _keep(made: Output, path: Path, begin: int, start: int) -> None:
    """Preserve the bytes that are cut off below ``damaged/``."""
    with open_bytes(path) as opened:
        data = bytes(opened.data[begin - start : opened.data_end]).rstrip(b"\0")
    if data:
        made.write(f"{DAMAGED}/{begin}-{len(data)}.bin", data)
