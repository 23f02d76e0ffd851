"""Cold data flow control as administrators and consumers see it."""

import json

import pytest

from broker.common.subscription import build_subscription
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.server.client.clients import ClientChannel, ConsumerProfile

SET, REMOVE = (
    RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
    RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
)


def info(desk) -> dict:
    answer = desk.ask(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO)
    return json.loads(answer.body_bytes())


def test_limits_are_set_listed_and_removed(desk) -> None:
    assert desk.ask(SET, body=b"G1=1000\nG2=-5\n").code == 0
    assert info(desk) == {
        "runtimeTable": {},
        "configTable": {"G1": 1000, "G2": -5},
        "cgColdReadThreshold": 3 * 1024 * 1024,
        "globalColdReadThreshold": 100 * 1024 * 1024,
        "globalAcc": 0,
    }
    assert desk.ask(REMOVE, body=b"G1").code == 0
    assert desk.ask(REMOVE, body=b"unknown").code == 0
    assert info(desk)["configTable"] == {"G2": -5}


@pytest.mark.parametrize(
    "body",
    [
        b"G1=abc",
        b"G1=1\nG2=",
        b"G1=1_0",
        b"G1=99999999999999999999",
        b"G1=" + b"9" * 5000,
        b"a\\u00",
    ],
)
def test_a_value_that_is_not_a_size_changes_nothing(desk, body) -> None:
    answer = desk.ask(SET, body=body)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert info(desk)["configTable"] == {}


def test_an_empty_change_is_a_success(desk) -> None:
    assert desk.ask(SET).code == 0


@pytest.fixture
def cold(make_desk):
    """A broker on which every message is cold; G1 may read 800 bytes of them."""
    desk = make_desk(
        coldDataFlowControlEnable="true",
        cgColdReadThreshold="800",
        accessMessageInMemoryMaxRatio="0",
    )
    desk.topic("Orders")
    for number in range(8):
        desk.send(body=b"%d" % number + bytes(300))
    return desk


def online(desk, consume_type: str) -> None:
    channel = ClientChannel(desk.connection, "c1", "JAVA", 479, desk.clock.now_ms())
    profile = ConsumerProfile(consume_type=consume_type)
    data = [build_subscription("Orders", "*")]
    desk.context.consumers.register("G1", channel, profile, data)


def test_a_push_group_that_reads_too_much_is_busy_until_the_window_ends(cold, records) -> None:
    online(cold, "CONSUME_PASSIVELY")
    assert cold.pull(maxMsgNums=1).code == 0
    assert info(cold)["runtimeTable"]["G1"]["coldAcc"] > 400
    assert cold.pull(queue_offset=1, maxMsgNums=1).code == 0
    refused = cold.pull(queue_offset=2, maxMsgNums=1)
    assert refused.code == ResponseCode.SYSTEM_BUSY
    assert refused.remark == "This consumer group is reading cold data. It has been flow control"
    assert cold.pull(group="G2", maxMsgNums=1).code == 0, "others are not limited"
    waiting = cold.pull(queue_offset=8, maxMsgNums=1)
    assert waiting.code == ResponseCode.PULL_NOT_FOUND, "the end of the queue is not limited"
    cold.clock.advance(5_000)
    assert cold.pull(queue_offset=2, maxMsgNums=1).code == 0


def test_an_application_that_pulls_waits_and_then_gets_one_message(
    cold, records, decode_frame
) -> None:
    online(cold, "CONSUME_ACTIVELY")
    assert cold.pull(maxMsgNums=2).code == 0
    assert cold.pull(queue_offset=2, maxMsgNums=3) is None
    cold.send(body=b"a new message does not wake it")
    assert len(cold.context.holds) == 1
    cold.clock.advance(3_000)
    cold.pulls.resume(cold.context.holds.expire(cold.clock.monotonic_ms()))
    answer = decode_frame(cold.connection.sent[-1])
    assert [m.queue_offset for m in records(answer)] == [2]


def test_without_the_setting_nothing_is_counted(make_desk) -> None:
    desk = make_desk(accessMessageInMemoryMaxRatio="0")
    desk.topic("Orders")
    desk.send()
    desk.send()
    desk.pull(maxMsgNums=1)
    assert info(desk)["globalAcc"] == 0
