"""``mqadmin check lag``."""

from typing import Annotated

from mqadmin.admin.checks.groups import LagLimits, check_lag
from mqadmin.command.check.noun import NOUN, Outfile, run_check
from mqadmin.command.check.thresholds import messages_and_age, messages_and_age_text
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Argument, Option
from mqadmin.command.framework.values import whole
from mqadmin.output.view import View

CHECK_LAG = View("check.lag", ("name", "status", "message"))


@NOUN.verb(
    "lag",
    view=CHECK_LAG,
    examples=[
        "mqadmin check lag payments --warn 10000,5m --crit 100000,30m --online 1",
        "mqadmin check lag --outfile /var/lib/node_exporter/rocketmq_lag.prom",
    ],
)
def check(
    session: Session,
    groups: Annotated[
        list[str] | None,
        Argument("GROUP", help="Consumer groups; default: all groups.", complete="group"),
    ] = None,
    topic: Annotated[
        str | None, Option("--topic", "-t", help="Only this topic.", complete="topic")
    ] = None,
    warn: Annotated[
        str,
        Option(
            "--warn",
            metavar="LAG",
            help="Warning above this lag: messages, age of the oldest, or both.",
            parse=messages_and_age_text,
        ),
    ] = "10000,5m",
    crit: Annotated[
        str,
        Option(
            "--crit",
            metavar="LAG",
            help="Critical above this lag: messages, age, or both.",
            parse=messages_and_age_text,
        ),
    ] = "100000,30m",
    online: Annotated[
        int,
        Option("--online", metavar="N", help="Critical with fewer clients.", parse=whole),
    ] = 0,
    outfile: Outfile = None,
) -> None:
    """Check the lag of consumer groups in messages and in seconds.

    A row is a group and a topic, the retry topic included. Works while every client of a group is
    stopped; a queue that no broker reports is unknown, never 0. Groups in broadcasting mode keep
    their offsets in the clients and are not measured.
    """
    (warn_messages, warn_seconds), (crit_messages, crit_seconds) = (
        messages_and_age(warn),
        messages_and_age(crit),
    )
    limits = LagLimits(
        warn_messages=warn_messages,
        crit_messages=crit_messages,
        warn_seconds=warn_seconds,
        crit_seconds=crit_seconds,
        online=online,
    )
    run_check(
        session,
        "lag",
        lambda: check_lag(session.admin, limits, groups or (), topic),
        outfile=outfile,
    )
