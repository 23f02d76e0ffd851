"""``mqadmin consumer doctor``."""

from typing import Annotated

from mqadmin.admin.doctor.consumer import examine_consumers
from mqadmin.command.consumer import NOUN
from mqadmin.command.doctor.report import COLUMNS, report
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Argument
from mqadmin.output.view import View

CONSUMER_DOCTOR = View("consumer.doctor", COLUMNS)


@NOUN.verb(
    "doctor",
    view=CONSUMER_DOCTOR,
    examples=["mqadmin consumer doctor billing", "mqadmin consumer doctor -o json"],
)
def doctor(
    session: Session,
    groups: Annotated[
        list[str] | None,
        Argument("GROUP", help="Consumer groups; default: all groups.", complete="group"),
    ] = None,
) -> None:
    """Examine consumer groups: each finding with cause and fix; status 1 if any is serious.

    Examined are subscriptions that differ within a group, queues without an owner or with two,
    duplicate client ids, versions, queues that are stuck or paused by flow control, messages that
    are consumed for long, messages that are sent back often, groups without clients, and offsets
    below the minimum. Clients are asked for their running information; one that does not answer
    is a finding.
    """
    findings = examine_consumers(session.admin, groups or ())
    report(session, CONSUMER_DOCTOR, findings, ", ".join(groups or ()) or "all groups")
