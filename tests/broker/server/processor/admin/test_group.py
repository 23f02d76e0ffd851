"""Group administration over the wire."""

from pathlib import Path

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.remoting.protocol.body.consumer.group import (
    GroupForbidden,
    SubscriptionGroupBody,
    SubscriptionGroupList,
    SubscriptionGroupWrapper,
)
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.store.format.config import decode_consumer_offset


def update(desk, config: SubscriptionGroupConfig):
    body = SubscriptionGroupBody(config=config).to_bytes()
    return desk.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)


def test_group_is_stored_whole(desk) -> None:
    config = SubscriptionGroupConfig(group_name="G1", retry_max_times=3, consume_enable=False)
    assert update(desk, config).code == 0
    assert desk.context.groups.configs["G1"] == config


def test_absent_fields_take_javas_defaults(desk) -> None:
    answer = desk.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"G1"}')
    assert answer.code == 0
    made = desk.context.groups.configs["G1"]
    assert (made.consume_enable, made.retry_max_times, made.retry_queue_nums) == (True, 16, 1)


@pytest.mark.parametrize("name", ["", "white space", "g" * 256])
def test_bad_name(desk, name) -> None:
    answer = update(desk, SubscriptionGroupConfig(group_name=name))
    assert answer.code == ResponseCode.INVALID_PARAMETER


def test_no_attribute_is_defined(desk) -> None:
    answer = update(desk, SubscriptionGroupConfig(group_name="G1", attributes={"+a": "b"}))
    assert (answer.code, answer.remark) == (1, "unsupported key: a")


def test_list_is_all_or_none(desk) -> None:
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
    names = ["G1", "bad name"]
    body = SubscriptionGroupList(
        group_config_list=[SubscriptionGroupConfig(group_name=name) for name in names]
    )
    assert desk.ask(code, body=body.to_bytes()).code == ResponseCode.INVALID_PARAMETER
    assert "G1" not in desk.context.groups
    body = SubscriptionGroupList(group_config_list=[SubscriptionGroupConfig(group_name="G1")])
    assert desk.ask(code, body=body.to_bytes()).code == 0
    assert "G1" in desk.context.groups


@pytest.mark.parametrize("field", ["cleanOffset", "removeOffset"])
def test_delete_with_offsets_in_both_dialects(desk, field) -> None:
    update(desk, SubscriptionGroupConfig(group_name="G1"))
    desk.context.offsets.commit("G1", "Orders", 0, 1)
    ext = {"groupName": "G1", field: "true"}
    assert desk.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, ext).code == 0
    assert "G1" not in desk.context.groups
    assert desk.context.offsets.topics_of("G1") == []


def test_deleted_offsets_are_gone_from_the_file_with_the_answer(desk) -> None:
    context = desk.context
    context.files.attach(context)
    update(desk, SubscriptionGroupConfig(group_name="G1"))
    context.offsets.commit("G1", "Orders", 0, 1)
    context.files.save_progress(context)
    path = Path(desk.settings.store.root) / "config" / "consumerOffset.json"
    written = path.read_bytes()
    path.unlink()
    path.mkdir()
    ext = {"groupName": "G1", "cleanOffset": "true"}
    refused = desk.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, ext)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "consumer offsets are not" in refused.remark
    path.rmdir()
    path.write_bytes(written)
    assert desk.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, ext).code == 0
    assert decode_consumer_offset(path.read_text("utf-8")).offsets == {}


def test_delete_keeps_offsets_unless_asked(desk) -> None:
    desk.context.offsets.commit("G1", "Orders", 0, 1)
    assert desk.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "G1"}).code == 0
    assert desk.context.offsets.topics_of("G1") == ["Orders"]


def test_all_groups(desk) -> None:
    desk.context.groups.forbid_read("G1", "Orders", True)
    answer = desk.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    body = SubscriptionGroupWrapper.from_bytes(answer.body_bytes())
    assert body.subscription_group_table == desk.context.groups.configs
    assert body.forbidden_table == {"G1": {"Orders": 4}}
    assert body.data_version.counter == desk.context.groups.data_version.counter


def test_one_group(make_desk) -> None:
    desk = make_desk(autoCreateSubscriptionGroup="false")
    answer = desk.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "TOOLS_CONSUMER"})
    config = SubscriptionGroupBody.from_bytes(answer.body_bytes()).config
    assert config.group_name == "TOOLS_CONSUMER"
    answer = desk.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "G1"})
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_forbidding_a_topic(desk) -> None:
    def ask(**fields) -> bool:
        ext = {"group": "G1", "topic": "Orders", **fields}
        answer = desk.ask(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, ext)
        return GroupForbidden.from_bytes(answer.body_bytes()).readable

    assert ask() is True
    assert ask(readable="false") is False
    assert ask() is False
    assert ask(readable="true") is True
