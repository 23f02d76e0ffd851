"""``mqadmin check certificate``."""

from collections.abc import Sequence
from typing import Annotated

from broker.errors import RocketMQError
from mqadmin.admin.checks.certificate import check_certificate_files, check_certificates
from mqadmin.admin.checks.report import CheckRow, Status, row_of
from mqadmin.command.check.noun import NOUN, Outfile, run_check
from mqadmin.command.check.thresholds import days
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Argument, Option
from mqadmin.output.view import View

CHECK_CERTIFICATE = View("check.certificate", ("name", "status", "message"))

MAX_HANDSHAKE_MS = 3_000


@NOUN.verb(
    "certificate",
    view=CHECK_CERTIFICATE,
    examples=[
        "mqadmin check certificate --tls --warn 30d --crit 7d",
        "mqadmin check certificate 10.0.0.1:10911 --tls-ca ca.pem",
        "mqadmin check certificate --file client.pem",
    ],
)
def check(
    session: Session,
    addresses: Annotated[
        list[str] | None,
        Argument("ADDRESS", help="Servers; default: name servers and registered brokers."),
    ] = None,
    files: Annotated[
        list[str] | None,
        Option("--file", metavar="FILE", help="Check this PEM file, no server.", complete="file"),
    ] = None,
    warn: Annotated[
        float,
        Option(
            "--warn",
            metavar="DUR",
            help="Warning with less time until a certificate expires.",
            parse=days,
            shown="30d",
        ),
    ] = 30.0,
    crit: Annotated[
        float,
        Option("--crit", metavar="DUR", help="Critical with less time.", parse=days, shown="7d"),
    ] = 7.0,
    outfile: Outfile = None,
) -> None:
    """Check the TLS certificates of name servers and brokers: days left, and trust.

    Each server presents its certificate in a handshake; with --tls-ca it must be signed by that
    authority. Critical: expired or not trusted. Unknown: no answer, or no TLS on that port.
    """

    def measure() -> Sequence[CheckRow]:
        if files:
            return check_certificate_files(files, warn, crit)
        targets = list(addresses or ())
        rows: list[CheckRow] = []
        if not targets:
            targets, rows = _registered(session)
        return [
            *rows,
            *check_certificates(
                targets,
                warn,
                crit,
                address_map=session.settings.address_map,
                ca=session.settings.text("tls-ca"),
                timeout_s=min(session.settings.timeout_ms, MAX_HANDSHAKE_MS) / 1000,
            ),
        ]

    run_check(session, "certificate", measure, outfile=outfile)


def _registered(session: Session) -> tuple[list[str], list[CheckRow]]:
    """Return name servers and brokers; an expired certificate may hide the brokers: unknown."""
    admin = session.admin
    servers = list(admin.namesrv_addresses)
    try:
        return servers + [target.address for target in admin.topology.targets], []
    except RocketMQError as error:
        return servers, [row_of("brokers", [], least=Status.UNKNOWN, text=error.message)]
