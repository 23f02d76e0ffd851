"""POP records exported by each process, with the error of each that refuses."""

from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.pop.records import export_pop_records


def test_a_process_that_refuses_is_an_error(
    broker: BlockingEmbeddedBroker, library: MQAdmin
) -> None:
    done, errors = export_pop_records(library, library.topology.targets)
    assert done == []
    assert [(one.target, one.response_code) for one in errors] == [("broker-a", 3)]
