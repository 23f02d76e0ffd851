"""Messages in flight: popped and not acknowledged."""

from broker.remoting.protocol.codes import RequestCode
from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.pop.in_flight import in_flight
from tests.support.live_broker import call, pop, send, until


def test_acknowledged_messages_are_not_in_flight(
    broker: BlockingEmbeddedBroker, library: MQAdmin
) -> None:
    library.apply(library.group.plan_create("g", settings={}))
    for number in range(4):
        send(broker, "T", f"k{number}")
    until(lambda: library.topic.status("T").items[0].max_offset == 4)
    ext = pop(broker, "T", "g", 3)
    counts = until(lambda: in_flight(library, "g").counts)
    assert list(counts.values()) == [3]
    start = ext["startOffsetInfo"].split(" ")[-1]
    name = next(iter(counts))[0]
    handle = f"{start} {ext['popTime']} {ext['invisibleTime']} {ext['reviveQid']} 0 {name} 0 1"
    header = {"consumerGroup": "g", "topic": "T", "queueId": 0, "extraInfo": handle, "offset": 1}
    call(broker, RequestCode.ACK_MESSAGE, header)
    until(lambda: list(in_flight(library, "g").counts.values()) == [2])
    (row,) = [row for row in library.consumer.lag("g", pop=True).items if row.topic == "T"]
    assert (row.lag, row.inflight) == (1, 2)
    assert in_flight(library, "other").counts.total() == 0


def test_a_bounded_scan_is_reported(broker: BlockingEmbeddedBroker, library: MQAdmin) -> None:
    for number in range(2):
        send(broker, "Timed", f"t{number}", TIMER_DELAY_SEC=600)
    until(lambda: any("were not read" in note for note in in_flight(library, "g", scan=1).notes))
