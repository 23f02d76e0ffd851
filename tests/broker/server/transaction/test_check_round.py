"""Check rounds: the producers that are asked, the end of asking, how their progress moves."""

import pytest

from broker.common.group import SYS_TRANS_GROUP
from broker.message.properties import PROPERTIES_MAX_SIZE
from broker.server.transaction import check_round
from broker.store.results import PutMessageResult, PutMessageStatus


def progress(ledger) -> tuple[int, int]:
    bridge = ledger.service.bridge
    return bridge.half_offset(), bridge.op_offset()


def test_a_young_half_is_left_alone(ledger) -> None:
    ledger.online()
    ledger.begin()
    assert ledger.check(6_000).checked == 0
    assert (ledger.asked(), progress(ledger)) == ([], (0, 0))


def test_an_open_half_is_checked_and_its_answer_delivers_it(ledger) -> None:
    ledger.online()
    ledger.begin(b"slow")
    assert ledger.check(6_001).checked == 1
    (fields,) = ledger.asked()
    assert fields["bname"] == ledger.desk.context.config.broker_name
    assert (fields["tranStateTableOffset"], progress(ledger)) == ("1", (1, 0))
    assert ledger.commit(fields).code == 0
    assert ledger.visible() == [b"slow"]
    ledger.write_ops()
    assert ledger.check(30_000).checked == 0
    assert progress(ledger) == (2, 1)


def test_decided_halves_are_not_checked(ledger) -> None:
    ledger.online()
    ledger.commit(ledger.begin())
    ledger.rollback(ledger.begin())
    ledger.write_ops()
    assert ledger.check(30_000).checked == 0
    assert (ledger.asked(), progress(ledger)) == ([], (2, 1))


def test_a_decision_whose_op_record_is_not_written_yet_counts(ledger) -> None:
    ledger.online()
    half = ledger.begin()
    ledger.desk.clock.advance(10_000)
    ledger.rollback(half)
    assert ledger.check().checked == 0
    assert progress(ledger) == (1, 0)
    ledger.write_ops()
    ledger.begin()
    ledger.check(7_000)
    assert progress(ledger) == (2, 1)


def test_a_decision_during_a_round_is_seen_by_it(ledger) -> None:
    ledger.online()
    ledger.begin()
    last = ledger.begin()
    ledger.desk.clock.advance(7_000)
    running = ledger.checks.new_round()
    ledger.service.on_decided = running.decided
    steps = running.steps()
    next(steps)
    ledger.rollback(last)
    for _ in steps:
        pass
    assert running.checked == 1


def test_a_half_is_discarded_after_fifteen_checks(ledger) -> None:
    ledger.online()
    ledger.begin(b"silent", KEYS="k")
    for number in range(1, 16):
        assert ledger.check(30_000).checked == 1, number
        assert len(ledger.asked()) == number
    last = ledger.check(30_000)
    assert (last.checked, last.discarded) == (0, 1)
    (discarded,) = ledger.discarded()
    assert (discarded.body, discarded.properties["KEYS"]) == (b"silent", "k")
    assert discarded.properties["TRANSACTION_CHECK_TIMES"] == "15"
    assert ledger.visible() == []
    assert ledger.check(30_000).checked == 0
    assert len(ledger.asked()) == 15
    assert "TRANS_CHECK_MAX_TIME_TOPIC" in ledger.desk.context.topics


def test_checks_are_counted_without_a_producer(make_ledger) -> None:
    ledger = make_ledger(transactionCheckMax="2")
    ledger.begin()
    for _ in range(2):
        found = ledger.check(30_000)
        assert (found.checked, found.asked) == (1, 0)
    assert ledger.check(30_000).discarded == 1


def test_a_half_older_than_the_log_keeps_is_discarded(make_ledger) -> None:
    ledger = make_ledger(fileReservedTime="1")
    ledger.begin()
    assert ledger.check(3_600_001).discarded == 1


def test_producers_of_the_group_are_asked_in_turn(ledger, fake_connection) -> None:
    members = [ledger.online(fake_connection(f"127.0.0.1:{port}")) for port in (1, 2, 3)]
    other_group = ledger.online(fake_connection("127.0.0.1:9"), group="Other")
    for _ in range(6):
        ledger.begin()
    assert ledger.check(7_000).asked == 6
    assert [len(ledger.asked(member)) for member in members] == [2, 2, 2]
    assert ledger.asked(other_group) == []


def test_a_producer_that_vanished_or_does_not_read_is_passed_over(ledger, fake_connection) -> None:
    gone, stuck, live = (ledger.online(fake_connection(f"127.0.0.1:{port}")) for port in (1, 2, 3))
    gone.closed = True
    stuck.paused = True
    for _ in range(4):
        ledger.begin()
    assert ledger.check(7_000).asked == 4
    assert [len(ledger.asked(each)) for each in (gone, stuck, live)] == [0, 0, 4]


def test_an_immune_half_is_renewed_and_checked_when_its_time_is_over(ledger) -> None:
    ledger.online()
    half = ledger.begin(CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    assert ledger.check(30_000).checked == 0
    _, second = ledger.halves()
    assert second.properties["TRAN_PREPARED_QUEUE_OFFSET"] == "0"
    assert "TRANSACTION_CHECK_TIMES" not in second.properties
    assert ledger.check(40_000).checked == 1
    assert ledger.commit(half).code == 604
    assert ledger.commit(ledger.asked()[0]).code == 0
    assert len(ledger.visible()) == 1


def test_an_immune_half_is_not_discarded_before_its_producer_was_asked(make_ledger) -> None:
    """Java counts each round within the immunity time as a check."""
    ledger = make_ledger(transactionCheckMax="2")
    ledger.online()
    ledger.begin(b"slow", CHECK_IMMUNITY_TIME_IN_SECONDS="120")
    for _ in range(5):
        found = ledger.check(20_000)
        assert (found.checked, found.discarded) == (0, 0)
    for number in (1, 2):
        assert ledger.check(30_000).checked == 1
        assert ledger.halves()[-1].properties["TRANSACTION_CHECK_TIMES"] == str(number)
    assert ledger.check(30_000).discarded == 1


def test_the_end_of_an_immune_half_decides_its_renewed_copy(ledger) -> None:
    ledger.online()
    half = ledger.begin(CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    ledger.check(30_000)
    ledger.commit(half)
    ledger.write_ops()
    assert ledger.ops() == [b"0,1,"]
    assert ledger.check(40_000).checked == 0
    assert len(ledger.visible()) == 1


def test_an_immune_copy_of_a_decided_half_at_offset_0_is_passed_over(ledger) -> None:
    """The op record lists the first copy, as after a restart, which forgets the chain of copies."""
    ledger.online()
    ledger.begin(CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    ledger.check(10_000)
    ledger.desk.context.offsets.commit(SYS_TRANS_GROUP, "RMQ_SYS_TRANS_HALF_TOPIC", 0, 0)
    ledger.service.bridge.put_op(b"0,")
    ledger.check(10_000)
    assert (len(ledger.halves()), progress(ledger)[0]) == (2, 2)


def test_an_unreadable_half_does_not_stop_the_round(ledger) -> None:
    ledger.online()
    ledger.begin(b"x" * 100)
    ledger.begin(b"next")
    first = ledger.halves()[0]
    ledger.flip(first)
    found = ledger.check(7_000)
    assert (found.unreadable, found.checked, progress(ledger)) == (1, 1, (2, 0))
    ledger.flip(first)


def test_a_store_that_refuses_copies_ends_the_round_and_loses_nothing(ledger, monkeypatch) -> None:
    ledger.online()
    ledger.begin()
    with monkeypatch.context() as patch:
        refused = PutMessageResult(PutMessageStatus.SERVICE_NOT_AVAILABLE)
        patch.setattr(ledger.desk.store, "put_message", lambda inner: refused)
        assert ledger.check(7_000).checked == 0
    assert progress(ledger) == (0, 0)
    assert ledger.check().checked == 1


def test_a_half_whose_copy_does_not_fit_is_discarded(ledger) -> None:
    ledger.online()
    ledger.begin(filler="f")
    left = PROPERTIES_MAX_SIZE - len(ledger.halves()[0].properties_raw)
    ledger.commit(ledger.begin(b"as long as possible", filler="f" * (left + 1)))
    ledger.begin(b"silent", filler="f" * (left + 1))
    ledger.service.bridge.put_op(b"0,")
    ledger.write_ops()
    found = ledger.check(7_000)
    assert (found.checked, found.discarded) == (0, 1)
    assert len(ledger.discarded()) == 1


def test_a_round_never_reads_the_copies_it_makes_even_if_the_clock_is_set_back(ledger) -> None:
    ledger.online()
    for _ in range(3):
        ledger.begin()
    ledger.desk.clock.advance(60_000)
    running = ledger.checks.new_round()
    ledger.desk.clock.jump(-40_000)
    for _ in running.steps():
        pass
    assert running.checked == 3
    assert len(ledger.halves()) == 6


def test_a_long_round_commits_its_progress_and_ends_in_time(ledger, monkeypatch) -> None:
    monkeypatch.setattr(check_round, "COSTS_PER_COMMIT", 4)
    for _ in range(12):
        ledger.begin()
    ledger.desk.clock.advance(7_000)
    running = ledger.checks.new_round()
    seen = set()
    for number, _ in enumerate(running.steps()):
        seen.add(progress(ledger)[0])
        if number == 8:
            ledger.desk.clock.advance(check_round.ROUND_MS + 1)
    assert len(seen) > 2
    assert progress(ledger)[0] == running.checked < 12


def test_decided_halves_are_skipped_without_reading_them(make_ledger, monkeypatch) -> None:
    monkeypatch.setattr(check_round, "SKIPPED_PER_STEP", 16)
    ledger = make_ledger()
    for _ in range(100):
        ledger.rollback(ledger.begin())
    ledger.write_ops()
    reads = []
    half_at = ledger.service.bridge.half_at
    monkeypatch.setattr(
        ledger.service.bridge, "half_at", lambda at: reads.append(at) or half_at(at)
    )
    ledger.check(30_000)
    assert (reads, progress(ledger)) == ([], (100, 1))


def test_a_window_of_bounded_size_is_continued_by_the_next_round(ledger, monkeypatch) -> None:
    monkeypatch.setattr("broker.server.transaction.ops.MAX_WINDOW", 8)
    ledger.online()
    open_half = ledger.begin(b"open")
    for _ in range(20):
        ledger.rollback(ledger.begin())
    ledger.write_ops()
    for _ in range(5):
        ledger.check(30_000)
    assert ledger.commit(open_half).code == 0
    assert ledger.visible() == [b"open"]


def test_offsets_of_a_java_broker_are_continued(ledger) -> None:
    ledger.online()
    for _ in range(3):
        ledger.begin()
    ledger.desk.context.offsets.commit(SYS_TRANS_GROUP, "RMQ_SYS_TRANS_HALF_TOPIC", 0, 2)
    assert ledger.check(7_000).checked == 1


@pytest.mark.parametrize("body", [b"0", b"0,1,", b"1,0,"])
def test_op_records_of_both_releases_decide_halves(ledger, body: bytes) -> None:
    ledger.begin()
    ledger.begin()
    ledger.service.bridge.put_op(body)
    expected = 1 if body == b"0" else 0
    assert ledger.check(7_000).checked == expected


def test_a_restart_checks_open_halves_only(ledger) -> None:
    ledger.online()
    ledger.commit(ledger.begin(b"decided"))
    ledger.begin(b"open")
    ledger.check(7_000)
    ledger.restart()
    assert progress(ledger) == (2, 0)
    assert ledger.check(30_000).checked == 1
    ledger.commit(ledger.asked()[-1])
    assert ledger.visible() == [b"decided", b"open"]


@pytest.mark.parametrize("step", ["before the check", "before its answer", "after its answer"])
def test_a_producer_that_vanishes_at_any_step_is_replaced(
    ledger, fake_connection, step: str
) -> None:
    first = ledger.online(fake_connection("127.0.0.1:1"))
    ledger.begin(b"open")
    if step != "before the check":
        ledger.check(7_000)
    if step == "after its answer":
        ledger.commit(ledger.asked(first)[0])
    first.closed = True
    ledger.desk.context.producers.drop_connection(first)
    heir = ledger.online(fake_connection("127.0.0.1:2"))
    ledger.check(30_000)
    for fields in ledger.asked(heir):
        ledger.commit(fields)
    assert ledger.visible() == [b"open"]
    ledger.desk.context.producers.drop_connection(heir)
    assert ledger.desk.context.producers.groups() == []
