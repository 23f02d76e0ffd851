"""Subscription group bodies: the bare object, the wrapper of a slave, lists, prohibitions."""

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.errors import RemoteProtocolError
from broker.remoting.protocol.body.consumer.group import (
    GroupForbidden,
    GroupList,
    SubscriptionGroupBody,
    SubscriptionGroupList,
    SubscriptionGroupWrapper,
)
from broker.remoting.protocol.body.version import DataVersion


def test_a_single_group_is_sent_without_a_wrapper_object() -> None:
    config = SubscriptionGroupConfig(group_name="G1", retry_max_times=3)
    body = SubscriptionGroupBody(config=config).to_bytes()
    assert b'"groupName":"G1"' in body
    assert b'"retryMaxTimes":3' in body
    assert SubscriptionGroupBody.from_bytes(body).config == config


@pytest.mark.parametrize("body", [b"[]", b"7", b'"G1"'])
def test_another_value_than_an_object_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="SubscriptionGroupBody"):
        SubscriptionGroupBody.from_bytes(body)


def test_a_wrapper_has_groups_prohibitions_and_the_version() -> None:
    wrapper = SubscriptionGroupWrapper(
        subscription_group_table={"G1": SubscriptionGroupConfig(group_name="G1")},
        forbidden_table={"G1": {"T1": 4}},
        data_version=DataVersion(counter=3, timestamp=9),
    )
    again = SubscriptionGroupWrapper.from_bytes(wrapper.to_bytes())
    assert again == wrapper
    assert wrapper.to_bytes().startswith(
        b'{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":9},"forbiddenTable":'
        b'{"G1":{"T1":4}},"subscriptionGroupTable":{"G1":{'
    )


def test_a_wrapper_of_4_9_has_no_prohibitions() -> None:
    body = b'{"dataVersion":{"counter":1,"timestamp":2},"subscriptionGroupTable":{}}'
    wrapper = SubscriptionGroupWrapper.from_bytes(body)
    assert (wrapper.forbidden_table, wrapper.data_version.counter) == ({}, 1)


def test_a_list_of_groups_is_in_one_field() -> None:
    configs = [SubscriptionGroupConfig(group_name=name) for name in ("G1", "G2")]
    body = SubscriptionGroupList(group_config_list=configs)
    assert SubscriptionGroupList.from_bytes(body.to_bytes()) == body
    assert body.to_bytes().startswith(b'{"groupConfigList":[{')


def test_an_absent_permission_only_reads_the_prohibition() -> None:
    asked = GroupForbidden(topic="T1", group="G1")
    assert asked.to_bytes() == b'{"group":"G1","topic":"T1"}'
    assert GroupForbidden.from_bytes(b'{"readable":false}').readable is False


def test_group_names_are_a_list() -> None:
    assert GroupList(group_list=["G1"]).to_bytes() == b'{"groupList":["G1"]}'
