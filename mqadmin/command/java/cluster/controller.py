"""Java's commands about controllers and broker containers."""

from broker.common.java import parse_number
from mqadmin.admin.controllers.library import (
    ControllerAdmin,
    ReplicaRecord,
    add_broker,
    remove_broker,
)
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command


@java_command("getControllerMetaData")
def get_controller_meta_data(call: JavaCall) -> None:
    """Print group, leader and members of the controllers.

    **Source:** RocketMQ ``GetControllerMetaDataSubCommand``.
    """
    found = ControllerAdmin(call.admin, call.text("a")).metadata()
    call.line()
    call.line(f"#ControllerGroup\t{found.group}")
    call.line(f"#ControllerLeaderId\t{found.leader_id}")
    call.line(f"#ControllerLeaderAddress\t{found.leader_address}")
    for peer in (found.peers or "").split(";"):
        if peer:
            call.line(f"#Peer:\t{peer}")


@java_command("getControllerConfig")
def get_controller_config(call: JavaCall) -> None:
    """Print the settings of controllers.

    **Source:** RocketMQ ``GetControllerConfigSubCommand``.
    """
    for address in call.text("a").split(";"):
        library = ControllerAdmin(call.admin, address)
        config = library.config()
        call.line(f"============{library.address}============")
        for key, value in config.items():
            call.line(f"{key:<50}=  {value}")


@java_command("updateControllerConfig", changes=True)
def update_controller_config(call: JavaCall) -> None:
    """Change one setting of controllers.

    **Source:** RocketMQ ``UpdateControllerConfigSubCommand``.
    """
    key, value = call.text("k"), call.text("v")
    addresses = [ControllerAdmin(call.admin, word) for word in call.text("a").split(";")]
    for library in addresses:
        library.set_config({key: value})
    places = ", ".join(library.address for library in addresses)
    call.line(f"update controller config success![{places}]")
    call.line(f"{key} : {value}")


@java_command("getSyncStateSet")
def get_sync_state_set(call: JavaCall) -> None:
    """Print which replicas of a broker name are in sync.

    **Source:** RocketMQ ``GetSyncStateSetSubCommand``.
    """
    call.one_of("b", "c")
    call.repeat("i", lambda: _print_sync_state(call))


def _print_sync_state(call: JavaCall) -> None:
    name = call.get("b")
    names = [name] if name else call.admin.topology.clusters.get(call.text("c"), [])
    if not names:
        raise call.nothing(f"no cluster is named {call.text('c')}", "mqadmin cluster list")
    for info in ControllerAdmin(call.admin, call.text("a")).sync_states(names):
        call.line()
        call.line(f"#brokerName\t{info.broker_name}")
        call.line(f"#MasterBrokerId\t{info.master_broker_id}")
        call.line(f"#MasterAddr\t{info.master_address}")
        call.line(f"#MasterEpoch\t{info.master_epoch}")
        call.line(f"#SyncStateSetEpoch\t{info.sync_state_set_epoch}")
        call.line(f"#SyncStateSetNums\t{len(info.in_sync)}")
        for member in info.in_sync:
            call.line(f"\nInSyncReplica:\t{_replica(member)}")
        for member in info.not_in_sync:
            call.line(f"\nNotInSyncReplica:\t{_replica(member)}")


def _replica(member: ReplicaRecord) -> str:
    alive = "null" if member.alive is None else str(member.alive).lower()
    return (
        f"ReplicaIdentity{{brokerName='{member.broker_name}', brokerId={member.broker_id}, "
        f"brokerAddress='{member.broker_address}', alive={alive}}}"
    )


@java_command("electMaster", changes=True)
def elect_master(call: JavaCall) -> None:
    """Make one broker the master of its name.

    **Source:** RocketMQ ``ReElectMasterSubCommand``.
    """
    library = ControllerAdmin(call.admin, call.text("a"))
    cluster, name = call.text("c"), call.text("bn")
    found = library.elect(cluster, name, call.whole("b"))
    call.line()
    call.line(f"#ClusterName\t{cluster}")
    call.line(f"#BrokerName\t{name}")
    call.line(f"#BrokerMasterAddr\t{found.master_address}")
    call.line(f"#MasterEpoch\t{found.master_epoch}")
    call.line(f"#SyncStateSetEpoch\t{found.sync_state_set_epoch}")
    for key, address in found.members.items():
        call.line(f"\t#Broker\t{key}\t{address}")


@java_command("cleanBrokerMetadata", changes=True)
def clean_broker_metadata(call: JavaCall) -> None:
    """Remove brokers that are not alive (-l: also living ones) from the controller's metadata.

    **Source:** RocketMQ ``CleanControllerBrokerMetaSubCommand``.
    """
    living = call.flag("l")
    if not living:
        call.one_of("c")
    words = [word for word in (call.get("b") or "").split(";") if word]
    ids = [number for word in words if (number := parse_number(word, 0)) is not None]
    if len(ids) != len(words):
        raise call.fault("b", f"not a list of broker ids: {call.get('b')!r}")
    ControllerAdmin(call.admin, call.text("a")).clean_broker(
        call.text("bn"), cluster=call.get("c"), ids=ids, living=living
    )
    call.line(f"clear broker {call.text('bn')} metadata from controller success!")


@java_command("addBroker", changes=True)
def add_broker_command(call: JavaCall) -> None:
    """Start a broker in a container.

    **Source:** RocketMQ ``AddBrokerSubCommand``.
    """
    add_broker(call.admin, call.text("c"), call.text("b"))
    call.line(f"add broker to {call.text('c')} success")


@java_command("removeBroker", changes=True)
def remove_broker_command(call: JavaCall) -> None:
    """Stop a broker of a container: CLUSTER:NAME:ID.

    **Source:** RocketMQ ``RemoveBrokerSubCommand``.
    """
    remove_broker(call.admin, call.text("c"), call.text("b"))
    call.line(f"remove broker from {call.text('c')} success")
