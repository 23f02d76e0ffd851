"""Java's commands about groups: columns, patches instead of replacements, statuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.common.group import SubscriptionGroupConfig
from mqadmin.command.java.client.group import config_text

Run = Callable[..., Any]


def test_a_configuration_is_printed_as_java_does() -> None:
    assert config_text(SubscriptionGroupConfig(group_name="G", consume_from_min_enable=False)) == (
        "SubscriptionGroupConfig{groupName=G, consumeEnable=true, consumeFromMinEnable=false, "
        "consumeBroadcastEnable=true, consumeMessageOrderly=false, retryQueueNums=1, "
        "retryMaxTimes=16, groupRetryPolicy=GroupRetryPolicy{type=CUSTOMIZED, "
        "exponentialRetryPolicy=null, customizedRetryPolicy=null}, brokerId=0, "
        "whichBrokerWhenConsumeSlowly=1, notifyConsumerIdsChangedEnable=true, groupSysFlag=0, "
        "consumeTimeoutMinute=15, subscriptionDataSet=null, attributes={}}"
    )


def test_a_new_group_has_the_defaults_of_the_command(java: Run, embedded: Any) -> None:
    done = java("updateSubGroup -b $B -g fresh -r 3")
    first, second = done.out.splitlines()
    assert (done.status, first) == (
        0,
        f"create subscription group to {embedded.address} success.",
    )
    assert "consumeFromMinEnable=false, consumeBroadcastEnable=false" in second
    assert "retryMaxTimes=3" in second


def test_an_existing_group_keeps_the_settings_that_are_not_named(java: Run) -> None:
    java("updateSubGroup -b $B -g kept -r 3 -o true")
    second = java("updateSubGroup -b $B -g kept -q 2").out.splitlines()[1]
    assert "consumeMessageOrderly=true, retryQueueNums=2, retryMaxTimes=3" in second


def test_the_configuration_is_shown_per_broker(java: Run) -> None:
    java("updateSubGroup -b $B -g shown")
    banner, first, *rest = java("getConsumerConfig -g shown").out.splitlines()
    assert banner == "=" * 29 + "DefaultCluster:broker-a" + "=" * 29
    assert first == "groupName                               =  shown"
    assert rest[-1] == "attributes                              =  {}"
    assert java("getConsumerConfig -g none").status == 1


def test_groups_of_a_file_are_created(java: Run, embedded: Any, tmp_path: Path) -> None:
    path = tmp_path / "groups.json"
    path.write_text(json.dumps([{"groupName": "f1", "retryMaxTimes": 5}, {"groupName": "f2"}]))
    done = java(f"updateSubGroupList -b $B -f {path}")
    assert (done.status, len(done.out.splitlines())) == (0, 2)
    assert "retryMaxTimes                           =  5" in java("getConsumerConfig -g f1").out
    for content in ("{}", "[]", "[1]", "x"):
        path.write_text(content)
        assert java(f"updateSubGroupList -b $B -f {path}").status == 2


def test_a_group_is_deleted_and_its_topics_are_kept(java: Run, embedded: Any) -> None:
    java("updateSubGroup -b $B -g gone")
    done = java("deleteSubGroup -c DefaultCluster -g gone")
    assert done.out == (
        f"delete subscription group [gone] from broker [{embedded.address}] "
        "in cluster [DefaultCluster] success.\n"
    )
    assert "%DLQ%gone are kept" in done.err
    assert java("getConsumerConfig -g gone").status == 1


def test_a_mode_is_set(java: Run, embedded: Any, topic: str) -> None:
    done = java(f"setConsumeMode -b $B -t {topic} -g popping -m POP -q 2")
    assert done.status == 0, done.err
    assert done.out.splitlines() == [
        f"set consume mode to {embedded.address} success.",
        f"topic[{topic}] group[popping] consume mode[POP] popShareQueueNum[2]",
    ]


def test_invalid_options_are_usage_errors(java: Run) -> None:
    for line in (
        "updateSubGroup -g g",
        "updateSubGroup -b $B -c DefaultCluster -g g",
        "updateSubGroup -b $B -g g -s maybe",
        "updateSubGroup -b $B -g g -r x",
        "updateSubGroup -b $B -g g -p []",
        "updateSubGroup -b $B -g g --attributes +a=b",
        "setConsumeMode -b $B -t t -g g -m push",
        "setConsumeMode -b $B -t t -g g -m PULL -q 1",
    ):
        assert java(line).status == 2, line
