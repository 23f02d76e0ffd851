"""``mqadmin cluster doctor``."""

from mqadmin.admin.doctor.cluster import examine_cluster
from mqadmin.command.cluster import NOUN
from mqadmin.command.doctor.report import COLUMNS, report
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.common_options import OnlyCluster
from mqadmin.output.view import View

CLUSTER_DOCTOR = View("cluster.doctor", COLUMNS)


@NOUN.verb(
    "doctor",
    view=CLUSTER_DOCTOR,
    examples=["mqadmin cluster doctor", "mqadmin cluster doctor -c DefaultCluster -o json"],
)
def doctor(session: Session, cluster: OnlyCluster = None) -> None:
    """Examine a cluster and print each finding with its cause and fix; status 1 if any is serious.

    Examined are registration, name servers that disagree, versions, settings that differ between
    brokers, permissions, clocks, disks, page cache, dispatch, unflushed data and replication. For
    brokers of this host the operating system is examined, too: scheduler, mappings, open files.
    Notices do not change the status.
    """
    findings = examine_cluster(session.admin, cluster=cluster)
    count = len(session.admin.topology.all(cluster=cluster))
    report(session, CLUSTER_DOCTOR, findings, f"{count} brokers")
