"""The copies that a put needs, from the settings and the replicas in sync."""

import pytest

from broker.server.ha.config import HaConfig
from broker.server.ha.replica_policy import ReplicaPolicy, policy_of


class Replicas:
    """A number of replicas in any gap."""

    def __init__(self, number: int) -> None:
        self.number = number

    def in_sync(self, max_gap_bytes: int) -> int:
        return self.number


@pytest.mark.parametrize(
    ("settings", "in_sync", "needed"),
    [
        ({}, 3, 1),
        ({"in_sync_replicas": 2}, 1, 2),
        ({"in_sync_replicas": 3, "automatic": True}, 2, 2),
        ({"in_sync_replicas": 3, "automatic": True}, 1, 1),
        ({"in_sync_replicas": 3, "automatic": True, "min_in_sync_replicas": 2}, 1, 2),
        ({"in_sync_replicas": 2, "automatic": True}, 4, 2),
        ({"all_in_sync": True}, 3, 3),
        ({"all_in_sync": True}, 1, 1),
        ({"all_in_sync": True, "in_sync_replicas": 2}, 1, 2),
        ({"fallbehind_max_bytes": 1}, 1, 2),
    ],
)
def test_a_put_waits_for_the_copies_that_the_settings_ask_for(settings, in_sync, needed) -> None:
    assert ReplicaPolicy(**settings).needed(Replicas(in_sync)) == needed


@pytest.mark.parametrize(
    ("settings", "in_sync", "refused"),
    [
        ({}, 1, False),
        ({"in_sync_replicas": 2}, 1, False),
        ({"min_in_sync_replicas": 2}, 1, True),
        ({"min_in_sync_replicas": 2}, 2, False),
        ({"in_sync_replicas": 2, "acting": True}, 1, True),
        ({"in_sync_replicas": 2, "acting": True}, 2, False),
        ({"in_sync_replicas": 2, "acting": True, "automatic": True}, 1, False),
        ({"in_sync_replicas": 1, "acting": True}, 1, False),
    ],
)
def test_a_put_is_refused_while_too_few_replicas_are_in_sync(settings, in_sync, refused) -> None:
    assert ReplicaPolicy(**settings).refuses_now(Replicas(in_sync)) is refused


def test_by_the_rules_of_4_9_a_slave_must_be_in_the_gap() -> None:
    policy = ReplicaPolicy(fallbehind_max_bytes=1)
    assert policy.without_slave(Replicas(1))
    assert not policy.without_slave(Replicas(2))
    assert not ReplicaPolicy().without_slave(Replicas(1))


def test_another_role_than_sync_master_waits_for_no_copy() -> None:
    config = HaConfig(in_sync_replicas=2, min_in_sync_replicas=2, all_ack_in_sync_state_set=True)
    assert not policy_of(config, sync_master=False).waits
    assert policy_of(config, sync_master=True).waits


def test_every_setting_reaches_the_policy() -> None:
    config = HaConfig(
        in_sync_replicas=3,
        min_in_sync_replicas=2,
        enable_auto_in_sync_replicas=True,
        all_ack_in_sync_state_set=True,
        enable_slave_acting_master=True,
        ha_max_gap_not_in_sync=7,
        ha_slave_fallbehind_max=9,
    )
    assert policy_of(config, sync_master=True) == ReplicaPolicy(
        in_sync_replicas=3,
        min_in_sync_replicas=2,
        automatic=True,
        all_in_sync=True,
        acting=True,
        max_gap_bytes=7,
        fallbehind_max_bytes=9,
    )
