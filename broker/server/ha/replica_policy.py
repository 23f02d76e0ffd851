"""ReplicaPolicy: how many replicas a put needs, from the settings and the replicas in sync.

A replica is in sync while its acknowledged offset is less than haMaxGapNotInSync from the end of
the master's log; the master always is. Settings and their effect with SYNC_MASTER:

========================  ==========================================================================
inSyncReplicas            copies a put waits for, the master's own included
minInSyncReplicas         fewer replicas in sync: the put is refused before the append
enableAutoInSyncReplicas  wait for the replicas in sync if they are fewer than inSyncReplicas, but
                          for minInSyncReplicas at least
allAckInSyncStateSet      wait for all replicas that are in sync at the put
enableSlaveActingMaster   fewer replicas in sync than the put needs: refused before the append
haSlaveFallbehindMax      rules of 4.9: wait for a slave; without one in that gap answer
                          SLAVE_NOT_AVAILABLE at once, the message is stored
========================  ==========================================================================

Java applies minInSyncReplicas and allAckInSyncStateSet with a controller only, and
enableAutoInSyncReplicas with enableSlaveActingMaster only. Here each is applied where it is set.

**Source:** RocketMQ CommitLog#asyncPutMessage, #calcNeedAckNums; in 4.9 #submitReplicaRequest.
"""

from typing import Protocol

import msgspec

from broker.server.ha.config import HaConfig


class ReplicaCounts(Protocol):
    """The part of HAService that a policy needs."""

    def in_sync(self, max_gap_bytes: int) -> int:
        """Return the number of replicas in that gap, the master included."""
        ...


class ReplicaPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The rule of one broker; ``max_gap_bytes`` is haMaxGapNotInSync."""

    in_sync_replicas: int = 1
    min_in_sync_replicas: int = 1
    automatic: bool = False
    all_in_sync: bool = False
    acting: bool = False
    max_gap_bytes: int = 256 << 20
    fallbehind_max_bytes: int = 0

    @property
    def waits(self) -> bool:
        """Whether any put may need a copy of a slave."""
        return max(self.in_sync_replicas, self.min_in_sync_replicas) > 1 or (
            self.all_in_sync or self.fallbehind_max_bytes > 0
        )

    @property
    def refuses(self) -> bool:
        """Whether a put may be refused because too few replicas are in sync."""
        return self.min_in_sync_replicas > 1 or (self.acting and self.in_sync_replicas > 1)

    def needed(self, replicas: ReplicaCounts) -> int:
        """Return the copies that a put needs now, the master's own included."""
        needed = self.in_sync_replicas
        if self.fallbehind_max_bytes:
            needed = max(2, needed)
        if self.automatic or self.all_in_sync:
            in_sync = replicas.in_sync(self.max_gap_bytes)
            if self.automatic:
                needed = max(min(needed, in_sync), self.min_in_sync_replicas)
            if self.all_in_sync:
                needed = max(needed, in_sync)
        return needed

    def refuses_now(self, replicas: ReplicaCounts) -> bool:
        """Whether too few replicas are in sync for a put."""
        if not self.refuses:
            return False
        in_sync = replicas.in_sync(self.max_gap_bytes)
        least = self.min_in_sync_replicas
        if self.acting:
            least = max(least, self.needed(replicas))
        return in_sync < least

    def without_slave(self, replicas: ReplicaCounts) -> bool:
        """Whether no slave is close enough to be waited for (rules of 4.9)."""
        return self.fallbehind_max_bytes > 0 and replicas.in_sync(self.fallbehind_max_bytes) < 2


def policy_of(config: HaConfig, *, sync_master: bool) -> ReplicaPolicy:
    """Return the policy that ``config`` asks for; a broker of another role waits for no copy."""
    if not sync_master:
        return ReplicaPolicy()
    return ReplicaPolicy(
        in_sync_replicas=config.in_sync_replicas,
        min_in_sync_replicas=config.min_in_sync_replicas,
        automatic=config.enable_auto_in_sync_replicas,
        all_in_sync=config.all_ack_in_sync_state_set,
        acting=config.enable_slave_acting_master,
        max_gap_bytes=config.ha_max_gap_not_in_sync,
        fallbehind_max_bytes=config.ha_slave_fallbehind_max,
    )
