"""Java's commands about cold data flow control and read-ahead."""

from broker.errors import RocketMQError
from mqadmin.admin.brokers.maintenance import READ_AHEAD_MODES, BrokerMaintenance
from mqadmin.admin.failure import describe
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command
from mqadmin.command.java.pretty import pretty_json


@java_command("getColdDataFlowCtrInfo")
def get_cold_data_flow_ctr_info(call: JavaCall) -> None:
    """Print the cold data flow control of brokers as JSON.

    **Source:** RocketMQ ``GetColdDataFlowCtrInfoSubCommand``.
    """
    call.one_of("b", "c")
    found = BrokerMaintenance(call.admin).cold_data(broker=call.get("b"), cluster=call.get("c"))
    errors = []
    for target, answer in found:
        if isinstance(answer, RocketMQError):
            errors.append(describe(answer, address=target.address, target=target.label))
            continue
        call.line(f" ============{target.address}============")
        call.line(pretty_json(answer.to_wire()))
    call.errors(errors, some_worked=len(errors) < len(found))


@java_command("updateColdDataFlowCtrGroupConfig", changes=True)
def update_cold_data_flow_ctr_group_config(call: JavaCall) -> None:
    """Set the threshold of cold reads of a group, in bytes per second.

    **Source:** RocketMQ ``UpdateColdDataFlowCtrGroupConfigSubCommand``.
    """
    _change(call, call.whole("v"), "updateColdDataFlowCtrGroupConfig success")


@java_command("removeColdDataFlowCtrGroupConfig", changes=True)
def remove_cold_data_flow_ctr_group_config(call: JavaCall) -> None:
    """Remove the threshold of cold reads of a group.

    **Source:** RocketMQ ``RemoveColdDataFlowCtrGroupConfigSubCommand``.
    """
    _change(call, None, "remove broker cold read threshold success")


def _change(call: JavaCall, threshold: int | None, text: str) -> None:
    call.one_of("b", "c")
    library = BrokerMaintenance(call.admin)
    plan = library.plan_cold_data(
        call.text("g"), threshold, broker=call.get("b"), cluster=call.get("c")
    )
    for item in call.apply(library, plan):
        call.line(f"{text}, {item.address}")


@java_command("setCommitLogReadAheadMode", changes=True)
def set_commit_log_read_ahead_mode(call: JavaCall) -> None:
    """Set the read-ahead mode of the CommitLog: 0 normal, 1 random.

    **Source:** RocketMQ ``CommitLogSetReadAheadSubCommand``.
    """
    call.one_of("b", "c")
    mode = call.choice("m", tuple(READ_AHEAD_MODES))
    library = BrokerMaintenance(call.admin)
    plan = library.plan_read_ahead(mode, broker=call.get("b"), cluster=call.get("c"))
    for item in call.apply(library, plan):
        call.line(f" ============{item.address}============")
        call.line(f"commitLog set readAhead mode rstStr{(item.read_back or {}).get('remark')}")
