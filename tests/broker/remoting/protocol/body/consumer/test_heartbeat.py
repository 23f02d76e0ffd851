"""Heartbeats: groups with their subscriptions, and the reduced form of version 2."""

from broker.common.subscription import SubscriptionData
from broker.remoting.protocol.body.consumer.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatData,
    ProducerData,
)

SUBSCRIPTION = SubscriptionData(topic="T1", sub_string="a || b", tags_set=frozenset({"a", "b"}))


def test_the_client_id_is_spelled_with_two_capitals() -> None:
    assert HeartbeatData(client_id="c1").to_bytes().startswith(b'{"clientID":"c1",')
    assert HeartbeatData.from_bytes(b'{"clientID":"c1"}').client_id == "c1"


def test_a_heartbeat_lists_producer_and_consumer_groups() -> None:
    heartbeat = HeartbeatData(
        client_id="c1",
        producer_data_set=[ProducerData(group_name="P1")],
        consumer_data_set=[
            ConsumerData(
                group_name="G1",
                consume_type="CONSUME_PASSIVELY",
                message_model="CLUSTERING",
                consume_from_where="CONSUME_FROM_FIRST_OFFSET",
                subscription_data_set=[SUBSCRIPTION],
                unit_mode=True,
            )
        ],
    )
    body = heartbeat.to_bytes()
    assert HeartbeatData.from_bytes(body) == heartbeat
    assert b'"producerDataSet":[{"groupName":"P1"}]' in body
    assert b'"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","consumeType":' in body


def test_version_2_sends_a_fingerprint_in_place_of_known_subscriptions() -> None:
    body = HeartbeatData(client_id="c", heartbeat_fingerprint=-77, without_sub=True).to_bytes()
    assert body == (
        b'{"clientID":"c","consumerDataSet":[],"heartbeatFingerprint":-77,"producerDataSet":[],'
        b'"withoutSub":true}'
    )


def test_a_4_9_client_sends_neither_fingerprint_nor_without_sub() -> None:
    heartbeat = HeartbeatData.from_bytes(b'{"clientID":"c","producerDataSet":[]}')
    assert (heartbeat.heartbeat_fingerprint, heartbeat.without_sub) == (0, False)


def test_a_client_check_contains_one_subscription() -> None:
    check = CheckClientRequestBody(client_id="c1", group="G1", subscription_data=SUBSCRIPTION)
    assert CheckClientRequestBody.from_bytes(check.to_bytes()) == check
    assert b"namespace" not in check.to_bytes()
