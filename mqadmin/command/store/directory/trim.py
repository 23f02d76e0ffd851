"""``mqadmin store trim``."""

import os
import time
from pathlib import Path
from typing import Annotated

from mqadmin.command.execution.failure import NoResults, UsageFault
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import MOVED
from mqadmin.command.execution.window import local_time
from mqadmin.command.framework.declare import Argument, Option, Options
from mqadmin.command.framework.values import time_ms, whole
from mqadmin.command.store.directory.termination import interrupted_by_sigterm
from mqadmin.command.store.noun import NOUN
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.output.progress import Progress
from mqadmin.output.view import View
from mqadmin.repair import store_trim

PLAN = View("store.trim", single=True)
RESULT = View("store.trim.result", single=True)


class TrimOptions(Options):
    """Options of ``mqadmin store trim``."""

    path: Annotated[str, Argument("DIR", help="A store directory.", complete="file")]
    before: Annotated[
        int | None,
        Option(
            "--before",
            metavar="T",
            help="Remove files whose records are all stored before T.",
            parse=time_ms,
        ),
    ] = None
    keep_bytes: Annotated[
        int | None,
        Option(
            "--keep-bytes",
            metavar="N",
            help="Keep the last N bytes of the log, rounded up to whole files.",
            parse=whole,
        ),
    ] = None
    output: Annotated[
        str | None,
        Option(
            "--out", metavar="DIR", help="Output directory; it must not exist.", complete="file"
        ),
    ] = None
    in_place: Annotated[
        bool, Option("--in-place", help="Replace the store with the trimmed copy; needs --yes.")
    ] = False
    backup: Annotated[
        str | None,
        Option(
            "--backup",
            metavar="DIR",
            help="With --in-place: path of the old directory; default: next to the store.",
            complete="file",
        ),
    ] = None
    links: Annotated[
        bool,
        Option("--links/--copies", help="Hard-link files no longer written, or copy all."),
    ] = True


@NOUN.verb(
    "trim",
    view=(PLAN, RESULT),
    changes=True,
    examples=[
        "mqadmin store trim /data/store --before -7d",
        "mqadmin store trim /data/store --keep-bytes 10737418240 --out /data/store.trimmed",
        "mqadmin store trim /data/store --before -7d --in-place --yes",
    ],
)
def trim(session: Session, given: TrimOptions) -> None:
    """Remove the oldest log files of a stopped store; without --out and --in-place only plan.

    Whole CommitLog files are removed from the beginning, then the ConsumeQueue files and IndexFiles
    that refer only to them. The last file of each stays. The plan lists the files, the number of
    messages, and the groups that have not consumed some of them; delayOffset.json is the name of
    the delivery of delayed messages. Disk space is freed when the old directory is removed.

    The trimmed copy is verified; a broker opens it like the original. --in-place exchanges both
    directories and keeps the old one as the backup. A store in use by a broker is refused. The
    status is 1 if there is no file to remove.
    """
    if (given.before is None) == (given.keep_bytes is None):
        raise UsageFault("store trim needs one of --before and --keep-bytes")
    if given.output is not None and given.in_place:
        raise UsageFault("--out and --in-place exclude each other")
    if given.backup is not None and not given.in_place:
        raise UsageFault("--backup requires --in-place")
    if given.in_place and not (session.yes or session.dry_run):
        raise UsageFault(
            "--in-place needs --yes; nothing was changed",
            "--out DIR writes a copy and does not change the store",
        )
    store = StoreDirectory(given.path)
    plan = store_trim.plan_trim(store, _first_kept(session, store, given))
    only_plan = session.dry_run or (given.output is None and not given.in_place)
    if only_plan:
        session.emit_one(PLAN, plan)
    if session.dry_run:
        session.end_dry_run()
    if not plan.files:
        raise NoResults(f"{given.path}: no file to remove", "the last file is never removed")
    if not only_plan:
        _apply(session, store, plan, given)
    elif not session.dry_run:
        session.note("this is the plan; --in-place or --out DIR applies it")


def _first_kept(session: Session, store: StoreDirectory, given: TrimOptions) -> int:
    if given.before is not None:
        if not session.is_machine:
            session.note(f"removes files with records stored before {local_time(given.before)}")
        return store_trim.first_kept_by_time(store, given.before)
    return store_trim.first_kept_by_size(store, given.keep_bytes or 0)


def _apply(
    session: Session, store: StoreDirectory, plan: store_trim.TrimPlan, given: TrimOptions
) -> None:
    with interrupted_by_sigterm(), Progress() as progress:
        if given.in_place:
            spare = Path(given.backup or _backup_name(given.path))
            done = store_trim.trim_in_place(
                store, plan, spare, links=given.links, progress=progress.show
            )
        else:
            done = store_trim.trim_store(
                store, plan, Path(given.output or ""), links=given.links, progress=progress.show
            )
    session.emit_one(RESULT, done)
    if not done.ok:
        session.report(
            MOVED,
            "store",
            f"{done.output} does not verify: {len(done.findings)} new findings",
            f"mqadmin store verify {done.output} lists them",
        )


def _backup_name(path: str) -> str:
    stem = os.path.realpath(path)
    return f"{stem}.before-trim-{time.strftime('%Y%m%d%H%M%S', time.gmtime())}"
