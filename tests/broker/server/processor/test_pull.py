"""Pulls: checks, filters, outcomes, long polling."""

import asyncio

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.common.subscription import build_subscription
from broker.common.topic import PERM_WRITE
from broker.message.batch import encode_batch_item
from broker.message.properties import encode_properties
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import request
from broker.remoting.protocol.serialize import encode_json_header
from broker.server import slices
from broker.server.client.clients import ClientChannel, ConsumerProfile
from broker.server.longpolling.long_polling import SUSPENDED_PULL_BYTES
from broker.server.processor import pull
from broker.server.processor.ordinary_pull import OrdinaryPulls
from broker.store.results import MessageExtBrokerInner
from tests.support.direct_answers import joined


@pytest.fixture(params=["ordinary path", "direct path"])
def make_desk(request, make_desk):
    """Each test on both paths: the direct one is asked first, as by a connection."""

    def make(**properties):
        desk = make_desk(**properties)
        if request.param == "direct path" and not desk.context.config.is_slave:
            desk.handlers[RequestCode.PULL_MESSAGE] = pull_directly(desk)
        return desk

    return make


def pull_directly(desk):
    pulls = OrdinaryPulls(desk.context, desk.pulls)

    def handle(connection, command):
        answer = joined(pulls.answer(connection, encode_json_header(command)))
        return desk.pulls.pull(connection, command) if answer is None else answer

    return handle


SUSPEND = 4 | 2
COMMIT = 4 | 1


def online(desk, group="G1", topic="Orders", expression="*", version=1, model="CLUSTERING"):
    """Register a consumer of ``topic`` without a heartbeat."""
    channel = ClientChannel(desk.connection, "c1", "JAVA", 479, desk.clock.now_ms())
    profile = ConsumerProfile(message_model=model)
    data = build_subscription(topic, expression, sub_version=version)
    desk.context.consumers.register(group, channel, profile, [data])


def test_found_messages_come_as_they_are_stored(desk, records) -> None:
    desk.topic("Orders")
    for number in range(3):
        desk.send(body=b"%d" % number)
    answer = desk.pull(queue_offset=1)
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, "FOUND")
    assert [m.body for m in records(answer)] == [b"1", b"2"]
    assert answer.body_bytes() == b"".join(
        bytes(part) for part in desk.store.get_message("Orders", 0, 1).buffers
    )
    ext = answer.ext_fields
    assert (ext["minOffset"], ext["maxOffset"], ext["nextBeginOffset"]) == ("0", "3", "3")
    assert ext["suggestWhichBrokerId"] == "0"
    assert (ext["topicSysFlag"], ext["groupSysFlag"]) == ("0", "0")


def test_no_more_messages_than_asked_for_and_than_the_limit(desk, records) -> None:
    desk.topic("Orders")
    for _ in range(40):
        desk.send()
    assert len(records(desk.pull(maxMsgNums=5))) == 5
    assert len(records(desk.pull(maxMsgNums=1000))) == 32


@pytest.mark.parametrize("number", [0, -1, -(2**31)])
def test_at_least_one_message_is_given(desk, records, number) -> None:
    """Asking for none must not make a consumer skip messages."""
    desk.topic("Orders")
    desk.send()
    desk.send()
    answer = desk.pull(maxMsgNums=number)
    assert len(records(answer)) == 1
    assert answer.ext_fields["nextBeginOffset"] == "1"


@pytest.mark.parametrize(
    ("stored", "offset", "code", "remark", "following"),
    [
        (0, 0, 19, "NO_MATCHED_LOGIC_QUEUE", 0),
        (0, 7, 21, "NO_MATCHED_LOGIC_QUEUE", 0),
        (3, 3, 19, "OFFSET_OVERFLOW_ONE", 3),
        (3, 9, 21, "OFFSET_OVERFLOW_BADLY", 3),
        (3, -1, 21, "OFFSET_TOO_SMALL", 0),
    ],
)
def test_outcomes_without_messages(desk, stored, offset, code, remark, following) -> None:
    desk.topic("Orders")
    for _ in range(stored):
        desk.send()
    answer = desk.pull(queue_offset=offset)
    assert (answer.code, answer.remark) == (code, remark)
    assert answer.ext_fields["nextBeginOffset"] == str(following)
    assert answer.body_bytes() == b""


class TestChecks:
    """Refusals in Java's order."""

    def test_unknown_topic(self, desk) -> None:
        assert desk.pull("Unknown").code == ResponseCode.TOPIC_NOT_EXIST

    def test_unknown_group(self, make_desk) -> None:
        desk = make_desk(autoCreateSubscriptionGroup="false")
        desk.topic("Orders")
        assert desk.pull().code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

    def test_unknown_group_is_made(self, desk) -> None:
        desk.topic("Orders")
        desk.pull(group="Fresh")
        assert "Fresh" in desk.context.groups

    def test_group_switched_off(self, desk) -> None:
        desk.topic("Orders")
        config = SubscriptionGroupConfig(group_name="G1", consume_enable=False)
        desk.context.groups.put_all([config])
        answer = desk.pull()
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.ext_fields["forbiddenType"] == "2"

    def test_topic_that_cannot_be_read(self, desk) -> None:
        desk.topic("Orders", perm=PERM_WRITE)
        answer = desk.pull()
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.ext_fields["forbiddenType"] == "3"

    @pytest.mark.parametrize("queue_id", [-1, 4])
    def test_queue_outside_the_topic(self, desk, queue_id) -> None:
        desk.topic("Orders", 4)
        assert desk.pull(queue_id=queue_id).code == ResponseCode.INVALID_PARAMETER

    def test_broker_that_may_not_be_read(self, make_desk) -> None:
        desk = make_desk(brokerPermission="2")
        desk.topic("Orders")
        answer = desk.pull()
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.ext_fields["forbiddenType"] == "1"

    def test_lite_pull_has_its_own_switch(self, make_desk) -> None:
        desk = make_desk(litePullMessageEnable="false")
        desk.topic("Orders")
        answer = desk.ask(RequestCode.LITE_PULL_MESSAGE, {})
        assert answer.code == ResponseCode.NO_PERMISSION

    def test_lite_pull_is_a_pull(self, desk, records) -> None:
        desk.topic("Orders")
        desk.send()
        ext = {
            "consumerGroup": "G1",
            "topic": "Orders",
            "queueId": 0,
            "queueOffset": 0,
            "maxMsgNums": 1,
            "sysFlag": 20,
            "commitOffset": 0,
            "suspendTimeoutMillis": 0,
            "subscription": "*",
            "subVersion": 0,
        }
        assert len(records(desk.ask(RequestCode.LITE_PULL_MESSAGE, ext))) == 1


class TestSubscription:
    """Without its own subscription a pull uses the subscription of the heartbeats."""

    def code(self, desk, **fields) -> int:
        fields = {"sysFlag": 0, "subVersion": 1, **fields}
        return desk.pull(**fields).code

    @pytest.fixture
    def topic(self, desk):
        desk.topic("Orders")
        desk.send(properties={"TAGS": "A"})
        desk.send(properties={"TAGS": "B"})
        return desk

    def test_group_that_never_sent_a_heartbeat(self, topic) -> None:
        assert self.code(topic) == ResponseCode.SUBSCRIPTION_NOT_EXIST

    def test_topic_the_group_does_not_subscribe(self, topic) -> None:
        online(topic, topic="Other")
        assert self.code(topic) == ResponseCode.SUBSCRIPTION_NOT_EXIST

    def test_subscription_older_than_the_pull(self, topic) -> None:
        online(topic, version=1)
        assert self.code(topic, subVersion=2) == ResponseCode.SUBSCRIPTION_NOT_LATEST
        assert self.code(topic, subVersion=1) == 0

    def test_registered_filter_counts(self, topic, records) -> None:
        online(topic, expression="B")
        answer = topic.pull(sysFlag=0, subVersion=1, subscription="A")
        assert [m.tags for m in records(answer)] == ["B"]

    def test_broadcasting_that_is_not_allowed(self, topic) -> None:
        config = SubscriptionGroupConfig(group_name="G1", consume_broadcast_enable=False)
        topic.context.groups.put_all([config])
        online(topic, model="BROADCASTING")
        answer = topic.pull(sysFlag=0)
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.ext_fields["forbiddenType"] == "4"

    def test_topic_forbidden_to_the_group(self, topic) -> None:
        online(topic)
        topic.context.groups.forbid_read("G1", "Orders", True)
        answer = topic.pull(sysFlag=0)
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.ext_fields["forbiddenType"] == "5"


class TestFilter:
    """Tags by their code in the queue, SQL92 by the properties of the record."""

    @pytest.fixture
    def tagged(self, make_desk):
        desk = make_desk(enablePropertyFilter="true")
        desk.topic("Orders")
        for number, tag in enumerate(["A", "B", "C", "", "A"]):
            desk.send(body=b"%d" % number, properties={"TAGS": tag, "n": str(number)})
        return desk

    @pytest.mark.parametrize(
        ("expression", "bodies"),
        [
            ("*", [b"0", b"1", b"2", b"3", b"4"]),
            ("", [b"0", b"1", b"2", b"3", b"4"]),
            ("A", [b"0", b"4"]),
            ("A || C", [b"0", b"2", b"4"]),
        ],
    )
    def test_tags(self, tagged, records, expression, bodies) -> None:
        assert [m.body for m in records(tagged.pull(subscription=expression))] == bodies

    def test_nothing_matches_moves_on(self, tagged) -> None:
        answer = tagged.pull(subscription="X")
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert answer.remark == "NO_MATCHED_MESSAGE"
        assert answer.ext_fields["nextBeginOffset"] == "5"

    def test_separators_only_do_not_parse(self, tagged) -> None:
        answer = tagged.pull(subscription="||")
        assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED

    def test_sql(self, tagged, records) -> None:
        answer = tagged.pull(subscription="n > 2 OR TAGS = 'B'", expressionType="SQL92")
        assert [m.body for m in records(answer)] == [b"1", b"3", b"4"]

    def test_wrong_sql(self, tagged) -> None:
        answer = tagged.pull(subscription="n >>> 2", expressionType="SQL92")
        assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED

    def test_sql_needs_its_switch(self, desk) -> None:
        desk.topic("Orders")
        answer = desk.pull(subscription="n > 2", expressionType="SQL92")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "SQL92" in answer.remark

    def test_retried_messages_pass_an_sql_filter(self, tagged, records) -> None:
        tagged.send(topic="%RETRY%G1", j=1)
        answer = tagged.pull("%RETRY%G1", subscription="n > 100", expressionType="SQL92")
        assert len(records(answer)) == 1


class TestOffsets:
    """A pull commits, notes how far it came, and takes up resets."""

    def test_commit_flag_commits(self, desk) -> None:
        desk.topic("Orders")
        desk.send()
        desk.pull(queue_offset=1, commitOffset=1)
        assert desk.context.offsets.query("G1", "Orders", 0) == -1
        desk.pull(queue_offset=1, commitOffset=-5, sysFlag=COMMIT)
        assert desk.context.offsets.query("G1", "Orders", 0) == -1
        desk.pull(queue_offset=1, commitOffset=1, sysFlag=COMMIT)
        assert desk.context.offsets.query("G1", "Orders", 0) == 1

    def test_end_of_the_pull_is_remembered(self, desk) -> None:
        desk.topic("Orders")
        desk.send()
        desk.pull()
        assert desk.context.offsets.pulled("G1", "Orders", 0) == 1

    def test_reset_is_taken_up_once(self, desk) -> None:
        desk.topic("Orders")
        for _ in range(3):
            desk.send()
        desk.context.offsets.reset("G1", "Orders", 0, 1)
        answer = desk.pull(queue_offset=3)
        assert (answer.code, answer.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
        assert answer.ext_fields["nextBeginOffset"] == "1"
        assert answer.ext_fields["maxOffset"] == "3"
        assert desk.pull(queue_offset=3).code == ResponseCode.PULL_NOT_FOUND


class TestLongPolling:
    """Nothing there: the request waits for a message, its deadline, or the end."""

    @pytest.fixture
    def suspended(self, desk):
        desk.topic("Orders")
        desk.send(properties={"TAGS": "A"})
        assert desk.pull(queue_offset=1, sysFlag=SUSPEND) is None
        assert len(desk.context.holds) == 1
        return desk

    def test_arrival_answers(self, suspended, records) -> None:
        suspended.send(body=b"second")
        (answer,) = suspended.connection.commands
        assert (answer.code, answer.ext_fields["nextBeginOffset"]) == (0, "2")
        assert [m.body for m in records(answer)] == [b"second"]
        assert len(suspended.context.holds) == 0

    def test_only_the_replayed_parts_of_a_request_are_kept(self, desk, records) -> None:
        desk.topic("Orders")
        desk.send(properties={"TAGS": "A"})
        ext = {
            "consumerGroup": "G1",
            "topic": "Orders",
            "queueId": 0,
            "queueOffset": 1,
            "maxMsgNums": 32,
            "sysFlag": SUSPEND,
            "commitOffset": 0,
            "suspendTimeoutMillis": 15_000,
            "subscription": "B",
            "subVersion": 0,
            "more": "x" * 1000,
        }
        assert desk.ask(RequestCode.PULL_MESSAGE, ext, b"y" * 1000) is None
        (held,) = desk.context.holds.take_all()
        assert held.request.body == b""
        assert set(held.request.ext_fields) == set(ext) - {"more"}
        expected = SUSPENDED_PULL_BYTES + 1 + desk.context.matchers.get("TAG", "B").held_bytes
        assert held.held_bytes == expected

    def test_connection_at_its_limit_is_answered_at_once(self, desk) -> None:
        desk.topic("Orders")
        desk.send()
        desk.context.memory.charge(desk.connection, desk.context.memory.owner_limit_bytes)
        answer = desk.pull(queue_offset=1, sysFlag=SUSPEND)
        assert answer.code == ResponseCode.PULL_NOT_FOUND

    def test_arrival_in_another_queue_does_not(self, suspended) -> None:
        suspended.send(queue_id=1)
        assert suspended.connection.sent == []

    def test_all_messages_of_a_turn_come_in_one_answer(self, suspended, records) -> None:
        suspended.deferred = True
        suspended.send(body=b"2")
        suspended.send(body=b"3")
        suspended.end_turn()
        (answer,) = suspended.connection.commands
        assert [m.body for m in records(answer)] == [b"2", b"3"]

    def test_message_the_filter_rejects_does_not_wake(self, desk) -> None:
        desk.topic("Orders")
        desk.pull(sysFlag=SUSPEND, subscription="B")
        desk.send(properties={"TAGS": "A"})
        assert desk.connection.sent == []
        desk.send(properties={"TAGS": "B"})
        assert len(desk.connection.sent) == 1

    def test_sql_filter_looks_at_the_arriving_properties(self, make_desk) -> None:
        desk = make_desk(enablePropertyFilter="true")
        desk.topic("Orders")
        desk.pull(sysFlag=SUSPEND, subscription="n = 1", expressionType="SQL92")
        desk.send(properties={"n": "0"})
        assert desk.connection.sent == []
        desk.send(properties={"n": "1"})
        assert len(desk.connection.sent) == 1

    def test_deadline_answers_not_found(self, suspended) -> None:
        suspended.clock.advance(14_999)
        assert suspended.context.holds.expire(suspended.clock.monotonic_ms()) == []
        suspended.clock.advance(1)
        suspended.pulls.resume(suspended.context.holds.expire(suspended.clock.monotonic_ms()))
        (answer,) = suspended.connection.commands
        assert answer.code == ResponseCode.PULL_NOT_FOUND
        assert answer.ext_fields["nextBeginOffset"] == "1"

    def test_hold_is_as_long_as_the_client_asks(self, desk) -> None:
        desk.topic("Orders")
        desk.pull(sysFlag=SUSPEND, suspendTimeoutMillis=20_000)
        assert desk.context.holds.next_deadline_ms() == 20_000

    def test_hold_has_an_upper_bound(self, desk) -> None:
        desk.topic("Orders")
        desk.pull(sysFlag=SUSPEND, suspendTimeoutMillis=10**9)
        assert desk.context.holds.next_deadline_ms() == 120_000

    def test_short_polling(self, make_desk) -> None:
        desk = make_desk(longPollingEnable="false")
        desk.topic("Orders")
        desk.pull(sysFlag=SUSPEND)
        assert desk.context.holds.next_deadline_ms() == 1_000

    def test_moved_offsets_are_never_held(self, desk) -> None:
        desk.topic("Orders")
        answer = desk.pull(queue_offset=5, sysFlag=SUSPEND)
        assert answer.code == ResponseCode.PULL_OFFSET_MOVED

    def test_beyond_the_limit_pulls_are_answered_at_once(self, make_desk) -> None:
        desk = make_desk(maxHeldPulls="1")
        desk.topic("Orders")
        assert desk.pull(sysFlag=SUSPEND) is None
        assert desk.pull(sysFlag=SUSPEND).code == ResponseCode.PULL_NOT_FOUND

    def test_offset_is_committed_once(self, desk) -> None:
        desk.topic("Orders")
        desk.pull(sysFlag=SUSPEND | 1, commitOffset=7)
        desk.context.offsets.commit("G1", "Orders", 0, 9)
        desk.send()
        assert desk.context.offsets.query("G1", "Orders", 0) == 9

    def test_closed_connection_gets_nothing(self, suspended) -> None:
        suspended.connection.closed = True
        suspended.send()
        assert suspended.connection.sent == []

    def test_pull_that_fails_does_not_take_the_others_along(self, suspended, monkeypatch) -> None:
        """Whatever a suspended pull raises is the answer to its own client."""
        assert suspended.pull(queue_offset=0, queue_id=1, sysFlag=SUSPEND) is None
        read = suspended.store.get_message

        def fail_on_queue_0(topic, queue_id, *rest, **how):
            if queue_id == 0:
                raise KeyError("broken")
            return read(topic, queue_id, *rest, **how)

        monkeypatch.setattr(suspended.store, "get_message", fail_on_queue_0)
        suspended.pulls.resume(suspended.context.holds.take_all())
        failed, answered = suspended.connection.commands
        assert failed.code == ResponseCode.SYSTEM_ERROR
        assert "KeyError" in failed.remark
        assert answered.code == ResponseCode.PULL_NOT_FOUND

    def test_a_topic_deleted_meanwhile_is_reported(self, suspended) -> None:
        suspended.context.topics.delete("Orders")
        suspended.pulls.resume(suspended.context.holds.take_all())
        (answer,) = suspended.connection.commands
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST


def test_pulls_are_counted(desk) -> None:
    desk.topic("Orders")
    desk.send()
    desk.pull()
    desk.pull(queue_offset=1)
    stats = desk.context.stats
    assert stats.find("GROUP_GET_NUMS", "Orders@G1").value == 1
    assert stats.get_messages.value == 1
    assert (stats.get_found.value, stats.get_missed.value) == (1, 1)


def test_header_field_missing_is_named(desk) -> None:
    from broker.errors import RemoteProtocolError

    with pytest.raises(RemoteProtocolError, match="consumerGroup"):
        desk.ask(RequestCode.PULL_MESSAGE, {"topic": "Orders"})


class TestInnerBatches:
    """Records that hold a whole batch: whole for 5.x clients, one by one for the others."""

    OLD = 409  # V4_9_8

    @pytest.fixture
    def batches(self, desk):
        """Bulk with a batch of three, a single message and a batch of two with the tag B."""
        desk.topic("Bulk", attributes={"queue.type": "BatchCQ"})
        self.send(desk, [b"a", b"b", b"c"])
        desk.send("Bulk", b"d")
        self.send(desk, [b"e", b"f"], TAGS="B", n="2")
        return desk

    def send(self, desk, bodies, **header) -> None:
        body = b"".join(
            encode_batch_item(number, part, encode_properties({"UNIQ_KEY": f"U{part.decode()}"}))
            for number, part in enumerate(bodies)
        )
        given = {"UNIQ_KEY": "AC11000100012A139A5518B4AAC20000", "WAIT": "true", **header}
        ext = {"a": "P1", "b": "Bulk", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 5, "h": 0}
        ext |= {"i": encode_properties(given).decode(), "m": "true"}
        assert desk.ask(RequestCode.SEND_BATCH_MESSAGE, ext, body).code == 0

    def pull(self, desk, version, **fields):
        ext = {
            "consumerGroup": "G1",
            "topic": "Bulk",
            "queueId": 0,
            "queueOffset": 0,
            "maxMsgNums": 32,
            "sysFlag": 4,
            "commitOffset": 0,
            "suspendTimeoutMillis": 15_000,
            "subscription": "*",
            "subVersion": 0,
            **fields,
        }
        return desk.ask(RequestCode.PULL_MESSAGE, ext, version=version)

    def test_5x_clients_get_the_records_as_stored(self, batches, records) -> None:
        answer = self.pull(batches, 412)
        found = records(answer)
        assert [(m.queue_offset, m.sys_flag) for m in found] == [(0, 0xC0), (3, 0), (4, 0xC0)]
        assert answer.ext_fields["nextBeginOffset"] == "6"

    def test_older_clients_get_every_message_at_its_own_offset(self, batches, records) -> None:
        answer = self.pull(batches, self.OLD)
        found = records(answer)
        assert [(m.queue_offset, m.body) for m in found] == list(
            enumerate([b"a", b"b", b"c", b"d", b"e", b"f"])
        )
        assert {m.sys_flag for m in found} == {0}
        assert [m.properties["UNIQ_KEY"] for m in found if m.body != b"d"] == [
            "Ua",
            "Ub",
            "Uc",
            "Ue",
            "Uf",
        ]
        assert [m.flag for m in found] == [0, 1, 2, 0, 0, 1]
        assert {m.topic for m in found} == {"Bulk"}
        stored = batches.messages("Bulk")
        assert found[1].physical_offset == stored[0].physical_offset
        assert found[5].store_timestamp == stored[2].store_timestamp
        assert answer.ext_fields["nextBeginOffset"] == "6"

    def test_messages_before_the_asked_offset_are_left_out(self, batches, records) -> None:
        found = records(self.pull(batches, self.OLD, queueOffset=1, maxMsgNums=1))
        assert [(m.queue_offset, m.body) for m in found] == [(1, b"b"), (2, b"c")]

    def test_a_suspended_pull_of_an_older_client_is_unwrapped_too(
        self, batches, records, decode_frame
    ) -> None:
        connection = batches.connection

        async def main() -> None:
            assert self.pull_now(batches, queueOffset=8, sysFlag=6) is None
            batches.store.put_message(batch)
            while not connection.sent:
                await asyncio.sleep(0)

        self.send(batches, [b"g", b"h"])
        stored = batches.messages("Bulk")[-1]
        batch = MessageExtBrokerInner(
            "Bulk", 0, stored.body, encode_properties({"INNER_NUM": "2"}), sys_flag=0xC0
        )
        asyncio.run(main())
        found = records(decode_frame(connection.sent[-1]))
        assert [(m.queue_offset, m.body) for m in found] == [(8, b"g"), (9, b"h")]

    def pull_now(self, desk, **fields):
        command = request(RequestCode.PULL_MESSAGE)
        command.version = self.OLD
        command.ext_fields = {
            name: str(value)
            for name, value in {
                "consumerGroup": "G1",
                "topic": "Bulk",
                "queueId": 0,
                "maxMsgNums": 32,
                "commitOffset": 0,
                "suspendTimeoutMillis": 15_000,
                "subscription": "*",
                "subVersion": 0,
                **fields,
            }.items()
        }
        return desk.handlers[RequestCode.PULL_MESSAGE](desk.connection, command)

    def test_a_long_batch_is_unwrapped_in_slices(self, batches, records, monkeypatch) -> None:
        monkeypatch.setattr(pull, "RECORDS_PER_SLICE", 2)
        turns: list[int] = []

        async def noting_sleep(_) -> None:
            turns.append(1)

        monkeypatch.setattr(slices.asyncio, "sleep", noting_sleep)
        assert len(records(self.pull(batches, self.OLD))) == 6
        assert len(turns) == 3

    def test_a_sql_filter_selects_whole_records(self, make_desk, records) -> None:
        desk = make_desk(enablePropertyFilter="true")
        desk.topic("Bulk", attributes={"queue.type": "BatchCQ"})
        self.send(desk, [b"a", b"b"], n="1")
        self.send(desk, [b"c", b"d"], n="2")
        answer = self.pull(desk, 412, subscription="n > 1", expressionType="SQL92")
        assert [m.queue_offset for m in records(answer)] == [2]
        found = records(self.pull(desk, self.OLD, subscription="n > 1", expressionType="SQL92"))
        assert [m.body for m in found] == [b"c", b"d"]

    def test_a_body_that_is_not_a_batch_is_left_unchanged(self, batches, records) -> None:
        assert batches.send("Bulk", b"no batch", f=0x80).code == 0
        found = records(self.pull(batches, self.OLD, queueOffset=6))
        assert [(m.queue_offset, m.body) for m in found] == [(6, b"no batch")]


@pytest.mark.parametrize(
    ("readable", "code"), [("false", ResponseCode.SYSTEM_BUSY), ("true", ResponseCode.SUCCESS)]
)
@pytest.mark.parametrize("kind", [RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE])
def test_a_slave_serves_pulls_only_with_slave_read_enable(make_desk, readable, code, kind) -> None:
    slave = make_desk(brokerRole="SLAVE", brokerId="1", slaveReadEnable=readable)
    slave.topic("Orders")
    slave.send()
    fields = {
        "consumerGroup": "G1",
        "topic": "Orders",
        "queueId": 0,
        "queueOffset": 0,
        "maxMsgNums": 32,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subscription": "*",
        "subVersion": 0,
    }
    assert slave.ask(kind, fields).code == code
