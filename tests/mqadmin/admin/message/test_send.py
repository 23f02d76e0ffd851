"""Sending one message: checks, queues, plans."""

import pytest

from broker.common.topic import TopicConfig
from broker.errors import BrokerError, ClientError, ConfigError
from broker.message.message_id import compose_uniq_key
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from mqadmin.admin.message.record import BodyView

TEXT = BodyView(encoding="text")
UNIQ = compose_uniq_key("192.0.2.1", 4711, 0x1B2C3D4E, 1000, 1)


class TestSend:
    def test_the_target_is_reported(self, admin, broker_a):
        broker_a.store("orders")
        sent = admin.message.send("orders", b"hi", keys=["a", "b"], tags="T", queue_id=2)
        stored = broker_a.queues["orders", 2][0]
        assert (sent.queue_id, sent.queue_offset, sent.send_status) == (2, 0, "SEND_OK")
        assert sent.offset_msg_id == stored.offset_msg_id
        assert (stored.keys, stored.tags, stored.uniq_key) == (["a", "b"], "T", sent.uniq_key)

    def test_an_unknown_topic_is_not_created(self, admin, broker_a):
        with pytest.raises(ClientError) as caught:
            admin.message.send("orders", b"hi")
        assert "topic create" in caught.value.hint
        assert "orders" not in broker_a.topics

    def test_a_named_queue_must_exist(self, admin, broker_a):
        broker_a.store("orders")
        with pytest.raises(ClientError, match="no writable queue 9"):
            admin.message.send("orders", b"hi", queue_id=9)

    def test_a_named_broker_must_have_the_topic(self, admin, broker_a):
        broker_a.store("orders")
        with pytest.raises(ClientError) as caught:
            admin.message.send("orders", b"hi", broker="nope")
        assert caught.value.message == (
            "broker nope has no writable queue of topic orders (queues: broker-a)"
        )

    def test_a_topic_that_is_only_readable_has_a_next_step(self, admin, broker_a):
        broker_a.topics["orders"] = TopicConfig(topic_name="orders", perm=4)
        with pytest.raises(ClientError, match="topic orders has no queue that can be") as caught:
            admin.message.send("orders", b"hi")
        assert "mqadmin topic perm orders rw" in caught.value.hint

    def test_a_queue_on_several_brokers_needs_the_broker(self, admin, broker_a, broker_b):
        broker_a.store("orders")
        broker_b.store("orders")
        with pytest.raises(ClientError, match="2 brokers"):
            admin.message.send("orders", b"hi", queue_id=0)
        assert admin.message.send("orders", b"x", queue_id=0, broker="broker-b").queue_offset == 1

    def test_a_plan_makes_the_checks_of_sending_and_sends_nothing(self, admin, cluster, broker_a):
        broker_a.store("orders")
        plan = admin.message.plan_send("orders", b"hi")
        assert (plan.record.send_status, plan.record.broker_name) == ("planned", None)
        assert plan.addresses == [broker_a.address]
        chosen = admin.message.plan_send("orders", b"hi", queue_id=2).record
        assert (chosen.broker_name, chosen.queue_id) == ("broker-a", 2)
        with pytest.raises(ClientError, match="does not exist"):
            admin.message.plan_send("nosuch", b"hi")
        with pytest.raises(ClientError, match="no writable queue 9"):
            admin.message.plan_send("orders", b"hi", queue_id=9)
        with pytest.raises(ClientError, match="needs a body"):
            admin.message.plan_send("orders", b"")
        assert cluster.asked(RequestCode.SEND_MESSAGE_V2) == []

    @pytest.mark.parametrize(
        ("levels", "level", "good"),
        [("1s 5s 10s", 3, True), ("1s 5s 10s", 4, False), (None, 18, True), (None, 19, False)],
    )
    def test_a_delay_level_the_broker_does_not_have_is_refused(
        self, admin, cluster, broker_a, levels, level, good
    ):
        broker_a.store("orders")
        if levels is None:
            broker_a.refuse(RequestCode.GET_BROKER_CONFIG, ResponseCode.NO_PERMISSION)
        else:
            broker_a.config["messageDelayLevel"] = levels
        if good:
            admin.message.send("orders", b"x", delay_level=level)
            return
        with pytest.raises(
            ConfigError, match=f"delay level {level}: broker .* has the levels 1 to"
        ):
            admin.message.send("orders", b"x", delay_level=level)
        assert cluster.asked(RequestCode.SEND_MESSAGE_V2) == []

    def test_a_refusal_names_broker_and_code(self, admin, broker_a):
        broker_a.store("orders")
        broker_a.refuse(RequestCode.SEND_MESSAGE_V2, ResponseCode.MESSAGE_ILLEGAL, "too big")
        with pytest.raises(BrokerError) as caught:
            admin.message.send("orders", b"hi")
        assert (caught.value.code, caught.value.request_code) == (13, 310)
        assert caught.value.address == broker_a.address
