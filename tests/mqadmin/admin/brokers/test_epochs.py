from mqadmin.admin.brokers.epochs import epochs
from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import FakeBroker

BODY = (
    b'{"brokerId":1,"brokerName":"broker-a","clusterName":"C","maxOffset":900,"epochList":['
    b'{"epoch":1,"startOffset":0,"endOffset":100},{"epoch":2,"startOffset":100}]}'
)


def test_the_last_epoch_ends_at_the_end_of_the_log(admin: MQAdmin, broker_a: FakeBroker) -> None:
    broker_a.on_1007 = lambda header, command: BODY
    listing = epochs(admin, broker="broker-a")
    (item,) = listing.items
    assert [(one.epoch, one.start_offset, one.end_offset) for one in item.epochs] == [
        (1, 0, 100),
        (2, 100, 900),
    ]


def test_brokers_without_a_controller_are_errors(admin: MQAdmin, broker_a: FakeBroker) -> None:
    broker_a.refuse(1007, 1, "this request only for controllerMode")
    listing = epochs(admin, broker="broker-a")
    assert not listing.items
    assert "controllerMode" in listing.errors[0].message
