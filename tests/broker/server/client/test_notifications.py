"""Telling members that their group has changed."""

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.common.subscription import build_subscription
from broker.server.client.clients import ClientChannel, ConsumerProfile
from broker.server.client.notifications import notify_members


@pytest.fixture
def join(fake_connection):
    """``join(desk, "c1")``: a member on its own connection."""

    def make(desk, client_id: str, model: str = "CLUSTERING"):
        peer = fake_connection()
        profile = ConsumerProfile(message_model=model)
        channel = ClientChannel(peer, client_id, "JAVA", 479, 0)
        desk.context.consumers.register("G", channel, profile, [build_subscription("T", "*")])
        return peer

    return make


def test_every_member_is_notified(desk, join) -> None:
    peers = [join(desk, f"c{number}") for number in range(3)]
    assert notify_members(desk.context, "G") == 3
    assert [len(peer.sent) for peer in peers] == [1, 1, 1]


def test_closed_members_are_not_counted(desk, join) -> None:
    join(desk, "c1").closed = True
    assert notify_members(desk.context, "G") == 0


def test_an_offline_group_is_not_an_error(desk) -> None:
    assert notify_members(desk.context, "G") == 0


def test_broadcasting_group_is_left_alone(desk, join) -> None:
    join(desk, "c1", "BROADCASTING")
    assert notify_members(desk.context, "G") == 0


def test_group_that_does_not_want_it(desk, join) -> None:
    join(desk, "c1")
    config = SubscriptionGroupConfig(group_name="G", notify_consumer_ids_changed_enable=False)
    desk.context.groups.put_all([config])
    assert notify_members(desk.context, "G") == 0


def test_broker_that_does_not_do_it(make_desk, join) -> None:
    desk = make_desk(notifyConsumerIdsChangedEnable="false")
    join(desk, "c1")
    assert notify_members(desk.context, "G") == 0
