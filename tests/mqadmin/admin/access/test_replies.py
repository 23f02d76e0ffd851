"""Responses with and without a body; entries read by name."""

import pytest

from broker.errors import BrokerError, ClientError
from broker.remoting.protocol.body.auth import UserInfo
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.access.replies import EntryReader, found_values
from mqadmin.admin.facade import MQAdmin
from tests.support.access_broker import AccessTable
from tests.support.fake_brokers import FakeBroker


def test_an_empty_body_is_none_and_a_refusal_is_an_error(
    admin: MQAdmin, broker_a: FakeBroker
) -> None:
    AccessTable().serve(broker_a)
    first, second = found_values(
        admin, admin.topology.targets, RequestCode.AUTH_GET_USER, username="alice"
    )
    assert first is None
    assert isinstance(second, BrokerError)


def reader(admin: MQAdmin) -> EntryReader:
    return EntryReader(
        admin,
        get_code=RequestCode.AUTH_GET_USER,
        list_code=RequestCode.AUTH_LIST_USER,
        name_field="username",
        missing=lambda name, place: ClientError(f"no {name} on {place}", "a hint"),
    )


def test_only_processes_with_the_entry_are_existing_and_none_is_an_error(
    admin: MQAdmin, tables: list[AccessTable]
) -> None:
    tables[1].users["alice"] = UserInfo(username="alice", user_type="Super")
    ((target, found),), errors = reader(admin).existing("alice", None, None)
    assert (target.label, found.user_type, errors) == ("broker-b", "Super", [])
    for cluster, broker, place in (
        (None, "broker-a", "broker-a"),
        (admin.topology.only_cluster(), None, admin.topology.only_cluster()),
    ):
        with pytest.raises(ClientError, match=f"no bob on {place}"):
            reader(admin).existing("bob", cluster, broker)


def test_entries_to_copy_are_the_named_ones_in_order_or_all_sorted(
    admin: MQAdmin, tables: list[AccessTable]
) -> None:
    for name in ("carol", "alice"):
        tables[0].users[name] = UserInfo(username=name)
    entries = reader(admin)
    assert [name for name, _ in entries.to_copy("broker-a", ())] == ["alice", "carol"]
    assert [name for name, _ in entries.to_copy("broker-a", ["carol"])] == ["carol"]
    assert list(entries.to_copy("broker-b", ())) == []
    copies = entries.to_copy("broker-a", ["alice", "bob"])
    assert next(copies)[1].username == "alice"
    with pytest.raises(ClientError, match="no bob on broker-a"):
        next(copies)


def test_entries_of_a_broker_that_refuses_the_list_are_its_error(
    admin: MQAdmin, broker_a: FakeBroker
) -> None:
    with pytest.raises(BrokerError):
        list(reader(admin).to_copy("broker-a", ()))
