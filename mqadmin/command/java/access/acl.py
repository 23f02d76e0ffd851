"""Java's commands about access rules, and those of ACL 1.0 that brokers since 5.3.3 refuse."""

from mqadmin.admin.access.acls import AclAdmin, AclRecord, Rule
from mqadmin.admin.access.old_acl import OldAccount, OldAclAdmin
from mqadmin.admin.result import Listing
from mqadmin.command.execution.failure import NoResults
from mqadmin.command.java.access.user import copy_entries, split_words
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command

HEADER = "%-16s  %-10s  %-22s  %-20s  %-24s  %-10s"
ROW = "%-16s  %-10s  %-22s  %-20s  %-24s  %-10s"


@java_command("getAcl")
def get_acl(call: JavaCall) -> None:
    """Print the rules of a subject. **Source:** RocketMQ ``GetAclSubCommand``."""
    if call.get("s") is None:
        raise call.fault("s", "the subject is missing: User:NAME")
    subject = call.text("s")
    listing = AclAdmin(call.admin).get(subject, cluster=call.get("c"), broker=call.get("b"))
    if not listing.items and not listing.errors:
        raise NoResults(f"no broker has rules of {subject}", "mqadmin acl list lists the rules")
    _print(call, listing)


@java_command("listAcl")
def list_acl(call: JavaCall) -> None:
    """Print the rules of each broker process. **Source:** RocketMQ ``ListAclSubCommand``."""
    listing = AclAdmin(call.admin).list(
        subject=call.get("s"),
        resource=call.get("r"),
        cluster=call.get("c"),
        broker=call.get("b"),
    )
    _print(call, listing)


def _print(call: JavaCall, listing: Listing[AclRecord]) -> None:
    titles = ("#Subject", "#PolicyType", "#Resource", "#Actions", "#SourceIp", "#Decision")
    call.line(HEADER % titles)
    rows = [
        (
            item.subject,
            item.policy_type,
            item.resource,
            f"[{', '.join(item.actions)}]",
            f"[{', '.join(item.source_ips)}]" if item.source_ips else "null",
            item.decision,
        )
        for item in listing.items
    ]
    for row in dict.fromkeys(rows):  # the processes of a cluster have the same rules
        call.line(ROW % row)
    call.errors(listing.errors, some_worked=bool(rows))


def _rule(call: JavaCall) -> Rule:
    return Rule(
        subject=call.text("s"),
        resources=split_words(call.get("r")),
        actions=split_words(call.get("a")),
        decision=call.choice("d", ("Allow", "Deny")),
        source_ips=split_words(call.get("i")),
    )


@java_command("createAcl", changes=True)
def create_acl(call: JavaCall) -> None:
    """Create rules of a subject. **Source:** RocketMQ ``CreateAclSubCommand``."""
    acls = AclAdmin(call.admin)
    plan = acls.plan_create(_rule(call), cluster=call.get("c"), broker=call.get("b"))
    for item in call.apply(acls, plan):
        call.line(f"create acl to {item.address} success.")


@java_command("updateAcl", changes=True)
def update_acl(call: JavaCall) -> None:
    """Replace rules of a subject. **Source:** RocketMQ ``UpdateAclSubCommand``."""
    acls = AclAdmin(call.admin)
    plan = acls.plan_update(_rule(call), cluster=call.get("c"), broker=call.get("b"))
    for item in call.apply(acls, plan):
        call.line(f"update acl to {item.address} success.")


@java_command("deleteAcl", changes=True)
def delete_acl(call: JavaCall) -> None:
    """Delete one rule or all of a subject. **Source:** RocketMQ ``DeleteAclSubCommand``."""
    acls = AclAdmin(call.admin)
    plan = acls.plan_delete(
        call.text("s"), resource=call.get("r"), cluster=call.get("c"), broker=call.get("b")
    )
    for item in call.apply(acls, plan):
        call.line(f"delete acl to {item.address} success.")


@java_command("copyAcl", changes=True)
def copy_acl(call: JavaCall) -> None:
    """Copy the rules of subjects to another broker. **Source:** RocketMQ ``CopyAclsSubCommand``."""
    copy_entries(call, AclAdmin(call.admin), "acl", split_words(call.get("s")))


# --- ACL 1.0, until 5.3.2: sent as they are, answered by the broker --------------------------


def _old(call: JavaCall) -> OldAclAdmin:
    return OldAclAdmin(call.admin, cluster=call.get("c"), broker=call.get("b"))


@java_command("updateAclConfig", changes=True)
def update_acl_config(call: JavaCall) -> None:
    """Set an account of ACL 1.0. **Source:** RocketMQ 4.9 ``UpdateAccessConfigSubCommand``."""
    account = OldAccount(
        access_key=call.text("a"),
        secret_key=call.text("s"),
        white_remote_address=call.get("w"),
        admin=bool(call.truth("m", False)),
        default_topic_perm=call.get("i"),
        default_group_perm=call.get("u"),
        topic_perms=call.get("t"),
        group_perms=call.get("g"),
    )
    for address in _old(call).update(account):
        call.line(f"create or update plain access config to {address} success.")


@java_command("deleteAclConfig", changes=True)
def delete_acl_config(call: JavaCall) -> None:
    """Delete an account of ACL 1.0. **Source:** RocketMQ 4.9 ``DeleteAccessConfigSubCommand``."""
    for address in _old(call).delete(call.text("a")):
        call.line(f"delete plain access config account from {address} success.")


@java_command("updateGlobalWhiteAddr", changes=True)
def update_global_white_addr(call: JavaCall) -> None:
    """Set the global white list of ACL 1.0.

    **Source:** RocketMQ 4.9 ``UpdateGlobalWhiteAddrSubCommand``.
    """
    for address in _old(call).set_white_list(call.text("g"), path=call.get("p")):
        call.line(f"update global white remote addresses to {address} success.")


@java_command("clusterAclConfigVersion")
def cluster_acl_config_version(call: JavaCall) -> None:
    """Print the versions of ACL 1.0 files.

    **Source:** RocketMQ 4.9 ``ClusterAclConfigVersionListSubCommand``.
    """
    row = "%-16s  %-22s  %-22s  %-20s"
    for place, found in enumerate(_old(call).versions()):
        if not place:
            call.line(row % ("#Cluster Name", "#Broker Name", "#Broker Addr", "#AclConfigVersion"))
        call.line(row % (found.cluster_name, found.broker_name, found.address, found.version))
