"""Responses with and without a body."""

from broker.errors import BrokerError
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.access.replies import found_values
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
