"""The bridge: offsets stay within their queues, unreadable records are reported as such."""

from broker.common.group import SYS_TRANS_GROUP
from broker.common.topic import TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC


def commit(ledger, topic: str, offset: int) -> None:
    ledger.desk.context.offsets.commit(SYS_TRANS_GROUP, topic, 0, offset)


def test_empty_queues_start_at_zero(ledger) -> None:
    bridge = ledger.service.bridge
    assert (bridge.half_offset(), bridge.op_offset()) == (0, 0)
    assert (bridge.half_end(), bridge.op_end()) == (0, 0)
    assert bridge.ops_from(0) == ([], 0)


def test_a_committed_offset_past_the_end_is_the_end(ledger) -> None:
    ledger.begin()
    commit(ledger, TRANS_HALF_TOPIC, 99)
    commit(ledger, TRANS_OP_HALF_TOPIC, 99)
    assert (ledger.service.bridge.half_offset(), ledger.service.bridge.op_offset()) == (1, 0)


def test_progress_is_committed_for_the_group_of_transactions(ledger) -> None:
    ledger.service.bridge.advance(3, 2)
    table = ledger.desk.context.offsets.table
    assert table["RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS"] == {0: 3}
    assert table["RMQ_SYS_TRANS_OP_HALF_TOPIC@CID_RMQ_SYS_TRANS"] == {0: 2}


def test_queues_without_progress_get_no_offset(ledger) -> None:
    bridge = ledger.service.bridge
    bridge.advance(bridge.half_offset(), bridge.op_offset())
    assert ledger.desk.context.offsets.topics_of("CID_RMQ_SYS_TRANS") == []


def test_the_same_progress_changes_nothing(ledger) -> None:
    ledger.service.bridge.advance(3, 2)
    ledger.desk.context.offsets.changed = False
    ledger.service.bridge.advance(3, 2)
    assert not ledger.desk.context.offsets.changed


def test_a_half_is_read_with_the_offset_after_it(ledger) -> None:
    ledger.begin(b"one")
    message, next_offset = ledger.service.bridge.half_at(0)
    assert (message.body, next_offset) == (b"one", 1)
    assert ledger.service.bridge.half_at(1).message is None


def test_a_damaged_half_is_not_read(ledger) -> None:
    ledger.begin(b"x" * 100)
    ledger.begin(b"next")
    (first, _) = ledger.halves()
    ledger.flip(first)
    message, next_offset = ledger.service.bridge.half_at(0)
    assert (message, next_offset) == (None, 1)
    assert ledger.service.bridge.message_at(first.physical_offset) is None
    ledger.flip(first)


def test_no_record_starts_between_records(ledger) -> None:
    ledger.begin()
    assert ledger.service.bridge.message_at(0) is not None
    assert ledger.service.bridge.message_at(1) is None
    assert ledger.service.bridge.message_at(-1) is None


def test_op_records_are_read_thirty_two_at_a_time(make_ledger) -> None:
    ledger = make_ledger(transactionOpMsgMaxSize="0")
    for _ in range(40):
        ledger.rollback(ledger.begin())
    first = ledger.service.bridge.ops_from(0)
    assert [number for number, _ in first.records] == list(range(32))
    rest = ledger.service.bridge.ops_from(first.next_offset)
    assert [record.body for _, record in rest.records] == [b"%d" % n for n in range(32, 40)]
    assert rest.next_offset == 40
