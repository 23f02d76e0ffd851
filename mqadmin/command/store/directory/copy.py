"""``mqadmin store copy``."""

from pathlib import Path
from typing import Annotated

from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import DAMAGED
from mqadmin.command.framework.declare import Argument, Option
from mqadmin.command.store.directory.termination import interrupted_by_sigterm
from mqadmin.command.store.noun import NOUN
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.output.progress import Progress
from mqadmin.output.view import View
from mqadmin.repair.store_copy import copy_store, plan_copy

COPY = View("store.copy", single=True)
PLAN = View("store.copy.plan", single=True)


@NOUN.verb(
    "copy",
    view=(COPY, PLAN),
    changes=True,
    examples=[
        "mqadmin store copy /data/store --out /backup/store",
        "mqadmin store copy /data/store --out /data/snapshot --hard-links",
        "mqadmin store copy /data/store --out /backup/store --dry-run",
    ],
)
def copy(
    session: Session,
    path: Annotated[str, Argument("DIR", help="A store directory.", complete="file")],
    output: Annotated[
        str,
        Option(
            "--out", metavar="DIR", help="Output directory; it must not exist.", complete="file"
        ),
    ],
    links: Annotated[
        bool,
        Option("--hard-links", help="Hard-link full files that are not written any more."),
    ] = False,
    full: Annotated[
        bool,
        Option("--full/--fast", help="Verify the checksum of every body, or omit that check."),
    ] = True,
) -> None:
    """Copy the directory of a stopped or running broker, and verify the copy.

    The end of the log is determined after the other files are copied, and the log is cut there: the
    copy is a store as after a crash at that moment, without a lock. A broker opens it and
    dispatches the records that queues and index lack. A stopped store is copied byte for byte.
    Blocks are shared where the file system supports it (reflinks). All files are synced; after an
    error, Ctrl-C or SIGTERM the incomplete copy is removed. An existing directory is never
    overwritten.

    A hard-linked file is the same file in both directories: use --hard-links for short-lived
    snapshots on the same file system. The status is 7 if the copy has findings, which the store
    then has, too.
    """
    store, target = StoreDirectory(path), Path(output)
    if session.dry_run:
        session.emit_one(PLAN, plan_copy(store, target))
        session.end_dry_run()
        return
    with interrupted_by_sigterm(), Progress() as progress:
        done = copy_store(store, target, links=links, check_crc=full, progress=progress.show)
    session.emit_one(COPY, done)
    if not done.ok:
        session.report(
            DAMAGED,
            "store",
            f"{output} is copied, but has {len(done.findings)} findings",
            f"mqadmin store verify {output} lists them",
        )
