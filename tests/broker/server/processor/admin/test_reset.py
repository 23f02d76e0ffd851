"""Resetting offsets on the broker and through the clients; status; clone."""

import pytest

from broker.common.message_queue import MessageQueue
from broker.common.subscription import build_subscription
from broker.common.sysflag import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION
from broker.errors import RequestTimeoutError
from broker.remoting.protocol.body.consumer.offset import (
    GetConsumerStatusBody,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand
from broker.server import slices
from broker.server.client.clients import ClientChannel, ConsumerProfile
from broker.server.processor.admin import reset as reset_module

Q0, Q1 = (MessageQueue("Orders", "broker-a", number) for number in range(2))


def fill(desk):
    desk.topic("Orders", 2)
    for _ in range(4):
        desk.send()
        desk.clock.advance(1000)
    desk.context.groups.find("G1")
    return desk


@pytest.fixture
def filled(desk):
    return fill(desk)


def online(desk, version=479):
    channel = ClientChannel(desk.connection, "c1", "JAVA", version, 0)
    data = [build_subscription("Orders", "*", sub_version=1)]
    desk.context.consumers.register("G1", channel, ConsumerProfile(), data)


def reset(desk, *, language="JAVA", **fields):
    ext = {"topic": "Orders", "group": "G1", "timestamp": -1, "isForce": "true", **fields}
    return desk.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext, language=language)


def table(answer) -> dict:
    assert answer.code == 0, answer.remark
    return ResetOffsetBody.from_bytes(answer.body_bytes()).offset_table


class TestOnTheBroker:
    """useServerSideResetOffset=true, the default."""

    def test_negative_time_is_the_end(self, filled) -> None:
        assert table(reset(filled)) == {Q0: 4, Q1: 0}
        assert filled.context.offsets.query("G1", "Orders", 0) == 4

    def test_a_slave_refuses(self, make_desk) -> None:
        desk = make_desk(brokerId="1", brokerRole="SLAVE")
        desk.topic("Orders")
        answer = reset(desk)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark.endswith("is a slave: ask its master to reset offsets")

    def test_a_queue_that_does_not_exist_is_refused(self, filled) -> None:
        answer = reset(filled, queueId=2, offset=0)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == "queueId 2: the topic has 2 read queues"
        assert filled.context.offsets.query("G1", "Orders", 2) < 0

    def test_a_pull_from_before_does_not_undo_it(self, filled) -> None:
        table(reset(filled, queueId=0, offset=2))
        pull = {
            "consumerGroup": "G1",
            "topic": "Orders",
            "queueId": 0,
            "queueOffset": 3,
            "maxMsgNums": 1,
            "sysFlag": PULL_COMMIT_OFFSET | PULL_SUBSCRIPTION,
            "commitOffset": 3,
            "suspendTimeoutMillis": 0,
            "subVersion": 1,
        }
        assert filled.ask(RequestCode.PULL_MESSAGE, pull).code == ResponseCode.PULL_OFFSET_MOVED
        assert filled.context.offsets.query("G1", "Orders", 0) == 2

    def test_time_is_the_first_message_at_or_after_it(self, filled) -> None:
        second = filled.messages("Orders")[1].store_timestamp
        assert table(reset(filled, timestamp=second - 500)) == {Q0: 1, Q1: 0}

    def test_one_queue(self, filled) -> None:
        assert table(reset(filled, queueId=0, timestamp=0)) == {Q0: 0}
        assert table(reset(filled, queueId=0, offset=3)) == {Q0: 3}
        assert filled.context.offsets.query("G1", "Orders", 1) == -1

    @pytest.mark.parametrize("offset", [-5, 6])
    def test_offset_outside_the_queue(self, filled, offset) -> None:
        answer = reset(filled, queueId=0, offset=offset)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "[0-4]" in answer.remark

    def test_topic_and_group_must_exist(self, filled) -> None:
        assert reset(filled, topic="Unknown").code == ResponseCode.TOPIC_NOT_EXIST
        answer = reset(filled, group="Unknown")
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

    def test_suspended_pull_learns_at_once(self, filled) -> None:
        filled.pull(queue_offset=4, sysFlag=6)
        reset(filled, timestamp=0)
        (answer,) = filled.connection.commands
        assert answer.code == ResponseCode.PULL_OFFSET_MOVED
        assert answer.ext_fields["nextBeginOffset"] == "0"

    def test_many_queues_are_reset_in_slices(self, filled, monkeypatch) -> None:
        pauses = []

        async def noting_sleep(_) -> None:
            pauses.append(1)

        monkeypatch.setattr(slices.asyncio, "sleep", noting_sleep)
        monkeypatch.setattr(reset_module, "QUEUES_PER_SLICE", 10)
        filled.topic("Wide", 35)
        filled.send("Wide", queue_id=34)
        offsets = table(reset(filled, topic="Wide"))
        assert [offset for _, offset in sorted(offsets.items())] == [0] * 34 + [1]
        assert filled.context.offsets.query("G1", "Wide", 34) == 1
        assert len(pauses) == 2 * 3  # the search, then the change


class TestThroughClients:
    """useServerSideResetOffset=false, as 4.9."""

    @pytest.fixture
    def filled(self, make_desk):
        desk = fill(make_desk(useServerSideResetOffset="false"))
        desk.context.offsets.commit("G1", "Orders", 0, 2)
        desk.context.offsets.commit("G1", "Orders", 1, 0)
        return desk

    def test_members_are_notified(self, filled) -> None:
        online(filled)
        assert table(reset(filled, timestamp=0)) == {Q0: 0, Q1: 0}
        (notice,) = filled.connection.commands
        assert notice.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
        assert notice.is_oneway
        assert notice.ext_fields["group"] == "G1"
        body = ResetOffsetBody.from_bytes(notice.body_bytes())
        assert body.offset_table == {Q0: 0, Q1: 0}
        assert filled.context.offsets.query("G1", "Orders", 0) == 2

    def test_cpp_tools_get_the_list_form_pushed(self, filled) -> None:
        online(filled)
        assert table(reset(filled, timestamp=0, language="CPP")) == {Q0: 0, Q1: 0}
        (notice,) = filled.connection.commands
        body = ResetOffsetBodyForC.from_bytes(notice.body_bytes())
        assert [entry.queue_id for entry in body.offset_table] == [0, 1]

    def test_later_offsets_only_by_force(self, filled) -> None:
        online(filled)
        assert table(reset(filled, isForce="false"))[Q0] == 2
        assert table(reset(filled, isForce="true"))[Q0] == 4

    def test_an_offline_group_is_reported(self, filled) -> None:
        assert reset(filled).code == ResponseCode.CONSUMER_NOT_ONLINE

    def test_queue_never_consumed(self, filled) -> None:
        filled.context.offsets.remove_group("G1")
        online(filled)
        assert reset(filled).code == ResponseCode.SYSTEM_ERROR

    def test_client_too_old(self, filled) -> None:
        online(filled, version=20)
        assert reset(filled).code == ResponseCode.SYSTEM_ERROR

    def test_unknown_topic(self, filled) -> None:
        assert reset(filled, topic="Unknown").code == ResponseCode.SYSTEM_ERROR


class TestStatus:
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS."""

    def ask(self, desk, **fields):
        ext = {"topic": "Orders", "group": "G1", **fields}
        return desk.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, ext)

    def test_members_answer(self, filled) -> None:
        online(filled)
        body = GetConsumerStatusBody(message_queue_table={Q0: 3})
        filled.connection.answer = RemotingCommand(code=0, body=body.to_bytes())
        answer = self.ask(filled)
        found = GetConsumerStatusBody.from_bytes(answer.body_bytes()).consumer_table
        assert found == {"c1": {Q0: 3}}
        (call,) = filled.connection.calls
        assert call[0].code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT

    def test_one_client_only(self, filled) -> None:
        online(filled)
        answer = self.ask(filled, clientAddr="other")
        assert GetConsumerStatusBody.from_bytes(answer.body_bytes()).consumer_table == {}
        assert filled.connection.calls == []

    @pytest.mark.parametrize(
        "reply", [RequestTimeoutError("slow"), RemotingCommand(code=1), RemotingCommand(body=b"[")]
    )
    def test_members_that_do_not_answer_are_left_out(self, filled, reply) -> None:
        online(filled)
        filled.connection.answer = reply
        answer = self.ask(filled)
        assert answer.code == 0
        assert GetConsumerStatusBody.from_bytes(answer.body_bytes()).consumer_table == {}

    def test_an_offline_group_is_reported(self, filled) -> None:
        assert self.ask(filled).code == ResponseCode.SYSTEM_ERROR


def test_clone_one_topic_or_all(filled) -> None:
    filled.topic("Other")
    offsets = filled.context.offsets
    offsets.commit("G1", "Orders", 0, 2)
    offsets.commit("G1", "Other", 0, 3)
    offsets.commit("G1", "Unknown", 0, 3)
    ext = {"srcGroup": "G1", "destGroup": "G2", "topic": "Orders", "offline": "true"}
    assert filled.ask(RequestCode.CLONE_GROUP_OFFSET, ext).code == 0
    assert offsets.topics_of("G2") == ["Orders"]
    ext = {"srcGroup": "G1", "destGroup": "G3", "offline": "true"}
    assert filled.ask(RequestCode.CLONE_GROUP_OFFSET, ext).code == 0
    assert offsets.topics_of("G3") == ["Orders", "Other"]
