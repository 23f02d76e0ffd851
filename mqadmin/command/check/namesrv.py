"""``mqadmin check namesrv``."""

from typing import Annotated

from mqadmin.admin.checks.namesrv import check_namesrv
from mqadmin.command.check.noun import NOUN, Outfile, run_check
from mqadmin.command.check.thresholds import seconds
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Option
from mqadmin.output.view import View

CHECK_NAMESRV = View("check.namesrv", ("name", "status", "message"))


@NOUN.verb(
    "namesrv",
    view=CHECK_NAMESRV,
    examples=[
        "mqadmin check namesrv -n 'ns1:9876;ns2:9876' --warn 500ms --crit 2s",
        "mqadmin check namesrv -o prometheus",
    ],
)
def check(
    session: Session,
    warn: Annotated[
        float,
        Option(
            "--warn",
            metavar="DUR",
            help="Warning above this response time.",
            parse=seconds,
            shown="1s",
        ),
    ] = 1.0,
    crit: Annotated[
        float,
        Option(
            "--crit",
            metavar="DUR",
            help="Critical above this response time.",
            parse=seconds,
            shown="3s",
        ),
    ] = 3.0,
    outfile: Outfile = None,
) -> None:
    """Check that every name server answers and that their tables agree.

    Critical: a name server does not answer. Warning: it lacks brokers or topics that another name
    server has, so that a part of the clients does not find them, or no broker is registered.
    """
    run_check(
        session,
        "namesrv",
        lambda: check_namesrv(session.admin, warn, crit),
        outfile=outfile,
    )
