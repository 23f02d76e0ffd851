"""Heartbeats, unregistering, configuration check, member list."""

import pytest

from broker.common.subscription import build_subscription
from broker.remoting.protocol.body.consumer.connection import GetConsumerListByGroupResponseBody
from broker.remoting.protocol.body.consumer.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatData,
    ProducerData,
)
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.server import slices
from broker.server.processor import client


def heartbeat(desk, *, client_id="c1", groups=("G1",), producers=(), connection=None, **fields):
    data = HeartbeatData(
        client_id=client_id,
        consumer_data_set=[
            ConsumerData(
                group_name=group,
                consume_type="CONSUME_PASSIVELY",
                message_model=fields.pop("model", "CLUSTERING"),
                consume_from_where="CONSUME_FROM_FIRST_OFFSET",
                subscription_data_set=fields.pop(
                    "subscriptions", [build_subscription("Orders", "A", sub_version=1)]
                ),
            )
            for group in groups
        ],
        producer_data_set=[ProducerData(group_name=group) for group in producers],
        **fields,
    )
    return desk.ask(RequestCode.HEART_BEAT, body=data.to_bytes(), connection=connection)


def members(desk, group="G1") -> list[str]:
    answer = desk.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
    assert answer.code == 0
    body = GetConsumerListByGroupResponseBody.from_bytes(answer.body_bytes())
    return body.consumer_id_list


def test_heartbeat_makes_group_and_retry_topic_and_announces_it(desk) -> None:
    answer = heartbeat(desk)
    assert answer.code == 0
    assert "G1" in desk.context.groups
    retry = desk.context.topics.get("%RETRY%G1")
    assert (retry.read_queue_nums, retry.write_queue_nums, retry.perm) == (1, 1, 6)
    assert desk.announced == [["%RETRY%G1"]]


def test_second_heartbeat_announces_nothing(desk) -> None:
    heartbeat(desk)
    heartbeat(desk)
    assert len(desk.announced) == 1


def test_a_heartbeat_registers_its_groups(desk) -> None:
    heartbeat(desk, producers=["P1", "P2"])
    online = desk.context.consumers.get("G1")
    assert online.client_ids() == ["c1"]
    assert online.profile.consume_from_where == "CONSUME_FROM_FIRST_OFFSET"
    assert online.subscriptions["Orders"].code_set == {65}
    (channel,) = desk.context.producers.get("P2")
    assert (channel.client_id, channel.language, channel.version) == ("c1", "JAVA", 479)


def test_the_response_announces_heartbeat_version_2(desk) -> None:
    ext = heartbeat(desk).ext_fields
    assert ext == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    assert heartbeat(desk, heartbeat_fingerprint=5).ext_fields["IS_SUB_CHANGE"] == "true"
    assert heartbeat(desk, heartbeat_fingerprint=5).ext_fields["IS_SUB_CHANGE"] == "false"


def test_a_member_whose_subscriptions_were_replaced_is_asked_for_all(desk, fake_connection) -> None:
    """Two members of one group with different subscriptions, as while an application is updated."""
    other = fake_connection()
    short = {"heartbeat_fingerprint": 5, "without_sub": True, "subscriptions": []}
    heartbeat(desk, heartbeat_fingerprint=5)
    assert heartbeat(desk, **short).ext_fields["IS_SUB_CHANGE"] == "false"
    new = [build_subscription("Invoices", "*", sub_version=2)]
    heartbeat(desk, client_id="c2", connection=other, heartbeat_fingerprint=6, subscriptions=new)
    assert heartbeat(desk, **short).ext_fields["IS_SUB_CHANGE"] == "true"
    heartbeat(desk, heartbeat_fingerprint=5)
    assert desk.context.consumers.subscription("G1", "Orders") is not None


def test_heartbeat_without_subscriptions_keeps_them(desk) -> None:
    heartbeat(desk, heartbeat_fingerprint=5)
    answer = heartbeat(desk, heartbeat_fingerprint=5, without_sub=True, subscriptions=[])
    assert answer.ext_fields["IS_SUB_CHANGE"] == "false"
    assert desk.context.consumers.subscription("G1", "Orders") is not None


def test_unknown_client_without_subscriptions_is_asked_for_all(desk) -> None:
    """The broker was restarted: it has never seen the full heartbeat."""
    answer = heartbeat(desk, heartbeat_fingerprint=5, without_sub=True, subscriptions=[])
    assert answer.ext_fields["IS_SUB_CHANGE"] == "true"
    assert desk.context.consumers.get("G1") is None


def test_groups_of_one_heartbeat_have_a_limit(desk) -> None:
    producers = [f"P{number}" for number in range(10_001)]
    answer = heartbeat(desk, groups=(), producers=producers)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert desk.context.producers.groups() == []


def test_groups_of_one_connection_have_a_limit_over_all_its_heartbeats(desk, monkeypatch) -> None:
    monkeypatch.setattr(client, "MAX_GROUPS_OF_CLIENT", 5)
    assert heartbeat(desk, groups=["G1", "G2"], producers=["P1", "P2"]).code == 0
    assert heartbeat(desk, groups=["G1", "G2"], producers=["P1", "P2"]).code == 0
    assert heartbeat(desk, groups=["G3"], producers=["P1"]).code == 0
    answer = heartbeat(desk, groups=(), producers=["P3"])
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "a client with 6 groups is above the limit of 5" in answer.remark
    assert desk.context.producers.groups() == ["P1", "P2"]


def test_a_heartbeat_with_many_groups_is_taken_over_in_slices(desk, monkeypatch) -> None:
    groups = [f"G{number}" for number in range(7)]
    producers = [f"P{number}" for number in range(4)]
    monkeypatch.setattr(client, "GROUPS_PER_SLICE", 2)
    turns: list[int] = []

    async def noting_sleep(_):
        turns.append(len(desk.context.consumers) + len(desk.context.producers.groups()))

    monkeypatch.setattr(slices.asyncio, "sleep", noting_sleep)
    assert heartbeat(desk, groups=groups, producers=producers).code == 0
    assert turns == [0, 0, 0, 2, 4, 6, 8, 10], "no more than two groups between two turns"
    assert [online.name for online in desk.context.consumers] == groups
    assert desk.context.producers.groups() == producers
    assert desk.announced == [[f"%RETRY%{group}" for group in groups]]


def test_a_client_that_leaves_between_slices_is_not_remembered(desk, monkeypatch) -> None:
    monkeypatch.setattr(client, "GROUPS_PER_SLICE", 2)

    async def close_soon(_):
        if len(desk.context.consumers) == 4:
            desk.connection.closed = True
            desk.context.consumers.drop_connection(desk.connection)

    monkeypatch.setattr(slices.asyncio, "sleep", close_soon)
    heartbeat(desk, groups=[f"G{number}" for number in range(7)], producers=["P1"])
    assert len(desk.context.consumers) == 0
    assert desk.context.producers.groups() == []
    assert desk.context.memory.total_bytes == 0


def test_a_heartbeat_served_after_its_connection_closed_registers_nothing(desk) -> None:
    desk.connection.closed = True
    assert heartbeat(desk, producers=["P1"]).code == ResponseCode.SUCCESS
    assert len(desk.context.consumers) == 0
    assert desk.context.producers.groups() == []


def test_group_that_may_not_be_made_is_skipped(make_desk) -> None:
    desk = make_desk(autoCreateSubscriptionGroup="false")
    assert heartbeat(desk).code == 0
    assert desk.context.consumers.get("G1") is None
    assert "%RETRY%G1" not in desk.context.topics


def test_members_are_notified_when_the_group_changes(desk, fake_connection) -> None:
    other = fake_connection("127.0.0.1:50002")
    heartbeat(desk)
    desk.connection.sent.clear()
    heartbeat(desk, client_id="c2", connection=other)
    for peer in (desk.connection, other):
        (notice,) = peer.commands
        assert notice.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        assert notice.ext_fields == {"consumerGroup": "G1"}
        assert notice.is_oneway
    heartbeat(desk, client_id="c2", connection=other)
    assert len(other.sent) == 1
    assert members(desk) == ["c1", "c2"]


def test_broadcasting_groups_are_not_notified(desk, fake_connection) -> None:
    heartbeat(desk, model="BROADCASTING")
    heartbeat(desk, client_id="c2", connection=fake_connection(), model="BROADCASTING")
    assert desk.connection.sent == []


def test_unregistering_removes_and_notifies_the_others(desk, fake_connection) -> None:
    other = fake_connection()
    heartbeat(desk, producers=["P1"])
    heartbeat(desk, client_id="c2", connection=other)
    other.sent.clear()
    ext = {"clientID": "c1", "consumerGroup": "G1", "producerGroup": "P1"}
    assert desk.ask(RequestCode.UNREGISTER_CLIENT, ext).code == 0
    assert len(other.sent) == 1
    assert members(desk) == ["c2"]
    assert desk.context.producers.get("P1") == []
    assert desk.ask(RequestCode.UNREGISTER_CLIENT, ext).code == 0


def test_the_member_list_of_an_unknown_group_is_an_error(desk) -> None:
    answer = desk.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "G1"})
    assert answer.code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    ("enabled", "expression", "kind", "code"),
    [
        ("false", "A", "TAG", ResponseCode.SUCCESS),
        ("false", "n > 1", "SQL92", ResponseCode.SYSTEM_ERROR),
        ("true", "n > 1", "SQL92", ResponseCode.SUCCESS),
        ("true", "n >", "SQL92", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
    ],
)
def test_configuration_check(make_desk, enabled, expression, kind, code) -> None:
    desk = make_desk(enablePropertyFilter=enabled)
    body = CheckClientRequestBody(
        client_id="c1",
        group="G1",
        subscription_data=build_subscription("Orders", expression, kind),
    )
    assert desk.ask(RequestCode.CHECK_CLIENT_CONFIG, body=body.to_bytes()).code == code


def test_configuration_check_of_nothing(desk) -> None:
    assert desk.ask(RequestCode.CHECK_CLIENT_CONFIG).code == 0
