"""The JSON files of config/: fastjson's text, read tolerantly and written exactly."""

import json
import random
from collections.abc import Callable

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.common.topic import TopicConfig
from broker.errors import ProtocolError, RemoteProtocolError
from broker.store.format import config
from broker.store.format.config import (
    ConfigFile,
    ConsumerOffsetFile,
    DataVersion,
    DelayOffsetFile,
    SubscriptionGroupFile,
    TopicsFile,
    decode_config,
    decode_consumer_offset,
    decode_delay_offset,
    decode_subscription_group,
    decode_topics,
    encode_config,
    encode_consumer_offset,
    encode_delay_offset,
    encode_subscription_group,
    encode_topics,
    group_topics,
    split_topic_group,
)


def rewrite(name: str, text: str | bytes) -> str:
    """Decode and encode by the pair that belongs to a file's name."""
    if name == config.TOPICS:
        return encode_topics(decode_topics(text))
    if name == config.SUBSCRIPTION_GROUP:
        return encode_subscription_group(decode_subscription_group(text))
    if name in (config.CONSUMER_OFFSET, config.LMQ_CONSUMER_OFFSET):
        return encode_consumer_offset(decode_consumer_offset(text))
    if name == config.DELAY_OFFSET:
        return encode_delay_offset(decode_delay_offset(text))
    return encode_config(decode_config(name, text))


def test_each_file_of_java_is_written_back_to_the_same_text(vectors: dict) -> None:
    for title, text in vectors["config_json"].items():
        name, _, dialect = title.partition(" ")
        if "compact" in dialect:
            continue
        assert rewrite(name, text) == text, title
        assert rewrite(name, text.encode()) == text, title


def test_integer_keys_may_be_quoted_and_order_is_free(vectors: dict) -> None:
    text = '{"offsetTable":{"TopicA@GroupB":{"1":5,"0":3}}, "dataVersion": null}'
    value = decode_consumer_offset(text)
    assert value.offsets == {"TopicA@GroupB": {1: 5, 0: 3}}
    assert value.data_version is None
    wire = vectors["config_json"]["consumerOffset.json compact (as sent on the wire)"]
    pretty = vectors["config_json"]["consumerOffset.json (5.x)"]
    assert decode_consumer_offset(wire) == decode_consumer_offset(pretty)
    order = vectors["config_json"]["consumerOrderInfo.json (5.x)"]
    quoted = order.replace("{0:{", '{"0":{').replace("{101:1", '{"101":1')
    assert rewrite(config.CONSUMER_ORDER_INFO, quoted) == order


def test_topics_are_typed_and_unknown_fields_survive() -> None:
    text = (
        '{"dataVersion":{"counter":3,"stateVersion":1,"timestamp":9},"news":[1,2],'
        '"topicConfigTable":{"T":{"perm":6,"readQueueNums":4,"writeQueueNums":2,"shape":"round"}}}'
    )
    file = decode_topics(text)
    assert file.data_version == DataVersion(counter=3, state_version=1, timestamp=9)
    topic = file.topics["T"]
    assert (topic.topic_name, topic.read_queue_nums, topic.write_queue_nums) == ("T", 4, 2)
    again = json.loads(encode_topics(file))
    assert again["news"] == [1, 2]
    assert again["topicConfigTable"]["T"]["shape"] == "round"
    assert again["topicConfigTable"]["T"]["attributes"] == {}


def test_a_new_file_is_of_the_5x_dialect() -> None:
    topics = TopicsFile(topics={"T": TopicConfig(topic_name="T")})
    assert json.loads(encode_topics(topics))["dataVersion"]["stateVersion"] == 0
    groups = SubscriptionGroupFile(
        groups={"G": SubscriptionGroupConfig(group_name="G")}, forbidden={"G": {"T": 4}}
    )
    wire = json.loads(encode_subscription_group(groups))
    assert wire["forbiddenTable"] == {"G": {"T": 4}}
    assert wire["subscriptionGroupTable"]["G"]["consumeTimeoutMinute"] == 15
    assert decode_subscription_group(encode_subscription_group(groups)) == groups


def test_a_file_of_4_9_stays_one() -> None:
    four = DataVersion(counter=1, state_version=None, timestamp=2)
    groups = SubscriptionGroupFile(
        data_version=four, groups={"G": SubscriptionGroupConfig(group_name="G")}
    )
    wire = json.loads(encode_subscription_group(groups))
    assert "forbiddenTable" not in wire
    assert "attributes" not in wire["subscriptionGroupTable"]["G"]
    offsets = encode_consumer_offset(ConsumerOffsetFile(data_version=None, offsets={"T@G": {0: 1}}))
    assert offsets == '{\n\t"offsetTable":{\n\t\t"T@G":{0:1\n\t\t}\n\t}\n}'


def test_topics_of_groups_are_derived_when_not_given() -> None:
    offsets = {"T@G": {0: 1}, "U@G": {0: 1}, "T@H": {}, "T@P@broadcast": {0: 1}, "noGroup": {}}
    assert group_topics(offsets) == {"G": ["T", "U"], "H": ["T"]}
    text = encode_consumer_offset(ConsumerOffsetFile(offsets=offsets))
    assert decode_consumer_offset(text).group_topics == {"G": ["T", "U"], "H": ["T"]}


def test_only_the_first_separator_divides_a_key() -> None:
    assert split_topic_group("T@G@broadcast") == ("T", "G@broadcast")
    assert split_topic_group("T") == ("T", "")


def test_a_slaves_delay_offsets_stay_on_one_line() -> None:
    text = '{"offsetTable":{1:5}}'
    assert decode_delay_offset(text).compact
    assert rewrite(config.DELAY_OFFSET, text) == text
    assert encode_delay_offset(DelayOffsetFile(data_version=None)) == '{\n\t"offsetTable":{}\n}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "null",
        "[]",
        "{",
        '{"offsetTable":[]}',
        '{"offsetTable":{"T@G":7}}',
        '{"offsetTable":{"T@G":{"x":7}}}',
        '{"offsetTable":{"T@G":{"1":"x"}}}',
        '{"offsetTable":{"T@G":{"1":"1_0"}}}',
        '{"offsetTable":{"T@G":{"1_0":1}}}',
        '{"offsetTable":{"T@G":{"\u0661":1}}}',
        '{"offsetTable":{"T@G":{"1":9223372036854775808}}}',
        '{"dataVersion":7}',
    ],
)
def test_an_invalid_offset_file_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_consumer_offset(text)


def test_offsets_survive_a_round_trip(rng: random.Random) -> None:
    for _ in range(20):
        offsets = {
            f"t{rng.randrange(50)}@g{rng.randrange(50)}": {
                rng.randrange(100): rng.randrange(1 << 60) for _ in range(rng.randrange(5))
            }
            for _ in range(rng.randrange(10))
        }
        delays = {rng.randrange(1, 19): rng.randrange(1 << 40) for _ in range(5)}
        file = ConsumerOffsetFile(offsets=offsets, group_topics=group_topics(offsets))
        assert decode_consumer_offset(encode_consumer_offset(file)) == file
        delay = DelayOffsetFile(offsets=delays)
        assert decode_delay_offset(encode_delay_offset(delay)) == delay


def test_every_cut_and_flip_gives_a_value_or_an_error(
    vectors: dict, every_cut: Callable[..., list[int]]
) -> None:
    text = vectors["config_json"]["consumerOffset.json (5.x)"].encode()
    assert every_cut(decode_consumer_offset, text) == []
    for position in range(len(text)):
        changed = bytearray(text)
        changed[position] ^= 1 << position % 8
        try:
            decode_consumer_offset(bytes(changed))
        except ProtocolError:
            continue


def test_other_files_keep_their_tables() -> None:
    file = ConfigFile(name=config.TIMER_METRICS, table={"T": {"count": 1, "timeStamp": 2}})
    text = encode_config(file)
    assert text == '{"timingCount":{"T":{"count":1,"timeStamp":2}}}'
    assert decode_config(config.TIMER_METRICS, text) == file
