"""ClusterAccess: how a command reaches its cluster, the same for both transports.

A command that administers uses blocking sockets (:class:`~mqadmin.admin.session.AdminSession`), one
that produces or consumes also the asyncio client (``broker.client``); ``mqadmin/admin/__init__.py``
has the reason. Both get addresses, credentials, TLS and timeouts from here.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import ssl

    from broker.remoting.security.signing import Credentials


class ClusterAccess(msgspec.Struct, frozen=True, kw_only=True):
    """``namesrv`` addresses, or one URL of a list of them. ``timeout_ms`` of the command.

    ``address_map`` advertised address to reachable address; ``credentials`` sign each request;
    ``tls`` wraps each connection.
    """

    namesrv: tuple[str, ...]
    timeout_ms: int
    address_map: Mapping[str, str] = {}
    credentials: "Credentials | None" = None
    tls: "ssl.SSLContext | None" = None

    @property
    def namesrv_url(self) -> str:
        """The URL of the list of name servers, empty if the addresses are given."""
        first = self.namesrv[0]
        return first if first.startswith(("http://", "https://")) else ""
