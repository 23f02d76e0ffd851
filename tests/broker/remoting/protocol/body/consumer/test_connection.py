"""Bodies about connected clients: names that Java spells irregularly, defaults."""

from broker.common.subscription import SubscriptionData
from broker.remoting.protocol.body.consumer.connection import (
    Connection,
    ConsumerConnection,
    GetConsumerListByGroupResponseBody,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
)

CONNECTION = b'{"clientAddr":"10.0.0.9:50000","clientId":"c1","language":"JAVA","version":479}'


def test_a_connection_has_client_id_address_language_and_version() -> None:
    connection = Connection(
        client_id="c1", client_addr="10.0.0.9:50000", language="JAVA", version=479
    )
    body = b'{"connectionSet":[' + CONNECTION + b"]}"
    assert ProducerConnection.from_bytes(body).connection_set == [connection]
    assert ProducerConnection(connection_set=[connection]).to_bytes() == body


def test_a_consumer_group_has_its_modes_and_subscriptions_by_topic() -> None:
    body = (
        b'{"connectionSet":[' + CONNECTION + b'],"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
        b'"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionTable":'
        b'{"T1":{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*",'
        b'"subVersion":17,"tagsSet":[],"topic":"T1"}}}'
    )
    group = ConsumerConnection.from_bytes(body)
    assert (group.consume_type, group.message_model, group.consume_from_where) == (
        "CONSUME_PASSIVELY",
        "CLUSTERING",
        "CONSUME_FROM_LAST_OFFSET",
    )
    subscription = group.subscription_table["T1"]
    assert isinstance(subscription, SubscriptionData)
    assert (subscription.sub_string, subscription.sub_version) == ("*", 17)
    assert group.to_bytes() == body


def test_the_address_of_a_producer_is_called_remote_ip_in_capitals() -> None:
    producer = ProducerInfo(client_id="c1", remote_ip="/10.0.0.9:5", last_update_timestamp=7)
    body = ProducerTableInfo(data={"P1": [producer]}).to_bytes()
    assert body == (
        b'{"data":{"P1":[{"clientId":"c1","lastUpdateTimestamp":7,"remoteIP":"/10.0.0.9:5",'
        b'"version":0}]}}'
    )
    assert ProducerTableInfo.from_bytes(body).data == {"P1": [producer]}


def test_group_members_are_a_list_of_client_ids() -> None:
    body = GetConsumerListByGroupResponseBody(consumer_id_list=["c1", "c2"])
    assert body.to_bytes() == b'{"consumerIdList":["c1","c2"]}'
    assert GetConsumerListByGroupResponseBody.from_bytes(b"").consumer_id_list == []
