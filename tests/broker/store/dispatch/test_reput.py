"""Dispatch: two lanes with the same outcome, tags codes, keys, a pointer that may lag."""

from pathlib import Path

import pytest

from broker.common.java import string_hash
from broker.errors import DiskFullError
from broker.message.properties import peek_property
from broker.store.config import parse_delay_levels
from broker.store.dispatch import reput, scheduler
from broker.store.dispatch.reput import schedule_code
from broker.store.format.consumequeue import peek_tags
from broker.store.format.indexfile import peek_message_keys

LEVELS = parse_delay_levels("1s 5s 10s")


def content(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for kind in ("consumequeue", "commitlog")
        for path in (root / kind).rglob("*")
        if path.is_file()
    }


def test_tags_and_keys_are_read_as_java_reads_properties(rng):
    pieces = [
        b"TAGS\x01TagA",
        b"TAGS\x01",
        b"KEYS\x01k1 k2",
        b"KEYS\x01k",
        b"KEYS\x01  ",
        b"UNIQ_KEY\x01U1",
        b"UNIQ_KEY\x01",
        b"XTAGS\x01no",
        b"XKEYS\x01no",
        b"a\x01TAGS\x01x",
        b"",
        b"x",
        b"WAIT\x01true",
    ]
    for _ in range(3000):
        raw = b"\x02".join(rng.choices(pieces, k=rng.randrange(6))) + rng.choice([b"", b"\x02"])
        assert peek_tags(raw) == (peek_property(raw, b"TAGS") or b"")
        expected = [peek_property(raw, b"UNIQ_KEY")]
        expected += (peek_property(raw, b"KEYS") or b"").split(b" ")
        assert peek_message_keys(raw) == [word for word in expected if word]


@pytest.mark.parametrize(
    ("delay", "code"),
    [
        ("1", 1_000_000 + 1000),
        ("3", 1_000_000 + 10_000),
        ("4", 1_000_000 + 10_000),
        ("99", 1_000_000 + 10_000),
        ("0", None),
        ("", None),
        ("x", None),
        ("9" * 4_301, None),
        ("0" * 4_301 + "1", 1_000_000 + 1000),
        ("\u00b2", None),
    ],
)
def test_schedule_queues_hold_the_time_of_delivery(delay, code):
    raw = b"DELAY\x01" + delay.encode() + b"\x02"
    assert schedule_code(raw, 1_000_000, LEVELS) == code


def test_an_unknown_level_waits_a_second():
    assert schedule_code(b"DELAY\x012\x02", 1000, {1: 5, 3: 7}) == 2000


def test_a_schedule_topic_is_dispatched_with_times(stores, inner):
    store = stores.start(delay_levels=LEVELS)
    store.put_message(inner("SCHEDULE_TOPIC_XXXX", 1, properties={"DELAY": "2", "TAGS": "TagA"}))
    store.put_message(inner("SCHEDULE_TOPIC_XXXX", 1, properties={"TAGS": "TagA"}))
    first, second = store.consume_queue_units("SCHEDULE_TOPIC_XXXX", 1, 0, 9)
    assert first.tags_code == stores.clock.now_ms() + 5000
    assert second.tags_code == 2598919


def test_given_tags_codes_are_taken(stores, inner):
    store = stores.start()
    store.put_message(inner(properties={"TAGS": "TagA"}, tags_code=77))
    assert store.consume_queue_units("TopicA", 0, 0, 1)[0].tags_code == 77


def fill(store, inner, rng):
    for n in range(150):
        store.put_message(
            inner(
                f"T{rng.randrange(3)}",
                rng.randrange(3),
                bytes(rng.randrange(600)),
                sys_flag=rng.choice([0, 0, 0, 0x4, 0x8, 0xC]),
                properties={"TAGS": f"t{n % 5}", "KEYS": f"k{n} all"},
            )
        )


def test_both_lanes_write_the_same_bytes(stores, inner, rng, monkeypatch):
    state = rng.getstate()
    store = stores.start()
    fill(store, inner, rng)
    quick = [bytes(f.file.mapping)[40:] for f in store.index.files]
    stores.close(store)
    kept = stores.root
    first = content(kept)

    stores.root = kept.with_name("slow")
    monkeypatch.setattr(reput, "MAX_PENDING", 0)
    rng.setstate(state)
    turn = []
    store = stores.start(defer=turn.append)
    fill(store, inner, rng)
    turn.pop()()
    assert store.dispatch_behind_bytes == 0
    assert store.reput.overflow is False
    slow = [bytes(f.file.mapping)[40:] for f in store.index.files]
    stores.close(store)
    assert content(stores.root) == first
    assert slow == quick


def test_after_an_overflow_the_quick_lane_takes_over_again(stores, inner, monkeypatch):
    monkeypatch.setattr(reput, "MAX_PENDING", 2)
    turn = []
    store = stores.start(defer=turn.append)
    for _ in range(5):
        store.put_message(inner())
    turn.pop()()
    assert store.get_max_offset("TopicA", 0) == 5
    store.put_message(inner())
    assert len(store.reput.pending) == 1
    turn.pop()()
    assert store.get_max_offset("TopicA", 0) == 6


@pytest.mark.parametrize("pending", [100, 3])
def test_a_large_backlog_is_dispatched_in_several_turns(stores, inner, monkeypatch, pending):
    """Both from the requests of puts and, after an overflow, by reading the log."""
    monkeypatch.setattr(scheduler, "DISPATCH_SLICE", 4)
    monkeypatch.setattr(reput, "MAX_PENDING", pending)
    turn = []
    store = stores.start(defer=turn.append)
    store.put_messages([inner(properties={"KEYS": f"k{number}"}) for number in range(10)])
    seen = []
    while turn:
        turn.pop()()
        seen.append(store.get_max_offset("TopicA", 0))
    assert seen == [4, 8, 10]
    assert store.dispatch_behind_bytes == 0
    assert store.reput.overflow is False
    store.put_message(inner())
    turn.pop()()
    assert (store.get_max_offset("TopicA", 0), turn) == (11, [])


def test_a_dispatch_that_cannot_continue_is_not_rescheduled(stores, inner, monkeypatch):
    monkeypatch.setattr(scheduler, "DISPATCH_SLICE", 4)
    turn = []
    store = stores.start(defer=turn.append)
    store.put_messages([inner() for _ in range(10)])

    def full(limit, most):
        raise DiskFullError("/store/consumequeue: no space")

    monkeypatch.setattr(store.reput, "run", full)
    turn.pop()()
    assert turn == []


def test_long_tags_are_not_remembered():
    codes = reput.TagCodes()
    tag = b"t" * (reput.MAX_KEPT_TAG_BYTES + 1)
    assert codes.code(tag) == string_hash(tag)
    assert codes.code(tag[1:]) == string_hash(tag[1:])
    assert list(codes.codes) == [tag[1:]]


def test_with_sync_flush_only_flushed_messages_show(stores, inner):
    store = stores.start(stores.config(flush_disk_type="SYNC_FLUSH"))
    store.put_message(inner())
    assert store.get_max_offset("TopicA", 0) == 0
    assert store.flush()
    assert store.get_max_offset("TopicA", 0) == 1
    assert store.dispatch_behind_bytes == 0


def test_many_tags_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(reput, "MAX_TAGS", 3)
    codes = reput.TagCodes()
    for n in range(10):
        codes.code(b"t%d" % n)
        assert len(codes.codes) <= 3
