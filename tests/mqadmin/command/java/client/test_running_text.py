"""The sections of a client's running information."""

from mqadmin.admin.clients.running import RunningQueue, RunningRecord, RunningTopic
from mqadmin.admin.connections import Subscription
from mqadmin.command.java.client.running_text import running_text


def test_each_section_has_the_rows_of_java() -> None:
    record = RunningRecord(
        group="g",
        client_id="c",
        client_addr="a:1",
        language="JAVA",
        version="V5_3_3",
        consume_type="CONSUME_PASSIVELY",
        orderly=False,
        start_timestamp=None,
        queue_count=2,
        cached_messages=0,
        properties={"PROP_CONSUMEORDERLY": "false"},
        subscriptions=[
            Subscription(topic="t", sub_string="A", expression_type="TAG", sub_version=1)
        ],
        queues=[
            RunningQueue(topic="t", broker_name="b", queue_id=0, commit_offset=7, locked=True),
            RunningQueue(topic="t", broker_name="b", queue_id=1, wait_ack_count=3),
        ],
        topics=[
            RunningTopic(
                topic="t",
                pull_rt=1.5,
                pull_tps=2.0,
                consume_rt=0.25,
                consume_ok_tps=4.0,
                consume_failed_tps=0.0,
                consume_failed_msgs=9,
            )
        ],
        user_consumer_info={"own": "x"},
        jstack="main",
    )
    text = running_text(record)
    sections = [line for line in text.splitlines() if line.startswith("#") and line.endswith("#")]
    assert sections == [
        "#Consumer Properties#",
        "#Consumer Subscription#",
        "#Consumer Offset#",
        "#Consumer MQ Detail#",
        "#Consumer Pop Detail#",
        "#Consumer RT&TPS#",
        "#User Consume Info#",
        "#Consumer jstack#",
    ]
    assert f"{'PROP_CONSUMEORDERLY':<40}: false" in text
    assert f"001 Topic: {'t':<40} ClassFilter: false    SubExpression: A" in text
    assert f"{'t':<64}  {'b':<32}  {'0':<4}  {'7':<20}" in text
    assert "commitOffset=7" in text
    assert "locked=true" in text
    assert "waitAckCount=3" in text
    assert f"{'t':<64}  {'1.50':>14} {'2.00':>14} {'0.25':>14} {'4.00':>14}" in text
