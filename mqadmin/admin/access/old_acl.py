"""ACL 1.0 (until 5.3.2): accounts and white lists in files of the brokers.

The requests are sent to each process in turn and stop at the first refusal, as in the Java tool;
brokers since 5.3.3 answer that they do not support them.

**Source:** RocketMQ 4.9 ``AdminBrokerProcessor#updateAndCreateAccessConfig``.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.session import AdminSession


class OldAccount(msgspec.Struct, frozen=True, kw_only=True):
    """An account; perms are comma lists of ``name=PERM``."""

    access_key: str
    secret_key: str
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class OldAclVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The version of the ACL file of one process, as the broker reports it."""

    cluster_name: str
    broker_name: str
    address: str
    version: str


class OldAclAdmin:
    """Requests of ACL 1.0 to the processes of a cluster or broker."""

    def __init__(
        self, admin: AdminSession, *, cluster: str | None = None, broker: str | None = None
    ) -> None:
        self._admin = admin
        self._targets = admin.topology.all(cluster=cluster, broker=broker)

    def update(self, account: OldAccount) -> Iterator[str]:
        """Set an account; yield the address of each process after it has accepted."""
        fields = msgspec.structs.asdict(account)
        return self._each(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, **fields)

    def delete(self, access_key: str) -> Iterator[str]:
        """Delete an account; yield as :meth:`update`."""
        return self._each(RequestCode.DELETE_ACL_CONFIG, access_key=access_key)

    def set_white_list(self, addresses: str, *, path: str | None = None) -> Iterator[str]:
        """Set the white list, in the file ``path`` of the broker; yield as :meth:`update`."""
        return self._each(
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
            global_white_addrs=addresses,
            acl_file_full_path=path,
        )

    def versions(self) -> Iterator[OldAclVersion]:
        """Yield the version of each process."""
        for target in self._targets:
            reply = self._admin.call(target.address, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
            header = reply.header
            yield OldAclVersion(
                cluster_name=header.cluster_name,
                broker_name=header.broker_name,
                address=header.broker_addr,
                version=header.version,
            )

    def _each(self, code: int, **fields: Any) -> Iterator[str]:
        for target in self._targets:
            self._admin.call(target.address, code, **fields)
            yield target.address
