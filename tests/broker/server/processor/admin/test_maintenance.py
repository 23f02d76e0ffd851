"""Upkeep of the store on request."""

import pytest

from broker.remoting.protocol.body.consumer.offset import DelayOffsetSerializeWrapper
from broker.remoting.protocol.codes import RequestCode


@pytest.mark.parametrize(
    "code", [RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, RequestCode.DELETE_EXPIRED_COMMITLOG]
)
def test_nothing_expired_nothing_lost(desk, code) -> None:
    desk.topic("Orders")
    desk.send()
    assert desk.ask(code).code == 0
    assert len(desk.messages("Orders")) == 1


def test_queues_of_topics_without_configuration_go(desk) -> None:
    desk.topic("Orders")
    desk.topic("Gone")
    desk.send()
    desk.send(topic="Gone")
    desk.send(properties={"DELAY": "1"})
    for topic in ("Orders", "Gone"):
        desk.context.offsets.commit("G1", topic, 0, 1)
    desk.context.topics.delete("Gone")
    assert desk.ask(RequestCode.CLEAN_UNUSED_TOPIC).code == 0
    assert set(desk.store.queues()) == {"Orders", "SCHEDULE_TOPIC_XXXX"}
    assert desk.context.offsets.topics_of("G1") == ["Orders"]


def test_delay_offsets_have_a_version_for_slaves(desk) -> None:
    desk.topic("Orders")
    desk.send(properties={"DELAY": "1"})
    desk.clock.advance(1_000)
    desk.context.delays.deliver_due()
    answer = desk.ask(RequestCode.GET_ALL_DELAY_OFFSET)
    body = DelayOffsetSerializeWrapper.from_bytes(answer.body_bytes())
    assert body.offset_table == {1: 1}
    assert body.data_version.counter == 1


def test_delay_offsets_of_a_broker_without_delays(desk) -> None:
    desk.context.delays = None
    assert desk.ask(RequestCode.GET_ALL_DELAY_OFFSET).code == 0
