"""Each file of config/ with one value of another type: decoded, or refused as invalid.

A refused file makes the broker use its backup, and ``mqadmin store verify`` report it; any other
exception would stop both.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from broker.common.java import INT64_MAX, INT64_MIN
from broker.errors import RemoteProtocolError
from broker.store.format import config
from broker.store.format.config import ConsumerOffsetFile, DelayOffsetFile
from tests.support.json_mutations import failures

VERSION = {"counter": 3, "stateVersion": 0, "timestamp": 1_700_000_000_000}

DOCUMENTS: dict[str, dict[str, Any]] = {
    config.TOPICS: {
        "dataVersion": VERSION,
        "topicConfigTable": {
            "T": {
                "attributes": {"message.type": "NORMAL"},
                "order": False,
                "perm": 6,
                "readQueueNums": 4,
                "topicFilterType": "SINGLE_TAG",
                "topicName": "T",
                "topicSysFlag": 0,
                "writeQueueNums": 4,
            }
        },
    },
    config.SUBSCRIPTION_GROUP: {
        "dataVersion": VERSION,
        "forbiddenTable": {"G": {"T": 3}},
        "subscriptionGroupTable": {
            "G": {
                "attributes": {"a": "b"},
                "brokerId": 0,
                "consumeEnable": True,
                "groupName": "G",
                "groupRetryPolicy": {
                    "customizedRetryPolicy": {"next": [1000, 5000]},
                    "type": "CUSTOMIZED",
                },
                "retryMaxTimes": 16,
                "subscriptionDataSet": [{"topic": "T"}],
            }
        },
    },
    config.CONSUMER_OFFSET: {
        "dataVersion": VERSION,
        "groupTopicMap": {"G": ["T"]},
        "offsetTable": {"T@G": {"0": 5}},
    },
    config.LMQ_CONSUMER_OFFSET: {
        "lmqOffsetTable": {"%LMQ%a@%LMQ%a": 3},
        "offsetTable": {"T@G": {"0": 5}},
    },
    config.DELAY_OFFSET: {"dataVersion": VERSION, "offsetTable": {"1": 5}},
    config.CONSUMER_ORDER_INFO: {
        "table": {
            "T@G": {"0": {"a": "id", "cm": 5, "o": [9, 1], "oc": {"10": 1}, "ot": {"9": 7}}},
        }
    },
    config.TOPIC_QUEUE_MAPPING: {
        "dataVersion": VERSION,
        "topicQueueMappingInfoMap": {
            "T": {"bname": "b", "currIdMap": {"0": 1}, "hostedQueues": {"0": [{"queueId": 0}]}}
        },
    },
    config.MESSAGE_REQUEST_MODE: {"messageRequestModeMap": {"T": {"G": {"mode": "POP"}}}},
    config.CONSUMER_FILTER: {
        "filterDataByTopic": {"T": {"groupFilterData": {"G": {"expression": "a > 1"}}}}
    },
    config.TIMER_METRICS: {"dataVersion": VERSION, "timingCount": {"T": {"count": 4}}},
    config.TRANSACTION_METRICS: {"transactionCount": {"T": {"count": 4, "timeStamp": 9}}},
}


def rewriter(name: str) -> Callable[[Any], str]:
    """Decode a document as the file of this name, and encode the value again."""

    def run(document: Any) -> str:
        text = document if isinstance(document, str) else json.dumps(document)
        if name == config.TOPICS:
            return config.encode_topics(config.decode_topics(text))
        if name == config.SUBSCRIPTION_GROUP:
            return config.encode_subscription_group(config.decode_subscription_group(text))
        if name in (config.CONSUMER_OFFSET, config.LMQ_CONSUMER_OFFSET):
            return config.encode_consumer_offset(config.decode_consumer_offset(text))
        if name == config.DELAY_OFFSET:
            return config.encode_delay_offset(config.decode_delay_offset(text))
        return config.encode_config(config.decode_config(name, text))

    return run


def test_each_file_of_config_has_a_document() -> None:
    files = {config.TOPICS, config.SUBSCRIPTION_GROUP, config.CONSUMER_OFFSET, config.DELAY_OFFSET}
    assert set(DOCUMENTS) == {*files, config.LMQ_CONSUMER_OFFSET, *config.TABLES}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_value_of_another_type_is_accepted_or_refused_but_raises_nothing_else(name: str) -> None:
    accepted, wrong = failures(rewriter(name), DOCUMENTS[name])
    assert wrong == []
    assert accepted > 0  # a null field has its default


@pytest.mark.parametrize("name", DOCUMENTS)
def test_encoding_a_decoded_file_again_changes_nothing(name: str) -> None:
    once = rewriter(name)(DOCUMENTS[name])
    assert rewriter(name)(once) == once


@pytest.mark.parametrize("table", [None, {}])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_file_without_its_table_has_an_empty_one(name: str, table: object) -> None:
    """Java writes null for a table that was never filled."""
    empty = {field: value for field, value in DOCUMENTS[name].items() if field == "dataVersion"}
    given = {field: table for field in DOCUMENTS[name] if field != "dataVersion"}
    assert rewriter(name)({**empty, **given}) is not None
    if name in config.TABLES:
        assert config.decode_config(name, json.dumps({**empty, **given})).table == {}


@pytest.mark.parametrize("offset", [INT64_MIN - 1, INT64_MAX + 1, "9" * 30])
def test_an_offset_that_is_not_a_java_long_is_refused(offset: object) -> None:
    """A Java broker cannot read it, and requests and responses cannot contain it."""
    consumer = json.dumps({"offsetTable": {"T@G": {"0": offset}}})
    with pytest.raises(RemoteProtocolError, match="a number is expected"):
        config.decode_consumer_offset(consumer)
    with pytest.raises(RemoteProtocolError, match="a number is expected"):
        config.decode_delay_offset(json.dumps({"offsetTable": {"1": offset}}))


@pytest.mark.parametrize("offset", [INT64_MIN, -1, 0, INT64_MAX])
def test_every_java_long_is_an_offset(offset: int) -> None:
    consumer = ConsumerOffsetFile(offsets={"T@G": {0: offset}})
    text = config.encode_consumer_offset(consumer)
    assert config.decode_consumer_offset(text).offsets == consumer.offsets
    delay = DelayOffsetFile(offsets={1: offset})
    assert config.decode_delay_offset(config.encode_delay_offset(delay)).offsets == delay.offsets


@pytest.mark.parametrize("topics", [None, "T", 5, {"T": 1}])
def test_topics_of_a_group_that_are_not_a_list_are_refused(topics: object) -> None:
    """A text would otherwise be read as one topic for each of its characters."""
    text = json.dumps({"offsetTable": {}, "groupTopicMap": {"G": topics}})
    with pytest.raises(RemoteProtocolError, match="G: a list is expected"):
        config.decode_consumer_offset(text)


@pytest.mark.parametrize("topics", [None, 5, [1], "T"])
def test_forbidden_bits_of_a_group_that_are_not_an_object_are_refused(topics: object) -> None:
    text = json.dumps({"subscriptionGroupTable": {}, "forbiddenTable": {"G": topics}})
    with pytest.raises(RemoteProtocolError, match="G: an object is expected"):
        config.decode_subscription_group(text)
