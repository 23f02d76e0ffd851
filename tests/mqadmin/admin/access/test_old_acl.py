"""Requests of ACL 1.0: their fields, and the first refusal."""

from typing import Any

import pytest

from broker.errors import BrokerError
from mqadmin.admin.access.old_acl import OldAccount, OldAclAdmin
from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import FakeBroker


def test_each_process_gets_the_account(
    admin: MQAdmin, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    got: list[Any] = []
    for broker in (broker_a, broker_b):
        setattr(broker, "on_50", lambda header, command: got.append(header))  # noqa: B010
    old = OldAclAdmin(admin)
    account = OldAccount(access_key="key", secret_key="secret", topic_perms="T=PUB")
    assert list(old.update(account)) == [broker_a.address, broker_b.address]
    assert [(one.access_key, one.topic_perms) for one in got] == [("key", "T=PUB")] * 2


def test_the_first_refusal_ends_the_change(admin: MQAdmin, broker_a: FakeBroker) -> None:
    setattr(broker_a, "on_51", lambda header, command: None)  # noqa: B010
    setattr(broker_a, "on_53", lambda header, command: None)  # noqa: B010
    done = OldAclAdmin(admin).delete("key")
    assert next(done) == broker_a.address
    with pytest.raises(BrokerError, match="REQUEST_CODE_NOT_SUPPORTED"):
        next(done)
    assert list(OldAclAdmin(admin, broker="broker-a").set_white_list("10.0.0.1")) == [
        broker_a.address
    ]


def test_versions_are_the_broker_s(admin: MQAdmin, broker_a: FakeBroker) -> None:
    fields = {
        "version": "{}",
        "brokerName": "broker-a",
        "brokerAddr": broker_a.address,
        "clusterName": "DefaultCluster",
    }
    setattr(broker_a, "on_52", lambda header, command: (fields, b""))  # noqa: B010
    (found,) = OldAclAdmin(admin, broker="broker-a").versions()
    assert (found.broker_name, found.version) == ("broker-a", "{}")
