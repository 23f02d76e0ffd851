"""Role bodies: every field survives the wire, absent ones have their defaults."""

from broker.remoting.protocol.body.ha import EpochEntry
from broker.remoting.protocol.body.role import BrokerRoleInfo, RoleProperties


def test_every_field_survives_the_wire() -> None:
    info = BrokerRoleInfo(
        cluster_name="C",
        broker_name="b",
        broker_id=2,
        address="h:1",
        role="SLAVE",
        epoch=2**40,
        voted_epoch=2**40 + 1,
        voted_for="h:2",
        max_offset=2**62,
        diverged_at=0,
        connected=True,
        replication_properties={"inSyncReplicas": "2"},
        epochs=[EpochEntry(epoch=1, start_offset=5, end_offset=9)],
    )
    assert BrokerRoleInfo.from_bytes(info.to_bytes()) == info
    body = RoleProperties(properties={"brokerRole": "SYNC_MASTER"})
    assert RoleProperties.from_bytes(body.to_bytes()) == body


def test_absent_fields_mean_unknown() -> None:
    info = BrokerRoleInfo.from_bytes(b"{}")
    assert (info.diverged_at, info.epoch, info.fenced_reason) == (-1, 0, "")
