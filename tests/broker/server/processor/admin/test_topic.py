"""Topic administration over the wire."""

from pathlib import Path

import pytest

from broker.common.message_queue import MessageQueue
from broker.common.subscription import build_subscription
from broker.common.topic import TopicConfig
from broker.remoting.protocol.body.consumer.group import GroupList
from broker.remoting.protocol.body.namesrv.route import TopicList
from broker.remoting.protocol.body.topic import (
    CreateTopicListRequestBody,
    TopicConfigAndMappingSerializeWrapper,
    TopicConfigAndQueueMapping,
    TopicStatsTable,
)
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.server import slices
from broker.server.client.clients import ClientChannel, ConsumerProfile
from broker.server.processor.admin import topic
from broker.store.format.config import decode_consumer_offset


def update(desk, topic="Orders", **fields):
    ext = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": 8,
        "writeQueueNums": 6,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": "false",
        **fields,
    }
    return desk.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)


class TestUpdate:
    """UPDATE_AND_CREATE_TOPIC."""

    def test_topic_is_stored_and_announced_before_the_answer(self, desk) -> None:
        assert update(desk, order="true").code == 0
        made = desk.context.topics.get("Orders")
        assert (made.read_queue_nums, made.write_queue_nums, made.order) == (8, 6, True)
        assert desk.announced == [["Orders"]]

    def test_same_again_changes_nothing(self, desk) -> None:
        update(desk)
        version = desk.context.topics.data_version.counter
        assert update(desk).code == 0
        assert desk.context.topics.data_version.counter == version
        assert len(desk.announced) == 1

    @pytest.mark.parametrize(
        "fields",
        [
            {"topic": "bad name"},
            {"topic": ""},
            {"topic": "TBW102"},
            {"topic": "DefaultCluster"},
            {"topic": "broker-a"},
            {"topic": "rmq_sys_anything"},
            {"perm": 8},
            {"topicFilterType": "NO_TAG"},
            {"readQueueNums": -1},
            {"writeQueueNums": 10**6},
            {"attributes": "+message.type=MIXED"},
        ],
    )
    def test_disallowed_changes_are_refused(self, desk, fields) -> None:
        assert update(desk, **fields).code == ResponseCode.INVALID_PARAMETER
        assert desk.announced == []

    def test_system_topics_may_change_if_requested(self, make_desk) -> None:
        desk = make_desk(validateSystemTopicWhenUpdateTopic="false")
        assert update(desk, topic="BenchmarkTest").code == 0

    def test_attributes_are_merged(self, desk) -> None:
        assert update(desk, attributes="+message.type=FIFO,+reserve.time=5").code == 0
        assert update(desk, attributes="-reserve.time,+message.type=DELAY").code == 0
        assert desk.context.topics.get("Orders").attributes == {"message.type": "DELAY"}
        assert update(desk).code == 0
        assert desk.context.topics.get("Orders").attributes == {"message.type": "DELAY"}

    @pytest.mark.parametrize(
        "attributes", ["+no.such=1", "message.type=FIFO", "+message.type=ODD", "-message.type"]
    )
    def test_wrong_attributes(self, desk, attributes) -> None:
        answer = update(desk, attributes=attributes)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "Orders" not in desk.context.topics

    def test_unknown_attribute_in_javas_words(self, desk) -> None:
        assert update(desk, attributes="+no.such=1").remark == "unsupported key: no.such"


def test_list_is_all_or_none(desk) -> None:
    good = TopicConfig(topic_name="A", attributes={"+message.type": "FIFO"})
    bad = TopicConfig(topic_name="bad name")
    body = CreateTopicListRequestBody(topic_config_list=[good, bad])
    code = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
    assert desk.ask(code, body=body.to_bytes()).code == ResponseCode.INVALID_PARAMETER
    assert "A" not in desk.context.topics
    body = CreateTopicListRequestBody(topic_config_list=[good, TopicConfig(topic_name="B")])
    assert desk.ask(code, body=body.to_bytes()).code == 0
    assert desk.context.topics.get("A").attributes == {"message.type": "FIFO"}
    assert desk.announced == [["A", "B"]]
    body = CreateTopicListRequestBody(
        topic_config_list=[TopicConfig(topic_name="B"), TopicConfig(topic_name="C")]
    )
    assert desk.ask(code, body=body.to_bytes()).code == 0
    assert "C" in desk.context.topics


class TestDelete:
    """DELETE_TOPIC_IN_BROKER."""

    def delete(self, desk, topic):
        return desk.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})

    def test_everything_of_the_topic_goes(self, desk) -> None:
        desk.topic("Orders")
        desk.topic("%RETRY%G1_Orders", 1)
        desk.send()
        desk.context.offsets.commit("G1", "Orders", 0, 1)
        assert self.delete(desk, "Orders").code == 0
        assert "Orders" not in desk.context.topics
        assert "%RETRY%G1_Orders" not in desk.context.topics
        assert desk.context.offsets.query("G1", "Orders", 0) == -1
        assert desk.store.get_max_offset("Orders", 0) == 0
        assert desk.context.stats.find("TOPIC_PUT_NUMS", "Orders") is None

    def test_topic_made_again_starts_at_zero(self, desk) -> None:
        desk.topic("Orders")
        desk.send()
        self.delete(desk, "Orders")
        desk.topic("Orders")
        assert desk.send().ext_fields["queueOffset"] == "0"
        assert len(desk.messages("Orders")) == 1

    @pytest.fixture
    def offsets_file(self, desk) -> Path:
        """The offsets of a group that has consumed the message of a topic; not written yet."""
        desk.context.files.attach(desk.context)
        desk.topic("Orders")
        desk.send()
        desk.context.offsets.commit("G1", "Orders", 0, 1)
        return Path(desk.settings.store.root) / "config" / "consumerOffset.json"

    def test_offsets_in_the_file_are_gone_with_the_answer(self, desk, offsets_file) -> None:
        """Else a restart brings them back, and the group skips messages of the recreated topic."""
        desk.context.offsets.commit("G1", "Others", 0, 7)
        desk.context.files.save_progress(desk.context)
        assert self.delete(desk, "Orders").code == 0
        written = decode_consumer_offset(offsets_file.read_text("utf-8")).offsets
        assert written == {"Others@G1": {0: 7}}

    def test_messages_stay_until_the_offsets_are_written(self, desk, offsets_file) -> None:
        offsets_file.mkdir(parents=True)
        refused = self.delete(desk, "Orders")
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert refused.remark.startswith("the configuration is deleted, consumer offsets are not")
        assert desk.store.get_max_offset("Orders", 0) == 1
        offsets_file.rmdir()
        assert self.delete(desk, "Orders").code == 0
        assert desk.store.get_max_offset("Orders", 0) == 0
        assert decode_consumer_offset(offsets_file.read_text("utf-8")).offsets == {}

    def test_unknown_topic_is_fine(self, desk) -> None:
        assert self.delete(desk, "Unknown").code == 0

    @pytest.mark.parametrize("topic", [" ", "TBW102", "broker-a"])
    def test_system_topics_stay(self, desk, topic) -> None:
        assert self.delete(desk, topic).code == ResponseCode.INVALID_PARAMETER


def test_all_configurations(desk) -> None:
    desk.topic("Orders")
    answer = desk.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
    body = TopicConfigAndMappingSerializeWrapper.from_bytes(answer.body_bytes())
    assert body.topic_config_table == desk.context.topics.configs
    assert body.data_version.counter == desk.context.topics.data_version.counter


def test_one_configuration(desk) -> None:
    config = desk.topic("Orders")
    answer = desk.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "Orders", "lo": "true"})
    body = TopicConfigAndQueueMapping.from_bytes(answer.body_bytes())
    assert body.topic_config == config
    answer = desk.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "Unknown"})
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


def test_stats_cover_every_queue(desk) -> None:
    desk.topic("Orders", 2)
    desk.send(queue_id=1)
    answer = desk.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "Orders"})
    table = TopicStatsTable.from_bytes(answer.body_bytes()).offset_table
    empty = table[MessageQueue("Orders", "broker-a", 0)]
    assert (empty.min_offset, empty.max_offset, empty.last_update_timestamp) == (0, 0, 0)
    used = table[MessageQueue("Orders", "broker-a", 1)]
    assert (used.max_offset, used.last_update_timestamp) == (1, desk.clock.now_ms())
    answer = desk.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "Unknown"})
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


def test_consumed_by_names_groups_online_and_with_offsets(desk) -> None:
    desk.context.offsets.commit("G2", "Orders", 0, 1)
    channel = ClientChannel(desk.connection, "c1", "JAVA", 479, 0)
    desk.context.consumers.register(
        "G1", channel, ConsumerProfile(), [build_subscription("Orders", "*")]
    )
    answer = desk.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "Orders"})
    assert GroupList.from_bytes(answer.body_bytes()).group_list == ["G1", "G2"]


def test_system_topics_are_listed(desk) -> None:
    desk.topic("Orders")
    answer = desk.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    topics = TopicList.from_bytes(answer.body_bytes()).topic_list
    assert {"TBW102", "DefaultCluster", "broker-a", "SCHEDULE_TOPIC_XXXX"} <= set(topics)
    assert "Orders" not in topics


def test_a_long_list_is_checked_in_slices_and_stored_at_once(desk, monkeypatch) -> None:
    monkeypatch.setattr(topic, "TOPICS_PER_SLICE", 2)
    seen: list[int] = []
    before = len(desk.context.topics.configs)

    async def noting_sleep(_) -> None:
        seen.append(len(desk.context.topics.configs) - before)

    monkeypatch.setattr(slices.asyncio, "sleep", noting_sleep)
    configs = [TopicConfig(topic_name=f"T{number}") for number in range(5)]
    body = CreateTopicListRequestBody(topic_config_list=configs).to_bytes()
    assert desk.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body).code == 0
    assert seen == [0, 0]
    assert all(f"T{number}" in desk.context.topics for number in range(5))


def test_a_topic_changed_between_slices_is_checked_again(desk, monkeypatch) -> None:
    """The attributes of the list are applied to the topic as it is when the list is stored."""
    monkeypatch.setattr(topic, "TOPICS_PER_SLICE", 1)
    desk.topic("B")

    async def change_b(_) -> None:
        if not desk.context.topics.get("B").attributes:
            desk.topic("B", attributes={"message.type": "FIFO"})

    monkeypatch.setattr(slices.asyncio, "sleep", change_b)
    added = TopicConfig(topic_name="B", attributes={"+reserve.time": "5"})
    body = CreateTopicListRequestBody(topic_config_list=[added, TopicConfig(topic_name="C")])
    assert desk.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body.to_bytes()).code == 0
    assert desk.context.topics.get("B").attributes == {
        "message.type": "FIFO",
        "reserve.time": "5",
    }
    assert "C" in desk.context.topics
