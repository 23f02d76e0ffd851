"""``mqadmin cluster``: list."""

from typing import Annotated

from mqadmin.command.execution.online import clusters
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.common_options import OnlyCluster
from mqadmin.command.framework.declare import Noun, Option
from mqadmin.output.view import View

NOUN = Noun(
    "cluster",
    """List clusters and their brokers.

    A cluster is a name shared by brokers. Brokers of the same brokerName form a pair or group:
    id 0 is the master, which accepts messages, the others are slaves, which replicate its
    CommitLog. Brokers register with every name server. The list contains the registered brokers;
    rates and disk use are queried from the brokers themselves.
    """,
)

CLUSTER_LIST = View(
    "cluster.list",
    (
        "clusterName",
        "brokerName",
        "brokerId",
        "address",
        "version",
        "inTps",
        "outTps",
        "commitLogDiskRatio",
        "active",
    ),
)


@NOUN.verb(
    "list",
    view=CLUSTER_LIST,
    examples=["mqadmin cluster list", "mqadmin cluster list --no-status -o json"],
)
def list_clusters(
    session: Session,
    cluster: OnlyCluster = None,
    status: Annotated[
        bool, Option("--status/--no-status", help="Query each broker for rates and disk use.")
    ] = True,
) -> None:
    """List the brokers of each cluster, one line per broker process."""
    listing = clusters(session.admin).list(cluster=cluster, status=status)
    where = f"cluster {cluster}" if cluster else "the cluster"
    session.emit_listing(
        CLUSTER_LIST, listing, nothing=f"no broker of {where} is registered at the name server"
    )
