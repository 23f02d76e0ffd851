"""``mqadmin check store``."""

from collections.abc import Sequence
from typing import Annotated

from mqadmin.admin.checks.report import CheckRow, Metric, row_of
from mqadmin.command.check.noun import NOUN, Outfile, run_check
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Argument, Option
from mqadmin.command.framework.values import whole
from mqadmin.inspector.damage import ERROR, WARNING
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.verifier import VerifyOptions, verify
from mqadmin.output.view import View

CHECK_STORE = View("check.store", ("name", "status", "message"))


@NOUN.verb(
    "store",
    view=CHECK_STORE,
    examples=[
        "mqadmin check store /data/store",
        "mqadmin check store /backup/store --full --outfile store.prom",
    ],
)
def check(
    session: Session,
    path: Annotated[str, Argument("DIR", help="Store directory.", complete="file")],
    full: Annotated[
        bool, Option("--full/--fast", help="Verify the checksum of every body, too.")
    ] = False,
    warn: Annotated[
        int,
        Option("--warn", metavar="N", help="Warning above N findings.", parse=whole),
    ] = 0,
    crit: Annotated[
        int,
        Option("--crit", metavar="N", help="Critical above N errors.", parse=whole),
    ] = 0,
    outfile: Outfile = None,
) -> None:
    """Check the files of a store directory offline, as mqadmin store verify does.

    Errors count for --crit, errors and warnings for --warn; notices describe a state. The broker
    may be running, and nothing is written. A directory that cannot be read is unknown.
    """

    def measure() -> Sequence[CheckRow]:
        found = verify(StoreDirectory(path), VerifyOptions(check_crc=full))
        errors, warnings = found.summary.errors, found.summary.warnings
        serious = [row for row in found.findings if row.severity in (ERROR, WARNING)]
        kinds = dict.fromkeys(row.kind for row in serious)
        metrics = [
            Metric(name="errors", value=errors, crit=crit),
            Metric(name="findings", value=errors + warnings, warn=warn),
            Metric(name="lostMessages", value=found.summary.lost_messages),
            Metric(name="records", value=found.summary.records),
            Metric(name="size", value=found.summary.log_bytes, unit="B"),
        ]
        detail = f"{', '.join(kinds)} (mqadmin store verify {path})" if kinds else ""
        return [row_of(path, metrics, text=detail)]

    run_check(session, "store", measure, outfile=outfile)
