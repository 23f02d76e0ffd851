"""Check points merged with acknowledgements."""

import random

import msgspec
import pytest

from broker.errors import RemoteProtocolError
from broker.message.check_point import (
    AckMsg,
    PopCheckPoint,
    encode_ack,
    encode_check_point,
)
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from mqadmin.system_topics.check_points import CheckPoints

CK = PopCheckPoint(
    topic="T",
    group="g",
    queue_id=0,
    start_offset=10,
    pop_time=1000,
    invisible_time=500,
    broker_name="b",
    count=3,
    diffs=[0, 1, 2],
)


def record(tag: str, body: bytes) -> MessageExt:
    return MessageExt("rmq_sys_REVIVE_LOG_C", body, encode_properties({"TAGS": tag}))


def ack(*offsets: int, broker: str | None = "b") -> MessageExt:
    batched = len(offsets) > 1
    one = AckMsg(
        topic="T",
        group="g",
        queue_id=0,
        start_offset=10,
        pop_time=1000,
        broker_name=broker,
        offsets=list(offsets),
        batched=batched,
    )
    return record(one.tag, encode_ack(one))


def merged(*records: MessageExt) -> list[list[int]]:
    points = CheckPoints("b")
    for one in records:
        points.add(one, "timer")
    return [row.unacknowledged for row in points.rows(0)]


def test_acknowledged_messages_are_taken_out_in_any_order() -> None:
    ck = record("ck", encode_check_point(CK))
    assert merged(ck) == [[10, 11, 12]]
    assert merged(ck, ack(11)) == merged(ack(11), ck) == [[10, 12]]
    assert merged(ck, ack(10, 12)) == [[11]]
    assert merged(ck, ack(10, 12, broker=None)) == [[11]]
    assert merged(ck, ack(99)) == [[10, 11, 12]]


def test_a_check_point_found_in_both_topics_counts_once() -> None:
    points = CheckPoints("b")
    for stage in ("timer", "revive"):
        points.add(record("ck", encode_check_point(CK)), stage)
    assert points.in_flight("g") == {("T", 0): 3}
    assert not points.in_flight("other")


@pytest.mark.parametrize(
    ("tag", "body"), [("ck", b"{"), ("ack", b"[]"), ("", b"{}"), ("ck", b"{}")]
)
def test_a_record_that_cannot_be_decoded_is_an_error(tag: str, body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        CheckPoints("b").add(record(tag, body), "timer")


def check_point(**changes: object) -> MessageExt:
    ck = msgspec.structs.replace(CK, **changes)  # type: ignore[arg-type]
    return record("ck", encode_check_point(ck))


def test_acknowledgements_of_another_pop_do_not_count() -> None:
    other = check_point(pop_time=1001)
    points = CheckPoints("b")
    for one in (other, ack(10, 11)):
        points.add(one, "timer")
    assert [row.unacknowledged for row in points.rows(0)] == [[10, 11, 12]]


def test_rows_come_by_revive_time_with_the_time_left() -> None:
    points = CheckPoints("b")
    for pop_time in (3000, 1000, 2000):
        points.add(check_point(pop_time=pop_time), "revive")
    rows = list(points.rows(2_500))
    assert [row.revive_timestamp for row in rows] == [1500, 2500, 3500]
    assert [row.revive_in_ms for row in rows] == [-1000, 0, 1000]
    assert {(row.pop_timestamp + row.invisible_ms - row.revive_timestamp) for row in rows} == {0}


@pytest.mark.parametrize(
    ("own", "named", "shown"),
    [("b", "x", "x"), ("b", None, "b"), (None, "x", "x"), (None, None, None)],
)
def test_a_record_without_a_broker_is_of_the_broker_that_has_it(
    own: str | None, named: str | None, shown: str | None
) -> None:
    points = CheckPoints(own)
    points.add(check_point(broker_name=named), "timer")
    (row,) = points.rows(0)
    assert row.broker_name == shown


def test_a_row_has_the_place_of_the_record_that_was_added_last() -> None:
    points = CheckPoints("b")
    for number, stage in enumerate(("timer", "revive")):
        one = check_point()
        one.queue_offset, one.physical_offset = number, number * 100
        points.add(one, stage)
    (row,) = points.rows(0)
    assert (row.stage, row.queue_offset, row.physical_offset) == ("revive", 1, 100)


def test_records_over_the_limit_are_left_out_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqadmin.system_topics.check_points.MAX_RECORDS", 2)
    points = CheckPoints("b")
    for pop_time in (1000, 2000):
        points.add(check_point(pop_time=pop_time), "timer")
    assert not points.truncated
    points.add(check_point(pop_time=3000), "timer")
    assert points.truncated
    assert len(list(points.rows(0))) == 2


def test_an_invalid_record_does_not_count_towards_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mqadmin.system_topics.check_points.MAX_RECORDS", 1)
    points = CheckPoints("b")
    for _ in range(3):
        with pytest.raises(RemoteProtocolError, match="record of the revive topic"):
            points.add(record("other", b"{}"), "timer")
    points.add(check_point(), "timer")
    assert not points.truncated


def test_in_flight_sums_the_queues_of_a_group() -> None:
    points = CheckPoints("b")
    points.add(check_point(), "timer")
    points.add(check_point(pop_time=2000), "timer")
    points.add(check_point(queue_id=1), "timer")
    points.add(check_point(group="other"), "timer")
    points.add(ack(11), "timer")
    assert points.in_flight("g") == {("T", 0): 5, ("T", 1): 3}
    assert points.in_flight("g") == {("T", 0): 5, ("T", 1): 3}, "counting changes nothing"


def test_a_model_of_pops_and_acknowledgements(rng: random.Random) -> None:
    """In any order of records, an offset is in flight unless its pop has acknowledged it."""
    records: list[MessageExt] = []
    expected: dict[int, set[int]] = {}
    for pop_time in range(1000, 1000 + rng.randrange(1, 8)):
        expected[pop_time] = {10, 11, 12}
        records.append(check_point(pop_time=pop_time))
        for _ in range(rng.randrange(4)):
            offsets = sorted(rng.sample((10, 11, 12), rng.randrange(1, 4)))
            one = AckMsg(
                topic="T",
                group="g",
                queue_id=0,
                start_offset=10,
                pop_time=pop_time,
                broker_name="b",
                offsets=offsets,
                batched=len(offsets) > 1,
            )
            records.append(record(one.tag, encode_ack(one)))
            expected[pop_time] -= set(offsets)
    rng.shuffle(records)
    points = CheckPoints("b")
    for one_record in records:
        points.add(one_record, "timer")
    assert {row.pop_timestamp: set(row.unacknowledged) for row in points.rows(0)} == expected
    assert points.in_flight("g").total() == sum(map(len, expected.values()))


def test_every_cut_of_a_check_point_is_an_error() -> None:
    body = encode_check_point(CK)
    for length in range(len(body)):
        with pytest.raises(RemoteProtocolError):
            CheckPoints("b").add(record("ck", body[:length]), "timer")
