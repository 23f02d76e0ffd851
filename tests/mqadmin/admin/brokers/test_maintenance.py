from broker.errors import BrokerError
from mqadmin.admin.brokers.maintenance import CLEANS, BrokerMaintenance
from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import FakeBroker


def test_each_kind_of_cleaning_is_its_own_request(admin: MQAdmin) -> None:
    library = BrokerMaintenance(admin)
    codes = set()
    for kind in CLEANS:
        (change,) = library.plan_clean(kind, broker="broker-a").changes
        assert change.request is not None
        codes.add(change.request.code)
    assert codes == {306, 316, 329}


def test_a_threshold_is_sent_as_a_property_and_removed_by_the_group(admin: MQAdmin) -> None:
    library = BrokerMaintenance(admin)
    (change,) = library.plan_cold_data("g", 100, broker="broker-a").changes
    assert change.request is not None
    assert (change.request.code, change.request.body.strip()) == (2001, b"g=100")
    (change,) = library.plan_cold_data("g", None, broker="broker-a").changes
    assert change.request is not None
    assert (change.request.code, change.request.body) == (2002, b"g")


def test_the_remark_of_the_broker_is_the_read_back(admin: MQAdmin, broker_a: FakeBroker) -> None:
    broker_a.refuse(2004, 3, "no read-ahead")
    library = BrokerMaintenance(admin)
    outcome = library.apply(library.plan_read_ahead("1", broker="broker-a"))
    assert [error.response_code for error in outcome.errors] == [3]
    broker_a.refusals.clear()
    broker_a.on_2004 = lambda header, command: None
    (item,) = library.apply(library.plan_read_ahead("1", broker="broker-a")).items
    assert item.read_back == {"remark": ""}


def test_a_flush_offset_goes_to_one_address(admin: MQAdmin, broker_a: FakeBroker) -> None:
    (change,) = BrokerMaintenance(admin).plan_flush_offset(broker_a.address, 7).changes
    assert change.request is not None
    assert change.request.ext_fields == {"masterFlushOffset": "7"}


def test_a_broker_without_cold_data_control_is_an_error_of_its_own(
    admin: MQAdmin, broker_a: FakeBroker
) -> None:
    broker_a.on_2003 = lambda header, command: b'{"globalAcc":5}'
    found = {target.label: answer for target, answer in BrokerMaintenance(admin).cold_data()}
    assert found["broker-a"].global_acc == 5
    assert isinstance(found["broker-b"], BrokerError)
