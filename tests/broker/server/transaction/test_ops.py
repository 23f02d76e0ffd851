"""Op records: written in batches as 5.x does, read from both releases, in bounded memory."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.server.transaction import ops
from broker.server.transaction.ops import OpBatch, RemovalSet, decode_op


def op(body: bytes, tag: str = "d") -> MessageExt:
    return MessageExt("RMQ_SYS_TRANS_OP_HALF_TOPIC", body, encode_properties({"TAGS": tag}))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"17", [17]),
        (b"17,19,", [17, 19]),
        (b"0,1,5,6,10,", [0, 1, 5, 6, 10]),
        (b"", []),
        (b",,", []),
        (b"x,3,-4,99999999999999999999,", [3]),
    ],
)
def test_both_forms_of_op_records_are_read(body: bytes, expected: list[int]) -> None:
    assert decode_op(op(body)) == expected


def test_an_op_record_with_another_tag_lists_nothing() -> None:
    assert decode_op(op(b"17,", "x")) == []


def test_a_batch_waits_for_its_interval() -> None:
    batch = OpBatch(4_096, 3_000)
    assert batch.due_ms() is None
    batch.add(17, 100.0)
    batch.add(19, 2_000.0)
    assert batch.due_ms() == 3_100.0
    assert batch.body() == (b"17,19,", 2)
    batch.written(2, 3_100.0)
    assert batch.due_ms() is None
    assert batch.size_bytes == 0


def test_a_full_batch_is_due_at_once_and_bodies_keep_the_limit() -> None:
    batch = OpBatch(10, 3_000)
    for offset in (100, 200, 300):
        batch.add(offset, 50.0)
    assert batch.due_ms() == 50.0
    assert batch.body() == (b"100,200,", 2)
    batch.written(2, 60.0)
    assert list(batch.pending()) == [300]
    assert batch.due_ms() == 3_060.0


def test_size_zero_writes_each_half_as_release_4_9_reads_it() -> None:
    batch = OpBatch(0, 3_000)
    batch.add(17, 1.0)
    batch.add(19, 1.0)
    assert batch.due_ms() == 1.0
    assert batch.body() == (b"17", 1)


def test_an_offset_longer_than_the_limit_is_written_alone() -> None:
    batch = OpBatch(2, 3_000)
    batch.add(12_345, 1.0)
    assert batch.body() == (b"12345,", 1)


def test_listed_halves_are_found_and_others_are_not() -> None:
    removed = RemovalSet(10, 0)
    assert removed.add(0, [9, 10, 12, 99], 20)
    assert [at for at in range(8, 30) if at in removed] == [10, 12]
    assert 99 not in removed  # no half message has this offset


def test_a_run_of_listed_halves_is_passed_over_up_to_the_limit() -> None:
    removed = RemovalSet(0, 0)
    removed.add(0, range(1_000), 1_000)
    assert removed.after_removed(0, 512) == 512
    assert removed.after_removed(512, 2_000) == 1_000
    assert removed.after_removed(1_000, 2_000) == 1_000


def test_an_op_record_is_done_when_all_its_halves_are_passed() -> None:
    removed = RemovalSet(0, 5)
    removed.add(5, [0, 3], 10)
    removed.add(6, [1], 10)
    removed.add(7, [8], 10)
    assert removed.done_up_to(0) == 5
    assert removed.done_up_to(3) == 5
    assert removed.done_up_to(4) == 7
    assert removed.done_up_to(9) == 8


def test_op_records_that_list_decided_halves_only_are_done() -> None:
    removed = RemovalSet(10, 0)
    removed.add(0, [1, 2], 20)
    removed.add(1, [], 20)
    assert removed.done_up_to(10) == 2


def test_progress_continues_after_deleted_op_records() -> None:
    removed = RemovalSet(0, 0)
    removed.skip(40)
    assert removed.done_up_to(0) == 40


def test_a_half_marked_without_an_op_record_is_passed_over() -> None:
    removed = RemovalSet(5, 0)
    removed.mark(7)
    removed.mark(3)
    assert 7 in removed
    assert 3 not in removed
    assert removed.done_up_to(8) == 0


def test_an_op_record_beyond_the_window_is_left_for_a_later_round(monkeypatch) -> None:
    monkeypatch.setattr(ops, "MAX_WINDOW", 100)
    removed = RemovalSet(0, 0)
    assert removed.add(0, [99], 1_000)
    assert not removed.add(1, [5, 100], 1_000)
    assert 5 not in removed
    assert removed.done_up_to(1_000) == 1


def test_memory_of_positions_is_bounded_and_progress_never_runs_ahead(monkeypatch) -> None:
    monkeypatch.setattr(ops, "MAX_ENTRIES", 16)
    removed = RemovalSet(0, 0)
    for at in range(1_000):
        removed.add(at, [at], 1_000)
        assert len(removed.ends) <= 33
    for half in range(0, 1_001, 7):
        assert removed.done_up_to(half) <= half
    assert removed.done_up_to(1_000) == 1_000


@settings(deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_set_agrees_with_a_dict(rng: random.Random) -> None:
    start, end = rng.randrange(50), 200
    removed = RemovalSet(start, 0)
    model: dict[int, set[int]] = {}
    for at in range(rng.randrange(20)):
        listed = {rng.randrange(220) for _ in range(rng.randrange(6))}
        assert removed.add(at, listed, end)
        model[at] = {offset for offset in listed if start <= offset < end}
    union = set().union(*model.values()) if model else set()
    assert {at for at in range(230) if at in removed} == union
    for half in range(start, end):
        done = 0
        for at, listed in model.items():
            if any(offset >= half for offset in listed):
                break
            done = at + 1
        assert removed.done_up_to(half) == done
        assert removed.after_removed(half, end) == next(
            (at for at in range(half, end) if at not in union), end
        )
