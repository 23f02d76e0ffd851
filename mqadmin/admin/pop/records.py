"""POP records of RocksDB, which brokers export to the log before a downgrade (5.3.2).

**Source:** RocketMQ ``AdminBrokerProcessor#transferPopToFsStore``.
"""

from collections.abc import Sequence

from broker.errors import RocketMQError
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.failure import describe
from mqadmin.admin.result import TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target


def export_pop_records(
    admin: AdminSession, targets: Sequence[Target]
) -> tuple[Sequence[Target], Sequence[TargetError]]:
    """Let each process export its records, one after another; return those done, and the errors."""
    done: list[Target] = []
    errors: list[TargetError] = []
    for target in targets:
        try:
            admin.call(target.address, RequestCode.POP_ROLLBACK)
        except RocketMQError as error:
            errors.append(describe(error, address=target.address, target=target.label))
        else:
            done.append(target)
    return done, errors
