from mqadmin.admin.brokers.producers import producers
from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import FakeBroker

BODY = (
    b'{"data":{"g":[{"clientId":"c","remoteIP":"/10.0.0.9:1","language":"JAVA","version":479,'
    b'"lastUpdateTimestamp":5}]}}'
)


def test_producers_are_listed_per_broker_and_old_brokers_are_errors(
    admin: MQAdmin, broker_a: FakeBroker
) -> None:
    broker_a.on_328 = lambda header, command: BODY
    listing = producers(admin)
    (item,) = listing.items
    assert (item.broker_name, item.producer_group, item.client_id) == ("broker-a", "g", "c")
    assert (item.client_addr, item.version, item.version_code) == ("10.0.0.9:1", "V5_3_3", 479)
    assert [error.target for error in listing.errors] == ["broker-b"]
