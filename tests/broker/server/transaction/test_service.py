"""Prepare and end: stored records, responses, open transactions."""

import pytest

from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.server.transaction import service
from broker.store.results import PutMessageResult, PutMessageStatus

REFUSED = PutMessageResult(PutMessageStatus.SERVICE_NOT_AVAILABLE, remark="disk full")


def test_a_half_message_is_stored_and_not_visible(ledger) -> None:
    answer = ledger.begin(b"open", KEYS="k1")
    assert answer.ext_fields["queueId"] == "1"
    assert answer.ext_fields["queueOffset"] == "0"
    (half,) = ledger.halves()
    assert half.sys_flag & 0xC == 0
    assert (half.properties["REAL_TOPIC"], half.properties["REAL_QID"]) == ("Orders", "1")
    assert half.properties["__transactionId__"] == half.uniq_key
    assert ledger.visible() == []
    assert ledger.desk.store.query_message("Orders", "k1", 10, 0, 1 << 60).buffers == []


def test_commit_makes_the_message_visible_and_writes_an_op_record(ledger) -> None:
    half = ledger.begin(b"paid", KEYS="k1", TAGS="A")
    assert ledger.commit(half).code == 0
    (message,) = ledger.all("Orders", 1)
    (prepared,) = ledger.halves()
    assert message.body == b"paid"
    assert message.sys_flag & 0xC == 8
    assert message.prepared_transaction_offset == prepared.physical_offset
    assert message.properties == prepared.properties
    assert message.queue_offset == 0
    found = ledger.desk.store.query_message("Orders", "k1", 10, 0, 1 << 60)
    assert len(found.buffers) == 1
    assert ledger.ops() == []
    ledger.write_ops()
    assert ledger.ops() == [b"0,"]


def test_rollback_writes_only_an_op_record(ledger) -> None:
    half = ledger.begin()
    assert ledger.rollback(half).code == 0
    ledger.write_ops()
    assert (ledger.visible(), ledger.ops(), len(ledger.halves())) == ([], [b"0,"], 1)


def test_unknown_gets_no_answer_and_changes_nothing(ledger) -> None:
    half = ledger.begin()
    assert ledger.end(half, 0) is None
    ledger.desk.clock.advance(10_000)
    assert ledger.service.write_due_ops()
    assert (ledger.visible(), ledger.ops()) == ([], [])


def test_ends_share_an_op_record_in_any_order(ledger) -> None:
    halves = [ledger.begin(b"%d" % number) for number in range(9)]
    for number in (0, 1, 2, 3, 6, 4, 5, 7, 8):
        ledger.commit(halves[number])
    ledger.write_ops()
    assert ledger.ops() == [b"0,1,2,3,6,4,5,7,8,"]


def test_a_full_op_record_is_written_at_once(make_ledger) -> None:
    ledger = make_ledger(transactionOpMsgMaxSize="6")
    for number in range(4):
        ledger.rollback(ledger.begin(b"%d" % number))
    assert ledger.ops() == [b"0,1,2,"]
    ledger.write_ops()
    assert ledger.ops() == [b"0,1,2,", b"3,"]


def test_op_records_for_release_4_9_list_one_half_each(make_ledger) -> None:
    ledger = make_ledger(transactionOpMsgMaxSize="0")
    for number in range(2):
        ledger.rollback(ledger.begin(b"%d" % number))
    assert ledger.ops() == [b"0", b"1"]


def test_an_op_record_has_the_properties_of_a_java_broker(ledger) -> None:
    ledger.rollback(ledger.begin())
    ledger.write_ops()
    (op,) = ledger.all("RMQ_SYS_TRANS_OP_HALF_TOPIC")
    assert op.properties_raw == b"WAIT\x01true\x02TAGS\x01d\x02"
    assert op.born_host_raw == op.store_host_raw == ledger.desk.context.store_host


def test_a_delay_level_counts_from_the_commit(ledger) -> None:
    half = ledger.begin(b"later", DELAY="1")
    assert len(ledger.halves()) == 1
    ledger.desk.clock.advance(5_000)
    assert ledger.commit(half).code == 0
    assert ledger.visible() == []
    ledger.desk.clock.advance(1_000)
    ledger.desk.context.delays.deliver_due()
    assert ledger.visible() == [b"later"]


def test_a_delivery_time_redirects_the_committed_message(ledger) -> None:
    due_ms = ledger.desk.clock.now_ms() + 60_000
    half = ledger.begin(b"timed", TIMER_DELIVER_MS=str(due_ms))
    assert ledger.halves()[0].get_property("TIMER_OUT_MS") is None
    assert ledger.commit(half).code == 0
    assert ledger.visible() == []
    (timed,) = ledger.all("rmq_sys_wheel_timer")
    assert abs(int(timed.properties["TIMER_OUT_MS"]) - due_ms) <= 1_000


def test_a_delivery_time_that_is_refused_leaves_the_half_open(ledger) -> None:
    too_far_ms = ledger.desk.clock.now_ms() + 400 * 86_400_000
    half = ledger.begin(TIMER_DELIVER_MS=str(too_far_ms))
    assert ledger.commit(half).code != 0
    ledger.write_ops()
    assert ledger.ops() == []


def test_a_half_reaches_the_queues_it_names_when_it_is_committed(make_ledger) -> None:
    ledger = make_ledger(enableMultiDispatch="true", enableLmq="true")
    half = ledger.begin(b"multi", INNER_MULTI_DISPATCH="%LMQ%a")
    assert ledger.all("%LMQ%a") == []
    ledger.commit(half)
    assert [message.body for message in ledger.all("%LMQ%a")] == [b"multi"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"producerGroup": "Foreign"}, ResponseCode.SYSTEM_ERROR),
        ({"tranStateTableOffset": 1}, ResponseCode.SYSTEM_ERROR),
        ({"commitLogOffset": 5}, ResponseCode.SYSTEM_ERROR),
        ({"commitLogOffset": 1 << 40}, ResponseCode.SYSTEM_ERROR),
        ({"commitLogOffset": -1}, ResponseCode.SYSTEM_ERROR),
    ],
)
@pytest.mark.parametrize("decision", [8, 12])
def test_a_wrong_end_is_refused_and_decides_nothing(ledger, decision, fields, code) -> None:
    half = ledger.begin()
    assert ledger.end(half, decision, **fields).code == code
    assert ledger.commit(half).code == 0
    assert ledger.visible() == [b"hello"]


def test_the_position_of_a_plain_message_is_not_a_half(ledger) -> None:
    ledger.begin(b"victim")
    plain = ledger.desk.send(body=b"plain", properties={"PGROUP": "P1"})
    answer = ledger.rollback(plain)
    assert (answer.code, answer.remark) == (1, "Find prepared transaction message failed")
    committed = ledger.begin(b"committed")
    ledger.commit(committed)
    (message,) = ledger.all("Orders", 1)
    # Queue offset 0 of Orders: an op record for it would decide the first half message.
    answer = ledger.rollback(
        committed, commitLogOffset=message.physical_offset, tranStateTableOffset=0
    )
    assert answer.code == ResponseCode.SYSTEM_ERROR
    ledger.write_ops()
    assert ledger.ops() == [b"1,"]


def test_a_repeated_end_gets_the_same_answer(ledger) -> None:
    half = ledger.begin()
    assert [ledger.commit(half).code, ledger.commit(half).code, ledger.rollback(half).code] == [
        0,
        0,
        0,
    ]


def test_both_copies_of_a_half_deliver_one_message(ledger) -> None:
    ledger.online()
    half = ledger.begin()
    ledger.check(7_000)
    (copy,) = ledger.asked()
    assert ledger.commit(half).code == 0
    assert ledger.commit(copy).code == 0
    assert ledger.visible() == [b"hello"]
    ledger.write_ops()
    assert ledger.check(30_000).checked == 0


def test_a_commit_that_is_not_stored_leaves_the_half_open(ledger, monkeypatch) -> None:
    half = ledger.begin()
    with monkeypatch.context() as patch:
        patch.setattr(ledger.desk.store, "put_message", lambda inner: REFUSED)
        answer = ledger.commit(half)
    assert (answer.code, answer.remark) == (ResponseCode.SERVICE_NOT_AVAILABLE, "disk full")
    ledger.write_ops()
    assert ledger.ops() == []
    assert ledger.commit(half).code == 0
    assert ledger.visible() == [b"hello"]


def test_pending_op_records_wait_for_a_store_that_refuses_them(ledger, monkeypatch) -> None:
    ledger.rollback(ledger.begin())
    with monkeypatch.context() as patch:
        patch.setattr(ledger.desk.store, "put_message", lambda inner: REFUSED)
        ledger.desk.clock.advance(3_000)
        assert not ledger.service.write_due_ops()
        assert not ledger.service.write_all_ops()
    assert ledger.service.write_due_ops()
    assert ledger.ops() == [b"0,"]


def test_pending_op_records_are_bounded(ledger, monkeypatch) -> None:
    first, second = ledger.begin(), ledger.begin()
    monkeypatch.setattr(service, "MAX_PENDING_BYTES", 2)
    assert ledger.rollback(first).code == 0
    assert ledger.rollback(second).code == ResponseCode.SERVICE_NOT_AVAILABLE
    ledger.write_ops()
    assert ledger.rollback(second).code == 0


def test_a_stop_writes_pending_op_messages(ledger) -> None:
    ledger.rollback(ledger.begin())
    assert ledger.service.write_all_ops()
    assert ledger.ops() == [b"0,"]
    assert ledger.service.op_due_ms() is None


def test_a_discarded_half_is_resumed_and_can_be_committed(make_ledger) -> None:
    ledger = make_ledger(transactionCheckMax="1")
    ledger.online()
    ledger.begin(b"forgotten")
    ledger.check(7_000)
    ledger.check(30_000)
    (discarded,) = ledger.discarded()
    answer = ledger.desk.ask(
        RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": discarded.offset_msg_id}
    )
    assert answer.code == 0
    assert ledger.halves()[-1].properties["TRANSACTION_CHECK_TIMES"] == "0"
    assert ledger.check(30_000).checked == 1
    ledger.commit(ledger.asked()[-1])
    assert ledger.visible() == [b"forgotten"]


def test_only_a_discarded_half_is_resumed(ledger) -> None:
    plain = ledger.desk.send(body=b"plain")
    half = ledger.begin()
    for msg_id in (plain.ext_fields["msgId"], half.ext_fields["msgId"], "zz", "", "7F" * 16):
        answer = ledger.desk.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": msg_id})
        assert answer.code == ResponseCode.SYSTEM_ERROR
    assert len(ledger.halves()) == 1


def test_outcomes_are_counted(ledger) -> None:
    ledger.commit(ledger.begin())
    ledger.rollback(ledger.begin())
    assert ledger.service.counts[:2] == (1, 1)
