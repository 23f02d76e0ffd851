"""Groups that are too far from the end of the log are disabled."""

import json

import pytest

from broker.common.group import SubscriptionGroupConfig, group_config_from_wire
from broker.common.group import group_config_to_wire as to_wire
from broker.remoting.protocol.codes import ResponseCode


@pytest.fixture
def behind(make_desk):
    """A broker with ten messages in Orders; the first ones are old."""

    def make(**properties: str):
        desk = make_desk(accessMessageInMemoryMaxRatio="0", **properties)
        desk.topic("Orders")
        for _ in range(10):
            desk.send(body=bytes(300))
        return desk

    return make


PROTECTED = {
    "disableConsumeIfConsumerReadSlowly": "true",
    "consumerFallbehindThreshold": "2000",
}


def test_a_group_beyond_the_threshold_is_disabled_at_the_next_check(behind) -> None:
    desk = behind(**PROTECTED)
    assert desk.pull(maxMsgNums=1).code == 0
    assert desk.pull(group="G2", queue_offset=8).code == 0
    assert desk.context.slow_consumers.disable(desk.context.config) == ["G1"]
    refused = desk.pull()
    assert refused.code == ResponseCode.NO_PERMISSION
    assert refused.ext_fields["forbiddenType"] == "2"
    assert desk.pull(group="G2").code == 0
    assert desk.context.groups.configs["G1"].consume_enable is False


def test_a_group_that_caught_up_stays_enabled(behind) -> None:
    desk = behind(**PROTECTED)
    desk.pull(maxMsgNums=1)
    desk.context.slow_consumers.disable(desk.context.config)
    enabled = SubscriptionGroupConfig(group_name="G1")
    desk.context.groups.put_all([enabled])
    desk.pull(queue_offset=8)
    assert desk.context.slow_consumers.disable(desk.context.config) == []
    assert desk.pull().code == 0


def test_without_the_setting_no_group_is_disabled(behind) -> None:
    desk = behind(consumerFallbehindThreshold="0")
    desk.pull(maxMsgNums=1)
    assert desk.context.slow_consumers.disable(desk.context.config) == []


@pytest.mark.parametrize(
    ("enabled", "queue_offset", "suggested"),
    [("false", 0, "0"), ("true", 0, "7"), ("true", 10, "3")],
)
def test_a_slow_group_is_sent_to_its_slave_if_slaves_may_be_read(
    behind, enabled, queue_offset, suggested
) -> None:
    desk = behind(slaveReadEnable=enabled)
    config = SubscriptionGroupConfig(
        group_name="G1", broker_id=3, which_broker_when_consume_slowly=7
    )
    desk.context.groups.put_all([config])
    answer = desk.pull(queue_offset=queue_offset, maxMsgNums=1)
    assert answer.ext_fields["suggestWhichBrokerId"] == suggested


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (
            {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1}},
            '{"exponentialRetryPolicy": {"initial": 1}, "type": "EXPONENTIAL"}',
        ),
        (
            {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 2]}},
            '{"customizedRetryPolicy": {"next": [1, 2]}, "type": "CUSTOMIZED"}',
        ),
        ({"type": "NONSENSE"}, "{}"),
    ],
)
def test_retry_policies_are_kept_as_java_keeps_them(sent, kept) -> None:
    config = group_config_from_wire({"groupName": "G1", "groupRetryPolicy": sent})
    assert json.dumps(to_wire(config)["groupRetryPolicy"]) == kept
