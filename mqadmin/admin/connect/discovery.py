"""Name servers of a command by discovery over HTTP; loaded only if their list has a URL."""

import msgspec

from broker.remoting.rpc.address_server import discover_namesrv
from mqadmin.admin.session import ClusterAccess


def discovered(access: ClusterAccess) -> ClusterAccess:
    """Return ``access`` with the addresses that its URL lists; ConnectError without a list."""
    addresses = discover_namesrv(access.namesrv_url, timeout_ms=access.timeout_ms)
    return msgspec.structs.replace(access, namesrv=addresses)
