"""``mqadmin broker``: promote, demote."""

from collections.abc import Callable
from typing import Annotated

from mqadmin.admin.failover.plan import SwitchPlan
from mqadmin.admin.failover.switch import FailoverAdmin
from mqadmin.command.broker import NOUN
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Argument, Option
from mqadmin.command.framework.values import duration_ms
from mqadmin.output.view import View

STEPS = ("step", "action", "brokerName", "address", "detail", "status")
BROKER_PROMOTE = View("broker.promote", STEPS, keep=STEPS)
BROKER_DEMOTE = View("broker.demote", STEPS, keep=STEPS)

WAIT = Option(
    "--wait",
    metavar="DUR",
    help="Longest wait, without writes, until the slave has the master's log.",
    parse=duration_ms,
    shown="10s",
)
DEFAULT_WAIT_MS = 10_000


@NOUN.verb(
    "promote",
    view=BROKER_PROMOTE,
    changes=True,
    examples=[
        "mqadmin broker promote broker-a --dry-run",
        "mqadmin broker promote 10.0.0.2:10911 --yes",
    ],
)
def promote(
    session: Session,
    broker: Annotated[
        str,
        Argument(
            "BROKER",
            help="HOST:PORT of the slave, or a broker name: its most advanced slave.",
            complete="broker",
        ),
    ],
    wait_ms: Annotated[int, WAIT] = DEFAULT_WAIT_MS,
    take_over: Annotated[
        bool, Option("--take-over", help="Replace an unfinished switch to another broker.")
    ] = False,
) -> None:
    """Make a slave the master of its broker name.

    With a running master: it refuses writes (clients retry), the slave copies the rest of the log
    and the tables, becomes the master, and the old master becomes its slave. Nothing is lost. If
    the slave is not level within --wait, the master accepts writes again.

    Without a running master: the most advanced slave becomes the master of what it has. What it is
    known to lack is counted before the confirmation. A master that comes back finds the newer
    epoch, refuses writes and is not registered until it is demoted.

    Each step may be repeated: an interrupted switch continues when the command is run again.
    Naming a master that refuses writes for an unfinished switch cancels that switch. The roles are
    kept in config/brokerRole.json of each store and override broker.conf. Only brokers of this
    project can change their role while they run.
    """
    _switch(
        session,
        wait_ms,
        lambda library: library.plan_promote(broker, take_over=take_over),
        "make this broker the master?",
    )


@NOUN.verb(
    "demote",
    view=BROKER_DEMOTE,
    changes=True,
    examples=["mqadmin broker demote 10.0.0.1:10911 --yes"],
)
def demote(
    session: Session,
    broker: Annotated[
        str,
        Argument("BROKER", help="HOST:PORT of the master, or its name.", complete="broker"),
    ],
    wait_ms: Annotated[int, WAIT] = DEFAULT_WAIT_MS,
) -> None:
    """Make a master a slave.

    A master that has been replaced becomes a slave of its successor. If its log has records that
    the successor lacks, it copies nothing, and the offset of divergence is reported: mqadmin store
    repair --diverged-at writes those records to a file and cuts the log. A master that accepts
    writes is replaced by its most advanced slave, as mqadmin broker promote does.
    """
    _switch(
        session, wait_ms, lambda library: library.plan_demote(broker), "make this broker a slave?"
    )


def _switch(
    session: Session,
    wait_ms: int,
    make_plan: Callable[[FailoverAdmin], SwitchPlan],
    question: str,
) -> None:
    """Run a role change from plan to result."""
    session.require_consent()
    view = session.verb.views[0]
    with FailoverAdmin(session.admin, wait_s=wait_ms / 1000) as library:
        plan = make_plan(library)
        if not _confirmed(session, plan, question):
            return
        result = library.run(plan)
    session.emit(view, result.steps)
    for note in result.notes:
        session.note(note)
    if result.interrupted_ms is not None:
        session.note(f"writes were refused for {result.interrupted_ms} ms")
    if result.error is not None:
        raise result.error


def _confirmed(session: Session, plan: SwitchPlan, question: str) -> bool:
    """Show the plan; True when it is to be run."""
    view = session.verb.views[0]
    session.announce(plan.addresses)
    for warning in plan.warnings:
        session.note(f"warning: {warning}")
    if session.dry_run:
        session.emit(view, plan.steps, quiet=True)
        session.end_dry_run()
        return False
    if not plan.steps:
        session.emit(view, plan.steps, quiet=True)
        session.note(f"nothing to do: {plan.target.address} is the master, epoch {plan.epoch}")
        return False
    if not session.yes:
        for step in plan.steps:
            session.note(f"{step.address}: {step.action}: {step.detail}")
    return session.consent(question)
