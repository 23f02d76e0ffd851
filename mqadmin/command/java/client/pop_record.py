"""Java's exportPopRecord: brokers move POP progress from RocksDB to the log before a downgrade."""

from collections.abc import Sequence

from mqadmin.admin.pop.records import export_pop_records
from mqadmin.admin.result import TargetError
from mqadmin.admin.topology import Target
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command


@java_command("exportPopRecord", changes=True)
def export_pop_record(call: JavaCall) -> None:
    """Let every process of a broker or cluster export its POP records; -d true only lists them.

    Java has the values of -d exchanged: it executes with ``true``. ``-d false`` is refused, so that
    a command line for Java's dry run does not execute here.

    **Source:** RocketMQ ``ExportPopRecordCommand``.
    """
    call.one_of("b", "c")
    dry_run = call.truth("d", False)
    if call.get("d") is not None and not dry_run:
        raise call.fault("d", "false is the dry run of the Java tool: omit -d to execute")
    targets = call.admin.topology.all(cluster=call.get("c"), broker=call.get("b"))
    done: Sequence[Target] = targets
    errors: Sequence[TargetError] = ()
    if not dry_run:
        call.session.announce(target.address for target in targets)
        done, errors = export_pop_records(call.admin, targets)
    for target in done:
        call.line(
            f"Export broker records, brokerName={target.label}, brokerAddr={target.address}, "
            f"dryRun={'true' if dry_run else 'false'}"
        )
    call.errors(errors, some_worked=bool(done))
