"""RouteInfoManager: broker addresses, topic routes and broker liveness.

::

    topics     topic → broker name → QueueData
    groups     broker name → BrokerGroup (cluster, broker id → address)
    clusters   cluster → broker names
    live       (cluster, address) → BrokerLive (last heartbeat, timeout, DataVersion, connection)
    mappings   topic → broker name → static-topic mapping (stored, not interpreted)

The class does no I/O: callers pass in registrations, heartbeats, closed connections and a clock.
Results are sorted by name, so that equal state gives equal responses.

**Source:** RocketMQ RouteInfoManager (5.3; relevant differences to 4.9 are documented).
"""

import logging
from collections.abc import Callable, Iterable

import msgspec

from broker.common.clock import Clock
from broker.common.topic import PERM_READ, PERM_WRITE, SYNC_MEMBER_PREFIX, is_writable
from broker.namesrv.brokers import (
    MASTER_ID,
    BrokerGroup,
    BrokerLive,
    MinBrokerIdChange,
    RegisterResult,
    Registration,
)
from broker.namesrv.config import NamesrvConfig
from broker.remoting.protocol.body.namesrv.cluster import ClusterInfo
from broker.remoting.protocol.body.namesrv.route import (
    BrokerData,
    QueueData,
    TopicQueueMappingInfo,
    TopicRouteData,
)
from broker.remoting.protocol.body.version import DataVersion

BROKER_TIMEOUT_MS = 120_000
"""Default time without heartbeat after which a broker is removed."""

UNIT = 1
UNIT_SUB = 2

log = logging.getLogger("broker.namesrv")


class RouteInfoManager:
    """The route tables and their rules; the module docstring describes the tables.

    ``config`` may be replaced at run time. ``on_min_id_change`` is called after a change of a
    group's lowest id if ``notifyMinBrokerIdChanged`` is true.
    """

    def __init__(
        self,
        clock: Clock,
        config: NamesrvConfig,
        on_min_id_change: Callable[[MinBrokerIdChange], None] | None = None,
    ) -> None:
        self.clock = clock
        self.config = config
        self.on_min_id_change = on_min_id_change
        self.topics: dict[str, dict[str, QueueData]] = {}
        self.groups: dict[str, BrokerGroup] = {}
        self.clusters: dict[str, set[str]] = {}
        self.live: dict[tuple[str, str], BrokerLive] = {}
        self.filter_servers: dict[tuple[str, str], list[str]] = {}
        self.mappings: dict[str, dict[str, TopicQueueMappingInfo]] = {}

    # ---- registration

    def register(self, registration: Registration, channel: object) -> RegisterResult | None:
        """Apply a registration; None if it is refused.

        A registration with a single topic from an unregistered broker id is refused: it is an
        incremental update and must not create a broker. A registration for an id that another
        address holds with a newer state version is ignored, with an empty result. An address that
        registers under another broker name or cluster leaves its former one (in Java that stays,
        with nothing left to expire).

        **Source:** RocketMQ RouteInfoManager#registerBroker
        """
        group = self.groups.get(registration.broker_name)
        first = group is None
        if group is None:
            group = BrokerGroup(registration.cluster, registration.broker_name)
        addresses = group.addresses
        min_before = min(addresses, default=MASTER_ID)
        holder = addresses.get(registration.broker_id)
        if (
            holder is not None
            and holder != registration.address
            and self._outranked(registration, holder)
        ):
            self.live.pop(registration.key, None)
            return RegisterResult()
        if registration.broker_id not in addresses and len(registration.topics) == 1:
            log.warning(
                "%s (%s): refused: only topic %s, and the broker is not registered",
                registration.broker_name,
                registration.address,
                next(iter(registration.topics)),
            )
            return None
        if self._leave_former(registration):
            return self.register(registration, channel)
        # the address was registered under another id: slave promoted or master demoted
        for broker_id in [i for i, a in addresses.items() if a == registration.address]:
            if broker_id != registration.broker_id:
                del addresses[broker_id]
        self.groups[registration.broker_name] = group
        self._join_cluster(group, registration.cluster)
        group.acting_master = bool(registration.enable_acting_master)
        group.zone = registration.zone
        first = first or holder is None
        addresses[registration.broker_id] = registration.address
        if registration.broker_id == MASTER_ID or self._is_prime_slave(registration, group):
            self._take_topics(registration, group, first)
        self._refresh(registration, channel, first)
        if registration.broker_id < min_before:
            self._notify_min_broker_id(group, None, registration.ha_address)
        return self._master_of(registration, group)

    def _leave_former(self, registration: Registration) -> bool:
        """Remove the address from other broker names and clusters; return whether it was in one."""
        name, address = registration.broker_name, registration.address
        known = self.groups.get(name)
        if registration.key in self.live and known and address in known.addresses.values():
            return False
        former = [
            (group.cluster, group.name)
            for group in self.groups.values()
            if group.name != name and address in group.addresses.values()
        ]
        former += [
            (one, name) for one, at in self.live if at == address and one != registration.cluster
        ]
        for one in former:
            self.unregister(*one, address)
        return bool(former)

    def _outranked(self, registration: Registration, holder: str) -> bool:
        """Whether the current holder of the id has a newer state version (master election)."""
        known = self.live.get((registration.cluster, holder))
        if (
            known is None
            or known.data_version.state_version <= registration.data_version.state_version
        ):
            return False
        log.warning(
            "%s: broker id %d of %s is held by %s with a newer state version %d > %d: ignored",
            registration.address,
            registration.broker_id,
            registration.broker_name,
            holder,
            known.data_version.state_version,
            registration.data_version.state_version,
        )
        return True

    @staticmethod
    def _is_prime_slave(registration: Registration, group: BrokerGroup) -> bool:
        """Whether this slave defines the topics of a group without master (5.x brokers)."""
        return (
            registration.enable_acting_master is not None
            and registration.broker_id != MASTER_ID
            and registration.broker_id == min(group.addresses)
        )

    def _take_topics(self, registration: Registration, group: BrokerGroup, first: bool) -> None:
        changed = first or self.is_changed(
            registration.cluster, registration.address, registration.data_version
        )
        if self.config.delete_topic_with_broker_registration and not registration.mappings:
            for topic in self._topics_of({registration.broker_name}):
                if topic not in registration.topics:
                    self._drop_queues(topic, registration.broker_name)
        acting = registration.broker_id != MASTER_ID and group.acting_master
        for topic, config in registration.topics.items():
            if not changed and registration.broker_name in self.topics.get(topic, ()):
                continue
            queues = QueueData(
                broker_name=registration.broker_name,
                read_queue_nums=config.read_queue_nums,
                write_queue_nums=config.write_queue_nums,
                perm=config.perm & ~PERM_WRITE if acting else config.perm,
                topic_sys_flag=config.topic_sys_flag,
            )
            self._put_queues(topic, queues)
        if changed:
            for topic, mapping in registration.mappings.items():
                self.mappings.setdefault(topic, {})[registration.broker_name] = mapping

    def _put_queues(self, topic: str, queues: QueueData) -> None:
        table = self.topics.setdefault(topic, {})
        before = table.get(queues.broker_name)
        if before != queues:
            table[queues.broker_name] = queues
            if before is not None:
                log.info(
                    "topic %s on %s changed: read/write/perm %d/%d/%d -> %d/%d/%d",
                    topic,
                    queues.broker_name,
                    before.read_queue_nums,
                    before.write_queue_nums,
                    before.perm,
                    queues.read_queue_nums,
                    queues.write_queue_nums,
                    queues.perm,
                )

    def _refresh(self, registration: Registration, channel: object, first: bool) -> None:
        timeout_ms = (
            BROKER_TIMEOUT_MS if registration.timeout_ms is None else registration.timeout_ms
        )
        new = registration.key not in self.live
        self.live[registration.key] = BrokerLive(
            self.clock.now_ms(),
            timeout_ms,
            registration.data_version,
            channel,
            registration.ha_address,
        )
        if new or first:
            log.info(
                "broker registered: %s id %d %s in %s, %d topics",
                registration.broker_name,
                registration.broker_id,
                registration.address,
                registration.cluster,
                len(registration.topics),
            )
        if registration.filter_servers:
            self.filter_servers[registration.key] = registration.filter_servers
        elif registration.filter_servers is not None:
            self.filter_servers.pop(registration.key, None)

    def _master_of(self, registration: Registration, group: BrokerGroup) -> RegisterResult:
        if registration.broker_id == MASTER_ID:
            return RegisterResult()
        master = group.addresses.get(MASTER_ID)
        live = self.live.get((registration.cluster, master)) if master else None
        if master is None or live is None:
            return RegisterResult()
        return RegisterResult(master, live.ha_address)

    def is_changed(self, cluster: str, address: str, data_version: DataVersion) -> bool:
        """Whether a broker's DataVersion differs from the registered one, or none exists."""
        live = self.live.get((cluster, address))
        return live is None or live.data_version != data_version

    def data_version_of(self, cluster: str, address: str) -> DataVersion | None:
        """Return the DataVersion last registered by this address, None if unregistered."""
        live = self.live.get((cluster, address))
        return None if live is None else live.data_version

    def heard_from(self, cluster: str, address: str) -> None:
        """Refresh the liveness of a broker; ignored for an unregistered address.

        **Source:** RocketMQ RouteInfoManager#updateBrokerInfoUpdateTimestamp
        """
        live = self.live.get((cluster, address))
        if live is not None:
            live.updated_ms = self.clock.now_ms()

    # ---- removal

    def unregister(self, cluster: str, broker_name: str, address: str) -> None:
        """Remove one broker address; with the last address of a name, its queues and mappings.

        **Source:** RocketMQ RouteInfoManager#unRegisterBroker
        """
        known = self.live.pop((cluster, address), None)
        self.filter_servers.pop((cluster, address), None)
        group = self.groups.get(broker_name)
        if group is None:
            return
        gone = [i for i, a in group.addresses.items() if a == address]
        was_min = bool(gone) and min(group.addresses) in gone
        for broker_id in gone:
            del group.addresses[broker_id]
        if known is not None or gone:
            log.info("broker removed: %s %s of %s", broker_name, address, cluster)
        if not group.addresses:
            self._drop_group(group)
        else:
            if group.acting_master and not group.has_master:
                self._change_perm(broker_name, lambda perm: perm & ~PERM_WRITE)
            if was_min and group.acting_master:
                self._notify_min_broker_id(group, address, None)

    def _join_cluster(self, group: BrokerGroup, cluster: str) -> None:
        """Make a group a member of the cluster that its last registration names."""
        if group.cluster != cluster:
            self._leave_cluster(group)
            group.cluster = cluster
        self.clusters.setdefault(cluster, set()).add(group.name)

    def _leave_cluster(self, group: BrokerGroup) -> None:
        members = self.clusters.get(group.cluster, set())
        members.discard(group.name)
        if not members:
            self.clusters.pop(group.cluster, None)

    def _drop_group(self, group: BrokerGroup) -> None:
        del self.groups[group.name]
        self._leave_cluster(group)
        for topic in self._topics_of({group.name}):
            self._drop_queues(topic, group.name)
        for topic in [topic for topic, table in self.mappings.items() if group.name in table]:
            del self.mappings[topic][group.name]
            if not self.mappings[topic]:
                del self.mappings[topic]

    def channel_closed(self, channel: object) -> list[str]:
        """Remove every broker registered on ``channel``; returns their addresses.

        **Source:** RocketMQ RouteInfoManager#onChannelDestroy
        """
        gone = [key for key, live in self.live.items() if live.channel is channel]
        for cluster, address in gone:
            self.unregister(cluster, self._name_of(address), address)
        return [address for _, address in gone]

    def expire(self) -> list[object]:
        """Remove brokers whose heartbeat timed out; returns their connections, to be closed.

        **Source:** RocketMQ RouteInfoManager#scanNotActiveBroker
        """
        now_ms = self.clock.now_ms()
        channels = []
        for (cluster, address), live in list(self.live.items()):
            silent_ms = now_ms - live.updated_ms
            if silent_ms > live.timeout_ms:
                log.warning(
                    "broker %s of %s: silent for %d ms, allowed %d: removed",
                    address,
                    cluster,
                    silent_ms,
                    live.timeout_ms,
                )
                self.unregister(cluster, self._name_of(address), address)
                channels.append(live.channel)
        return channels

    def _name_of(self, address: str) -> str:
        for group in self.groups.values():
            if address in group.addresses.values():
                return group.name
        return ""

    def _notify_min_broker_id(
        self, group: BrokerGroup, offline: str | None, ha: str | None
    ) -> None:
        """Report a changed lowest id to the group's members.

        **Source:** RocketMQ RouteInfoManager#notifyMinBrokerIdChanged, #chooseBrokerAddrsToNotify
        """
        if self.on_min_id_change is None or not self.config.notify_min_broker_id_changed:
            return
        lowest = min(group.addresses)
        everyone = offline is not None or len(group.addresses) == 1
        self.on_min_id_change(
            MinBrokerIdChange(
                broker_name=group.name,
                min_broker_id=lowest,
                min_address=group.addresses[lowest],
                offline_address=offline,
                ha_address=ha,
                notify=[a for i, a in group.addresses.items() if everyone or i != lowest],
            )
        )

    # ---- routes

    def route(self, topic: str, zone: str = "") -> TopicRouteData | None:
        """Return the route of a topic; None if it has no queue or no registered broker.

        With ``zone`` it has only the brokers of that zone, and those that have no master.

        **Source:** RocketMQ RouteInfoManager#pickupTopicRouteData, ZoneRouteRPCHook
        """
        table = self.topics.get(topic)
        if not table:
            return None
        queues = [table[name] for name in sorted(table)]
        groups = [group for q in queues if (group := self.groups.get(q.broker_name)) is not None]
        if not groups:
            return None
        if zone:
            others = {group.name for group in groups if not group.serves(zone)}
            groups = [group for group in groups if group.name not in others]
            queues = [one for one in queues if one.broker_name not in others]
        return TopicRouteData(
            queue_datas=queues,
            broker_datas=[self._presented(group, table[group.name], topic) for group in groups],
            filter_server_table=self._filter_table(groups),
            topic_queue_mapping_by_broker=self.mappings.get(topic),
        )

    def _presented(self, group: BrokerGroup, queues: QueueData, topic: str) -> BrokerData:
        """Return the BrokerData of a group for the route of ``topic``.

        With ``supportActingMaster`` the lowest slave of a group without master is presented with
        id 0, so that clients read from it as from a master; not while its queues are writable.
        """
        data = group.data()
        if (
            self.config.support_acting_master
            and group.acting_master
            and group.addresses
            and not group.has_master
            and not topic.startswith(SYNC_MEMBER_PREFIX)
            and not is_writable(queues.perm)
        ):
            addresses = dict(data.broker_addrs)
            lowest = min(addresses)
            data = msgspec.structs.replace(
                data, broker_addrs={MASTER_ID: addresses.pop(lowest), **addresses}
            )
        return data

    def _filter_table(self, groups: Iterable[BrokerGroup]) -> dict[str, list[str]]:
        """Return the filter servers by broker address; only 4.x brokers have them."""
        found = {}
        for group in groups:
            for address in group.addresses.values():
                servers = self.filter_servers.get((group.cluster, address))
                if servers:
                    found[address] = servers
        return found

    def cluster_info(self) -> ClusterInfo:
        """Return all brokers and clusters, sorted by name."""
        return ClusterInfo(
            broker_addr_table={name: self.groups[name].data() for name in sorted(self.groups)},
            cluster_addr_table={
                name: sorted(self.clusters[name]) for name in sorted(self.clusters)
            },
        )

    def members(self, broker_name: str) -> dict[int, str]:
        """Return the addresses of a broker group by id, in any cluster; empty if unknown.

        **Source:** RocketMQ RouteInfoManager#getBrokerMemberGroup
        """
        group = self.groups.get(broker_name)
        return {} if group is None else dict(sorted(group.addresses.items()))

    def live_holder(self, broker_name: str, broker_id: int) -> str | None:
        """Return the address registered for a broker id if it is still live, else None."""
        group = self.groups.get(broker_name)
        address = None if group is None else group.addresses.get(broker_id)
        if address is None or not any(live == address for _, live in self.live):
            return None
        return address

    # ---- topics

    def all_topics(self) -> list[str]:
        """Return all topics with queues, sorted."""
        return sorted(self.topics)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """Return the topics with queues on brokers of the cluster, sorted."""
        return self._topics_of(self.clusters.get(cluster, set()))

    def system_topics(self) -> tuple[list[str], str | None]:
        """Return cluster and broker names, which are system topics, and one broker's address.

        **Source:** RocketMQ RouteInfoManager#getSystemTopicList
        """
        names = sorted(self.clusters.keys() | self.groups.keys())
        for name in sorted(self.groups):
            for _, address in sorted(self.groups[name].addresses.items()):
                return names, address
        return names, None

    def unit_topics(self, *, unit: bool | None, unit_sub: bool | None) -> list[str]:
        """Return the topics whose first QueueData has the given flags; None: not checked."""
        found = []
        for topic, table in sorted(self.topics.items()):
            flags = next(iter(table.values())).topic_sys_flag
            if unit is not None and bool(flags & UNIT) != unit:
                continue
            if unit_sub is not None and bool(flags & UNIT_SUB) != unit_sub:
                continue
            found.append(topic)
        return found

    def register_topic(self, topic: str, queues: Iterable[QueueData]) -> bool:
        """Add a topic; False, without a change, unless all its brokers are registered.

        **Source:** RocketMQ RouteInfoManager#registerTopic
        """
        entries = list(queues)
        if not entries or any(entry.broker_name not in self.groups for entry in entries):
            return False
        for entry in entries:
            self._put_queues(topic, entry)
        log.info("topic %s registered on %s", topic, ", ".join(q.broker_name for q in entries))
        return True

    def delete_topic(self, topic: str, cluster: str = "") -> int:
        """Remove a topic, on all brokers or those of one cluster; returns the number of brokers.

        **Source:** RocketMQ RouteInfoManager#deleteTopic (with cluster since 5.0)
        """
        table = self.topics.get(topic, {})
        names = set(table) & self.clusters.get(cluster, set()) if cluster else set(table)
        for name in names:
            self._drop_queues(topic, name)
        if names:
            log.info("topic %s deleted on %s", topic, ", ".join(sorted(names)))
        return len(names)

    def wipe_write_perm(self, broker_name: str) -> int:
        """Make a broker's topics read-only; returns their number.

        The broker's next registration with a new DataVersion restores the permissions.

        **Source:** RocketMQ RouteInfoManager#operateWritePermOfBroker
        """
        return self._change_perm(broker_name, lambda perm: perm & ~PERM_WRITE)

    def add_write_perm(self, broker_name: str) -> int:
        """Make a broker's topics readable and writable; returns their number."""
        return self._change_perm(broker_name, lambda _: PERM_READ | PERM_WRITE)

    def _change_perm(self, broker_name: str, change: Callable[[int], int]) -> int:
        count = 0
        for table in self.topics.values():
            queues = table.get(broker_name)
            if queues is not None:
                table[broker_name] = msgspec.structs.replace(queues, perm=change(queues.perm))
                count += 1
        return count

    def _topics_of(self, broker_names: set[str]) -> list[str]:
        return sorted(
            topic for topic, table in self.topics.items() if not broker_names.isdisjoint(table)
        )

    def _drop_queues(self, topic: str, broker_name: str) -> None:
        table = self.topics.get(topic)
        if table is not None and table.pop(broker_name, None) is not None and not table:
            del self.topics[topic]
