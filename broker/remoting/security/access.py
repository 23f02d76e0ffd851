"""The access level of a peer; the RPC table defines the level that each request requires.

Requests are not authenticated yet, so the level is derived from the peer's IP address:

=====================================  ==============
peer                                   level
=====================================  ==============
loopback                               ADMINISTRATOR
listed in ``adminHosts``               ADMINISTRATOR
any, with ``allowRemoteAdmin=true``    ADMINISTRATOR
listed in ``clusterMembers``           MEMBER
any other                              CLIENT
=====================================  ==============

The three settings are read from configuration files only; no request changes them. A connection's
level is determined once, when it is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.common.address import is_loopback
from broker.errors import ConfigError
from broker.remoting.protocol.rpc import Access

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network


class AccessRules:
    """The rules of one endpoint; ``parse_hosts`` defines the format of the two host lists.

    Raises ConfigError naming the invalid entry.
    """

    def __init__(
        self,
        *,
        admin_hosts: str = "",
        cluster_members: str = "",
        allow_remote_admin: bool = False,
    ) -> None:
        self.allow_remote_admin = allow_remote_admin
        self.administrators = parse_hosts("adminHosts", admin_hosts)
        self.members = parse_hosts("clusterMembers", cluster_members)

    def level_of(self, host: str) -> Access:
        """Return the level of a peer at the IP address ``host``."""
        if self.allow_remote_admin or is_loopback(host) or _listed(host, self.administrators):
            return Access.ADMINISTRATOR
        return Access.MEMBER if _listed(host, self.members) else Access.CLIENT


def parse_hosts(key: str, text: str) -> list[IPv4Network | IPv6Network]:
    """Parse IP addresses and networks (``192.0.2.7;10.1.0.0/16``), separated by ``;`` or ``,``.

    Raises ConfigError naming ``key`` and the entry. Host names are not accepted: an access level
    must not depend on name resolution.
    """
    entries = [entry.strip() for entry in text.replace(",", ";").split(";")]
    if not any(entries):
        return []
    from ipaddress import ip_network  # costs 8 ms of start-up, needed only with a list

    hosts = []
    for entry in filter(None, entries):
        try:
            hosts.append(ip_network(entry, strict=False))
        except ValueError as error:
            raise ConfigError(
                f"{key}: {entry!r:.60} is not an IP address or network: {error}",
                "write addresses separated by ';', for example 192.0.2.7;10.1.0.0/16",
            ) from None
    return hosts


def _listed(host: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    if not networks:
        return False
    from ipaddress import ip_address

    try:
        address = ip_address(host)
    except ValueError:
        return False
    return any(address in network for network in networks)
