"""Questions about parts this broker has not get answers tools can live with."""

import pytest

from broker.remoting.protocol.body.ha import HARuntimeInfo
from broker.remoting.protocol.body.lock import SetMessageRequestModeRequestBody
from broker.remoting.protocol.codes import RequestCode, ResponseCode


def test_ha_status_is_a_master_without_slaves(desk) -> None:
    desk.topic("Orders")
    desk.send()
    answer = desk.ask(RequestCode.GET_BROKER_HA_STATUS)
    body = HARuntimeInfo.from_bytes(answer.body_bytes())
    assert body.master
    assert body.master_commit_log_max_offset == desk.store.max_physical_offset
    assert body.ha_connection_info == []


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.GET_COLD_DATA_FLOW_CTR_INFO,
        RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON,
        RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS,
        RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
    ],
)
def test_harmless_questions_succeed(desk, code) -> None:
    assert desk.ask(code).code == 0


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.GET_BROKER_EPOCH_CACHE,
        RequestCode.GET_TIMER_CHECK_POINT,
        RequestCode.GET_TIMER_METRICS,
    ],
)
def test_a_missing_object_is_reported(desk, code) -> None:
    answer = desk.ask(code)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark


@pytest.mark.parametrize(("mode", "code"), [("0", 0), ("1", 0), ("x", 29), ("", 29)])
def test_read_ahead_mode(desk, mode, code) -> None:
    ext = {"READ_AHEAD_MODE": mode}
    assert desk.ask(RequestCode.SET_COMMITLOG_READ_MODE, ext).code == code


@pytest.mark.parametrize(
    ("topic", "mode", "code"),
    [
        ("Orders", "PULL", 0),
        ("Orders", "POP", ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
        ("Unknown", "PULL", ResponseCode.TOPIC_NOT_EXIST),
        ("%RETRY%G1", "PULL", ResponseCode.NO_PERMISSION),
    ],
)
def test_request_mode(desk, topic, mode, code) -> None:
    desk.topic("Orders")
    body = SetMessageRequestModeRequestBody(topic=topic, consumer_group="G1", mode=mode)
    answer = desk.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=body.to_bytes())
    assert answer.code == code


def test_request_mode_of_an_unknown_group(make_desk) -> None:
    desk = make_desk(autoCreateSubscriptionGroup="false")
    desk.topic("Orders")
    body = SetMessageRequestModeRequestBody(topic="Orders", consumer_group="G1")
    answer = desk.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=body.to_bytes())
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
