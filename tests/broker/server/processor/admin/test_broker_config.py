"""Reading and changing the broker's settings."""

from pathlib import Path

import pytest

from broker.common.config.properties import parse_properties
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.rpc import Access
from broker.store.config import delete_hours


def update(desk, text: str):
    return desk.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())


def shown(desk) -> dict[str, str]:
    answer = desk.ask(RequestCode.GET_BROKER_CONFIG)
    assert '"counter"' in answer.ext_fields["version"]
    return parse_properties(answer.body_bytes().decode())


def test_every_setting_is_shown(make_desk) -> None:
    desk = make_desk(someFutureKey="7")
    table = shown(desk)
    assert table["brokerName"] == "broker-a"
    assert table["flushDiskType"] == "ASYNC_FLUSH"
    assert table["serverWorkerThreads"] == "8"
    assert table["someFutureKey"] == "7"
    lines = desk.ask(RequestCode.GET_BROKER_CONFIG).body_bytes().decode().splitlines()
    assert lines == sorted(lines)


SECRETS = {
    "innerClientAuthenticationCredentials": '{"accessKey":"a","secretKey":"hunter2"}',
    "tls.server.keyPassword": "hunter2",
    "initAuthenticationUser": '{"username":"a","password":"hunter2"}',
}


def test_secrets_are_masked_for_all_peers(make_desk) -> None:
    desk = make_desk(**SECRETS)
    table = shown(desk)
    assert {table[key] for key in SECRETS} == {"******"}
    assert b"hunter2" not in desk.ask(RequestCode.GET_BROKER_CONFIG).body_bytes()


def test_unknown_keys_have_no_value_for_other_hosts(make_desk) -> None:
    desk = make_desk(someFutureKey="hunter2", **SECRETS)
    desk.connection.access = Access.CLIENT
    table = shown(desk)
    assert table["someFutureKey"] == "******"
    assert table["brokerName"] == "broker-a"
    assert b"hunter2" not in desk.ask(RequestCode.GET_BROKER_CONFIG).body_bytes()


@pytest.mark.parametrize("key", ["allowRemoteAdmin", "adminHosts", *SECRETS])
def test_who_may_administer_and_secrets_are_changed_in_files_only(desk, key: str) -> None:
    answer = update(desk, f"{key}=true\nautoCreateTopicEnable=false")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert desk.context.config.auto_create_topic_enable
    assert not desk.context.config.allow_remote_admin


def test_exported_statistics_exist(desk) -> None:
    """exportConfigs of Java's mqadmin fails on an absent key."""
    wanted = (
        "brokerClusterName brokerId brokerName brokerRole fileReservedTime filterServerNums "
        "flushDiskType maxMessageSize messageDelayLevel msgTraceTopicName slaveReadEnable traceOn "
        "traceTopicEnable useTLS autoCreateTopicEnable autoCreateSubscriptionGroup"
    )
    assert set(wanted.split()) <= shown(desk).keys()


def test_live_setting_takes_effect_at_once(desk) -> None:
    assert update(desk, "autoCreateTopicEnable=false\n").code == 0
    assert shown(desk)["autoCreateTopicEnable"] == "false"
    assert desk.send(topic="New").code == ResponseCode.TOPIC_NOT_EXIST
    assert desk.settings.origin("autoCreateTopicEnable") == "updated while running"


def test_a_live_setting_of_the_store_takes_effect_at_once(desk) -> None:
    assert desk.send(body=bytes(2000)).code == 0
    changes = (
        "maxMessageSize=1000\nfileReservedTime=5\ndeleteWhen=03;04\ndiskMaxUsedSpaceRatio=40\n"
    )
    assert update(desk, changes + "syncFlushTimeout=77\nflushIntervalCommitLog=20").code == 0
    assert desk.send(body=bytes(2000)).code == ResponseCode.MESSAGE_ILLEGAL
    assert desk.store.config.file_reserved_time == 5
    assert delete_hours(desk.store.config) == {3, 4}
    assert desk.store.config.disk_max_used_space_ratio == 40
    assert desk.store.flusher.config.sync_flush_timeout == 77
    assert shown(desk)["fileReservedTime"] == "5"


def test_a_wrong_value_changes_neither_side(desk) -> None:
    answer = update(desk, "defaultTopicQueueNums=6\ndeleteWhen=25")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "deleteWhen" in answer.remark
    assert desk.context.config.default_topic_queue_nums == 8
    assert shown(desk)["deleteWhen"] == "04"


@pytest.mark.parametrize(
    "line",
    [
        "flushIntervalCommitLog=-5",
        "flushIntervalCommitLog=99999999999999999",
        "syncFlushTimeout=0",
        "shortPollingTimeMills=-1",
        "defaultTopicQueueNums=99999999999999999",
    ],
)
def test_a_value_out_of_bounds_is_refused_while_running(desk, line) -> None:
    before = shown(desk)
    answer = update(desk, line)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert f"{line}: must be between" in answer.remark
    assert shown(desk) == before


def test_a_change_that_cannot_be_written_is_not_in_force(desk, tmp_path: Path) -> None:
    path = tmp_path / "conf" / "broker.conf"
    desk.settings.path = str(path)
    for _ in range(2):
        answer = update(desk, "autoCreateTopicEnable=false")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert str(path) in answer.remark
        assert desk.settings.version.counter == 0
        assert shown(desk)["autoCreateTopicEnable"] == "true"
    path.parent.mkdir()
    path.write_text("# ours\nautoCreateTopicEnable = true\n", encoding="utf-8")
    assert update(desk, "autoCreateTopicEnable=false").code == 0
    assert path.read_text() == "# ours\nautoCreateTopicEnable=false\n"
    assert shown(desk)["autoCreateTopicEnable"] == "false"


def test_change_raises_the_version(desk) -> None:
    update(desk, "longPollingEnable=false")
    assert desk.settings.version.counter == 1


def test_permission_reaches_the_name_servers(desk) -> None:
    changes = []
    desk.context.topics.on_change.append(changes.append)
    update(desk, "brokerPermission=4")
    assert changes == [[]]
    registered = desk.context.topics.registered(desk.topic("Orders"))
    assert registered.perm == 4


@pytest.mark.parametrize("key", ["configBlackList", "brokerConfigPath", "rocketmqHome"])
def test_black_list(desk, key) -> None:
    answer = update(desk, f"{key}=x\ntraceOn=false")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.remark == "Can not update config in black list."


def test_own_black_list(make_desk) -> None:
    desk = make_desk(configBlackList="allowRemoteAdmin; longPollingEnable")
    assert update(desk, "longPollingEnable=false").code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    "key", ["brokerName", "storePathRootDir", "flushDiskType", "useTLS", "mappedFileSizeCommitLog"]
)
def test_a_setting_that_needs_a_restart_is_refused(desk, key) -> None:
    answer = update(desk, f"{key}=x\nautoCreateTopicEnable=false")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert key in answer.remark
    assert desk.context.config.auto_create_topic_enable


@pytest.mark.parametrize("line", ["enableControllerMode=true", "useTLS=true"])
def test_promise_that_is_not_kept_is_refused(desk, line) -> None:
    answer = update(desk, f"{line}\nautoCreateTopicEnable=false")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert line in answer.remark
    assert desk.context.config.auto_create_topic_enable


def test_unknown_keys_are_ignored(desk) -> None:
    assert update(desk, "noSuchKey=1").code == 0
    assert "noSuchKey" not in shown(desk)


def test_value_that_does_not_fit(desk) -> None:
    answer = update(desk, "defaultTopicQueueNums=many")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "defaultTopicQueueNums" in answer.remark
    assert update(desk, "brokerPermission=9").code == ResponseCode.SYSTEM_ERROR
    assert desk.context.config.broker_permission == 6


def test_change_is_written_to_the_file(desk, tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("# kept\nbrokerName = broker-a\ndefaultTopicQueueNums=8\n", encoding="utf-8")
    desk.settings.path = str(file)
    update(desk, "defaultTopicQueueNums=6\nlongPollingEnable=false")
    assert file.read_text(encoding="utf-8") == (
        "# kept\nbrokerName = broker-a\ndefaultTopicQueueNums=6\nlongPollingEnable=false\n"
    )
