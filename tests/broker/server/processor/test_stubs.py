"""Questions about parts this broker has not get answers tools can live with."""

import pytest

from broker.remoting.protocol.body.ha import HARuntimeInfo
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
    ],
)
def test_harmless_questions_succeed(desk, code) -> None:
    assert desk.ask(code).code == 0


def test_epoch_cache_is_refused_outside_controller_mode(desk) -> None:
    answer = desk.ask(RequestCode.GET_BROKER_EPOCH_CACHE)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark


@pytest.mark.parametrize(("mode", "code"), [("0", 0), ("1", 0), ("x", 29), ("", 29)])
def test_read_ahead_mode(desk, mode, code) -> None:
    ext = {"READ_AHEAD_MODE": mode}
    assert desk.ask(RequestCode.SET_COMMITLOG_READ_MODE, ext).code == code
