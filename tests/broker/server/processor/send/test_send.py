"""Sends: checks in Java's order, stored records, responses."""

import threading

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.common.message_queue import MessageQueue
from broker.common.topic import PERM_READ, SCHEDULE_TOPIC
from broker.errors import RemoteProtocolError
from broker.message.batch import encode_batch, unwrap_inner_batch
from broker.message.message import Message
from broker.message.message_id import parse_offset_msg_id
from broker.message.properties import encode_properties
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.server import slices
from broker.server.processor.send import send
from broker.store import encoded_batch
from broker.store.results import PutMessageStatus

UNIQ_KEY = "AC11000100012A139A5518B4AAC20000"


def test_answer_names_queue_offset_id_and_unique_key(desk) -> None:
    desk.topic("Orders")
    desk.send(queue_id=2)
    answer = desk.send(queue_id=2)
    assert answer.code == 0
    assert answer.remark is None
    ext = answer.ext_fields
    assert ext["queueId"] == "2"
    assert ext["queueOffset"] == "1"
    assert ext["transactionId"] == UNIQ_KEY
    assert (ext["MSG_REGION"], ext["TRACE_ON"]) == ("DefaultRegion", "true")
    host, port, physical_offset = parse_offset_msg_id(ext["msgId"])
    assert f"{host}:{port}" == desk.context.address
    assert desk.messages("Orders", 2)[1].physical_offset == physical_offset


def test_a_stored_message_equals_the_sent_one_plus_the_properties_of_the_broker(desk) -> None:
    desk.topic("Orders")
    desk.send(body=b"\x00\xff", properties={"TAGS": "A", "KEYS": "k1 k2"}, f=1, h=7, g=1234)
    (stored,) = desk.messages("Orders")
    assert stored.body == b"\x00\xff"
    assert (stored.sys_flag, stored.flag, stored.born_timestamp) == (1, 7, 1234)
    assert stored.born_host == desk.connection.remote_address
    assert stored.store_host == desk.context.address
    assert stored.store_timestamp == desk.clock.now_ms()
    assert stored.properties == {
        "UNIQ_KEY": UNIQ_KEY,
        "WAIT": "true",
        "TAGS": "A",
        "KEYS": "k1 k2",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
    }


def test_long_header_is_the_same_request(desk) -> None:
    desk.topic("Orders")
    ext = {
        "producerGroup": "P1",
        "topic": "Orders",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "queueId": 1,
        "sysFlag": 0,
        "bornTimestamp": 5,
        "flag": 3,
        "properties": encode_properties({"UNIQ_KEY": UNIQ_KEY}).decode(),
        "reconsumeTimes": 0,
        "unitMode": "false",
    }
    answer = desk.ask(RequestCode.SEND_MESSAGE, ext, b"x")
    assert (answer.code, answer.ext_fields["queueId"]) == (0, "1")
    assert desk.messages("Orders", 1)[0].flag == 3


@pytest.mark.parametrize("region", ["50%", 'a"b', "%d%b%%"])
def test_any_region_name_survives_the_answer(make_desk, region) -> None:
    desk = make_desk(regionId=region)
    desk.topic("Orders")
    assert desk.send().ext_fields["MSG_REGION"] == region
    assert desk.send(queue_id=9).ext_fields["MSG_REGION"] == region
    assert desk.messages("Orders")[0].properties["MSG_REGION"] == region


def test_property_string_without_last_separator_gets_one(desk) -> None:
    """4.9 clients leave it out."""
    desk.topic("Orders")
    desk.send(i=f"TAGS\x01A\x02UNIQ_KEY\x01{UNIQ_KEY}")
    (stored,) = desk.messages("Orders")
    assert stored.properties["UNIQ_KEY"] == UNIQ_KEY
    assert stored.properties["CLUSTER"] == "DefaultCluster"
    assert stored.properties_raw.endswith(b"\x02")


def test_a_unique_key_with_special_characters_is_escaped_in_the_response(desk) -> None:
    desk.topic("Orders")
    answer = desk.send(properties={"UNIQ_KEY": 'odd "key" \\ ü'})
    assert answer.ext_fields["transactionId"] == 'odd "key" \\ ü'


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "TAGS\x01A\x02",
        "X_UNIQ_KEY\x01no\x02",
        "note\x01UNIQ_KEY\x01no\x02",
        "UNIQ_KEY\x01\x02",
        "UNIQ_KEY\x01\x02TAGS\x01A",
    ],
)
def test_message_without_unique_key_gets_one(desk, raw) -> None:
    desk.topic("Orders")
    answer = desk.send(i=raw)
    (stored,) = desk.messages("Orders")
    assert stored.uniq_key == answer.ext_fields["transactionId"]
    assert len(stored.uniq_key) == 32


def test_last_of_several_unique_keys_is_the_one_answered_and_stored(desk) -> None:
    desk.topic("Orders")
    answer = desk.send(i="UNIQ_KEY\x01first\x02TAGS\x01A\x02UNIQ_KEY\x01last\x02")
    (stored,) = desk.messages("Orders")
    assert stored.uniq_key == answer.ext_fields["transactionId"] == "last"


def test_properties_of_the_broker_cannot_be_set_by_a_client(desk) -> None:
    desk.topic("Orders")
    desk.send(properties={"MSG_REGION": "elsewhere", "CLUSTER": "other", "POP_CK": "1 2 3"})
    properties = desk.messages("Orders")[0].properties
    assert properties["MSG_REGION"] == "DefaultRegion"
    assert properties["CLUSTER"] == "DefaultCluster"
    assert "POP_CK" not in properties


def test_any_queue_means_a_random_write_queue(desk) -> None:
    desk.topic("Orders", 4)
    queues = {desk.send(queue_id=-1).ext_fields["queueId"] for _ in range(60)}
    assert queues == {"0", "1", "2", "3"}


class TestRefusals:
    """Each check answers its code and marks region and trace switch."""

    def refused(self, answer, code: int) -> str:
        assert answer.code == code
        assert answer.ext_fields["MSG_REGION"] == "DefaultRegion"
        assert answer.ext_fields["TRACE_ON"] == "true"
        return answer.remark

    def test_queue_outside_the_topic(self, desk) -> None:
        desk.topic("Orders", 4)
        remark = self.refused(desk.send(queue_id=4), ResponseCode.INVALID_PARAMETER)
        assert "queueId[4]" in remark
        assert "Orders" in remark

    @pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE])
    @pytest.mark.parametrize("queues", [0, -1])
    def test_any_queue_of_a_new_topic_without_queues(self, desk, code, queues) -> None:
        """Stored in queue 0, the message could not be pulled; Java divides by zero."""
        ext = {"b": "New", "c": "TBW102", "d": queues, "e": -1, "f": 0, "g": 1, "h": 0}
        body = encode_batch([Message("New", b"x")])
        answer = desk.ask(code, {**ext, "i": f"UNIQ_KEY\x01{UNIQ_KEY}\x02"}, body)
        remark = self.refused(answer, ResponseCode.SYSTEM_ERROR)
        assert "topic[New] has writeQueueNums[0]" in remark
        assert desk.store.get_max_offset("New", 0) == 0

    @pytest.mark.parametrize("name", ["", "white space", "t" * 128, "sch\xf6n"])
    def test_bad_name(self, desk, name) -> None:
        self.refused(desk.send(topic=name), ResponseCode.INVALID_PARAMETER)

    @pytest.mark.parametrize(
        "name", [SCHEDULE_TOPIC, "RMQ_SYS_TRANS_HALF_TOPIC", "SELF_TEST_TOPIC"]
    )
    def test_system_topics_are_not_for_clients(self, desk, name) -> None:
        self.refused(desk.send(topic=name), ResponseCode.NO_PERMISSION)

    def test_unknown_topic_without_automatic_creation(self, make_desk) -> None:
        desk = make_desk(autoCreateTopicEnable="false")
        self.refused(desk.send(topic="New"), ResponseCode.TOPIC_NOT_EXIST)
        assert "New" not in desk.context.topics

    def test_unknown_template(self, desk) -> None:
        self.refused(desk.send(topic="New", c="NoTemplate"), ResponseCode.TOPIC_NOT_EXIST)

    def test_ordered_topic_on_a_broker_that_may_not_be_written(self, make_desk) -> None:
        desk = make_desk(brokerPermission="4")
        desk.topic("Ordered", order=True)
        desk.topic("Plain")
        self.refused(desk.send(topic="Ordered"), ResponseCode.NO_PERMISSION)
        assert desk.send(topic="Plain").code == 0

    def test_broker_that_does_not_serve_yet(self, make_desk) -> None:
        desk = make_desk(startAcceptSendRequestTimeStamp=str(2**62))
        desk.topic("Orders")
        self.refused(desk.send(), ResponseCode.SYSTEM_ERROR)

    def test_half_message(self, make_desk) -> None:
        desk = make_desk(rejectTransactionMessage="true")
        desk.topic("Orders")
        answer = desk.send(properties={"TRAN_MSG": "true", "PGROUP": "P1"})
        remark = self.refused(answer, ResponseCode.NO_PERMISSION)
        assert "transaction" in remark
        assert desk.messages("Orders") == []

    @pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
    def test_timer_message_without_timer_wheel(self, make_desk, name) -> None:
        desk = make_desk(timerWheelEnable="false")
        desk.topic("Orders")
        remark = self.refused(desk.send(properties={name: "5"}), ResponseCode.SYSTEM_ERROR)
        assert "timerWheelEnable" in remark

    @pytest.mark.parametrize("value", ["soon", str(10**15)])
    def test_timer_message_with_an_illegal_time(self, desk, value) -> None:
        desk.topic("Orders")
        answer = desk.send(properties={"TIMER_DELIVER_MS": value})
        self.refused(answer, ResponseCode.MESSAGE_ILLEGAL)

    def test_timer_message_for_a_full_slot(self, make_desk) -> None:
        desk = make_desk(timerCongestNumEachSlot="1")
        desk.topic("Orders")
        for _ in range(3):
            desk.send(properties={"TIMER_DELAY_SEC": "5"})
            desk.context.timers.timers.run()
        answer = desk.send(properties={"TIMER_DELAY_SEC": "5"})
        self.refused(answer, ResponseCode.SYSTEM_ERROR)

    @pytest.mark.parametrize("properties", [{}, {"DELAY": "1"}, {"TRAN_MSG": "true"}])
    def test_message_without_a_body(self, desk, properties) -> None:
        desk.topic("Orders")
        end = desk.store.max_physical_offset
        answer = desk.send(body=b"", properties=properties)
        assert self.refused(answer, ResponseCode.MESSAGE_ILLEGAL) == "the message has no body"
        assert desk.store.max_physical_offset == end

    def test_retry_without_a_body_is_stored(self, desk) -> None:
        """Items of batches may have empty bodies, as in Java; their retries must not be lost."""
        desk.topic("%RETRY%G1", 1)
        assert desk.send(topic="%RETRY%G1", body=b"", j=1).code == 0

    def test_body_above_the_limit(self, make_desk) -> None:
        desk = make_desk(maxMessageSize="100")
        desk.topic("Orders")
        self.refused(desk.send(body=b"x" * 101), ResponseCode.MESSAGE_ILLEGAL)
        assert desk.send(body=b"x" * 100).code == 0

    def test_properties_above_the_limit(self, desk) -> None:
        desk.topic("Orders")
        answer = desk.send(properties={"big": "x" * 32_760})
        self.refused(answer, ResponseCode.MESSAGE_ILLEGAL)

    @pytest.mark.parametrize(
        ("missing", "name"),
        [
            ("b", "topic"),
            ("e", "queueId"),
            ("f", "sysFlag"),
            ("g", "bornTimestamp"),
            ("h", "flag"),
        ],
    )
    def test_header_field_missing(self, desk, missing, name) -> None:
        desk.topic("Orders")
        ext = {"b": "Orders", "e": 0, "f": 0, "g": 1, "h": 0, "i": f"UNIQ_KEY\x01{UNIQ_KEY}\x02"}
        del ext[missing]
        answer = desk.ask(RequestCode.SEND_MESSAGE_V2, ext, b"x")
        remark = self.refused(answer, ResponseCode.SYSTEM_ERROR)
        assert remark == f"header field {name} is missing"

    def test_a_header_field_that_is_not_a_number_is_refused(self, desk) -> None:
        desk.topic("Orders")
        remark = self.refused(desk.send(e="four"), ResponseCode.SYSTEM_ERROR)
        assert "header field queueId is 'four'" in remark

    @pytest.mark.parametrize("field", ["f", "g", "h", "j"])
    @pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**63, -(2**63) - 1, 10**40])
    def test_number_beyond_its_field_stores_nothing(self, desk, field, value) -> None:
        desk.topic("Orders")
        if field == "g" and -(2**63) <= value < 2**63:
            return
        answer = desk.send(**{field: value})
        self.refused(answer, ResponseCode.SYSTEM_ERROR)
        assert desk.send().ext_fields["queueOffset"] == "0"
        assert len(desk.messages("Orders")) == 1

    def test_store_that_takes_no_writes(self, desk) -> None:
        desk.topic("Orders")
        desk.store.shutdown()
        self.refused(desk.send(), ResponseCode.SERVICE_NOT_AVAILABLE)


class TestAutomaticCreation:
    """The first send makes the topic after its template."""

    def test_queues_are_the_lower_of_wanted_and_template(self, desk) -> None:
        assert desk.send(topic="New", d=4).code == 0
        made = desk.context.topics.get("New")
        assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (4, 4, 6)
        desk.send(topic="Wide", d=100)
        assert desk.context.topics.get("Wide").write_queue_nums == 8

    def test_topic_is_known_before_the_answer(self, desk) -> None:
        changed = []
        desk.context.topics.on_change.append(changed.append)
        desk.send(topic="New")
        assert changed == [["New"]]

    def test_changed_topic_counts_at_once(self, desk) -> None:
        desk.topic("Orders", 2)
        assert desk.send(queue_id=3).code == ResponseCode.INVALID_PARAMETER
        desk.topic("Orders", 4)
        assert desk.send(queue_id=3).code == 0
        desk.context.topics.delete("Orders")
        desk.send(queue_id=3, d=4)
        assert desk.context.topics.get("Orders").write_queue_nums == 4


class TestDelay:
    """A delay level stores the message in the schedule topic."""

    def test_level_decides_the_queue(self, desk) -> None:
        desk.topic("Orders")
        answer = desk.send(queue_id=3, properties={"DELAY": "2"})
        assert (answer.code, answer.ext_fields["queueId"]) == (0, "3")
        assert desk.messages("Orders", 3) == []
        (scheduled,) = desk.messages(SCHEDULE_TOPIC, 1)
        assert scheduled.properties["REAL_TOPIC"] == "Orders"
        assert scheduled.properties["REAL_QID"] == "3"

    @pytest.mark.parametrize("level", ["99", "2147483648"])
    def test_level_above_the_highest_counts_as_it(self, desk, level) -> None:
        desk.topic("Orders")
        desk.send(properties={"DELAY": level})
        (scheduled,) = desk.messages(SCHEDULE_TOPIC, 17)
        assert scheduled.properties["DELAY"] == "18"

    @pytest.mark.parametrize("half", [{}, {"TRAN_MSG": "true", "PGROUP": "P1"}])
    def test_level_that_is_not_a_number_is_refused(self, desk, half) -> None:
        desk.topic("Orders")
        end = desk.store.max_physical_offset
        answer = desk.send(properties={"DELAY": "soon", **half})
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert answer.remark == "property DELAY: 'soon' is not an integer"
        assert desk.store.max_physical_offset == end

    def test_retry_with_such_a_level_is_stored_undelayed(self, desk) -> None:
        """A consumer that fails to send a message back sends it to its retry topic."""
        desk.topic("%RETRY%G1", 1)
        assert desk.send(topic="%RETRY%G1", properties={"DELAY": "soon"}, j=1).code == 0
        assert len(desk.messages("%RETRY%G1")) == 1

    @pytest.mark.parametrize("level", ["0", "-1"])
    def test_a_message_without_level_is_not_delayed(self, desk, level) -> None:
        desk.topic("Orders")
        assert desk.send(properties={"DELAY": level}).code == 0
        assert len(desk.messages("Orders")) == 1

    def test_delay_level_wins_over_timer_properties(self, desk) -> None:
        desk.topic("Orders")
        assert desk.send(properties={"DELAY": "1", "TIMER_DELAY_SEC": "5"}).code == 0
        (scheduled,) = desk.messages(SCHEDULE_TOPIC, 0)
        assert "TIMER_DELAY_SEC" not in scheduled.properties


class TestBatch:
    """SEND_BATCH_MESSAGE: every item its own record, offsets consecutive."""

    def batch(self, desk, messages, *, code=RequestCode.SEND_BATCH_MESSAGE, header=None, **fields):
        properties = {"UNIQ_KEY": "B" * 32, "WAIT": "true", **(header or {})}
        ext = {
            "a": "P1",
            "b": "Orders",
            "c": "TBW102",
            "d": 4,
            "e": 1,
            "f": 0,
            "g": 77,
            "h": 0,
            "i": encode_properties(properties).decode(),
            "m": "true",
            **fields,
        }
        return desk.ask(code, ext, encode_batch(messages))

    def three(self) -> list[Message]:
        return [
            Message("Orders", b"%d" % i, tags="T", properties={"UNIQ_KEY": f"{i}" * 32})
            for i in range(3)
        ]

    @pytest.mark.parametrize("code", [RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2])
    def test_items_are_stored_one_by_one(self, desk, code) -> None:
        desk.topic("Orders")
        answer = self.batch(desk, self.three(), code=code)
        assert answer.code == 0
        stored = desk.messages("Orders", 1)
        assert [m.body for m in stored] == [b"0", b"1", b"2"]
        assert [m.queue_offset for m in stored] == [0, 1, 2]
        assert answer.ext_fields["msgId"] == ",".join(m.offset_msg_id for m in stored)
        assert answer.ext_fields["queueOffset"] == "0"
        assert answer.ext_fields["transactionId"] == "B" * 32

    def test_items_keep_their_own_unique_keys(self, desk) -> None:
        desk.topic("Orders")
        self.batch(desk, self.three())
        stored = desk.messages("Orders", 1)
        assert [m.uniq_key for m in stored] == ["0" * 32, "1" * 32, "2" * 32]
        assert all(m.properties["CLUSTER"] == "DefaultCluster" for m in stored)
        assert all(m.tags == "T" for m in stored)

    def test_a_body_that_is_not_a_batch_is_refused(self, desk) -> None:
        desk.topic("Orders")
        ext = {"b": "Orders", "e": 0, "f": 0, "g": 1, "h": 0, "i": "", "m": "true"}
        with pytest.raises(RemoteProtocolError):
            desk.ask(RequestCode.SEND_BATCH_MESSAGE, ext, b"no batch")
        assert desk.messages("Orders") == []

    def test_topic_with_batch_queues_keeps_the_batch_in_one_record(self, desk) -> None:
        desk.topic("Orders", attributes={"queue.type": "BatchCQ"})
        answer = self.batch(desk, self.three())
        assert answer.code == 0
        assert "," not in answer.ext_fields["msgId"]
        assert answer.ext_fields["batchUniqId"] == "B" * 32
        assert self.batch(desk, self.three()).ext_fields["queueOffset"] == "3"
        first, second = desk.messages("Orders", 1)
        assert first.properties["INNER_NUM"] == "3"
        assert (first.properties["INNER_BASE"], second.properties["INNER_BASE"]) == ("0", "3")
        items = unwrap_inner_batch(second)
        assert [item.body for item in items] == [b"0", b"1", b"2"]
        assert [item.queue_offset for item in items] == [3, 4, 5]
        assert desk.store.get_max_offset("Orders", 1) == 6

    def test_batch_without_a_key_is_taken_apart_even_there(self, desk) -> None:
        """4.9 clients give the batch none."""
        desk.topic("Orders", attributes={"queue.type": "BatchCQ"})
        answer = self.batch(desk, self.three(), header={"UNIQ_KEY": ""}, i="")
        assert answer.code == 0
        assert answer.ext_fields["msgId"].count(",") == 2

    def test_retry_topics_take_no_batches(self, desk) -> None:
        answer = self.batch(desk, self.three(), b="%RETRY%G1", e=0)
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL

    @pytest.mark.parametrize("queue_type", ["SimpleCQ", "BatchCQ"])
    @pytest.mark.parametrize("size", [1, 40_000])
    def test_a_delivery_time_in_the_header_delays_the_batch(self, desk, queue_type, size) -> None:
        """As in Java; the first item cannot name another target, time or queue."""
        desk.topic("Orders", attributes={"queue.type": queue_type})
        forged = {"REAL_TOPIC": "Foreign", "REAL_QID": "3", "TIMER_DELAY_SEC": "9"}
        messages = [
            Message("Orders", b"%d" % i * size, properties={"UNIQ_KEY": f"{i}" * 32, **forged})
            for i in range(2)
        ]
        answer = self.batch(desk, messages, header={"TIMER_DELAY_SEC": "5"})
        assert answer.code == 0
        assert "recallHandle" not in answer.ext_fields
        assert answer.ext_fields["queueId"] == "1"
        assert desk.messages("Orders", 1) == []
        waiting = desk.messages("rmq_sys_wheel_timer", 0)
        assert len(waiting) == (1 if queue_type == "BatchCQ" else 2)
        for each in waiting:
            assert (each.properties["REAL_TOPIC"], each.properties["REAL_QID"]) == ("Orders", "1")
            assert each.properties["TIMER_DELAY_SEC"] == "5"
            assert "INNER_BASE" not in each.properties

    def test_a_batch_due_too_far_ahead_is_refused(self, desk) -> None:
        desk.topic("Orders")
        answer = self.batch(desk, self.three(), header={"TIMER_DELAY_SEC": "999999999"})
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL

    @pytest.mark.parametrize(("header", "flags"), [({"DELAY": "1"}, 0), ({}, 4)])
    def test_batches_are_neither_delayed_nor_transactional(self, desk, header, flags) -> None:
        desk.topic("Orders")
        answer = self.batch(desk, self.three(), header=header, f=flags)
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL

    def test_batch_above_the_limit(self, make_desk) -> None:
        desk = make_desk(maxMessageSize="100")
        desk.topic("Orders")
        answer = self.batch(desk, [Message("Orders", b"x" * 60), Message("Orders", b"x" * 60)])
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert desk.messages("Orders", 1) == []

    def test_long_batch_is_taken_apart_in_slices(self, desk, monkeypatch) -> None:
        desk.topic("Orders")
        monkeypatch.setattr(send, "PARSED_AT_ONCE_BYTES", 0)
        monkeypatch.setattr(send, "STEPS_PER_SLICE", 1)
        monkeypatch.setattr(encoded_batch, "ITEMS_PER_STEP", 2)
        turns: list[int] = []

        async def noting_sleep(_):
            turns.append(desk.store.writer.put_count)

        monkeypatch.setattr(slices.asyncio, "sleep", noting_sleep)
        answer = self.batch(desk, self.three() * 2)
        assert answer.code == 0
        assert turns == [0, 0], "stored in one go when everything is taken apart"
        stored = desk.messages("Orders", 1)
        assert [m.body for m in stored] == [b"0", b"1", b"2"] * 2
        assert answer.ext_fields["msgId"] == ",".join(m.offset_msg_id for m in stored)

    def test_topic_that_changes_meanwhile_is_checked_again(self, desk, monkeypatch) -> None:
        desk.topic("Orders")
        monkeypatch.setattr(send, "PARSED_AT_ONCE_BYTES", 0)
        monkeypatch.setattr(send, "STEPS_PER_SLICE", 1)
        monkeypatch.setattr(encoded_batch, "ITEMS_PER_STEP", 2)

        async def shrink(_):
            desk.topic("Orders", queues=1)

        monkeypatch.setattr(slices.asyncio, "sleep", shrink)
        answer = self.batch(desk, self.three())
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert desk.store.writer.put_count == 0

    def test_shared_properties_do_not_multiply(self, desk) -> None:
        desk.topic("Orders")
        messages = [Message("Orders", b"")] * 1000
        answer = self.batch(desk, messages, header={"k": "v" * 30_000})
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert "shared properties" in answer.remark
        assert desk.store.writer.put_count == 0

    def test_empty_batch(self, desk) -> None:
        desk.topic("Orders")
        assert self.batch(desk, []).code == ResponseCode.MESSAGE_ILLEGAL

    @pytest.mark.parametrize("flag", ["TRUE", "True"])
    def test_the_batch_flag_may_have_any_case(self, desk, flag: str) -> None:
        desk.topic("Orders")
        answer = self.batch(desk, self.three(), code=RequestCode.SEND_MESSAGE_V2, m=flag)
        assert answer.code == 0
        assert [one.body for one in desk.messages("Orders", 1)] == [b"0", b"1", b"2"]

    def test_queue_outside_the_topic(self, desk) -> None:
        desk.topic("Orders")
        assert self.batch(desk, self.three(), e=9).code == ResponseCode.INVALID_PARAMETER


class TestRetryTopic:
    """A consumer sends a failed message itself; too often means the DLQ."""

    def test_retry_topic_is_made_on_demand(self, make_desk) -> None:
        desk = make_desk(autoCreateTopicEnable="false")
        answer = desk.send(topic="%RETRY%G1", j=1)
        assert answer.code == 0
        assert desk.context.topics.get("%RETRY%G1").write_queue_nums == 1
        (stored,) = desk.messages("%RETRY%G1")
        assert stored.reconsume_times == 1

    def test_with_auto_creation_it_has_the_queues_of_the_default_topic(self, desk) -> None:
        """A client without its route chooses among these."""
        assert desk.send(topic="%RETRY%G1", j=1, e=3).code == 0
        assert desk.context.topics.get("%RETRY%G1").write_queue_nums == 4

    def test_it_has_a_queue_if_the_client_asks_for_none(self, desk) -> None:
        assert desk.send(topic="%RETRY%G1", j=1, d=0).code == 0
        assert desk.context.topics.get("%RETRY%G1").write_queue_nums == 1

    def test_unknown_group(self, make_desk) -> None:
        desk = make_desk(autoCreateSubscriptionGroup="false")
        answer = desk.send(topic="%RETRY%G1", j=1)
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

    def test_above_the_groups_limit_goes_to_the_dlq(self, desk) -> None:
        desk.context.groups.put_all([SubscriptionGroupConfig(group_name="G1", retry_max_times=2)])
        desk.send(topic="%RETRY%G1", j=2)
        assert len(desk.messages("%RETRY%G1")) == 1
        desk.send(topic="%RETRY%G1", j=3)
        (dead,) = desk.messages("%DLQ%G1")
        assert dead.properties["DELAY"] == "0"

    def test_dlq_whose_name_is_too_long_is_refused_and_not_made(self, desk) -> None:
        group = "g" * 123
        answer = desk.send(topic=f"%RETRY%{group}", j=99)
        assert (answer.code, answer.remark) == (
            ResponseCode.MESSAGE_ILLEGAL,
            "topic of 128 bytes",
        )
        assert f"%DLQ%{group}" not in desk.context.topics

    def test_limit_of_the_request_wins_for_new_clients(self, desk) -> None:
        desk.send(topic="%RETRY%G1", j=1, l=0)
        assert len(desk.messages("%DLQ%G1")) == 1
        desk.send(topic="%RETRY%G1", j=1, l=0, version=100)
        assert len(desk.messages("%RETRY%G1")) == 1

    def test_group_that_consumes_in_order_goes_straight_to_the_dlq(self, desk) -> None:
        queue = MessageQueue("Orders", "broker-a", 0)
        desk.context.locks.lock("G1", "c1", [queue], 0)
        desk.send(topic="%RETRY%G1", j=1)
        assert len(desk.messages("%DLQ%G1")) == 1

    def test_dlq_topic_is_readable(self, desk) -> None:
        desk.send(topic="%RETRY%G1", j=99)
        assert desk.context.topics.get("%DLQ%G1").perm & PERM_READ


class TestSyncFlush:
    """With SYNC_FLUSH replies wait for the disk, all of one turn on one ticket."""

    @pytest.fixture
    def waiting(self, make_desk):
        desk = make_desk(flushDiskType="SYNC_FLUSH")
        desk.topic("Orders")
        desk.deferred = True
        tickets = []
        desk.store.await_flush = lambda end, callback: tickets.append((end, callback))
        desk.tickets = tickets
        return desk

    def test_one_ticket_for_all_of_a_turn(self, waiting, fake_connection) -> None:
        other = fake_connection("127.0.0.1:50002")
        assert waiting.send() is None
        assert waiting.send(connection=other) is None
        waiting.end_turn()
        ((end, callback),) = waiting.tickets
        assert end == waiting.store.max_physical_offset
        assert waiting.connection.sent == []
        callback(PutMessageStatus.PUT_OK)
        (first,) = waiting.connection.commands
        (second,) = other.commands
        assert (first.code, first.ext_fields["queueOffset"]) == (0, "0")
        assert (second.code, second.ext_fields["queueOffset"]) == (0, "1")

    def test_a_late_flush_keeps_ids_and_reports_the_code(self, waiting) -> None:
        waiting.send()
        waiting.end_turn()
        waiting.tickets[0][1](PutMessageStatus.FLUSH_DISK_TIMEOUT)
        (answer,) = waiting.connection.commands
        assert answer.code == ResponseCode.FLUSH_DISK_TIMEOUT
        assert answer.ext_fields["queueOffset"] == "0"
        assert len(answer.ext_fields["msgId"]) == 32

    def test_message_that_does_not_want_to_wait_is_answered_at_once(self, waiting) -> None:
        assert waiting.send(properties={"WAIT": "false"}).code == 0

    @pytest.mark.parametrize(
        "raw",
        [
            "NOWAIT\x01false\x02",
            "note\x01WAIT\x01false\x02",
            "note\x01x WAIT\x01false\x02",
            "WAIT\x01falsehood\x02",
            "WAIT\x01false\x02WAIT\x01true\x02",
            "WAIT\x01\x02",
            "WAITER\x01x\x02",
        ],
    )
    @pytest.mark.parametrize("place", ["first", "last", "slow path"])
    def test_only_the_property_wait_avoids_the_wait(self, waiting, raw, place) -> None:
        """A key counts at a property boundary, whole, and its last value wins."""
        key = f"UNIQ_KEY\x01{UNIQ_KEY}\x02"
        extra = "TIMER_DX\x01y\x02" if place == "slow path" else ""
        assert waiting.send(i=extra + (raw + key if place == "first" else key + raw)) is None
        assert waiting.connection.sent == []

    @pytest.mark.parametrize(
        "raw",
        [
            "WAIT\x01false\x02",
            "NOWAIT\x01true\x02WAIT\x01false\x02",
            "WAIT\x01true\x02WAIT\x01false\x02",
            "WAIT\x01false",
        ],
    )
    def test_wait_false_is_found_wherever_it_is(self, waiting, raw) -> None:
        """Also as the last property of a 4.9 client, which drops the last separator."""
        assert waiting.send(i=f"UNIQ_KEY\x01{UNIQ_KEY}\x02{raw}").code == 0

    @pytest.mark.parametrize(("wait", "answered"), [("true", False), ("false", True)])
    def test_batch_waits_as_its_header_asks(self, waiting, wait, answered) -> None:
        """**Source:** RocketMQ CommitLog#asyncPutMessages, MessageBatch#generateFromList."""
        items = encode_batch([Message("Orders", b"1"), Message("Orders", b"2")])
        properties = encode_properties({"UNIQ_KEY": UNIQ_KEY, "WAIT": wait}).decode()
        ext = {"b": "Orders", "e": 0, "f": 0, "g": 1, "h": 0, "i": properties, "m": "true"}
        answer = waiting.ask(RequestCode.SEND_BATCH_MESSAGE, ext, items)
        assert (answer is not None) == answered
        if not answered:
            waiting.end_turn()
            ((end, _),) = waiting.tickets
            assert end == waiting.store.max_physical_offset

    def test_oneway_is_never_answered(self, waiting) -> None:
        ext = {"b": "Orders", "e": 0, "f": 0, "g": 1, "h": 0, "i": f"UNIQ_KEY\x01{UNIQ_KEY}\x02"}
        assert waiting.raw(RequestCode.SEND_MESSAGE_V2, ext, b"x", oneway=True) is None
        waiting.end_turn()
        waiting.tickets[0][1](PutMessageStatus.PUT_OK)
        assert waiting.connection.sent == []

    def test_real_flush_answers(self, make_desk) -> None:
        desk = make_desk(flushDiskType="SYNC_FLUSH")
        desk.topic("Orders")
        answered = threading.Event()
        desk.connection.on_send = answered.set
        assert desk.send() is None
        assert answered.wait(10)
        assert [answer.code for answer in desk.connection.commands] == [0]
        assert desk.store.flushed_where == desk.store.max_physical_offset


def test_burst_before_the_first_dispatch_keeps_every_queue_offset(desk) -> None:
    """Messages of one turn are dispatched together; the queue's first file is made meanwhile."""
    desk.topic("Orders", 1)
    desk.deferred = True
    first = [desk.send().ext_fields["queueOffset"] for _ in range(10)]
    desk.end_turn()
    second = [desk.send().ext_fields["queueOffset"] for _ in range(10)]
    desk.end_turn()
    assert first + second == [str(n) for n in range(20)]
    assert desk.store.get_max_offset("Orders", 0) == 20


def test_sends_are_counted(desk) -> None:
    desk.topic("Orders")
    desk.send()
    desk.send()
    assert desk.context.stats.find("TOPIC_PUT_NUMS", "Orders").value == 2
    assert desk.context.stats.find("TOPIC_PUT_SIZE", "Orders").value == desk.store.writer.put_bytes
    assert desk.context.stats.put.value == 2


def test_topic_made_by_a_send_is_announced_before_the_answer(desk) -> None:
    """Who saw SEND_OK asks for the route at once; later sends do not wait."""
    assert desk.send("Fresh").code == 0
    assert desk.announced == [["Fresh"]]
    assert desk.send("Fresh").ext_fields["queueOffset"] == "1"
    desk.topic("Known")
    desk.send("Known")
    assert desk.announced == [["Fresh"]]


@pytest.mark.parametrize(
    ("topic", "flags", "inner_num", "code"),
    [
        ("Bulk", 0, "5", ResponseCode.MESSAGE_ILLEGAL),
        ("Orders", 0, "5", ResponseCode.MESSAGE_ILLEGAL),
        ("Orders", 0x80, "5", ResponseCode.MESSAGE_ILLEGAL),
        ("Bulk", 0x80, "5", ResponseCode.SUCCESS),
        ("Bulk", 0x80, "", ResponseCode.SUCCESS),
    ],
)
def test_a_client_cannot_make_half_an_inner_batch(desk, topic, flags, inner_num, code) -> None:
    desk.topic("Orders")
    desk.topic("Bulk", attributes={"queue.type": "BatchCQ"})
    answer = desk.send(topic, f=flags, properties={"INNER_NUM": inner_num})
    assert answer.code == code
    if code == 0:
        assert desk.store.get_max_offset("Bulk", 0) == int(inner_num or 1)
