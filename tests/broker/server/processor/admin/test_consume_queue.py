"""Units of a queue over the wire."""

import json

import pytest

from broker.common.java import string_hash
from broker.common.subscription import build_subscription
from broker.remoting.protocol.body.consumer.consume import QueryConsumeQueueResponseBody
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.server.client.clients import ClientChannel, ConsumerProfile
from broker.server.processor.admin import consume_queue
from broker.store.format.consumequeue import ext_address
from broker.store.results import ConsumeQueueUnitView


@pytest.fixture
def stored(desk):
    desk.topic("Orders")
    for tag in ("A", "B", "A"):
        desk.send(properties={"TAGS": tag})
    return desk


def ask(desk, **fields):
    ext = {"topic": "Orders", "queueId": 0, "index": 0, "count": 10, **fields}
    return desk.ask(RequestCode.QUERY_CONSUME_QUEUE, ext)


def test_units_name_record_and_tag(stored) -> None:
    body = QueryConsumeQueueResponseBody.from_bytes(ask(stored).body_bytes())
    assert (body.min_queue_index, body.max_queue_index) == (0, 3)
    expected = [
        (message.physical_offset, message.total_size, string_hash(message.tags))
        for message in stored.messages("Orders")
    ]
    found = [(unit.physic_offset, unit.physic_size, unit.tags_code) for unit in body.queue_data]
    assert found == expected


def test_part_of_a_queue(stored) -> None:
    body = QueryConsumeQueueResponseBody.from_bytes(ask(stored, index=1, count=1).body_bytes())
    assert len(body.queue_data) == 1


def test_filter_of_an_online_group_is_tried(stored) -> None:
    channel = ClientChannel(stored.connection, "c1", "JAVA", 479, 0)
    stored.context.consumers.register(
        "G1", channel, ConsumerProfile(), [build_subscription("Orders", "A")]
    )
    answer = ask(stored, consumerGroup="G1")
    body = QueryConsumeQueueResponseBody.from_bytes(answer.body_bytes())
    assert [unit.eval for unit in body.queue_data] == [True, False, True]
    assert body.subscription_data.sub_string == "A"


def body_of(desk, **fields) -> QueryConsumeQueueResponseBody:
    return QueryConsumeQueueResponseBody.from_bytes(ask(desk, **fields).body_bytes())


def test_filter_data_shows_whether_the_group_is_online(stored) -> None:
    assert body_of(stored).filter_data is None
    assert body_of(stored, consumerGroup="G1").filter_data == "G1@Orders is not online!"
    channel = ClientChannel(stored.connection, "c1", "JAVA", 479, 0)
    stored.context.consumers.register(
        "G1", channel, ConsumerProfile(), [build_subscription("Orders", "A")]
    )
    assert body_of(stored, consumerGroup="G1").filter_data == "null", "as Java: no SQL92 filter"


def test_filter_data_is_the_stored_filter_of_an_sql_group(stored) -> None:
    channel = ClientChannel(stored.connection, "c1", "JAVA", 479, 0)
    data = build_subscription("Orders", "n > 2", "SQL92")
    stored.context.consumers.register("G1", channel, ConsumerProfile(), [data])
    stored.context.filters.register("G1", [data])
    found = json.loads(body_of(stored, consumerGroup="G1").filter_data)
    assert (found["consumerGroup"], found["expression"]) == ("G1", "n > 2")
    assert found["dead"] is False


def test_unit_whose_extension_unit_is_lost_has_a_message(stored, monkeypatch) -> None:
    address = ext_address(40)
    units = [ConsumeQueueUnitView(0, 0, 100, address), ConsumeQueueUnitView(1, 100, 100, 7)]
    monkeypatch.setattr(stored.store, "consume_queue_units", lambda *place: units)
    found = [unit.msg for unit in body_of(stored).queue_data]
    assert found == [f"Cq extend not exist!addr: {address}", None]


@pytest.fixture
def sql_group(stored):
    """An online group with an SQL92 subscription, on a queue whose last message has no ``n``."""
    for n in ("1", "5", ""):
        stored.send(queue_id=1, properties={"n": n})
    channel = ClientChannel(stored.connection, "c1", "JAVA", 479, 0)
    data = build_subscription("Orders", "n > 2", "SQL92")
    stored.context.consumers.register("G1", channel, ConsumerProfile(), [data])
    return stored


def evaluated(desk, **fields) -> list[bool]:
    answer = ask(desk, consumerGroup="G1", queueId=1, **fields)
    return [
        unit.eval
        for unit in QueryConsumeQueueResponseBody.from_bytes(answer.body_bytes()).queue_data
    ]


def test_sql_filter_is_tried_on_the_properties_of_each_message(sql_group) -> None:
    assert evaluated(sql_group) == [False, True, False]


def test_unit_without_a_record_is_not_accepted(sql_group, monkeypatch) -> None:
    monkeypatch.setattr(sql_group.store, "get_record_at", lambda offset, size: None)
    assert evaluated(sql_group) == [False, False, False]


def test_fewer_units_are_given_where_each_record_is_read(sql_group, monkeypatch) -> None:
    monkeypatch.setattr(consume_queue, "MAX_RECORDS", 2)
    assert evaluated(sql_group) == [False, True]


@pytest.mark.parametrize("index", [-1, 3, 99])
def test_index_outside_is_success_without_body(stored, index) -> None:
    answer = ask(stored, index=index)
    assert answer.code == 0
    assert answer.body_bytes() == b""
    assert "not exist" in answer.remark


@pytest.mark.parametrize("fields", [{"queueId": 3}, {"topic": "Unknown"}])
def test_unknown_queue(stored, fields) -> None:
    assert ask(stored, **fields).code == ResponseCode.SYSTEM_ERROR
