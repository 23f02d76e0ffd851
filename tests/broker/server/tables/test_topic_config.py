"""The topic table: system topics, automatic creation, attributes, changes."""

import pytest

from broker.common.clock import ManualClock
from broker.common.topic import TopicConfig
from broker.errors import ClientError
from broker.server.configuration.config import BrokerConfig
from broker.server.tables import topic_config as module
from broker.server.tables.topic_config import (
    TopicConfigManager,
    apply_attribute_changes,
    parse_attribute_changes,
)


@pytest.fixture
def make_table():
    """``make_table(auto_create_topic_enable=False)``: a table with its system topics."""

    def make(**fields) -> TopicConfigManager:
        table = TopicConfigManager(BrokerConfig(**fields), ManualClock())
        table.add_system_topics()
        return table

    return make


@pytest.mark.parametrize(
    ("topic", "queues", "perm"),
    [
        ("TBW102", 8, 7),
        ("SELF_TEST_TOPIC", 1, 6),
        ("BenchmarkTest", 1024, 6),
        ("DefaultCluster", 16, 7),
        ("broker-a", 1, 7),
        ("OFFSET_MOVED_EVENT", 1, 6),
        ("SCHEDULE_TOPIC_XXXX", 18, 6),
        ("DefaultCluster_REPLY_TOPIC", 1, 6),
        ("rmq_sys_SYNC_BROKER_MEMBER_broker-a", 1, 1),
    ],
)
def test_system_topics_as_java_makes_them(make_table, topic, queues, perm) -> None:
    config = make_table().get(topic)
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (queues, queues, perm)


def test_topic_of_given_up_transactions_is_made_when_the_first_one_is(make_table) -> None:
    assert "TRANS_CHECK_MAX_TIME_TOPIC" not in make_table()


def test_switches_of_system_topics(make_table) -> None:
    table = make_table(
        cluster_topic_enable=False,
        broker_topic_enable=False,
        trace_topic_enable=True,
        auto_create_topic_enable=False,
    )
    assert table.get("DefaultCluster").perm == 1
    assert table.get("broker-a").perm == 1
    assert table.get("RMQ_SYS_TRACE_TOPIC").write_queue_nums == 1
    assert table.get("TBW102") is None


def test_existing_system_topics_stay_as_they_are(make_table) -> None:
    table = TopicConfigManager(BrokerConfig(), ManualClock())
    table.load({"BenchmarkTest": TopicConfig("BenchmarkTest", 2, 2)}, None)
    table.add_system_topics()
    assert table.get("BenchmarkTest").read_queue_nums == 2


def test_template_loses_its_inherit_bit_without_automatic_creation(make_table) -> None:
    table = TopicConfigManager(BrokerConfig(auto_create_topic_enable=False), ManualClock())
    table.load({"TBW102": TopicConfig("TBW102", 8, 8, 7)}, None)
    table.add_system_topics()
    assert table.get("TBW102").perm == 6
    assert table.create_for_send("New", "TBW102", 4) is None


def test_which_topics_are_system_topics(make_table) -> None:
    table = make_table()
    for topic in (
        "TBW102",
        "DefaultCluster",
        "broker-a",
        "rmq_sys_x",
        "DefaultCluster_REPLY_TOPIC",
    ):
        assert table.is_system(topic)
    for topic in ("Orders", "%RETRY%G", "%DLQ%G"):
        assert not table.is_system(topic)


class TestCreation:
    """create_for_send and ensure."""

    @pytest.mark.parametrize(("wanted", "made"), [(4, 4), (100, 8), (0, 0), (-3, 0)])
    def test_queue_count(self, make_table, wanted, made) -> None:
        config = make_table().create_for_send("New", "TBW102", wanted)
        assert (config.read_queue_nums, config.write_queue_nums) == (made, made)

    def test_permission_is_the_templates_without_inherit(self, make_table) -> None:
        table = make_table()
        table.put(TopicConfig("Template", 4, 4, 5, topic_filter_type="MULTI_TAG"))
        config = table.create_for_send("New", "Template", 4)
        assert (config.perm, config.topic_filter_type) == (4, "MULTI_TAG")

    def test_template_must_exist_and_have_the_inherit_bit(self, make_table) -> None:
        table = make_table()
        table.put(TopicConfig("Plain", 4, 4, 6))
        assert table.create_for_send("New", "None", 4) is None
        assert table.create_for_send("New", "Plain", 4) is None

    def test_automatic_creation_has_a_limit(self, make_table, monkeypatch) -> None:
        table = make_table()
        monkeypatch.setattr(module, "MAX_TOPICS", len(table.configs) + 1)
        assert table.create_for_send("One", "TBW102", 4) is not None
        assert table.create_for_send("Two", "TBW102", 4) is None

    def test_ensure_makes_once(self, make_table) -> None:
        table = make_table()
        first = table.ensure("%RETRY%G", 2)
        assert (first.read_queue_nums, first.perm) == (2, 6)
        assert table.ensure("%RETRY%G", 5) is first


class TestChanges:
    """Data version and listeners."""

    def test_each_change_counts_once(self, make_table) -> None:
        table = make_table()
        seen = []
        table.on_change.append(seen.append)
        before = table.data_version.counter
        assert table.put(TopicConfig("A"))
        assert not table.put(TopicConfig("A"))
        table.put_all([TopicConfig("A"), TopicConfig("B"), TopicConfig("C")])
        assert table.delete("B")
        assert not table.delete("B")
        table.touch()
        assert seen == [["A"], ["B", "C"], ["B"], []]
        assert table.data_version.counter == before + 4

    def test_registered_form_is_limited_by_the_brokers_permission(self, make_table) -> None:
        table = make_table(broker_permission=4)
        assert table.registered(TopicConfig("A", perm=6)).perm == 4
        assert table.registered(TopicConfig("A", perm=2)).perm == 0
        full = make_table()
        config = TopicConfig("A", perm=6)
        assert full.registered(config) is config


class TestAttributes:
    """Signed attribute changes, in Java's words."""

    def test_text_form(self) -> None:
        changes = parse_attribute_changes("+a=1, -b ,+c=x=y,")
        assert changes == {"+a": "1", "-b": "", "+c": "x"}
        assert parse_attribute_changes("") == {}

    @pytest.mark.parametrize("text", ["a=1", "+", "+=1", "+a=1,+a=2"])
    def test_wrong_text(self, text) -> None:
        with pytest.raises(ClientError):
            parse_attribute_changes(text)

    def test_merge(self) -> None:
        current = {"message.type": "FIFO", "reserve.time": "5"}
        changes = {"+message.type": "DELAY", "-reserve.time": ""}
        result = apply_attribute_changes(current, changes, creating=False)
        assert result == {"message.type": "DELAY"}
        assert current["message.type"] == "FIFO"

    @pytest.mark.parametrize(
        ("changes", "creating", "words"),
        [
            ({"-message.type": ""}, True, "only add attribute is supported while creating"),
            ({"+no.such": "1"}, True, "unsupported key: no.such"),
            ({"-message.type": ""}, False, "nonexistent"),
            ({"+message.type": "ODD"}, True, "not in set"),
            ({"+reserve.time": "-2"}, True, "not in range"),
            ({"+reserve.time": "long"}, True, "not in range"),
            ({"+reserve.time": "--5"}, True, "not in range"),
            ({"+reserve.time": "²"}, True, "not in range"),
            ({"+reserve.time": "9223372036854775808"}, True, "not in range"),
            ({"+reserve.time": "9" * 5_000}, True, "not in range"),
            ({"+queue.type": "SimpleCQ"}, False, "unchangeable"),
            ({"+queue.type": "OddCQ"}, True, "not in set"),
            ({"+cleanup.policy": "COMPACTION"}, True, "not supported by this broker"),
            ({"message.type": "FIFO"}, True, "wrong"),
        ],
    )
    def test_disallowed_changes_are_refused(self, changes, creating, words) -> None:
        with pytest.raises(ClientError, match=words):
            apply_attribute_changes({}, changes, creating=creating)

    @pytest.mark.parametrize("value", ["-1", "0", "86400000"])
    def test_reserve_time(self, value) -> None:
        result = apply_attribute_changes({}, {"+reserve.time": value}, creating=True)
        assert result == {"reserve.time": value}


def test_batch_topics_that_recovery_found_get_their_queue_type(make_table) -> None:
    table = make_table()
    changed: list[str] = []
    table.on_change.append(changed.extend)
    configured = TopicConfig(topic_name="Known", read_queue_nums=2, write_queue_nums=2)
    table.put(configured)
    table.restore_batch_topics({"Bulk": 3, "Known": 8})
    made = table.get("Bulk")
    assert made.attributes == {"queue.type": "BatchCQ"}
    assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (3, 3, 6)
    assert table.get("Known") == configured
    assert changed == ["Known", "Bulk"]


def test_a_slave_leaves_batch_topics_to_its_master(make_table) -> None:
    table = make_table(broker_role="SLAVE", broker_id=1)
    table.restore_batch_topics({"Bulk": 3})
    assert "Bulk" not in table
