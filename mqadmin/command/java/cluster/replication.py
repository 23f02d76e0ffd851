"""Java's queries of replication: haStatus, getBrokerEpoch."""

from collections.abc import Sequence

from mqadmin.admin.broker import BrokerAdmin, ReplicationRecord
from mqadmin.admin.brokers.epochs import epochs
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command

SLAVE_ROW = "%-32s  %-16s %16s %16s %16s %16s"

KIB = 1024


@java_command("haStatus")
def ha_status(call: JavaCall) -> None:
    """Print the replication state of brokers.

    **Source:** RocketMQ ``HAStatusSubCommand``.
    """
    call.one_of("b", "c")
    call.repeat("i", lambda: _print_ha(call))


def _print_ha(call: JavaCall) -> None:
    listing = BrokerAdmin(call.admin).ha(broker=call.get("b"), cluster=call.get("c"))
    addresses = dict.fromkeys(item.address for item in listing.items)
    for address in addresses:
        links = [item for item in listing.items if item.address == address]
        if links[0].role == "MASTER":
            _print_master(call, links)
        else:
            _print_slave(call, links[0])
    call.errors(listing.errors, some_worked=bool(listing.items))


def _print_master(call: JavaCall, links: Sequence[ReplicationRecord]) -> None:
    slaves = [link for link in links if link.peer is not None]
    call.line()
    call.line(f"#MasterAddr\t{links[0].address}")
    call.line(f"#MasterCommitLogMaxOffset\t{links[0].end_offset}")
    call.line(f"#SlaveNum\t{len(slaves)}")
    call.line(f"#InSyncSlaveNum\t{sum(bool(link.in_sync) for link in slaves)}")
    names = ("#SlaveAddr", "#SlaveAckOffset", "#Diff", "#TransferSpeed(KB/s)", "#Status")
    call.line(SLAVE_ROW % (*names, "#TransferFromWhere"))
    for link in slaves:
        speed = f"{(link.bytes_per_second or 0) / KIB:.2f}"
        state = "OK" if link.in_sync else "Fall Behind"
        call.line(SLAVE_ROW % (link.peer, link.ack_offset, link.gap_bytes, speed, state, "-"))


def _print_slave(call: JavaCall, link: ReplicationRecord) -> None:
    call.line()
    call.line(f"#MasterAddr\t{link.peer or '-'}")
    call.line(f"#CommitLogMaxOffset\t{_known(link.ack_offset)}")
    call.line(f"#TransferSpeed(KB/s)\t{(link.bytes_per_second or 0) / KIB:.2f}")
    call.line(f"#MasterFlushOffset\t{_known(link.end_offset)}")


def _known(value: int | None) -> str:
    return "-" if value is None else str(value)


@java_command("getBrokerEpoch")
def get_broker_epoch(call: JavaCall) -> None:
    """Print the epochs of brokers that a controller manages.

    **Source:** RocketMQ ``GetBrokerEpochSubCommand``.
    """
    call.one_of("b", "c")
    call.repeat("i", lambda: _print_epochs(call))


def _print_epochs(call: JavaCall) -> None:
    listing = epochs(call.admin, broker=call.get("b"), cluster=call.get("c"))
    for item in listing.items:
        call.line()
        call.line(f"#clusterName\t{item.cluster_name}")
        call.line(f"#brokerName\t{item.broker_name}")
        call.line(f"#brokerAddr\t{item.address}")
        call.line(f"#brokerId\t{item.broker_id}")
        for entry in item.epochs:
            call.line(
                f"#Epoch: EpochEntry{{epoch={entry.epoch}, startOffset={entry.start_offset}, "
                f"endOffset={entry.end_offset}}}"
            )
    call.errors(listing.errors, some_worked=bool(listing.items))
