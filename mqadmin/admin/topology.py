"""The registered brokers: the cluster table as targets that a command selects by name.

A target is selected by broker name (``broker-a``) or by address (``10.0.0.1:10911``). Changes are
sent to masters; queries are sent to the master of each broker name, or to its slave with the
smallest id when there is no master.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from broker.errors import ClientError

MASTER_ID = 0


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One broker process; the names are None for an address that is not registered."""

    address: str
    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: int | None = None

    @property
    def label(self) -> str:
        """The name shown to users: the broker name, or the address when there is none."""
        return self.broker_name or self.address


class Topology:
    """The cluster table of the name server, with selections for queries and changes."""

    def __init__(self, clusters: Mapping[str, Iterable[str]], brokers: Mapping[str, Any]) -> None:
        """``clusters``: cluster → broker names; ``brokers``: broker name → BrokerData."""
        self.clusters = {name: sorted(members) for name, members in sorted(clusters.items())}
        self.targets: list[Target] = []
        for cluster, members in self.clusters.items():
            for name in members:
                data = brokers.get(name)
                if data is None:
                    continue
                self.targets += [
                    Target(
                        address=address,
                        cluster_name=cluster,
                        broker_name=name,
                        broker_id=int(broker_id),
                    )
                    for broker_id, address in sorted(
                        (int(key), text) for key, text in data.broker_addrs.items()
                    )
                ]

    def all(self, *, cluster: str | None = None, broker: str | None = None) -> list[Target]:
        """Return every broker process that matches both; ClientError when a name matches none."""
        found = list(self.targets) if broker is None else self.named(broker)
        if cluster is None:
            return found
        self._check_cluster(cluster)
        members = [target for target in found if target.cluster_name == cluster]
        if broker is not None and not members:
            raise ClientError(
                f"broker {broker} is not registered in cluster {cluster}",
                "mqadmin cluster list shows the brokers of each cluster",
            )
        return members

    def processes(self, *, cluster: str | None = None, broker: str | None = None) -> list[Target]:
        """Return the same as :meth:`all`; ClientError when no broker is registered."""
        if not self.targets and broker is None:
            raise _no_broker_registered()
        return self.all(cluster=cluster, broker=broker)

    def readers(self, *, cluster: str | None = None, broker: str | None = None) -> list[Target]:
        """Return one process per broker name: the master, else the slave with the smallest id.

        ClientError when no broker is registered, so that this is not reported as "no results".

        **Source:** RocketMQ ``BrokerData#selectBrokerAddr``, which takes a random slave.
        """
        chosen: dict[str, Target] = {}
        for target in self.processes(cluster=cluster, broker=broker):
            chosen.setdefault(target.label, target)
        return list(chosen.values())

    def writers(self, *, cluster: str | None = None, broker: str | None = None) -> list[Target]:
        """Return the masters of ``broker``, of ``cluster``, of both, or of the only cluster."""
        if broker is None and cluster is None:
            cluster = self.only_cluster()
        found = self.all(cluster=cluster, broker=broker)
        # an unregistered address has no id; the user named it, so it is used as a master
        masters = [target for target in found if target.broker_id in (MASTER_ID, None)]
        if not masters:
            raise ClientError(
                f"no master among the brokers of {broker or cluster}",
                "mqadmin cluster list shows which brokers are registered",
            )
        return masters

    def masters(self, *, cluster: str | None = None, broker: str | None = None) -> list[Target]:
        """Return the masters of the selected cluster or broker; of every cluster by default."""
        if cluster is None and broker is None:
            return [target for target in self.targets if target.broker_id == MASTER_ID]
        return self.writers(cluster=cluster, broker=broker)

    def named(self, text: str) -> list[Target]:
        """Return the processes of a broker name, or the one at an address."""
        found = [target for target in self.targets if target.broker_name == text]
        if found:
            return found
        found = [target for target in self.targets if target.address == text]
        if found:
            return found[:1]
        if _looks_like_address(text):
            return [Target(address=text)]
        names = ", ".join(sorted({target.label for target in self.targets})) or "none"
        raise ClientError(
            f"no broker is named {text} (registered: {names})",
            "mqadmin cluster list shows names and addresses",
        )

    def only_cluster(self) -> str:
        """Return the name of the cluster when there is exactly one; ClientError otherwise."""
        names = list(self.clusters)
        if len(names) == 1:
            return names[0]
        if not names:
            raise _no_broker_registered()
        raise ClientError(
            f"there are {len(names)} clusters ({', '.join(names)})",
            "name one with --cluster, or a broker with --broker",
        )

    def _check_cluster(self, cluster: str) -> None:
        if cluster not in self.clusters:
            names = ", ".join(self.clusters) or "none"
            raise ClientError(
                f"no cluster is named {cluster} (registered: {names})",
                "mqadmin cluster list shows the clusters",
            )


def _no_broker_registered() -> ClientError:
    return ClientError(
        "no broker is registered at the name server",
        "is the broker running, and does its namesrvAddr name this name server?",
    )


def _looks_like_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdecimal()
