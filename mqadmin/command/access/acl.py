"""``mqadmin acl``: list, get, create, update, delete."""

from typing import Annotated, Literal

from mqadmin.admin.access import acls as library
from mqadmin.command.access.user import Broker, Cluster
from mqadmin.command.execution.change import change_view, run_change
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.common_options import OnlyCluster
from mqadmin.command.framework.declare import Argument, Noun, Option, Options
from mqadmin.output.view import View

NOUN = Noun(
    "acl",
    """List, create, change and delete access rules of brokers with ACL 2.0.

    A rule allows or denies a subject (User:alice) actions (Pub, Sub, Create, …) on a resource
    (Topic:orders, Topic:pre*, Group:*), optionally only from some addresses. A user of the type
    Super needs no rules. Each broker process stores its rules, so a change is applied to every
    process of the cluster. ACL 2.0 exists since 5.3.0.
    """,
)

ACL_COLUMNS = (
    *("subject", "policyType", "resource", "actions", "sourceIps", "decision"),
    *("clusterName", "brokerName", "address"),
)
ACL_LIST = View("acl.list", ACL_COLUMNS)
ACL_GET = View("acl.get", ACL_COLUMNS)

Subject = Annotated[str, Argument("SUBJECT", help="The subject of the rules: User:NAME.")]
Resources = Annotated[
    list[str],
    Option("--resource", "-r", metavar="TYPE:NAME", help="Resource of the rule; may be repeated."),
]
Actions = Annotated[
    list[str],
    Option(
        "--action",
        "-a",
        metavar="ACTION",
        help="One of All, Pub, Sub, Create, Update, Delete, Get, List; may be repeated.",
    ),
]
Decision = Annotated[
    Literal["Allow", "Deny"], Option("--decision", "-d", help="The decision of the rule.")
]
SourceIps = Annotated[
    list[str] | None,
    Option(
        "--source-ip",
        metavar="ADDRESS",
        help="Only from this address or network; may be repeated.",
    ),
]


@NOUN.verb(
    "list",
    view=ACL_LIST,
    examples=["mqadmin acl list", "mqadmin acl list --subject alice --resource Topic:orders"],
)
def list_acls(
    session: Session,
    subject: Annotated[
        str | None, Option("--subject", "-s", metavar="TEXT", help="Only subjects containing it.")
    ] = None,
    resource: Annotated[
        str | None,
        Option("--resource", "-r", metavar="TEXT", help="Only resources containing it."),
    ] = None,
    cluster: OnlyCluster = None,
    broker: Broker = None,
) -> None:
    """List access rules, one line per rule and broker process."""
    listing = library.AclAdmin(session.admin).list(
        subject=subject, resource=resource, cluster=cluster, broker=broker
    )
    session.emit_listing(ACL_LIST, listing)


@NOUN.verb("get", view=ACL_GET, examples=["mqadmin acl get User:alice"])
def get(
    session: Session, subject: Subject, cluster: OnlyCluster = None, broker: Broker = None
) -> None:
    """Show the access rules of a subject on each broker process."""
    listing = library.AclAdmin(session.admin).get(subject, cluster=cluster, broker=broker)
    session.emit_listing(
        ACL_GET,
        listing,
        nothing=f"no broker has rules of {subject}",
        hint="mqadmin acl list lists the rules",
    )


class RuleOptions(Options):
    """Options of ``mqadmin acl create`` and ``acl update``."""

    subject: Subject
    resources: Resources
    actions: Actions
    decision: Decision = "Allow"
    source_ips: SourceIps = None
    cluster: Cluster = None
    broker: Broker = None


def _rule(given: RuleOptions) -> library.Rule:
    return library.Rule(
        subject=given.subject,
        resources=given.resources,
        actions=given.actions,
        decision=given.decision,
        source_ips=given.source_ips or (),
    )


@NOUN.verb(
    "create",
    view=change_view("acl.create"),
    changes=True,
    examples=[
        "mqadmin acl create User:alice -r Topic:orders -r Group:billing -a Pub -a Sub --yes",
        "mqadmin acl create User:bob -r Topic:* -a All -d Deny --source-ip 10.0.0.0/8 --dry-run",
    ],
)
def create(session: Session, given: RuleOptions) -> None:
    """Create access rules of a subject, one per resource."""
    run_change(
        session,
        library.AclAdmin,
        lambda acls: acls.plan_create(_rule(given), cluster=given.cluster, broker=given.broker),
        f"create rules of {given.subject}?",
    )


@NOUN.verb(
    "update",
    view=change_view("acl.update"),
    changes=True,
    examples=["mqadmin acl update User:alice -r Topic:orders -a Sub --yes"],
)
def update(session: Session, given: RuleOptions) -> None:
    """Replace the rules of a subject for some resources; its other rules are kept."""
    run_change(
        session,
        library.AclAdmin,
        lambda acls: acls.plan_update(_rule(given), cluster=given.cluster, broker=given.broker),
        f"update rules of {given.subject}?",
    )


@NOUN.verb(
    "delete",
    view=change_view("acl.delete"),
    changes=True,
    examples=[
        "mqadmin acl delete User:alice --resource Topic:orders --yes",
        "mqadmin acl delete User:alice --dry-run",
    ],
)
def delete(
    session: Session,
    subject: Subject,
    resource: Annotated[
        str | None,
        Option("--resource", "-r", metavar="TYPE:NAME", help="Only the rule for it; default: all."),
    ] = None,
    cluster: Cluster = None,
    broker: Broker = None,
) -> None:
    """Delete the rule of a subject for a resource, or all its rules."""
    run_change(
        session,
        library.AclAdmin,
        lambda acls: acls.plan_delete(subject, resource=resource, cluster=cluster, broker=broker),
        f"delete rules of {subject}?",
    )
