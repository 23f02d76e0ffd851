"""Connection listings."""

from broker.common.subscription import build_subscription
from broker.remoting.protocol.body.consumer import connection as bodies
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.server.client.clients import ClientChannel, ConsumerProfile


def test_consumer_connections(desk) -> None:
    channel = ClientChannel(desk.connection, "c1", "GO", 317, 0)
    profile = ConsumerProfile("CONSUME_ACTIVELY", "BROADCASTING", "CONSUME_FROM_TIMESTAMP")
    data = build_subscription("Orders", "A || B", sub_version=3)
    desk.context.consumers.register("G1", channel, profile, [data])
    answer = desk.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "G1"})
    body = bodies.ConsumerConnection.from_bytes(answer.body_bytes())
    assert body.connection_set == [
        bodies.Connection(client_id="c1", client_addr="127.0.0.1:50001", language="GO", version=317)
    ]
    assert body.subscription_table == {"Orders": data}
    assert body.consume_type == "CONSUME_ACTIVELY"
    assert body.message_model == "BROADCASTING"
    assert body.consume_from_where == "CONSUME_FROM_TIMESTAMP"


def test_consumer_group_that_is_not_online(desk) -> None:
    answer = desk.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "G1"})
    assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE
    assert answer.remark == "the consumer group[G1] not online"


def test_producer_connections(desk) -> None:
    code = RequestCode.GET_PRODUCER_CONNECTION_LIST
    answer = desk.ask(code, {"producerGroup": "P1"})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    desk.context.producers.register("P1", ClientChannel(desk.connection, "p1", "JAVA", 479, 0))
    body = bodies.ProducerConnection.from_bytes(
        desk.ask(code, {"producerGroup": "P1"}).body_bytes()
    )
    assert [client.client_id for client in body.connection_set] == ["p1"]


def test_all_producers(desk) -> None:
    for group in ("P2", "P1"):
        channel = ClientChannel(desk.connection, "p1", "JAVA", 479, 55)
        desk.context.producers.register(group, channel)
    answer = desk.ask(RequestCode.GET_ALL_PRODUCER_INFO)
    body = bodies.ProducerTableInfo.from_bytes(answer.body_bytes())
    assert list(body.data) == ["P1", "P2"]
    (info,) = body.data["P1"]
    assert (info.remote_ip, info.last_update_timestamp) == ("/127.0.0.1:50001", 55)
